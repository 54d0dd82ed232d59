r"""Saddle-to-saddle dynamics: which saddle training visits next, and when it escapes.

The theory of Zhang, Saxe & Latham covers layers $f(x) = \sum_i \phi(x; u_i) v_i$ with any response
$\phi$:

- `embed_units` builds fixed points of wide networks from fixed points of narrow networks.
  `linear_saddles` lists all fixed points of a linear network.
- `task_with_fixed_point` constructs a fixed point, `stationarity` measures the distance from a
  fixed point, and `escape_directions` returns the directions and rates of escape.
- `ManifoldConstraint` describes a relation between units. `flow_keeps_constraint` and `escape_rate`
  tell whether training preserves the relation. `reduce_width` and `merged_networks` return the
  narrower network that the relation allows.
- `mechanism_of_unit` and `lowest_order_drive` tell whether directions or units separate near zero
  weights.
- `mode_drop_times`, `unit_growth_times`, `blow_up_times` and `first_unit_to_escape` return the
  times of escape.
- `narrow_minima` returns the levels of plateaus. `staircase` predicts all levels and times from the
  initial weights.

Most functions take a network and a task. `festina.networks.layer_from` and `deep_linear_from`
convert arrays of weights to a network. `festina.tasks.from_arrays` converts arrays of data to a
task, and `from_moments` converts averages.

The loss is $L = \frac12\langle\lVert y - f\rVert^2\rangle$ and gradient flow is
$\dot\theta = -\partial L/\partial\theta$, unless the argument `loss` selects another convention.
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
