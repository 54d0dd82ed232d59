r"""Views of the same thing: where they meet decides whether they race.

Loss ½⟨‖y − f‖²⟩, τẆ = −∂L/∂W. Views that enter one layer (early fusion) are one mode. Views with
pathways of their own (late fusion) race, and who gets what depends on how far their errors overlap.
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
    r"""Return what each view contributes if all enter one dense layer: $a_v^2/\sum_u a_u^2$.

    For $x = (a_1 e_k, \dots, a_V e_k)$ and $y = e_k$ (`festina.tasks.multi_view_classes`) the
    views of a class are one direction of the input, with $S = \lVert a\rVert/K$ and $D = \lVert
    a\rVert^2/K$. There is one mode and no race: from small weights every network ends with the same
    shares.

    !!! note "When it stops being exact"

        First-layer weights across that direction never change: shares are off by the order of the
        initial weights, by chance.
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
    r"""Return the strength of each view if every view has a two-layer pathway of its own.

    For $x = (a_1 e_k, \dots, a_V e_k)$ and $y = e_k$ with balanced weights all classes are alike:

    $$\tau\dot\pi_v = \frac{2 a_v \pi_v}{K}\Big(1 - \sum_u a_u\pi_u\Big),\qquad
      \pi_v = \pi_v(0)\, e^{2 a_v\vartheta}.$$

    All views run along one orbit, by a clock θ that stops where $\sum_u a_u\pi_u = 1$: the fastest
    has the more, the smaller the initial weights, and equal ones keep what they had. View v
    contributes $c_v = a_v\pi_v$.

    **Arguments:**

    - `times`: when to evaluate; `None` for where it ends.
    - `amplitudes`: $a_v$ of each view.
    - `initial_strength`: $\pi_v(0) > 0$, one for all views or one for each. H random units of size
      σ for each view have about $\sigma^2 H/2$.
    - `classes`: K.
    - `tau`: time constant, one over the learning rate.

    **Returns:**

    $\pi_v(t)$ with shape `(time, view)`, `(view,)` for a single time or the end.
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
    r"""Return the strengths of modes whose squares share one capacity, exactly.

    $$\tau\dot s_m = r_m s_m\Big(1 - \sum_n s_n^2/\mathcal K\Big),\qquad
      s_m = s_m(0)\, e^{r_m\vartheta},\qquad
      \sum_m s_m(0)^2\, e^{2 r_m\vartheta_\infty} = \mathcal K.$$

    The clock θ stops on a sphere of fixed points. This is a race of views that carry one target
    (`late_fusion_strengths`) in other letters; it is not the neural race reduction, whose
    Lotka–Volterra system is linear in the strengths and has $D(j, p)$ between pathways.

    **Arguments:**

    - `times`: when to evaluate; `None` for where it ends.
    - `rates`: $r_m > 0$.
    - `initial_strength`: $s_m(0) > 0$, one for all modes or one for each.
    - `capacity`: $\mathcal K$.
    - `tau`: time constant.

    **Returns:**

    $s_m(t)$ with shape `(time, mode)`, `(mode,)` for a single time or the end.
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
    overlap: float | int,
    target: float | int = 1.0,
    tau: float | int = 1.0,
) -> Float[np.ndarray, "*time view"]:
    r"""Return what views contribute if their errors overlap by κ, from two tasks (0) to one (1).

    $$\tau\dot c_v = 2 a_v c_v\Big(m - c_v - \kappa\sum_{u \neq v} c_u\Big)$$

    is obeyed by $c_v = a_v\pi_v$ of balanced pathways, one for each view. For κ < 1 they always
    coexist, each with $m/(1 + (V - 1)\kappa)$ in the end, and who is slower comes later
    (`latecomer_delay`). At κ = 1 there is a line of fixed points and the fastest wins: that is
    `late_fusion_strengths`. What κ and m are of which task, `festina.tasks.correlated_views` says;
    of K one-hot classes τ is K times as long.

    **Arguments:**

    - `times`: when to evaluate; `None` for where it ends.
    - `amplitudes`: $a_v$ of each view.
    - `initial_strength`: $c_v(0) > 0$, one for all views or one for each.
    - `overlap`: κ, from 0 to 1.
    - `target`: m.
    - `tau`: time constant.

    **Returns:**

    $c_v(t)$ with shape `(time, view)`, `(view,)` for a single time or the end. Exact at κ = 0 and
    κ = 1, else integrated to a relative error of some 1e-9.
    """
    a = _rates("amplitudes", amplitudes)
    start, tau = _starts(initial_strength, len(a)), _tau(tau)
    check_positive("target", target)
    m, kappa = number("target", target), _overlap(overlap)
    if kappa == 1:
        return start * np.exp(2 * a * _clock(times, np.log(start / m), 2 * a, tau / m)[..., None])
    if times is None:
        return np.full(len(a), m / (1 + (len(a) - 1) * kappa))
    check_times(times)
    if kappa == 0:
        return np.asarray(
            chain_strength(times, a * m, start, depth=2, input_variance=a, tau=tau), float
        )

    def velocity(_: float, logs: np.ndarray) -> np.ndarray:
        c = np.exp(logs)
        return 2 * a * (m - (1 - kappa) * c - kappa * c.sum())

    def slope(_: float, logs: np.ndarray) -> np.ndarray:
        return -2 * a[:, None] * (kappa + (1 - kappa) * np.eye(len(a))) * np.exp(logs)

    ahead = np.asarray(times, float) / tau
    # LSODA never ends on an interval of 1e-100.
    return np.exp(integrate(velocity, ahead, np.log(start), method="Radau", jac=slope, **_TIGHT))


