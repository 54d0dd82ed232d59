r"""Contributions of several views of the same object to the output of a network.

The loss is L = ½⟨‖y − f‖²⟩, and the weights follow τẆ = −∂L/∂W. Views that enter one layer (early
fusion) are one mode. Views with their own pathways (late fusion) race, and their shares depend on
how far their errors overlap.
"""

import math
from typing import Any

import numpy as np
from jaxtyping import Float
from scipy.special import exprel, logsumexp

from ..._checks import check_positive, check_times, finite_array, number, real_array, whole_number
from ..._numerics._integrate import integrate
from ..._types import ArrayLike
from ..linear import chain_strength

_TIGHT: dict[str, Any] = {"rtol": 1e-11, "atol": 1e-13}


def early_fusion_shares(amplitudes: ArrayLike) -> Float[np.ndarray, " view"]:
    r"""Return each view's share in the output if one dense layer sees all: $a_v^2/\sum_u a_u^2$.

    The inputs are $x = (a_1 e_k, \dots, a_V e_k)$ with amplitudes $a_v$, and the targets are
    $y = e_k$ for K classes k (`festina.tasks.multi_view_classes`). The V views of a class are one
    direction of the input, with singular value $S = \lVert a\rVert/K$ and variance
    $D = \lVert a\rVert^2/K$. In a single mode views do not race: from small weights every network
    ends with the same shares.

    **Example:**

    >>> from festina.theory.gated import early_fusion_shares
    >>> early_fusion_shares([2.0, 1.0])
    array([0.8, 0.2])

    !!! note "When the result is not exact"

        Components of the first-layer weights orthogonal to the direction of a class never change.
        The components orthogonal to the direction of a class shift the shares at random, by the
        order of the initial weights.
    """
    a = _rates("amplitudes", amplitudes)
    return a**2 / np.sum(a**2)


def late_fusion_strengths(
    times: ArrayLike | None,
    amplitudes: ArrayLike,
    initial_strength: ArrayLike,
    *,
    classes: int = 1,
    tau: float | int = 1.0,
) -> Float[np.ndarray, "*time view"]:
    r"""Return the strength of each view over time if every view has its own two-layer pathway.

    For inputs $x = (a_1 e_k, \dots, a_V e_k)$, targets $y = e_k$ and balanced weights, all
    K classes have the same strength $\pi_v$ of view v:

    $$\tau\dot\pi_v = \frac{2 a_v \pi_v}{K}\Big(1 - \sum_u a_u\pi_u\Big),\qquad
      \pi_v = \pi_v(0)\, e^{2 a_v\vartheta}.$$

    All views share the clock θ, which stops when $\sum_u a_u\pi_u = 1$. Smaller initial weights
    increase the fastest view's final share in the output. Views with equal amplitudes keep the
    ratio of their initial strengths. View v contributes $c_v = a_v\pi_v$ to the output.

    **Arguments:**

    - `times`: when to evaluate; `None` for the limit $t \to \infty$.
    - `amplitudes`: $a_v$ of each view.
    - `initial_strength`: $\pi_v(0) > 0$, one for all views or one for each. For H hidden units in
      each pathway with random weights of standard deviation σ, $\pi_v(0)$ is about $\sigma^2 H/2$.
    - `classes`: number K of classes.
    - `tau`: time constant, one over the learning rate.

    **Returns:**

    $\pi_v(t)$ with shape `(time, view)`; `(view,)` for a single time or the limit.

    **Example:**

    >>> import numpy as np
    >>> from festina.theory.gated import late_fusion_strengths
    >>> a = np.array([2.0, 1.0])
    >>> a * late_fusion_strengths(None, a, 0.1)  # contributions to the output
    array([0.8, 0.2])
    >>> a * late_fusion_strengths(None, a, 1e-6).round(7)
    array([0.9993, 0.0007])
    """
    a = _rates("amplitudes", amplitudes)
    start = _starts(initial_strength, len(a))
    slower = whole_number("classes", classes) * _tau(tau)
    clock = _clock(times, np.log(a) + np.log(start), 2 * a, slower)
    return start * np.exp(2 * a * clock[..., None])


