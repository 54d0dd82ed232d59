r"""Learning curves of balanced chains of scalar weights, of any depth.

The training of a chain $\hat y = b_D \cdots b_1 x$ depends on its data through two numbers, $s =
\langle yx\rangle$ and $\lambda_x = \langle x^2\rangle$. The loss is $L = \frac12\langle(y -
b_D\cdots b_1 x)^2\rangle$, and gradient flow $\tau\,\dot b_l = -\partial L/\partial b_l$ conserves
all differences $b_l^2 - b_k^2$. A chain is *balanced* if these differences are zero, that is
$|b_l| = |a|^{1/D}$. The product $a = b_D\cdots b_1$ of a balanced chain then obeys

$$\tau\,\dot a = D\,|a|^{2-2/D}\,(s - \lambda_x a).$$

The modes of a deep linear network whose layers share their singular directions with the data are
chains of scalar weights (Saxe, McClelland & Ganguli 2014).
"""

import math
from typing import TypeAlias

import jax.numpy as jnp
import numpy as np
from jaxtyping import Float

from ..._checks import (
    check_finite,
    check_modes,
    check_positive,
    check_size,
    check_times,
    real_array,
)
from ..._precision import compiled, is_traced
from ..._types import Array, ArrayLike
from ._chain_clock import position

Depth: TypeAlias = int | float | np.integer | np.floating

Values: TypeAlias = ArrayLike

# Correlations below this fraction of λ|a₀| count as zero, because their square underflows.
_NO_CORRELATION = 1e-150

SMALLEST = float(np.finfo(float).tiny)


def chain_strength(
    times: Values,
    correlation: Values,
    initial_strength: Values,
    *,
    depth: Depth,
    input_variance: Values = 1.0,
    tau: Values = 1.0,
) -> Float[Array, "*time_mode"]:
    r"""Return the product of the weights of a balanced chain over time, exactly, at any depth.

    The product $a(t)$ solves $\tau\,\dot a = D\,|a|^{2-2/D}(s - \lambda_x a)$, where $s = \langle
    yx\rangle$ is the correlation and $\lambda_x = \langle x^2\rangle$ the input variance:

    - $D = 1$: $a = \frac{s}{\lambda_x}(1 - e^{-\lambda_x t/\tau}) + a_0 e^{-\lambda_x t/\tau}$.
    - $D = 2$: $a = \dfrac{s/\lambda_x}{1 - \left(1 - \frac{s}{\lambda_x a_0}\right)
      e^{-2st/\tau}}$.
    - $D \ge 3$, in $x = \lambda_x a/s$ and with $q = 2/D - 1$:
      $$t = \frac{\tau}{D s}\left(\frac{s}{\lambda_x}\right)^{q} [F(x) - F(x_0)],\qquad
        F(x) = \frac{x^q}{q}\,{}_2F_1(1, q; q + 1; x),$$
      inverted numerically to machine precision.
    - $D = \infty$: $\tau_\infty\dot a = a^2 (s - \lambda_x a)$, hence
      $$a = \frac{s/\lambda_x}{1 + W\!\left[\left(\frac{s}{\lambda_x a_0} - 1\right)\exp\left(
        \frac{s}{\lambda_x a_0} - 1 - \frac{s^2 t}{\lambda_x\tau_\infty}\right)\right]},$$
      with Lambert's $W_0$ if $a_0$ has the sign of $s$, and $W_{-1}$ otherwise. (The code uses
      another form, because the exponential overflows for $a_0 \lesssim s/700\lambda_x$.)

    The solutions for $D = 1$, 2 and $\infty$ are due to Saxe, McClelland & Ganguli (2014). The
    slides print $e^{-t/\tau}$ in place of $e^{-\lambda_x t/\tau}$ ($D = 1$) and in place of
    $e^{-s^2 t/\lambda_x\tau_\infty}$ ($D = \infty$).

    **The unit of time.** For finite depth, $\tau$ is the time constant of one layer. The limit of
    infinite depth exists only if the learning rate falls as $1/D$, and its time constant is
    $\tau_\infty = \tau/D$: with `depth=math.inf`, `tau` means $\tau_\infty$. To compare depths in
    the same unit of time, pass `tau=depth_scaled_time_constant(depth)`.

    A chain that starts above the target $s/\lambda_x$ shrinks to the target. With two or more
    layers $a = 0$ is a saddle. A chain that starts at the saddle stays there, and a chain whose
    $a_0$ has the sign opposite to $s$ approaches the saddle forever. For $s = 0$ the strength
    decays, $|a| = |a_0|(1 + pD\lambda_x|a_0|^p t/\tau)^{-1/p}$ with $p = 2 - 2/D$. If the input
    does not vary ($\lambda_x = 0$, hence $s = 0$), the strength remains constant.

    **Arguments:**

    - `times`: times in the units of `tau`, shape `(time,)`, or one time.
    - `correlation`: $s$, of either sign; one number, or one for each mode.
    - `initial_strength`: $a_0$; one number, or one for each mode.
    - `depth`: $D$, the number of layers: an integer, or `math.inf`.
    - `input_variance`: $\lambda_x$; one number, or one for each mode. The input variance may be
      zero only where `correlation` is zero.
    - `tau`: time constant $\tau$ of one layer, or $\tau_\infty$ for infinite depth.

    **Returns:**

    $a(t)$ with shape `(time, *mode)`, `(*mode,)` for a single time; `correlation`,
    `initial_strength`, `input_variance` and `tau` broadcast to `mode`.

    **Example:**

    >>> from festina.theory import linear
    >>> linear.chain_strength([0.0, 1.0, 5.0], 2.0, 0.1, depth=2).round(3)
    array([0.1  , 1.484, 2.   ])

    !!! note "When it stops being exact"

        The solution assumes balanced layers (for two layers of unequal weights use
        `unbalanced_strength`) and modes that are aligned with the data. The transition of a deep
        chain becomes sharper with smaller $a_0$. During the transition $a(t)$ amplifies rounding
        errors of its arguments by $(s/\lambda_x a_0)^{1-2/D}$.
    """
    depth = check_depth(depth)
    check_times(times)
    check_chain(correlation, initial_strength, input_variance, tau)
    arguments = as_arrays(times, correlation, initial_strength, input_variance, tau)
    if depth == 1:
        return _shallow(*arguments)
    if depth == 2:
        return _two_layers(*arguments)
    # Depth enters as two traced numbers, so one compiled program serves all depths.
    layers = 1.0 if math.isinf(depth) else depth
    return _deep(*arguments, *as_arrays(layers, 1.0 / depth))


