r"""Quadratic case: the timescales that separate units (Zhang, Saxe and Latham, Section 5.2, H.2).

The network is $f = \sum_i v_i u_i^\top Z u_i$ (Eq. 13), the loss
$L = \frac12\langle(y - f)^2\rangle$, the time $t$ that of $\dot\theta = -\partial
L/\partial\theta$. Near zero every unit moves by itself and in finite time runs off to infinity.
H.2 has another clock, $\tau_{H.2} = 2t$; what comes out here is $t$. $n$ steps of size $\eta$ on a
loss $cL$ are $t = c\eta n$, so on the paper's $\langle(y - f)^2\rangle$ (Eq. 64, $c = 2$) a unit
escapes after $n = t_\infty/(2\eta) = \tau_{\infty}/(4\eta)$ steps.

How it is computed. With $\tau = \tau_{H.2}$ and $w = \int v\,d\tau$ the unit is a particle on a
concave hill, $w'' = \frac12 F'(w)$, $w'^2 = v^2 = F(w) = v_0^2 + \sum_k a_k^2(e^{2 s_k w} - 1)$,
and its time is $\int dw/\sqrt F$ along its way. $F$ is convex. There are four kinds of way,
each with a coordinate $y$ in which the integrand is smooth at turning points and where $F$ almost
vanishes:

- `through`: $F > 0$ has a minimum at $w_c$ (both signs of $s_k$): $w - w_c = \zeta\sinh y$;
- `bounce`: $F < 0$ around $w_c$, a turning point at $w_1$: $w - w_c = (w_1 - w_c)\cosh y$, $y$
  changing sign when $v$ does;
- `wall`: one sign of $s_k$, a turning point: $w - w_1 = y^2$;
- `slope`: one sign of $s_k$, none: $w = y$.

$F$ is evaluated as a sum of positive terms throughout, so no cancellation limits the accuracy.
"""

import warnings
from dataclasses import dataclass
from typing import Literal

import numpy as np
from jaxtyping import Float, Int
from numpy.typing import ArrayLike

_EPS = float(np.finfo(np.float64).eps)

# Parts of a unit or of the spectrum below this fraction of the whole are round-off.
_ROUND_OFF = 8.0 * _EPS

# The way is cut where what remains of it takes less than this fraction of 1/(|s|_max |θ|).
_TAIL = 1e-18

_POINTS = 16  # Gauss–Legendre points per panel
_FIRST_PANELS = 4
_MOST_HALVINGS = 60
_CHUNK = 100_000  # nodes held at once per temporary array

_Kind = Literal["through", "bounce", "wall", "slope"]


