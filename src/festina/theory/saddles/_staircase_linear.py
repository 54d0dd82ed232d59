r"""Staircase of a linear network: plateaus in closed form, jumps between exact saddles.

All units of $f = \sum_i v_i u_i^\top z$ move by the same matrix, $\dot\theta_i = M\theta_i$ with
$\theta_i = [v_i; u_i]$ and

$$M = \begin{bmatrix} 0 & \tilde\Sigma \\ \tilde\Sigma^\top & 0 \end{bmatrix},\qquad
  \tilde\Sigma = \Sigma_{yz} - W\Sigma_{zz}$$

(Eq. 9 of Zhang, Saxe & Latham). Units can be rotated into each other at any time without a change
of what they learn, so that the weights $\Theta$, one column for each unit, are at each time split
into few *active* columns, which make up $W$, and *dormant* ones, which are small and only carried
along. On a plateau $M$ is that of Lemma 6 and does not change: dormant columns grow by $e^{Mt}$.
When the largest of them, the top singular direction of the dormant block over units, has reached a
small size it is made active, and the active columns flow to the next saddle. Dormant ones follow by
the same $M(t)$, which is how growth made at earlier stages is carried over, also where the modes of
one plateau are none of the next.
"""

import itertools

import numpy as np
from jaxtyping import Float

from ...tasks._task import Statistics
from ._course import Course, Saddle, passage
from ._linear_jump import Jump, grow, jump, move, turn
from ._linear_saddles import DEGENERACY, LinearModes, LinearSaddle, linear_modes
from ._stairs import Staircase

# Dormant columns become active at this fraction of the weights' final size. What they do to W until
# then, and is left out, is the square of it.
_SMALL = 1e-2

_ROUND_OFF = 1e-14  # of the largest unit: one that differs by less from others is made of them


def linear_staircase(
    u: Float[np.ndarray, "unit input"], v: Float[np.ndarray, "unit output"], seen: Statistics
) -> Staircase:
    r"""Return the staircase of a two-layer linear network, whose levels are those of Lemma 6.

    With $\mu_k$ the eigenvalues of $\Sigma_{yz}\Sigma_{zz}^{+}\Sigma_{zy}$ and $A$ the modes
    learned,

    $$L_A = L_\mathrm{floor} + \tfrac12\sum_{k\notin A}\mu_k.$$

    At each saddle the weights leave along the top singular directions of
    $\tilde\Sigma = (1-\Pi_A)\Sigma_{yz}$, and where they arrive is $A$ of the next. $\Sigma_{zz}$
    and $\Sigma_{yz}$ need not share their directions, as `mode_drop_times` has it.

    To leading order in $\ln(1/\epsilon)$ these are the jumps of alternating gradient flows (Kunin
    et al. 2025). Here the prefactors count as well: the initial weights themselves, what they have
    in common over units, and how a jump mixes the modes that wait. What is left out is the
    back-reaction of dormant weights below a hundredth of the final ones of the weakest mode. It
    shifts a jump by some $10^{-4}$ of the time in which the weights grow by $e$, whatever the
    initial scale. Below $\epsilon \approx 10^{-30}$ rounding of the modes learned may hide those
    that wait.

    A mode of which the initial weights have nothing, or for which no unit is left, is never
    learned. One that grows a thousand times as slowly as the fastest is off by a percent, and one
    that does so a hundred thousand times is not followed.
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
        # Unless it has been learned before the start, it is driven too little to be followed.
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
    """Join jumps to one flow. Between them only dormant weights move.

    **Arguments:**

    - `first`: the saddle of the initial weights.
    - `start`: excess loss and squared gradient of the initial weights.
    - `slack`: error of each jump's time by what the predictor leaves out, in units of one over the
      rate at which the saddle before it is left.
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
    """Θ(0), units turned into each other such that as many are left as are independent.

    The flow keeps that number, Θ(t) = G(t)Θ(0) with an invertible G: on a manifold of Theorem 3 no
    more modes are learned, whatever rounding adds on the way.
    """
    _, size, turned = np.linalg.svd(np.concatenate([v, u], axis=1), full_matrices=False)
    independent = size > _ROUND_OFF * size[0]
    return (size[independent, None] * turned[independent]).T