def capacity_limited_strengths(
    times: ArrayLike | None,
    rates: ArrayLike,
    initial_strength: ArrayLike,
    *,
    capacity: float | int = 1.0,
    tau: float | int = 1.0,
) -> Float[np.ndarray, "*time mode"]:
    r"""Return the strengths of modes that compete for one capacity, exactly.

    The sum of the squared strengths $s_m$ of all modes m is limited by the capacity $\mathcal K$:

    $$\tau\dot s_m = r_m s_m\Big(1 - \sum_n s_n^2/\mathcal K\Big),\qquad
      s_m = s_m(0)\, e^{r_m\vartheta},\qquad
      \sum_m s_m(0)^2\, e^{2 r_m\vartheta_\infty} = \mathcal K.$$

    The clock θ stops at $\vartheta_\infty$, on a sphere of fixed points. The equation is the same
    as in `late_fusion_strengths`, with $s_m^2$ in place of the contributions. In the neural race
    reduction, in contrast, competition is linear in the strengths and acts through the overlap
    $D(j, p)$ between pathways.

    **Arguments:**

    - `times`: when to evaluate; `None` for the limit $t \to \infty$.
    - `rates`: growth rates $r_m > 0$.
    - `initial_strength`: $s_m(0) > 0$, one for all modes or one for each.
    - `capacity`: $\mathcal K$.
    - `tau`: time constant.

    **Returns:**

    $s_m(t)$ with shape `(time, mode)`; `(mode,)` for a single time or the limit.

    **Example:**

    >>> from festina.theory.gated import capacity_limited_strengths
    >>> capacity_limited_strengths(None, [2.0, 1.0], 0.1)  # the squares add up to 1
    array([0.9512, 0.3084])
    """
    r = _rates("rates", rates)
    start = _starts(initial_strength, len(r))
    check_positive("capacity", capacity)
    filled = 2 * np.log(start) - math.log(number("capacity", capacity))
    return start * np.exp(r * _clock(times, filled, 2 * r, _tau(tau))[..., None])


def view_contributions(
    times: ArrayLike | None,
    amplitudes: ArrayLike,
    initial_strength: ArrayLike,
    *,
    overlap: ArrayLike,
    target: ArrayLike = 1.0,
    tau: float | int = 1.0,
    rtol: float = 1e-11,
) -> Float[np.ndarray, "... view"]:
    r"""Return the contributions of views over time, if their errors overlap by κ.

    At overlap κ = 0 each view solves its own task; at κ = 1 all views solve one task. The
    contribution $c_v = a_v\pi_v$ of view v, with amplitude $a_v$ and a balanced pathway of strength
    $\pi_v$, obeys

    $$\tau\dot c_v = 2 a_v c_v\Big(m - c_v - \kappa\sum_{u \neq v} c_u\Big).$$

    For κ < 1 all V views coexist in the end, each with $c_v = m/(1 + (V - 1)\kappa)$, and slower
    views come later (`latecomer_delay`). At κ = 1 the fixed points form a line and the fastest view
    wins (`late_fusion_strengths`). The documentation of `festina.tasks.correlated_views` lists κ
    and m of its tasks. For K one-hot classes, multiply τ by K.

    **Arguments:**

    - `times`: when to evaluate; `None` for the limit $t \to \infty$.
    - `amplitudes`: $a_v$ of each view.
    - `initial_strength`: $c_v(0) > 0$, one for all views or one for each.
    - `overlap`: κ, from 0 to 1.
    - `target`: m, the final contribution of a view without competitors.
    - `tau`: time constant.

    **Returns:**

    $c_v(t)$ with shape `(time, view)`; `(view,)` for a single time or the limit. A list of κ adds a
    first axis `overlap`. The result is exact at κ = 0 and κ = 1. For 0 < κ < 1 it is integrated to
    a relative error of about 1e-9, or a hundred times `rtol`.

    **Example:**

    >>> from festina.theory.gated import view_contributions
    >>> view_contributions(None, [1.2, 1.0], 1e-3, overlap=0.9)
    array([0.5263, 0.5263])
    >>> view_contributions(None, [1.2, 1.0], 1e-3, overlap=1.0)
    array([0.7509, 0.2491])
    """
    a = _rates("amplitudes", amplitudes)
    start, tau = _starts(initial_strength, len(a)), _tau(tau)
    check_positive("target", target)
    kappas = real_array("overlap", overlap)
    m = real_array("target", target)
    if kappas.ndim > 1 or m.shape not in ((), kappas.shape):
        raise ValueError(
            "`overlap` must be one number or a list, and `target` one number or one for each "
            f"overlap, got shapes {kappas.shape} and {m.shape}."
        )
    if times is not None:
        check_times(times)
    if not 0 < (rtol := number("rtol", rtol)) < 0.1:
        raise ValueError(f"`rtol` must lie between 0 and 0.1, got {rtol:g}.")
    each, goals = np.atleast_1d(kappas), np.broadcast_to(m, kappas.shape).reshape(-1)
    between = np.array([0 < _overlap(kappa) < 1 for kappa in each.tolist()], dtype=bool)
    found = np.zeros((len(each), *(() if times is None else np.shape(times)), len(a)))
    for k in np.flatnonzero(~between | (times is None)).tolist():
        found[k] = _closed(times, a, start, float(each[k]), float(goals[k]), tau)
    if times is not None and between.any():
        ahead = np.asarray(np.asarray(times, float) / tau)
        found[between] = _overlapping(ahead, a, start, each[between], goals[between], rtol)
    return found.reshape(*kappas.shape, *found.shape[1:])