def depth_scaled_time_constant(depth: Depth, tau: float | Array = 1.0) -> float | Array:
    r"""Return the time constant of one layer if the learning rate falls as $1/D$.

    The result is $D\,\tau_\infty$ for finite depth, and $\tau_\infty$ for `math.inf`. Use it to
    compare depths in the same unit of time: `chain_strength(..., depth=depth,
    tau=depth_scaled_time_constant(depth))`. At fixed $a_0$ the curve of depth $D$ tends to the
    curve of infinite depth; the time of the transition approaches its limit as $O(\ln(1/a_0)/D)$.

    **Arguments:**

    - `depth`: $D$, the number of layers.
    - `tau`: $\tau_\infty$, the time constant that all depths share.

    **Example:**

    >>> import math
    >>> from festina.theory import linear
    >>> [linear.depth_scaled_time_constant(depth) for depth in (1, 2, 10, math.inf)]
    [1.0, 2.0, 10.0, 1.0]
    """
    depth = check_depth(depth)
    check_positive("tau", tau)
    tau = tau if is_traced(tau) or isinstance(tau, float) else np.asarray(tau, dtype=float)
    return tau if math.isinf(depth) else depth * tau


@compiled()
def _shallow(t: Array, s: Array, a0: Array, lam: Array, tau: Array) -> Array:
    t, s, a0, lam, tau = with_time(t, s, a0, lam, tau)
    return a0 * jnp.exp(-lam * t / tau) + s * relaxation(lam, t / tau)


@compiled()
def _two_layers(t: Array, s: Array, a0: Array, lam: Array, tau: Array) -> Array:
    t, s, a0, lam, tau = with_time(t, s, a0, lam, tau)
    sign, w0 = _mirrored(a0)
    rate = 2.0 * sign * s
    theta = t / tau
    # Logistic curve of |a| with both parts of the fraction divided by e^{rate t} if rate > 0.
    grows = rate >= 0
    size = jnp.where(grows, rate, -rate)  # |rate| with derivative 1 at zero, unlike abs
    decay = jnp.exp(-size * theta)
    integral = 2.0 * lam * w0 * relaxation(size, theta)
    # At the saddle both terms underflow at late times; the numerator is zero there.
    below = jnp.maximum(jnp.where(grows, decay, 1.0) + integral, jnp.finfo(t.dtype).tiny)
    return sign * w0 * jnp.where(grows, 1.0, decay) / below


