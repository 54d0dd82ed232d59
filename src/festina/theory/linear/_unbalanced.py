r"""Two weights in a chain, of any size and sign.

$\tau\,\dot w_1 = w_2 (s - \lambda_x w_2 w_1)$, $\tau\,\dot w_2 = w_1 (s - \lambda_x w_2 w_1)$
conserve $c = w_2^2 - w_1^2$. In sum and difference, $P = (w_1 + w_2)/2$ and $M = (w_2 - w_1)/2$,

$$\tau\,\dot P = P (s - \lambda_x a),\qquad \tau\,\dot M = -M (s - \lambda_x a),\qquad
  a = P^2 - M^2,\quad PM = c/4:$$

one grows by the factor by which the other shrinks, and $P^2$ obeys a Riccati equation with constant
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
    r"""Return both weights of a two-layer chain, exactly, from any initial weights.

    With $c = w_2^2 - w_1^2$, $\kappa = \sqrt{4s^2 + \lambda_x^2c^2}$ and $E = e^{-\kappa t/\tau}$,

    $$P(t) = P_0\sqrt\rho,\quad M(t) = M_0/\sqrt\rho,\qquad
      \rho = \frac{(\kappa + 2s) + (\kappa - 2s)E + 4\lambda_x M_0^2 (1 - E)}
                  {(\kappa - 2s) + (\kappa + 2s)E + 4\lambda_x P_0^2 (1 - E)},$$

    $w_1 = P - M$, $w_2 = P + M$. All terms are positive: nothing cancels, at no time and for no
    sign. This is the two-layer solution of Saxe, McClelland & Ganguli (2014) for unequal layers,
    there in the angle $\theta$ of $w_1^2 + w_2^2 = \sqrt{c^2 + 4a^2} = |c|\cosh\theta$.

    A chain that starts on the wrong side of zero passes it, unless it is balanced exactly
    ($w_1 = -w_2$, $P_0 = 0$): then it creeps up to the saddle. The loss is
    $\frac12\langle(y - w_2w_1x)^2\rangle$.

    **Arguments:**

    - `times`: when to evaluate, in the units of `tau`, shape `(time,)`, or one time.
    - `first`, `second`: initial $w_1$, $w_2$, one number or one for each mode.
    - `correlation`: $s$, likewise, of either sign.
    - `input_variance`: $\lambda_x$, likewise. Zero only where `correlation` is.
    - `tau`: time constant of a layer.

    **Returns:**

    $w_1(t)$ and $w_2(t)$, each with shape `(time, *mode)`, `(*mode,)` for a single time.
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

    Solution of $\tau\,\dot a = \sqrt{c^2 + 4a^2}\,(s - \lambda_x a)$ with $c = w_2^2 - w_1^2$: the
    logistic curve of `chain_strength` at $c = 0$, an exponential of rate $\lambda_x|c|/\tau$ for
    large $|c|$. Arguments and formula are those of `unbalanced_weights`.

    **Returns:**

    $a(t)$ with shape `(time, *mode)`.
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
    theta = jnp.minimum(t / tau, jnp.finfo(tau.dtype).max)  # zero times infinity is no number
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
    # With s = c = 0 time itself is left of the exponentials; to first order in s for derivatives.
    numerator = jnp.where(flat, 1.0 + (2.0 * lam * m0**2 + s) * theta, 0.0)
    denominator = jnp.where(flat, 1.0 + (2.0 * lam * p0**2 - s) * theta, 0.0)
    numerator += jnp.where(flat, 0.0, plus + minus * decay + 2.0 * lam * m0**2 * integral)
    denominator += jnp.where(flat, 0.0, minus + plus * decay + 2.0 * lam * p0**2 * integral)
    # Either is zero only where P₀ or M₀ is, and a factor of zero may be any number.
    tiny = 1e-300
    root = jnp.sqrt(jnp.maximum(numerator, tiny)) / jnp.sqrt(jnp.maximum(denominator, tiny))
    p, m = p0 * root, m0 / root

    # Where the layers are very unequal P and M are nearly equal. Then the ratio of the weak layer
    # to the strong one is the better variable: τ dh/dt = s(1 − h²) − λ|c|h.
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