def _closed(
    times: ArrayLike | None,
    a: Float[np.ndarray, " view"],
    start: Float[np.ndarray, " view"],
    kappa: float,
    m: float,
    tau: float,
) -> Float[np.ndarray, "*time view"]:
    """Return the contributions at κ = 0 or κ = 1, or their limit."""
    if kappa == 1:
        return start * np.exp(2 * a * _clock(times, np.log(start / m), 2 * a, tau / m)[..., None])
    if times is None:
        return np.full(len(a), m / (1 + (len(a) - 1) * kappa))
    return np.asarray(
        chain_strength(times, a * m, start, depth=2, input_variance=a, tau=tau), float
    )


def _overlapping(
    times: Float[np.ndarray, "*time"],
    a: Float[np.ndarray, " view"],
    start: Float[np.ndarray, " view"],
    kappa: Float[np.ndarray, " overlap"],
    m: Float[np.ndarray, " overlap"],
    rtol: float,
) -> Float[np.ndarray, "overlap *time view"]:
    """Integrate the logarithms of the contributions, for all overlaps together."""
    logs = np.tile(np.log(start), (len(kappa), 1))
    if not (last := float(np.max(times, initial=0.0))):
        return np.exp(
            np.broadcast_to(logs[:, *(None,) * times.ndim], (len(logs), *times.shape, len(a)))
        )
    # LSODA hangs on an interval of 1e-100, so time is measured in units of the last time.
    rate, goal, shared = 2 * last * a, m[:, None], kappa[:, None]
    meet = shared[..., None] + (1 - shared[..., None]) * np.eye(len(a))
    systems = np.arange(len(kappa))

    def velocity(_: float, logs: np.ndarray) -> np.ndarray:
        c = np.exp(logs)
        return rate * (goal - (1 - shared) * c - shared * c.sum(axis=1, keepdims=True))

    def slope(_: float, logs: np.ndarray) -> np.ndarray:
        blocks = np.zeros((len(kappa), len(a), len(kappa), len(a)))
        blocks[systems, :, systems] = -rate[:, None] * meet * np.exp(logs.reshape(-1, 1, len(a)))
        return blocks.reshape(logs.size, logs.size)

    how = {"method": "LSODA", "jac": slope, "rtol": rtol, "atol": 1e-2 * rtol}
    return np.exp(np.moveaxis(integrate(velocity, times / last, logs, **how), -2, 0))


