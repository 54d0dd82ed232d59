r"""Saddle-to-saddle dynamics: which saddle comes next, and when it is left.

For layers $f(x) = \sum_i \phi(x; u_i) v_i$ of any unit, after Zhang, Saxe & Latham:

- fixed points of narrow networks in wider ones (`embed_units`), how one is made, told and left
  (`task_with_fixed_point`, `stationarity`, `escape_directions`), and all of a linear network's
  (`linear_saddles`);
- relations between units that training keeps (`ManifoldConstraint`, `flow_keeps_constraint`,
  `escape_rate`), and the network with fewer units that they allow (`reduce_width`,
  `merged_networks`);
- what separates, directions or units (`mechanism_of_unit`, `lowest_order_drive`), and when
  (`mode_drop_times`, `unit_growth_times`, `blow_up_times`, `first_unit_to_escape`);
- levels (`narrow_minima`), and whole staircases from initial weights (`staircase`).

All take a network and a task. Plain arrays become these with `festina.networks.layer_from` or
`deep_linear_from`, and `festina.tasks.from_arrays` or, for averages, `from_moments`.

Everywhere $L = \frac12\langle\lVert y - f\rVert^2\rangle$ and $\dot\theta = -\partial
L/\partial\theta$, unless a `loss` says otherwise.
"""

from ._drop_times import mode_drop_times as mode_drop_times
from ._embedding import embed_units as embed_units
from ._embedding import embed_weights as embed_weights
from ._escape_directions import EscapeDirections as EscapeDirections
from ._escape_directions import escape_directions as escape_directions
from ._fixed_points import Stationarity as Stationarity
from ._fixed_points import stationarity as stationarity
from ._fixed_points import task_with_fixed_point as task_with_fixed_point
from ._linear_phase import initial_mode_amplitudes as initial_mode_amplitudes
from ._linear_phase import linear_phase as linear_phase
from ._linear_phase import residual_exponent as residual_exponent
from ._linear_phase import unit_growth_times as unit_growth_times
from ._linear_saddles import LinearSaddle as LinearSaddle
from ._linear_saddles import linear_saddle as linear_saddle
from ._linear_saddles import linear_saddles as linear_saddles
from ._manifolds import ManifoldConstraint as ManifoldConstraint
from ._manifolds import escape_rate as escape_rate
from ._manifolds import flow_keeps_constraint as flow_keeps_constraint
from ._manifolds import gamma_v_on_manifold as gamma_v_on_manifold
from ._manifolds import is_on_manifold as is_on_manifold
from ._manifolds import manifold_distance as manifold_distance
from ._manifolds import max_manifold_distance as max_manifold_distance
from ._manifolds import project_on_manifold as project_on_manifold
from ._mechanism import LowestOrderDrive as LowestOrderDrive
from ._mechanism import Mechanism as Mechanism
from ._mechanism import lowest_order_drive as lowest_order_drive
from ._mechanism import mechanism_of_unit as mechanism_of_unit
from ._merged_units import MergedNetwork as MergedNetwork
from ._merged_units import merged_networks as merged_networks
from ._narrow_minima import NarrowMinima as NarrowMinima
from ._narrow_minima import minima_near_network as minima_near_network
from ._narrow_minima import narrow_minima as narrow_minima
from ._reduction import reduce_width as reduce_width
from ._staircase import staircase as staircase
from ._stairs import Staircase as Staircase
from ._units import blow_up_times as blow_up_times
from ._units import first_unit_to_escape as first_unit_to_escape