def escape_times(
    u: ArrayLike, v: ArrayLike, correlation: ArrayLike, *, tolerance: float = 1e-10
) -> Float[np.ndarray, "*batch unit"]:
    r"""When each unit of a quadratic network leaves zero, from its initial weights alone.

    Near zero $\dot v = u^\top\Sigma_{yZ}u$, $\dot u = 2v\,\Sigma_{yZ}u$ (Eq. 14 of Zhang, Saxe and
    Latham). With the eigenvectors $\Sigma_{yZ}r_k = s_k r_k$, $a_k = r_k^\top u(0)/\sqrt2$ and
    $v_0 = v(0)$ the unit reaches infinity at

    $$t_\infty = \frac12\int\frac{dw}{\sqrt{F(w)}},\qquad
      F(w) = v_0^2 + \sum_k a_k^2\left(e^{2 s_k w} - 1\right) = v^2.$$

    The integral starts at $w = 0$ in the direction of $v_0$. If $F$ has no zero that way it runs
    to infinity and is Eq. (56) (with $\pi = e^{s_m w}$, and half of it: $t = \tau_{H.2}/2$). If
    $F(w_1) = 0$, then $v$ stops there, changes sign, and the way goes on from $w_1$ to infinity on
    the other side: $2\int_0^{w_1}$ plus $\int_0^{\mp\infty}$.

    **Erratum.** Eqs. (55)–(56) and Proposition 5 take the sign of $v$ to be that of $v_0$ for
    ever. This fails for a unit whose $v_0$ and $\sum_k s_k a_k^2$ disagree in sign and whose $F$
    has a zero: Eq. (56) then takes the root of a negative number. These are about 36 of 200
    Gaussian units for $s = (1, 0.4, -0.7)$. Proposition 5 also asks for both signs of $s_k$, which
    the paper's own example (Figure 1G, $\Sigma_{yZ} = 4I$) does not have; not needed here.

    **Linear attention.** A rank-one head with one value entry $v$, key $k$ and query $q$ is $v\,
    k^\top\psi q$: the form above with $u = [k, q]$ and $Z = \frac12\begin{bmatrix} 0 & \psi \\
    \psi^\top & 0\end{bmatrix}$. With $M = \langle y\psi\rangle$ call

        escape_times(np.concatenate([k, q], axis=-1), v, np.block([[zero, M / 2], [M.T / 2, zero]]))

    In-context regression on $x \sim \mathcal N(0, \Lambda)$ has $M = \Lambda^2$, hence eigenvalues
    $\pm\lambda_d^2/2$. A value *vector* whose entries all get a gradient is a rank-one tensor flow,
    which this does not cover.

    **Arguments:**

    - `u`: $u_i(0)$, shape `(..., unit, D)`.
    - `v`: $v_i(0)$, shape `(..., unit)`.
    - `correlation`: $\Sigma_{yZ} = \langle yZ\rangle$, shape `(D, D)`. Only its symmetric part
      enters $u^\top Z u$ and hence the dynamics; a matrix that is not symmetric is replaced by it.
    - `tolerance`: a panel of the quadrature is halved until that changes the unit's time by less
      than this fraction. The last value is returned, far better: good to about $10^{-14}$.

    **Returns:**

    $t_\infty$ with shape `(..., unit)`, in the time of $L = \frac12\langle(y-f)^2\rangle$.
    Infinity for a unit that never escapes: all $s_k$ it touches are positive, $v_0 < 0$ and
    $v_0^2 \ge \sum_k a_k^2$ over $s_k \ne 0$ (or the mirror image); $\Sigma_{yZ}u = 0$; or it
    creeps up to the top of the hill or rests there.

    !!! note "When it stops being exact"

        Exact for Eq. (14). In the network a unit saturates instead of diverging, $O(1)$ later: a
        relative error $O(\epsilon)$ for weights of size $\epsilon$. Gradient descent is late by
        one step for each factor $e$ that a unit grows, because $r \leftarrow r + hr^2$ means
        $1/r \leftarrow 1/r - h + h^2 r - \dots$: $n = t_\infty/(c\eta) + \ln(1/\epsilon) + O(1)$
        steps. A unit that has saturated changes $\Sigma_{yZ}$ for the others: beyond the first, see
        `winner`, these are times without competition.
        A unit within round-off of never escaping ($v_0^2$ against $\sum a_k^2$, or $F$ against zero
        at its minimum, to $2\times10^{-15}$) counts as one that does not.
    """
    u, v, correlation = _checked(u, v, correlation)
    if not 1e-14 <= tolerance < 1.0:
        raise ValueError(f"`tolerance` must be between 1e-14 (round-off) and 1, got {tolerance!r}.")
    batch = v.shape
    s, r = np.linalg.eigh(0.5 * (correlation + correlation.T))
    a = (u @ r).reshape(-1, s.size) / np.sqrt(2.0)
    v = v.reshape(-1)
    if not s.any() or v.size == 0:
        return np.full(batch, np.inf)

    # t∞ is homogeneous of degree −1 in the weights and in Σ: make all of order one. Powers of two,
    # because rounding would move units that are close to never escaping.
    size = _binade(np.maximum(np.abs(v), np.abs(a).max(axis=-1)))
    rate = _binade(np.abs(s).max(keepdims=True))
    v, a, s = v / size, a / size[:, None], s / rate
    moves = np.abs(s) > _ROUND_OFF * s.size * np.abs(s).max()
    s, a = s[moves], np.abs(a[:, moves])
    a = np.where(a > _ROUND_OFF * np.linalg.norm(a, axis=-1, keepdims=True), a, 0.0)

    tau = np.full(v.size, np.inf)
    for way in _ways(s, a, v):
        tau[way.unit] = _travel_time(way, tolerance)
    return (0.5 * tau / size / rate).reshape(batch)


