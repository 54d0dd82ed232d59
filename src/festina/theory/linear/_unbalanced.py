r"""Exact gradient flow of a chain of two weights of any size and sign.

A chain $w_2 w_1 x$ follows $\tau\,\dot w_1 = w_2 (s - \lambda_x w_2 w_1)$ and $\tau\,\dot w_2 = w_1
(s - \lambda_x w_2 w_1)$, where $s = \langle yx\rangle$ and $\lambda_x = \langle x^2\rangle$. This
flow conserves $c = w_2^2 - w_1^2$. With the product $a = w_2 w_1$, the half sum $P = (w_1 + w_2)/2$
and the half difference $M = (w_2 - w_1)/2$,

$$\tau\,\dot P = P (s - \lambda_x a),\qquad \tau\,\dot M = -M (s - \lambda_x a),\qquad
  a = P^2 - M^2,\quad PM = c/4.$$

$P$ grows by the factor by which $M$ shrinks, and $P^2$ follows a Riccati equation with constant
coefficients.
"""

import jax.numpy as jnp
from jaxtyping import Float

from ..._checks import check_finite, check_modes, check_positive, check_size, check_times
from ..._precision import compiled
from ..._types import Array
from ._chains import Values, as_arrays, check_input_variance, relaxation, with_time


def unbalanced_weights(
    times: Values,
    first: Values,
    second: Values,
    correlation: Values,
    *,
    input_variance: Values = 1.0,
    tau: Values = 1.0,
) -> tuple[Float[Array, "*time_mode"], Float[Array, "*time_mode"]]:
    r"""Return both weights of a two-layer chain over time, exactly, from any initial weights.

    The chain $w_2w_1x$ learns by gradient flow on the loss $\frac12\langle(y -
    w_2w_1x)^2\rangle$, with $s = \langle yx\rangle$ and $\lambda_x = \langle x^2\rangle$. Let
    $P = (w_1 + w_2)/2$, $M = (w_2 - w_1)/2$, $c = w_2^2 - w_1^2$, $\kappa = \sqrt{4s^2 +
    \lambda_x^2c^2}$ and $E = e^{-\kappa t/\tau}$. Then

    $$P(t) = P_0\sqrt\rho,\quad M(t) = M_0/\sqrt\rho,\qquad
      \rho = \frac{(\kappa + 2s) + (\kappa - 2s)E + 4\lambda_x M_0^2 (1 - E)}
                  {(\kappa - 2s) + (\kappa + 2s)E + 4\lambda_x P_0^2 (1 - E)},$$

    and $w_1 = P - M$, $w_2 = P + M$. All terms of $\rho$ are positive, so no digits cancel at any
    time and for any sign of $s$. This is the solution of Saxe, McClelland & Ganguli (2014) for two
    layers of unequal weights. With the product $a = w_2w_1$, their solution uses the angle $\theta$
    in $w_1^2 + w_2^2 = \sqrt{c^2 + 4a^2} = |c|\cosh\theta$.

    If the initial product has the sign opposite to $s$, the product passes through zero. The only
    exception is an exactly balanced chain ($w_1 = -w_2$ and $P_0 = 0$ for $s > 0$), which
    approaches the saddle at zero.

    **Arguments:**

    - `times`: times in the units of `tau`, shape `(time,)`, or one time.
    - `first`, `second`: initial $w_1$ and $w_2$, one number or one for each mode.
    - `correlation`: $s$, of either sign, one number or one for each mode.
    - `input_variance`: $\lambda_x$, one number or one for each mode. The input variance may be zero
      only where `correlation` is zero.
    - `tau`: time constant of a layer.

    **Returns:**

    $w_1(t)$ and $w_2(t)$, each with shape `(time, *mode)`, `(*mode,)` for a single time.

    **Example:**

    >>> from festina.theory import linear
    >>> first, second = linear.unbalanced_weights([0.0, 0.5, 5.0], 0.1, 2.0, 1.0)
    >>> first.round(3), second.round(3)
    (array([0.1  , 0.441, 0.486]), array([2.   , 2.046, 2.056]))
    """
    check_times(times)
    check_size("first", first)
    check_size("second", second)
    check_finite("correlation", correlation)
    check_positive("tau", tau)
    weights = {"first": first, "second": second}
    check_modes(**weights, correlation=correlation, input_variance=input_variance, tau=tau)
    check_input_variance(correlation, input_variance)
    return _weights(*as_arrays(times, first, second, correlation, input_variance, tau))


