r"""Staircase of a diagonal linear network: Pesme & Flammarion's successive saddles.

For $f = \sum_i u_i v_i x_i = \beta\cdot x$ the flow is a mirror flow. With
$p_i = \frac12(u_i + v_i)(0)$, $m_i = \frac12(u_i - v_i)(0)$ and the pull
$g = -\partial L/\partial\beta = b - C\beta$, where $b = \langle yx\rangle$ and
$C = \langle xx^\top\rangle$,

$$\beta_i = p_i^2 e^{2 s_i} - m_i^2 e^{-2 s_i},\qquad \dot s_i = g_i,\qquad s_i(0) = 0,$$

at all times. A coordinate is of order one only where $s_i$ has grown to $\ln(1/|p_i|)$, or fallen
to $-\ln(1/|m_i|)$: in units of $\ln(1/\epsilon)$ this is $\pm1$, and in the limit $s$ moves along
straight lines until a coordinate gets there, upon which $\beta$ jumps to the least squares of
those that are at $\pm1$, with their signs (Pesme & Flammarion 2023, Algorithm 1).

At finite $\epsilon$ the same lines are exact but for an offset at each jump, and that is known:
while only the coordinates $A$ differ from zero,

$$\int g_D\,dt = g_D^A\,t + C_{DA}C_{AA}^{-1}\int g_A\,dt,\qquad
  g^A_D = b_D - C_{DA}C_{AA}^{-1}b_A,$$

and $\int g_A\,dt$ is what $s_A$ needs to get from one value of $\beta_A$ to the other.
"""

import itertools
import math
from dataclasses import dataclass, replace

import numpy as np
from jaxtyping import Float

from ..._drops import resting
from ..._types import ArrayLike
from .._checks import finite
from .._statistics import covariance_of, inverse_on
from ._stairs import Staircase, floor_of, joining_times, root

# The loss has fallen by half when β = (1 − 1/√2) β*: there β/(1 − β/β*) is this part of β*.
_HALF = math.sqrt(2.0) - 1.0

_WIDE = 10.0  # times 1/pull: how long a jump is followed on either side; β grows by e² in each


def diagonal_staircase_from(
    u: ArrayLike,
    v: ArrayLike,
    correlation: ArrayLike,
    covariance: ArrayLike,
    *,
    floor: float = 0.0,
) -> Staircase:
    r"""The staircase of a diagonal linear network from data statistics and initial weights.

    On the plateau with the coordinates $A$, and signs that they keep, $\beta_A$ is the solution of
    least squares on $A$ and its level is $L_A = L_\mathrm{floor} + \frac12(\beta-\beta^*)^\top
    C(\beta - \beta^*)$. The next coordinate $j$ is the one whose $s_j$ first reaches

    $$s_j = \pm\tfrac12\ln\frac{(\sqrt2 - 1)\,|\beta_j|}{p_j^2\ (\text{or } m_j^2)},$$

    with $\beta_j$ its value on the plateau it leads to: then the loss is half-way down, for a
    coordinate that rises like a logistic curve. Coordinates that would change their sign go back to
    zero, and wait again.

    Pesme & Flammarion (2023) is the limit of small weights, with time in units of
    $\ln(1/\epsilon)$; the offsets of order one are kept here.

    **Arguments:**

    - `u`, `v`: initial weights, shape `(input,)`.
    - `correlation`: $b = \langle yx\rangle$, shape `(input,)`.
    - `covariance`: $C = \langle xx^\top\rangle$, shape `(input, input)`. It may be singular: least
      squares on the active coordinates then takes the smallest solution.
    - `floor`: loss of least squares on all coordinates, part of every level.

    **Returns:**

    A `Staircase` of coordinates, for $L = \frac12\langle(y - f)^2\rangle$. Stages are those
    between which the squared gradient dips by half a decade, if every jump is a logistic curve of
    its own; coordinates without a plateau in between join together. A coordinate with
    $u_i(0) = -v_i(0)$ never becomes positive, one with $u_i(0) = v_i(0)$ never negative.

    !!! note "When it stops holding"

        Levels and active sets are those of the limit. Times are right up to
        $O(1)/\ln(1/\epsilon)$ of themselves: in a jump other coordinates move with the one that
        wakes, and one that leaves does so within a time of order one. Two coordinates that get
        there within a time of order one may come in either order, which matters to the level
        between them if that is one.
    """
    lowest = floor_of(floor)
    b, c, p, m = _checked(u, v, correlation, covariance)
    inputs = len(b)
    beta, s, now = np.zeros(inputs), np.zeros(inputs), 0.0
    best = np.linalg.pinv(c, rcond=1e-13 * inputs, hermitian=True) @ b
    excess = lambda beta: 0.5 * float((beta - best) @ c @ (beta - best))

    jumps, saddles = list[_Woken](), [beta]
    # Every saddle is lower than the one before, so that none comes twice.
    for _ in range(4 * 2**inputs):
        woken = _next(b, c, p, m, beta, s, now)
        if woken is None:
            break
        after = _constrained(b, c, beta, woken.coordinate, woken.sign)
        s = _carried(b, c, p, m, beta, after, s, woken.time - now)
        now, beta = woken.time, after
        jumps.append(woken)
        saddles.append(beta)
    descent = _Descent(jumps, np.array([excess(beta) for beta in saddles]))
    stages = descent.resting()
    times = [descent.passage(first, last) for first, last in itertools.pairwise(stages)]
    active = [tuple(np.flatnonzero(saddles[k]).tolist()) for k in stages]
    return Staircase(
        levels=lowest + descent.levels[stages],
        times=np.array(times),
        active=tuple(active),
        joined=joining_times(active, times, inputs),
        members="coordinates",
    )