def winner(
    u: ArrayLike, v: ArrayLike, correlation: ArrayLike, *, tolerance: float = 1e-10
) -> tuple[Int[np.ndarray, "*batch"], Float[np.ndarray, "*batch"]]:
    r"""The unit that leaves zero first, and when.

    $\arg\min_i t_{\infty,i}$ and $\min_i t_{\infty,i}$ of Eq. (57) of Zhang, Saxe and Latham, with
    `escape_times` in place of their Eq. (56). All other units are still $O(\epsilon)$ then
    (Proposition 5; with a heavy tail: the second largest has a median of 9.6 $\epsilon$, and one
    time in ten is beyond 76 $\epsilon$, for ten units as in Figure 1G).

    **Arguments:** as for `escape_times`.

    **Returns:**

    `(index, time)`, both with the batch shape; index −1 and infinite time if no unit escapes.
    """
    times = escape_times(u, v, correlation, tolerance=tolerance)
    if times.shape[-1] == 0:
        raise ValueError("`v` has no units: there is no winner.")
    index, first = np.asarray(times.argmin(axis=-1)), np.asarray(times.min(axis=-1))
    return np.where(np.isfinite(first), index, -1), first


@dataclass(frozen=True, eq=False)
class _Way:
    """Ways of one kind, mirrored such that each unit escapes towards w = +∞.

    v² = base + Σ_k [C_k (e^z − 1) − B_k z] with z = 2 s_k d and d = d(y), y from `start` to `end`.
    `excess` is C − B, which is small compared with both near a double zero.
    """

    kind: _Kind
    unit: np.ndarray  # (n,) positions of these units in the list of all
    s: np.ndarray  # (n, mode)
    base: np.ndarray  # (n,)
    log_c: np.ndarray  # (n, mode)
    b: np.ndarray  # (n, mode)
    excess: np.ndarray  # (n, mode)
    scale: np.ndarray  # (n,) length in d(y)
    start: np.ndarray  # (n,)
    end: np.ndarray  # (n,)

    def __getitem__(self, rows: np.ndarray) -> "_Way":
        return _Way(
            self.kind,
            self.unit[rows],
            self.s[rows],
            self.base[rows],
            self.log_c[rows],
            self.b[rows],
            self.excess[rows],
            self.scale[rows],
            self.start[rows],
            self.end[rows],
        )


def _binade(x: np.ndarray) -> np.ndarray:
    """The power of two just above x, one for x = 0."""
    return np.ldexp(1.0, np.frexp(x)[1])