def latecomer_delay(
    amplitudes: ArrayLike,
    initial_strength: ArrayLike,
    *,
    overlap: float | int,
    target: float | int = 1.0,
) -> float:
    r"""Return when the slower of two views reaches half of its final contribution, for κ near 1.

    First the faster view 1 wins, as at overlap κ = 1, and view 2 keeps the contribution $c_2^*$.
    Then the contributions move slowly along the line $c_1 + c_2 = m$:

    $$\tau\dot c_2 = 2(1 - \kappa)\,\frac{a_1 a_2\, c_2 (m - c_2)(m - 2c_2)}
      {a_1(m - c_2) + a_2 c_2}.$$

    Therefore $(1 - \kappa)\,t \to \tau\,[F(m/4) - F(c_2^*)]$ with $F(c) = \frac{1}{2m}
    \big[\frac{1}{a_2}\ln\frac{c}{m - 2c} + \frac{1}{a_1}\ln\frac{m - c}{m - 2c}\big]$,
    where $a_v$ are the amplitudes. Corrections are of relative order $(1 - \kappa)$ times a
    logarithm of the initial weights.

    **Arguments:**

    - `amplitudes`: $a_v$ of two views.
    - `initial_strength`: $c_v(0) > 0$, one number for both views or one for each.
    - `overlap`: κ < 1.
    - `target`: m, the sum of both contributions.

    **Returns:**

    The time in units of τ; NaN if the slower view reaches half of its final contribution during the
    race.

    **Example:**

    >>> from festina.theory.gated import latecomer_delay
    >>> print(f"{latecomer_delay([1.2, 1.0], 1e-6, overlap=0.99):.1f}")
    86.7
    """
    a = _rates("amplitudes", amplitudes)
    kappa, m = _overlap(overlap), number("target", target)
    if len(a) != 2 or kappa == 1:
        raise ValueError(
            f"`latecomer_delay` needs two `amplitudes` and an `overlap` below one, got {len(a)} "
            f"`amplitudes` and `overlap` {kappa:g}."
        )
    left = view_contributions(None, a, initial_strength, overlap=1.0, target=m)
    slow = int(np.argmin(left))
    if (rest := left[slow]) >= m / 4:
        return math.nan
    if rest <= 0:
        raise ValueError(
            f"The views' `amplitudes` {a[0]:.3g} and {a[1]:.3g} are too far apart: after the race "
            "the contribution of the slower view underflows to 0. Use closer amplitudes, or a "
            "larger `initial_strength`."
        )
    along = lambda c: (
        math.log(c / (m - 2 * c)) / a[slow] + math.log((m - c) / (m - 2 * c)) / (a[1 - slow])
    )
    return (along(m / 4) - along(rest)) / (2 * m * (1 - kappa))


def _clock(
    times: ArrayLike | None,
    filled: Float[np.ndarray, " mode"],
    rates: Float[np.ndarray, " mode"],
    tau: float,
) -> Float[np.ndarray, "*time"]:
    r"""Solve $\tau\dot\vartheta = 1 - \sum_m e^{f_m + r_m\vartheta}$ from θ = 0; `None`: the limit.

    The weights $w_m = e^{f_m + r_m\vartheta_\infty}$ add up to one. The distance
    $\delta = \vartheta_\infty - \vartheta$ decays by
    $\tau\dot\delta = -\sum_m w_m (1 - e^{-r_m\delta})$ without cancellation. The logarithm of δ is
    smooth, and linear at late times.
    """
    end = _end(filled, rates)
    if times is None:
        return np.array(end)
    check_times(times)
    if end == 0:
        return np.zeros(np.shape(times))
    weights = np.exp(filled + rates * end)

    def pace(_: float, u: np.ndarray) -> np.ndarray:
        return np.array(
            [(weights * rates) @ exprel(-rates * end * np.exp(np.minimum(-u[0], 700.0)))]
        )

    u = integrate(pace, np.asarray(times, float) / tau, np.zeros(1), **_TIGHT)
    return np.asarray(-end * np.expm1(-u[..., 0]))


def _end(filled: Float[np.ndarray, " mode"], rates: Float[np.ndarray, " mode"]) -> float:
    """Return θ at which Σ e^{f + rθ} = 1.

    The logarithm of the sum is convex in θ, so Newton's method converges to the root from above.
    """
    theta = float(np.min(-filled / rates))
    for _ in range(200):
        terms = filled + rates * theta
        height = float(logsumexp(terms))
        step = height / float(rates @ np.exp(terms - height))
        if not step > 4 * np.finfo(float).eps * abs(theta):
            break
        theta -= step
    return theta


def _rates(name: str, given: ArrayLike) -> Float[np.ndarray, " mode"]:
    found = finite_array(name, given)
    check_positive(name, found)
    if found.ndim != 1:
        raise ValueError(f"`{name}` must be a list of positive numbers, got shape {found.shape}.")
    return found


def _starts(given: ArrayLike, count: int) -> Float[np.ndarray, " mode"]:
    check_positive("initial_strength", given)
    found = real_array("initial_strength", given)
    if found.shape not in ((), (count,)):
        raise ValueError(
            f"`initial_strength` must be one number or one for each of {count} views or modes, got "
            f"shape {found.shape}."
        )
    return np.broadcast_to(found, count).copy()


def _overlap(given: float | int) -> float:
    if not 0 <= (found := number("overlap", given)) <= 1:
        raise ValueError(
            f"`overlap` must lie between 0 and 1, got {found:g}: a view cannot compete more "
            "with another view than with itself."
        )
    return found


def _tau(given: float | int) -> float:
    check_positive("tau", given)
    return number("tau", given)
