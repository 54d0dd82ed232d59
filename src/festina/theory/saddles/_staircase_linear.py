r"""Staircase of a two-layer linear network: closed-form plateaus, integrated jumps between saddles.

All units of $f = \sum_i v_i u_i^\top z$ obey the same linear equation, $\dot\theta_i = M\theta_i$
with $\theta_i = [v_i; u_i]$ and

$$M = \begin{bmatrix} 0 & \tilde\Sigma \\ \tilde\Sigma^\top & 0 \end{bmatrix},\qquad
  \tilde\Sigma = \Sigma_{yz} - W\Sigma_{zz}$$

(Eq. 9 of Zhang, Saxe & Latham). Rotating units into each other changes neither the function nor its
dynamics. The weights $\Theta$, one column for each unit, can therefore be split at each time into
few *active* columns, which make up $W$, and *dormant* columns, which are small and do not affect
$W$. On a plateau $M$ is constant and given by Lemma 6, and dormant columns grow by $e^{Mt}$. When
the largest dormant column (the top singular direction of the dormant block over units) reaches a
small threshold, it becomes active, and the active columns flow to the next saddle. Meanwhile the
dormant columns are integrated with the same $M(t)$. Dormant columns thus keep their growth from
earlier plateaus, even if the modes differ between plateaus.
"""

import itertools

import numpy as np
from jaxtyping import Float

from ...tasks._task import Statistics
from ._course import Course, Saddle, passage
from ._linear_jump import Jump, grow, jump, move, turn
from ._linear_saddles import DEGENERACY, LinearModes, LinearSaddle, linear_modes
from ._stairs import Staircase

# Dormant columns become active at this fraction of the final size of the weights. Before they
# become active, their neglected relative effect on W is the square of this fraction.
_SMALL = 1e-2

_ROUND_OFF = 1e-14  # fraction of the largest singular value; columns below it count as round-off


def linear_staircase(
    u: Float[np.ndarray, "unit input"], v: Float[np.ndarray, "unit output"], seen: Statistics
) -> Staircase:
    r"""Return the staircase of a two-layer linear network, with levels given by Lemma 6.

    Let $\mu_k$ be the eigenvalues of $\Sigma_{yz}\Sigma_{zz}^{+}\Sigma_{zy}$ and $A$ the set of
    learned modes. The level is

    $$L_A = L_\mathrm{floor} + \tfrac12\sum_{k\notin A}\mu_k.$$

    The weights escape each saddle along the top singular directions of
    $\tilde\Sigma = (1-\Pi_A)\Sigma_{yz}$, where $\Pi_A$ projects on the learned modes. The saddle
    at which the weights arrive has the next set $A$ of learned modes. Unlike in `mode_drop_times`,
    $\Sigma_{zz}$ and $\Sigma_{yz}$ need not share their directions.

    To leading order in $\ln(1/\epsilon)$, with the initial scale $\epsilon$, the jumps are those of
    alternating gradient flows (Kunin et al. 2025). This function also computes the prefactors: the
    initial weights themselves, their overlaps over units, and the mixing of dormant modes during a
    jump. The function neglects the effect on $W$ of dormant weights below a hundredth of the final
    weights of the weakest mode. The neglected effect shifts a jump by about $10^{-4}$ of the time
    in which the weights grow by a factor $e$, at any initial scale. Below
    $\epsilon \approx 10^{-30}$ rounding of the learned modes may hide dormant modes.

    A mode that is absent from the initial weights, or for which no unit is left, is never learned.
    The time of a mode that grows a thousand times as slowly as the fastest mode has an error of one
    percent. A mode that grows a hundred thousand times as slowly as the fastest mode is not
    followed.
    """
    modes = linear_modes(seen, DEGENERACY)
    dormant = _columns(u, v)
    active = dormant[:, :0]
    size = _SMALL * modes.least_weight
    initial = modes.drive(dormant)
    first = saddle = modes.nearest(initial)
    start = float(modes.excess(initial)), float(np.sum(move(initial, dormant) ** 2))

    time, settled, jumps = 0.0, True, list[Jump]()
    while modes.mu.size and dormant.shape[1]:
        drive = saddle.correlation if jumps and settled else modes.drive(active)
        waited = grow(dormant, drive, size, 1e-10 * modes.rate)
        if waited is None:
            break
        wait, dormant = waited
        turned, largest = turn(dormant)
        rank = max(1, int(np.sum(largest >= (1.0 - 1e-6) * size)))
        active = np.concatenate([active, turned[:, :rank]], axis=1)
        way, active, dormant = jump(modes, active, turned[:, rank:], time + wait, size)
        # After a jump without duration, the mode was already learned or is too slow to be followed.
        if way.end == way.start and (jumps or wait > 0.0):
            break
        time, settled, saddle = way.end, way.settled, modes.nearest(modes.drive(active))
        jumps.append(way)
    flow = course(modes, first, start, jumps, _SMALL**2)
    return flow.staircase("modes", len(modes.mu), seen.floor)


def course(
    modes: LinearModes,
    first: LinearSaddle,
    start: tuple[float, float],
    jumps: list[Jump],
    slack: float,
) -> Course:
    """Join jumps to one flow; between jumps only dormant weights change.

    **Arguments:**

    - `first`: the saddle of the initial weights.
    - `start`: excess loss and squared gradient of the initial weights.
    - `slack`: error of the time of each jump from terms that the predictor neglects, in units of
      one over the escape rate of the saddle before the jump.
    """
    plateaus = [
        np.array([[0.5 * (jump.end + later.start)], [jump.excess[-1]], [jump.resting], [k]])
        for k, (jump, later) in enumerate(itertools.pairwise(jumps))
        if jump.settled and later.start > jump.end
    ]
    parts = [
        np.stack([jump.time, jump.excess, jump.squared_gradient, np.full(jump.time.shape, k)])
        for k, jump in enumerate(jumps)
    ]
    rows = np.concatenate([np.array([[0.0], *([x] for x in start), [-1]]), *parts, *plateaus], 1)
    time, excess, slope, which = rows[:, np.unique(rows[0], return_index=True)[1]]

    def near(row: int) -> Saddle:
        k = int(which[row])
        seen = first if k < 0 else modes.nearest(jumps[k].left(min(time[row], jumps[k].end)))
        return Saddle(seen.loss, seen.modes, slack / seen.escape_rates.max(initial=1e-300))

    def passed(value: float) -> float:
        way = next((jump for jump in jumps if jump.excess[-1] <= value), jumps[-1])
        return passage(way.time, way.excess, lambda t: float(modes.excess(way.left(t))), value)

    return Course(time, excess, slope, near, passed)


def _columns(u: np.ndarray, v: np.ndarray) -> Float[np.ndarray, "weight unit"]:
    """Return the initial weights Θ(0), rotated over units to as few columns as are independent.

    The flow preserves the number of independent columns, because Θ(t) = G(t)Θ(0) with an invertible
    G. Without the rotation, rounding during the integration could let a network on a manifold of
    Theorem 3 learn more modes than it has independent columns.
    """
    _, size, turned = np.linalg.svd(np.concatenate([v, u], axis=1), full_matrices=False)
    independent = size > _ROUND_OFF * size[0]
    return (size[independent, None] * turned[independent]).T