def unbalanced_strength(
    times: Values,
    first: Values,
    second: Values,
    correlation: Values,
    *,
    input_variance: Values = 1.0,
    tau: Values = 1.0,
) -> Float[Array, "*time_mode"]:
    r"""Return the product $a = w_2w_1$ of a two-layer chain, exactly, from any initial weights.

    The product solves $\tau\,\dot a = \sqrt{c^2 + 4a^2}\,(s - \lambda_x a)$ with
    $c = w_2^2 - w_1^2$, $s = \langle yx\rangle$ and $\lambda_x = \langle x^2\rangle$. The product
    follows the logistic curve of `chain_strength` for $c = 0$, and an exponential of rate
    $\lambda_x|c|/\tau$ for large $|c|$.

    **Arguments:**

    - `times`, `first`, `second`, `correlation`, `input_variance`, `tau`: as in
      `unbalanced_weights`.

    **Returns:**

    $a(t)$ with shape `(time, *mode)`, `(*mode,)` for a single time.

    **Example:**

    >>> from festina.theory import linear
    >>> linear.unbalanced_strength([0.0, 0.5, 5.0], 1.0, -0.5, 2.0).round(3)
    array([-0.5  ,  0.392,  2.   ])
    """
    first, second = unbalanced_weights(
        times, first, second, correlation, input_variance=input_variance, tau=tau
    )
    return first * second


@compiled()
def _weights(
    t: Array, w1: Array, w2: Array, s: Array, lam: Array, tau: Array
) -> tuple[Array, Array]:
    t, w1, w2, s, lam, tau = with_time(t, w1, w2, s, lam, tau)
    theta = jnp.minimum(t / tau, jnp.finfo(tau.dtype).max)  # avoids zero times infinity, a NaN
    c = (w2 - w1) * (w2 + w1)
    half = 0.5 * lam * jnp.abs(c)

    # κ/2, and (κ/2 ± s)/(κ/2) without a difference of nearly equal numbers.
    flat = (s == 0) & (half == 0)
    k = jnp.where(flat, 1.0, jnp.hypot(jnp.where(flat, 1.0, s), half))
    big, small = 1.0 + jnp.abs(s) / k, half * (half / k) / (k + jnp.abs(s))
    plus, minus = jnp.where(s >= 0, big, small), jnp.where(s >= 0, small, big)
    decay = jnp.exp(-2.0 * k * theta)
    integral = 2.0 * relaxation(2.0 * k, theta)  # (1 − E)/(κ/2)

    p0, m0 = 0.5 * (w1 + w2), 0.5 * (w2 - w1)
    # For s = c = 0 the solution is rational in time; terms of first order in s give derivatives.
    numerator = jnp.where(flat, 1.0 + (2.0 * lam * m0**2 + s) * theta, 0.0)
    denominator = jnp.where(flat, 1.0 + (2.0 * lam * p0**2 - s) * theta, 0.0)
    numerator += jnp.where(flat, 0.0, plus + minus * decay + 2.0 * lam * m0**2 * integral)
    denominator += jnp.where(flat, 0.0, minus + plus * decay + 2.0 * lam * p0**2 * integral)
    # Numerator or denominator is zero only if P₀ or M₀ is zero, and then its value does not matter.
    tiny = 1e-300
    root = jnp.sqrt(jnp.maximum(numerator, tiny)) / jnp.sqrt(jnp.maximum(denominator, tiny))
    p, m = p0 * root, m0 / root

    # If the layers are very unequal, P and M are nearly equal in size and P − M or P + M loses
    # digits. The ratio h of the weak to the strong weight does not: τ dh/dt = s(1 − h²) − λ|c|h.
    swapped = c < 0
    strong, weak = jnp.where(swapped, w1, w2), jnp.where(swapped, w2, w1)
    uneven = (lam * jnp.abs(c) >= jnp.abs(s)) & (c != 0) & ~flat
    h0 = jnp.where(uneven, weak, 0.0) / jnp.where(uneven, strong, 1.0)
    slow = s * (s / k) / (k + half)  # (κ/2 − λ|c|/2)/(κ/2)
    # In units of κ/2; `integral` has been divided by it already.
    above = h0 * (slow + (1.0 + half / k) * decay) + s * integral
    below = (1.0 + half / k) + slow * decay + s * h0 * integral
    h = above / jnp.where(uneven, below, 1.0)
    by_ratio = uneven & (jnp.abs(h) <= 0.5)
    h = jnp.where(by_ratio, h, 0.0)
    strong = jnp.sign(strong) * jnp.sqrt(jnp.where(by_ratio, jnp.abs(c), 1.0) / (1.0 - h**2))
    weak = h * strong

    first = jnp.where(by_ratio, jnp.where(swapped, strong, weak), p - m)
    second = jnp.where(by_ratio, jnp.where(swapped, weak, strong), p + m)
    return first, second