@dataclass(frozen=True)
class _Woken:
    coordinate: int
    sign: float
    time: float
    pull: float


@dataclass(frozen=True)
class _Descent:
    """The loss on its way down: from level to level along a logistic curve for each jump."""

    jumps: list[_Woken]
    levels: Float[np.ndarray, " saddle"]

    def excess(
        self, t: float | Float[np.ndarray, " time"]
    ) -> tuple[Float[np.ndarray, "*time"], Float[np.ndarray, "*time"]]:
        """Loss above the floor, and how fast it falls, which is the squared gradient."""
        loss, speed = np.full_like(t, self.levels[-1], dtype=float), np.zeros_like(t, dtype=float)
        for jump, drop in zip(self.jumps, -np.diff(self.levels), strict=True):
            odds = _HALF * np.exp(2.0 * jump.pull * np.minimum(t - jump.time, _WIDE / jump.pull))
            left = 1.0 / (1.0 + odds)  # 1 − β/β*
            loss += drop * left**2
            speed += 4.0 * jump.pull * drop * odds * left**3
        return loss, speed

    def resting(self) -> list[int]:
        """The saddles at which the flow slows down, judged as a simulation is."""
        if not self.jumps:
            return [0]
        times = [jump.time for jump in self.jumps]
        steps = np.linspace(-_WIDE, _WIDE, 401)
        around = np.concatenate([jump.time + steps / jump.pull for jump in self.jumps])
        time = np.unique(np.maximum(around, 0.0))
        found = time[resting(*self.excess(time))]
        return sorted({0, len(times), *np.searchsorted(times, found).tolist()})

    def passage(self, first: int, last: int) -> float:
        """When the loss passes the middle between two levels; of a jump alone that is its time."""
        jumps = self.jumps[first:last]
        if len(jumps) == 1:
            return jumps[0].time
        middle = 0.5 * (self.levels[first] + self.levels[last])
        ends = [jump.time + side * _WIDE / jump.pull for jump in jumps for side in (-1.0, 1.0)]
        passed = root(lambda t: float(self.excess(t)[0]) - middle, min(ends), max(ends))
        return max(passed, 0.0)


