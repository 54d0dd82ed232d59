r"""Saddle-to-saddle dynamics: which saddle comes next, and when it is left.

For layers $f(x) = \sum_i \phi(x; u_i) v_i$ of any unit, after Zhang, Saxe & Latham:

- fixed points of narrow networks in wider ones (`embed`), how one is made, told and left
  (`stationary_task`, `stationarity`, `escape`), and all of a linear network's (`linear_saddles`);
- relations between units that training keeps (`Constraint`, `is_invariant`, `leaving_speed`), and
  the network with fewer units that they allow (`reduce_width`, `narrowings`);
- what separates, directions or units (`mechanism`, `drive`), and when (`mode_drop_times`,
  `escape_time`, `escape_times`, `winner`);
- levels (`narrow_minima`), and whole staircases from initial weights (`staircase`).

Everywhere $L = \frac12\langle\lVert y - f\rVert^2\rangle$ and $\dot\theta = -\partial
L/\partial\theta$, unless a `loss` says otherwise.
"""

from ._directions import escape_time as escape_time
from ._directions import linear_phase as linear_phase
from ._directions import mode_amplitudes as mode_amplitudes
from ._directions import mode_drop_times as mode_drop_times
from ._directions import residual_exponent as residual_exponent
from ._embedding import embed as embed
from ._embedding import embed_units as embed_units
from ._fixed_points import Stationarity as Stationarity
from ._fixed_points import stationarity as stationarity
from ._fixed_points import stationary_task as stationary_task
from ._index import Escape as Escape
from ._index import escape as escape
from ._linear_saddles import LinearSaddle as LinearSaddle
from ._linear_saddles import linear_saddle as linear_saddle
from ._linear_saddles import linear_saddles as linear_saddles
from ._manifolds import Constraint as Constraint
from ._manifolds import is_invariant as is_invariant
from ._manifolds import leaving_speed as leaving_speed
from ._manifolds import manifold_distance as manifold_distance
from ._manifolds import manifold_drift as manifold_drift
from ._manifolds import on_manifold as on_manifold
from ._manifolds import project_on_manifold as project_on_manifold
from ._manifolds import readout_on_manifold as readout_on_manifold
from ._mechanism import Drive as Drive
from ._mechanism import Mechanism as Mechanism
from ._mechanism import drive as drive
from ._mechanism import mechanism as mechanism
from ._merged_units import Narrowing as Narrowing
from ._merged_units import narrowings as narrowings
from ._narrow_minima import NarrowMinima as NarrowMinima
from ._narrow_minima import minima_from as minima_from
from ._narrow_minima import narrow_minima as narrow_minima
from ._reduction import reduce_width as reduce_width
from ._staircase import staircase as staircase
from ._staircase_diagonal import diagonal_staircase as diagonal_staircase
from ._staircase_linear import linear_staircase as linear_staircase
from ._staircase_units import unit_staircase as unit_staircase
from ._stairs import Staircase as Staircase
from ._units import escape_times as escape_times
from ._units import winner as winner