def _ways(s: np.ndarray, a: np.ndarray, v: np.ndarray) -> list[_Way]:
    """Sorts units into the four kinds; those that never escape are in none."""
    unit = np.arange(v.size)
    up, down = np.any(a[:, s > 0] > 0, axis=-1), np.any(a[:, s < 0] > 0, axis=-1)
    with np.errstate(divide="ignore"):
        log_a2 = 2.0 * np.log(a)

    # One sign of s: the hill is flat on the far side, and E = v² − Σ a² is what a unit that climbs
    # it has left when it gets there.
    one = up ^ down
    mirror = np.where(up, 1.0, -1.0)
    left_over = v**2 - np.sum(a**2, axis=-1)
    turns = left_over < -_ROUND_OFF * v**2
    wall = unit[one & turns]
    slope = unit[one & ~turns & (mirror * v > 0)]

    # Both signs: a summit at w_c, of height −(v² − h(x0)) above the particle's energy.
    both = unit[up & down]
    centre = _summit(s, log_a2[both])
    log_b = log_a2[both] + 2.0 * s * centre[:, None]
    climb = np.sum(_rise(log_b, np.exp(log_b), 0.0, -2.0 * s * centre[:, None]), axis=-1)
    height = v[both] ** 2 - climb
    height = np.where(np.abs(height) > _ROUND_OFF * np.maximum(v[both] ** 2, climb), height, 0.0)
    outward = v[both] * -centre > 0
    over = (height > 0) | ((height == 0) & outward)
    back = (height < 0) & (np.abs(centre) > _ROUND_OFF)
    mirror[both] = np.where(over, np.sign(v[both]), -np.sign(centre))
    height, centre = np.abs(height), mirror[both] * centre

    s = mirror[:, None] * s
    v = mirror * v
    finish = _finish(s, log_a2)
    zero = np.zeros_like(a)
    ways = []
    if slope.size:
        c = a[slope] ** 2
        ways.append(
            _Way(
                "slope", slope, s[slope], v[slope] ** 2, log_a2[slope], zero[slope], c,
                np.ones(slope.size), np.zeros(slope.size), finish[slope],
            )
        )  # fmt: skip
    if wall.size:
        d0 = _turning_distance(s[wall], a[wall] ** 2, v[wall], np.full(wall.size, np.inf))
        log_c = log_a2[wall] - 2.0 * s[wall] * d0[:, None]
        ways.append(
            _Way(
                "wall", wall, s[wall], np.zeros(wall.size), log_c, zero[wall], np.exp(log_c),
                np.ones(wall.size), np.sign(v[wall]) * np.sqrt(d0), np.sqrt(finish[wall] + d0),
            )
        )  # fmt: skip
    if over.any():
        i, x0, b = both[over], -centre[over], np.exp(log_b[over])
        curvature = np.sum(2.0 * s[i] ** 2 * b, axis=-1)
        # Where F touches zero ζ = 0 would be right; the unit moves away from there.
        zeta = np.maximum(np.sqrt(height[over] / curvature), _EPS * np.abs(x0))
        ways.append(
            _Way(
                "through", i, s[i], height[over], log_b[over], b, np.zeros_like(b), zeta,
                np.arcsinh(x0 / zeta), np.arcsinh((finish[i] + x0) / zeta),
            )
        )  # fmt: skip
    if back.any():
        i, x0, b = both[back], -centre[back], np.exp(log_b[back])
        d0, x1 = _turning_point(s[i], a[i] ** 2, log_b[back], v[i], x0, height[back])
        excess = _rise(log_b[back], 0.0, b, 2.0 * s[i] * x1[:, None])
        angle = lambda d: 2.0 * np.arcsinh(np.sqrt(d / (2.0 * x1)))
        ways.append(
            _Way(
                "bounce", i, s[i], np.zeros(i.size), log_a2[i] - 2.0 * s[i] * d0[:, None], b,
                excess, x1, np.sign(v[i]) * angle(d0), angle(finish[i] + d0),
            )
        )  # fmt: skip
    return ways


def _travel_time(way: _Way, tolerance: float) -> np.ndarray:
    """∫ dw/|v| along each way: panels are halved where that changes the time, and only there."""
    n = way.unit.size
    row = np.repeat(np.arange(n), _FIRST_PANELS)
    low = np.tile(np.arange(_FIRST_PANELS) / _FIRST_PANELS, n)
    width = np.full(row.size, 1.0 / _FIRST_PANELS)
    coarse = _panel_time(way, row, low, width)
    whole = np.bincount(row, coarse, minlength=n)
    time = np.zeros(n)
    for _ in range(_MOST_HALVINGS):
        half = 0.5 * width
        left = _panel_time(way, row, low, half)
        right = _panel_time(way, row, low + half, half)
        fine = left + right
        open_ = np.abs(fine - coarse) > tolerance * whole[row]
        time += np.bincount(row[~open_], fine[~open_], minlength=n)
        if not open_.any():
            return time
        row = np.repeat(row[open_], 2)
        low = np.stack([low[open_], (low + half)[open_]], axis=-1).ravel()
        width = np.repeat(half[open_], 2)
        coarse = np.stack([left[open_], right[open_]], axis=-1).ravel()
    warnings.warn(
        f"{np.unique(row).size} escape times did not settle to `tolerance` {tolerance:.1g} after "
        f"{_MOST_HALVINGS} halvings of the quadrature's panels.",
        RuntimeWarning,
    )
    return time + np.bincount(row, coarse, minlength=n)