def latecomer_delay(
    amplitudes: ArrayLike,
    initial_strength: ArrayLike,
    *,
    overlap: float | int,
    target: float | int = 1.0,
) -> float:
    r"""Return when the slower of two views has half of its share, as κ → 1.

    The faster has won before: contributions are close to the line $c_1 + c_2 = m$, at what the race
    of κ = 1 left, $c_2^*$, and creep along it,

    $$\tau\dot c_2 = 2(1 - \kappa)\,\frac{a_1 a_2\, c_2 (m - c_2)(m - 2c_2)}
      {a_1(m - c_2) + a_2 c_2},$$

    so that $(1 - \kappa)\,t \to \tau\,[F(m/4) - F(c_2^*)]$ with $F(c) = \frac{1}{2m}
    \big[\frac{1}{a_2}\ln\frac{c}{m - 2c} + \frac{1}{a_1}\ln\frac{m - c}{m - 2c}\big]$. Corrections
    are of relative order $(1 - \kappa)$ times a logarithm of the initial weights.

    **Arguments:**

    - `amplitudes`: $a_v$ of two views.
    - `initial_strength`: $c_v(0) > 0$, one for both or one for each.
    - `overlap`: κ < 1.
    - `target`: m.

    **Returns:**

    The time in units of τ; NaN where the race leaves the second more than that.
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
            f"`amplitudes` {a[0]:.3g} and {a[1]:.3g} are too far apart: the first view leaves the "
            "second nothing that a double-precision number can hold."
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
    r"""θ(t) of $\tau\dot\vartheta = 1 - \sum_m e^{f_m + r_m\vartheta}$ from θ = 0; `None`: its end.

    With $w_m = e^{f_m + r_m\vartheta_\infty}$, which add up to one, what is left of θ decays by
    $\tau\dot\delta = -\sum_m w_m (1 - e^{-r_m\delta})$, where nothing cancels; its logarithm is
    smooth, and linear in the end.
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
    """Where Σ e^{f + rθ} = 1: its logarithm is convex, and Newton comes down from above."""
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
            f"`initial_strength` must be one number for all or one for each of {count}, got shape "
            f"{found.shape}."
        )
    return np.broadcast_to(found, count).copy()


def _overlap(given: float | int) -> float:
    if not 0 <= (found := number("overlap", given)) <= 1:
        raise ValueError(
            f"`overlap` must lie between 0 and 1, got {found:g}: errors of views that compete more "
            "with each other than with themselves are of no task."
        )
    return found


def _tau(given: float | int) -> float:
    check_positive("tau", given)
    return number("tau", given)