def _next(
    b: np.ndarray,
    c: np.ndarray,
    p: np.ndarray,
    m: np.ndarray,
    beta: np.ndarray,
    s: np.ndarray,
    now: float,
) -> _Woken | None:
    """The coordinate that is next to be half learned, and when; None if nothing pulls."""
    pull = b - c @ beta
    still = 1e-10 * np.abs(b).max()
    learned = np.flatnonzero(beta)
    found = []
    for j in np.flatnonzero((beta == 0.0) & (np.abs(pull) > still)):
        # What is left of j's variance once the active coordinates follow.
        along = np.linalg.lstsq(c[np.ix_(learned, learned)], c[learned, j], rcond=1e-13)[0]
        curvature = c[j, j] - c[j, learned] @ along
        size, sign = abs(pull[j]) / curvature, np.sign(pull[j])
        seed = p[j] if sign > 0 else m[j]
        if seed != 0.0 and curvature > 1e-12 * c[j, j]:
            needed = 0.5 * math.log(_HALF * size) - math.log(abs(seed))
            time = now + (needed - sign * s[j]) / abs(pull[j])
            found.append(_Woken(int(j), float(sign), time, float(abs(pull[j]))))
    first = min(found, key=lambda woken: woken.time, default=None)
    # One that is awake before the jump is over is part of it.
    return None if first is None else replace(first, time=max(first.time, now))


def _constrained(
    b: np.ndarray, c: np.ndarray, beta: np.ndarray, woken: int, sign: float
) -> Float[np.ndarray, " input"]:
    """Least squares on the active coordinates and the one that woke, all with their signs."""
    from scipy.optimize import nnls

    signs = np.sign(beta)
    signs[woken] = sign
    used = np.flatnonzero(signs)
    # ½βᵀCβ − bᵀβ is ½|Rβ − d|² with C = RᵀR, Rᵀd = b.
    variance, axes = np.linalg.eigh(c)
    seen = variance > 1e-13 * len(c) * variance[-1]
    root = np.sqrt(variance[seen])
    matrix = root[:, None] * axes[:, seen].T * signs
    solution, _ = nnls(matrix[:, used], (axes[:, seen].T @ b) / root)
    after = np.zeros_like(beta)
    after[used] = signs[used] * np.where(solution > 1e-12 * solution.max(), solution, 0.0)
    return after


def _carried(
    b: np.ndarray,
    c: np.ndarray,
    p: np.ndarray,
    m: np.ndarray,
    before: np.ndarray,
    after: np.ndarray,
    s: np.ndarray,
    elapsed: float,
) -> Float[np.ndarray, " input"]:
    """s on the plateau `after`, `elapsed` after it was s on the plateau before.

    Coordinates that leave keep their value for that time, and are zero from then on.
    """
    learned, rest = np.flatnonzero(after), np.flatnonzero(after == 0.0)
    leaving = np.where(after == 0.0, before, 0.0)
    new = s.copy()
    new[learned] = _exponent(p[learned], m[learned], after[learned])
    pulled = new[learned] - s[learned] + elapsed * (c @ leaving)[learned]
    inner = c[np.ix_(learned, learned)]
    shared = np.linalg.lstsq(inner, b[learned] * elapsed - pulled, rcond=1e-13)[0]
    new[rest] += elapsed * (b - c @ leaving)[rest] - c[np.ix_(rest, learned)] @ shared
    return new


def _exponent(p: np.ndarray, m: np.ndarray, beta: np.ndarray) -> Float[np.ndarray, " input"]:
    """s with β = p²e^{2s} − m²e^{−2s}, by whichever of the two is β."""
    root = np.sqrt(beta**2 + 4.0 * (p * m) ** 2)
    large = 0.5 * (np.abs(beta) + root)
    with np.errstate(divide="ignore"):
        return np.where(
            beta > 0,
            0.5 * np.log(large) - np.log(np.abs(p)),
            np.log(np.abs(m)) - 0.5 * np.log(large),
        )


def _checked(
    u: ArrayLike, v: ArrayLike, correlation: ArrayLike, covariance: ArrayLike
) -> tuple[np.ndarray, np.ndarray, np.ndarray, np.ndarray]:
    u, v, b = finite("u", u), finite("v", v), finite("correlation", correlation)
    if b.ndim != 1 or not b.size:
        raise ValueError(f"`correlation` must have shape (input,), got {b.shape}.")
    c = covariance_of(covariance, b.size)
    if u.shape != b.shape or v.shape != b.shape:
        raise ValueError(
            f"`u` and `v` must have one weight for each of the {b.size} inputs, got shapes "
            f"{u.shape} and {v.shape}."
        )
    inverse_on(c, b[None])
    return b, c, 0.5 * (u + v), 0.5 * (u - v)