def _panel_time(way: _Way, row: np.ndarray, low: np.ndarray, width: np.ndarray) -> np.ndarray:
    """Time that the units `row` take on a panel each, given as a fraction of their way in y."""
    points, weights = np.polynomial.legendre.leggauss(_POINTS)
    time = np.empty(row.size)
    for first in range(0, row.size, _CHUNK // _POINTS):
        now = slice(first, first + _CHUNK // _POINTS)
        part = way[row[now]]
        length = part.end - part.start
        fraction = low[now, None] + width[now, None] * 0.5 * (points + 1.0)
        pace = _pace(part, part.start[:, None] + length[:, None] * fraction)
        time[now] = (pace @ (0.5 * weights)) * length * width[now]
    return time


def _pace(way: _Way, y: np.ndarray) -> np.ndarray:
    """dτ/dy, shape (n, node)."""
    y = np.where(y == 0.0, 1e-100, y)  # a turning point: the limit is smooth, 0/0 is not
    scale = way.scale[:, None]
    if way.kind == "through":
        d, slope = scale * np.sinh(y), scale * np.cosh(y)
    elif way.kind == "bounce":
        d, slope = 2.0 * scale * np.sinh(0.5 * y) ** 2, scale * np.abs(np.sinh(y))
    elif way.kind == "wall":
        d, slope = y**2, 2.0 * np.abs(y)
    else:
        d, slope = y, np.ones_like(y)
    v2 = np.broadcast_to(way.base[:, None], y.shape).copy()
    for k in range(way.s.shape[1]):
        z = 2.0 * way.s[:, k, None] * d
        v2 += _rise(way.log_c[:, k, None], way.b[:, k, None], way.excess[:, k, None], z)
    return slope / np.sqrt(v2)


def _finish(s: np.ndarray, log_a2: np.ndarray) -> np.ndarray:
    """w beyond which the remaining time, at most 1/(s_k a_k e^{s_k w}), is negligible."""
    with np.errstate(divide="ignore"):
        w = np.where(s > 0, (-np.log(_TAIL * np.abs(s)) - 0.5 * log_a2) / np.abs(s), np.inf)
    return w.min(axis=-1, initial=np.inf)


def _summit(s: np.ndarray, log_a2: np.ndarray) -> np.ndarray:
    """Root of Σ s_k a_k² e^{2 s_k w} for units with both signs, as ln Σ_{s>0} − ln Σ_{s<0} = 0.

    The slope of the left side is between twice the smallest and twice the largest sum of a positive
    and a negative |s_k|, which brackets the root; Newton, or bisection where that leaves it.
    """
    log_rate = log_a2 + np.log(np.abs(s))
    plus, minus = log_rate[:, s > 0], log_rate[:, s < 0]
    s_plus, s_minus = s[s > 0], -s[s < 0]
    if not plus.size or not minus.size:
        return np.zeros(len(log_a2))

    def side(log: np.ndarray, rate: np.ndarray) -> tuple[np.ndarray, np.ndarray]:
        top = log.max(axis=-1)
        share = np.exp(log - top[:, None])
        total = share.sum(axis=-1)
        return top + np.log(total), (share @ (2.0 * rate)) / total

    def difference(w: np.ndarray) -> tuple[np.ndarray, np.ndarray]:
        p, dp = side(plus + 2.0 * s_plus * w[:, None], s_plus)
        n, dn = side(minus - 2.0 * s_minus * w[:, None], s_minus)
        # p and n are logarithms: their difference is zero to within their own round-off.
        noise = 4.0 * _EPS * (2.0 + np.abs(p) + np.abs(n) + 2.0 * np.abs(w))
        return np.where(np.abs(p - n) > noise, p - n, 0.0), dp + dn

    w = np.zeros(len(log_a2))
    here, _ = difference(w)
    bounds = -here[:, None] / (
        2.0 * np.array([s_plus.min() + s_minus.min(), s_plus.max() + s_minus.max()])
    )
    low, high = bounds.min(axis=-1), bounds.max(axis=-1)
    for _ in range(200):
        value, slope = difference(w)
        low, high = np.where(value < 0, w, low), np.where(value > 0, w, high)
        new = w - value / slope
        w = np.where((new >= low) & (new <= high) | (value == 0), new, 0.5 * (low + high))
        if not value.any():
            break
    return w


def _turning_distance(
    s: np.ndarray, a2: np.ndarray, v: np.ndarray, furthest: np.ndarray
) -> np.ndarray:
    """Distance d from the start to the turning point: v² + Σ a² (e^{−2sd} − 1) = 0.

    Convex and falling in d: Newton from d = 0 comes from below and cannot overshoot.
    """
    d = np.zeros(v.size)
    for _ in range(200):
        z = -2.0 * s * d[:, None]
        value = v**2 + np.sum(a2 * np.expm1(z), axis=-1)
        slope = -np.sum(2.0 * s * a2 * np.exp(z), axis=-1)
        step = np.where((value > 0) & (slope < 0), value / np.where(slope < 0, -slope, 1.0), 0.0)
        d = np.minimum(d + step, furthest)
        if np.all((step <= 4.0 * _EPS * d) | (d >= furthest)):
            break
    return d


def _turning_point(
    s: np.ndarray,
    a2: np.ndarray,
    log_b: np.ndarray,
    v: np.ndarray,
    x0: np.ndarray,
    depth: np.ndarray,
) -> tuple[np.ndarray, np.ndarray]:
    """Distances start–turning point, d0, and turning point–summit, x1; d0 + x1 = x0.

    The smaller one is solved for, so that both have full relative accuracy.
    """
    d0 = _turning_distance(s, a2, v, x0)
    b = np.exp(log_b)
    x1 = x0.copy()  # Σ b (e^{2sx} − 1 − 2sx) = depth: convex and rising, Newton from above
    for _ in range(200):
        z = 2.0 * s * x1[:, None]
        value = np.sum(_rise(log_b, b, 0.0, z), axis=-1) - depth
        slope = np.sum(2.0 * s * _rise(log_b, 0.0, b, z), axis=-1)
        step = np.where(value > 0, value / slope, 0.0)
        x1 = x1 - step
        if np.all(step <= 4.0 * _EPS * x1):
            break
    near_start = d0 < x1
    return np.where(near_start, d0, x0 - x1), np.where(near_start, x0 - d0, x1)


def _rise(
    log_c: np.ndarray, b: np.ndarray | float, excess: np.ndarray | float, z: np.ndarray
) -> np.ndarray:
    """C (e^z − 1) − B z with C − B = `excess`: without cancellation, nor overflow if C e^z is none.

    For small z it is `excess` (e^z − 1) + B (e^z − 1 − z), the last factor by its series.
    """
    if z.size and z.max() > 600.0:
        far = z > 600.0
        beyond = np.exp(np.where(far, log_c + z, -np.inf))
        return np.where(far, beyond - b * z, _rise(log_c, b, excess, np.where(far, 0.0, z)))
    grown = np.expm1(z)
    rise = np.exp(log_c) * grown - b * z
    near = np.abs(z) < 0.25
    x = z[near]
    series = np.ones_like(x)
    for n in range(12, 2, -1):
        series = 1.0 + x * series / n
    b, excess = np.broadcast_to(b, z.shape)[near], np.broadcast_to(excess, z.shape)[near]
    rise[near] = excess * grown[near] + 0.5 * b * x**2 * series
    return rise


def _checked(
    u: ArrayLike, v: ArrayLike, correlation: ArrayLike
) -> tuple[np.ndarray, np.ndarray, np.ndarray]:
    u, v, correlation = (np.asarray(value, dtype=np.float64) for value in (u, v, correlation))
    for name, value in (("u", u), ("v", v), ("correlation", correlation)):
        if not np.isfinite(value).all():
            raise ValueError(f"`{name}` holds values that are not finite.")
    if correlation.ndim != 2 or correlation.shape[0] != correlation.shape[1]:
        raise ValueError(
            f"`correlation` must be a square matrix ⟨yZ⟩, got shape {correlation.shape}. "
            "For a correlation between two different weights (key and query) see the docstring."
        )
    if u.ndim < 2 or u.shape[-1] != correlation.shape[0] or u.shape[-1] == 0:
        raise ValueError(
            f"`u` must have shape (..., unit, {correlation.shape[0]}) to go with `correlation` of "
            f"shape {correlation.shape}, got {u.shape}."
        )
    if v.shape != u.shape[:-1]:
        raise ValueError(
            f"`v` must have one entry per unit, shape {u.shape[:-1]} to go with `u` of shape "
            f"{u.shape}, got {v.shape}."
        )
    return u, v, correlation