@compiled()
def _deep(
    t: Array,
    s: Array,
    a0: Array,
    lam: Array,
    tau: Array,
    layers: Array,
    e: Array,
) -> Array:
    t, s, a0, lam, tau = with_time(t, s, a0, lam, tau)
    kappa, p = layers / tau, 2.0 - 2.0 * e  # e = 1/D
    sign, w0 = _mirrored(a0)
    sigma = sign * s  # |a| learns as if the correlation were s sgn(a₀)
    saddle = w0 == 0
    flat = jnp.abs(sigma) <= _NO_CORRELATION * lam * w0
    ordinary = ~(saddle | flat)

    def safely(value: Array) -> Array:
        return jnp.where(ordinary, value, 1.0)

    size, variance = safely(jnp.abs(sigma)), safely(lam)
    target = size / variance
    rate = safely(kappa) * size * target ** (1.0 - 2.0 * e)
    largest = jnp.finfo(t.dtype).max / 4
    x, _ = position(jnp.minimum(rate * t, largest), safely(w0) / target, ordinary & (sigma < 0), e)

    # Decay at zero correlation, plus its first-order change with s so that derivatives are right.
    w = jnp.where(flat & ~saddle, w0, 1.0)
    shrunk = (1.0 + jnp.minimum(p * kappa * lam * w**p * t, largest)) ** (-1.0 / p)
    varies = lam > 0
    slope = (1.0 - shrunk ** (p + 1.0)) / ((p + 1.0) * jnp.where(varies, lam, 1.0))
    decayed = w * shrunk + jnp.where(varies, sigma * slope, 0.0)

    return sign * jnp.where(saddle, w0, jnp.where(flat, decayed, target * x))


def _mirrored(a0: Array) -> tuple[Array, Array]:
    """Return the sign of a₀ and |a₀|: a never changes sign with two layers or more.

    The flow of (−a, −s) is the mirror image of the flow of (a, s).
    """
    sign = jnp.where(a0 < 0, -1.0, 1.0)
    return sign, sign * a0


def relaxation(rate: Array, theta: Array) -> Array:
    r"""Return $\int_0^\theta e^{-\text{rate}\,t}\,dt$, also for a rate of zero."""
    u = rate * theta
    slow = jnp.abs(u) < 0.5
    # A series for (1 − e^{−u})/u: the derivative of the quotient is inaccurate for small u.
    small = jnp.where(slow, u, 0.0)
    series = jnp.zeros_like(u)
    for k in reversed(range(16)):
        series = series * small + (-1.0) ** k / math.factorial(k + 1)
    fast = -jnp.expm1(-jnp.where(slow, 1.0, u)) / jnp.where(slow, 1.0, rate)
    return jnp.where(slow, theta * series, fast)


def with_time(times: Array, *values: Array) -> tuple[Array, ...]:
    """Return all arguments broadcast to the shape (*time, *mode)."""
    modes = jnp.broadcast_arrays(*values)
    t = times.reshape(times.shape + (1,) * modes[0].ndim)
    return tuple(jnp.broadcast_arrays(t, *modes))


def as_arrays(*values: Values) -> tuple[Array, ...]:
    """Return numbers, lists and arrays as float arrays, to compile each program only once."""
    return tuple(
        jnp.asarray(value, dtype=float) if is_traced(value) else np.asarray(value, dtype=float)
        for value in values
    )


def check_depth(depth: Depth) -> float:
    """Return depth as a float; raise `ValueError` unless it is a positive integer or infinity."""
    given = real_array("depth", depth)
    value = float(given) if given.ndim == 0 else math.nan
    if not (value >= 1 and (math.isinf(value) or value.is_integer())):
        raise ValueError(
            f"`depth` must be the number of layers, 1, 2, 3 … or math.inf, got {depth}."
        )
    return value


def check_chain(s: Values, a0: Values, lam: Values, tau: Values, **others: Values | None) -> None:
    check_finite("correlation", s)
    check_size("initial_strength", a0)
    if not is_traced(a0):
        size = np.abs(np.asarray(a0, dtype=float))
        lost = size[(size > 0) & (size < SMALLEST)]
        if lost.size:
            raise ValueError(
                f"`initial_strength` must be zero or above {SMALLEST:.3g} in size, got "
                f"{lost[0]:.3g}: compiled code treats smaller numbers as zero."
            )
    check_positive("tau", tau)
    check_modes(correlation=s, initial_strength=a0, input_variance=lam, tau=tau, **others)
    check_input_variance(s, lam)


def check_input_variance(s: Values, lam: Values) -> None:
    check_finite("input_variance", lam)
    if is_traced(s, lam):
        return
    s, lam = np.asarray(s, dtype=float), np.asarray(lam, dtype=float)
    if (lam < 0).any():
        raise ValueError(f"`input_variance` must not be negative, got {lam.min():g}.")
    if ((lam == 0) & (s != 0)).any():
        raise ValueError(
            "`input_variance` is 0 for a mode with nonzero `correlation`, but an input that does "
            "not vary is correlated with nothing. Omit such modes, or set their correlation to 0."
        )
