r"""Time as a function of the strength of a balanced chain, and its inverse, for depths above one.

Let $x = \lambda_x |a| / |s|$ be the strength in units of its target, and
$T = D\,|s|\,|s/\lambda_x|^{1-2/D}\,t/\tau$ a dimensionless time. A balanced chain of depth $D$
obeys one of two equations in which $D$ is the only parameter,

$$\frac{dx}{dT} = x^p (1 - x) \quad\text{(towards the target)},\qquad
  \frac{dx}{dT} = -x^p (1 + x) \quad\text{(of the wrong sign, creeping to the saddle at 0)},$$

with $p = 2 - 2/D$. Below the target, time is $\int x^{q-1}/(1-x)\,dx$ with $q = 1 - p = 2/D - 1$.
Above the target, with $v = 1/x$, time is $\int v^{p-1}/(1-v)\,dv$, the same integral with another
exponent. The integral is $\frac{u^\mu}{\mu}\,{}_2F_1(1, \mu; \mu+1; u)$. The hypergeometric
function is summed as a power series in $u$ for $u \le 1/2$, and in $1 - u$ for larger $u$. The
second series contains the logarithm $\ln(1 - u)$ explicitly and is accurate close to the target.
For infinite depth all formulas hold with $1/D = 0$.
"""

import math
from collections.abc import Callable
from typing import Any

import jax
import jax.numpy as jnp

from ..._types import Array

# The terms of both series fall at least like 2^-k; later terms do not change a double.
_TERMS = 60

# Steps of Newton's method, which starts within a factor of two and squares the error each time.
_STEPS = 8


@jax.custom_jvp
def clock(x: Array, creeping: Array, inverse_depth: Array) -> Array:
    r"""Return the time $T$ at strength $x > 0$, up to a constant of integration.

    The constant differs between $x < 1$, $x > 1$ and creeping chains, which approach the saddle at
    zero. The time is infinite at $x = 1$, which is not a valid argument.
    """
    p, q = 2.0 - 2.0 * inverse_depth, 2.0 * inverse_depth - 1.0
    above = x > 1.0
    approach = _approach_clock(*_folded(x, above), above, p, q)
    return jnp.where(creeping, _creep_clock(x, p, q), approach)


@clock.defjvp
def _(primals: tuple, tangents: tuple) -> tuple[Array, Array]:
    x, creeping, inverse_depth = primals
    speed = x ** (2.0 - 2.0 * inverse_depth) * jnp.where(creeping, -1.0 - x, 1.0 - x)
    return clock(*primals), tangents[0] / speed


@jax.custom_jvp
def position(
    time: Array, start: Array, creeping: Array, inverse_depth: Array
) -> tuple[Array, Array]:
    r"""Return the strength $x$ a time $T$ after `start`, and $\ln|1 - x|$ (creeping: $\ln(1 + x)$).

    This function is the inverse of `clock`, for depths of three or more. Close to the target the
    logarithm keeps digits of $1 - x$ that $x$ itself loses. Derivatives follow from the
    differential equation, not from the iteration.
    """
    p, q = 2.0 - 2.0 * inverse_depth, 2.0 * inverse_depth - 1.0
    above, still = ~creeping & (start > 1.0), start == 1.0

    u, y = _folded(jnp.where(creeping | still, 0.5, start), above)
    u, distance = _approach(time, u, y, above, p, q)
    w = _creep(time, jnp.where(creeping, start, 1.0), p, q)

    x = jnp.where(creeping, w, jnp.where(still, 1.0, jnp.where(above, 1.0 / u, u)))
    distance = jnp.where(above, distance - jnp.log(u), jnp.where(still, -jnp.inf, distance))
    return x, jnp.where(creeping, jnp.log1p(w), distance)


@position.defjvp
def _(primals: tuple, tangents: tuple) -> tuple[tuple[Array, Array], tuple[Array, Array]]:
    time, start, creeping, inverse_depth = primals
    p = 2.0 - 2.0 * inverse_depth
    x, distance = position(*primals)
    still = ~creeping & (start == 1.0)
    sign = jnp.where(creeping | (start > 1.0), -1.0, 1.0)
    gap = jnp.where(creeping, 1.0 + start, jnp.abs(1.0 - start))
    start_distance = jnp.log(jnp.where(still, 1.0, gap))

    # With f = dx/dT: dx = f(x) (dT + dx₀/f(x₀)). At the target, f(x)/f(x₀) = e^{−T}.
    fall = jnp.where(still, -time, jnp.where(still, 0.0, distance) - start_distance)
    ratio = (x / start) ** p
    dx = sign * x**p * jnp.exp(distance) * tangents[0] + ratio * jnp.exp(fall) * tangents[1]
    # In d ln|1 − x| = −dx/(1 − x) the factor 1 − x cancels.
    ddistance = -(x**p) * tangents[0] - sign * ratio * jnp.exp(-start_distance) * tangents[1]
    return (x, distance), (dx, jnp.where(still, 0.0, ddistance))


def _folded(x: Array, above: Array) -> tuple[Array, Array]:
    """Return u = x or (above the target) 1/x, and 1 − u with full precision near x = 1."""
    return jnp.where(above, 1.0 / x, x), jnp.where(above, (x - 1.0) / x, 1.0 - x)


def _approach_clock(u: Array, y: Array, above: Array, p: Array, q: Array) -> Array:
    """Return ∫ u^(μ−1)/(1 − u) du at u = 1 − y, with μ = p above the target and μ = q below."""
    mu = jnp.where(above, p, q)
    low_half, high_half = _halfway(above, p, q)
    low = _low_series(jnp.minimum(u, 0.5), mu)
    y = jnp.minimum(y, 0.5)
    high = _high_series(y, -jnp.log(y), mu) + (low_half - high_half)
    return jnp.where(u <= 0.5, low, high)


def _low_series(u: Array, mu: Array) -> Array:
    r"""Return $\sum_k u^{k+\mu}/(k+\mu)$ for $u \le 1/2$, up to a constant if $\mu \le 0$.

    Below the target μ ≤ 0, and μ = 0 (depth 2) or μ + 1 = 0 (infinite depth) would divide by zero.
    The first two terms u^ν/ν are therefore replaced by (u^ν − 1)/ν, which tends to ln u. Above the
    target μ > 1 and u may be tiny; subtracting a constant would lose its digits.
    """
    rest = _sum(lambda k, rest: rest * u + 1.0 / (_TERMS + 1.0 - k + mu), jnp.zeros_like(u))
    return _power(u, mu, mu <= 0) + _power(u, mu + 1.0, mu <= 0) + rest * u ** (mu + 2.0)


def _high_series(y: Array, minus_log_y: Array, mu: Array) -> Array:
    r"""Return $-\ln y - \sum_{k \ge 1} \frac{(1-\mu)_k}{k!\,k} y^k$, with $y = 1 - u \le 1/2$."""

    def add(k: Array, state: tuple[Array, Array]) -> tuple[Array, Array]:
        term, total = state
        term = term * y * (1.0 - mu / (k + 1.0))
        return term, total + term / (k + 1.0)

    return minus_log_y - _sum(add, (jnp.ones_like(y), jnp.zeros_like(y)))[1]


def _halfway(above: Array, p: Array, q: Array) -> tuple[Array, Array]:
    """Return the low and the high series at u = 1/2; their difference depends only on μ."""
    half, minus_log = jnp.full_like(p, 0.5), jnp.full_like(p, math.log(2.0))
    return (
        jnp.where(above, _low_series(half, p), _low_series(half, q)),
        jnp.where(above, _high_series(half, minus_log, p), _high_series(half, minus_log, q)),
    )


def _power(u: Array, nu: Array, shifted: Array) -> Array:
    """Return u^ν/ν, or if `shifted` (u^ν − 1)/ν, which is ln u at ν = 0."""
    zero = nu == 0
    safe = jnp.where(zero, 1.0, nu)
    difference = jnp.where(zero, jnp.log(u), jnp.expm1(safe * jnp.log(u)) / safe)
    return jnp.where(shifted, difference, u**safe / safe)


def _approach(
    time: Array, start: Array, gap: Array, above: Array, p: Array, q: Array
) -> tuple[Array, Array]:
    """Return u a given time after u = `start` = 1 − `gap`, and ln(1 − u).

    Time is nearly linear in u^μ for u < 1/2, and in the logit of u for larger u. Newton's method in
    these variables converges from one side. The time at u = 1/2 decides which variable applies.
    """
    mu = jnp.where(above, p, q)
    begin = _approach_clock(start, gap, above, p, q)
    middle, offset = _halfway(above, p, q)
    late = (begin - middle) + time
    goal = jnp.minimum(begin + time, middle)

    low = jnp.minimum(start, 0.5)
    guess = low * jnp.maximum(1.0 + mu * time * low**-mu, 0.0) ** (1.0 / mu)
    smallest = jnp.finfo(low.dtype).tiny

    def low_step(_: Array, u: Array) -> Array:
        error = _low_series(u, mu) - goal
        ratio = jnp.log1p(-error * mu * (1.0 - u) * u**-mu)
        return jnp.clip(u * jnp.exp(ratio / mu), smallest, 0.5)

    u = jax.lax.fori_loop(0, _STEPS, low_step, jnp.clip(guess, smallest, 0.5))

    excess = jnp.maximum(late, 0.0)

    def high_step(_: Array, z: Array) -> Array:
        error = _high_series(jax.nn.sigmoid(-z), jax.nn.softplus(z), mu) - offset - excess
        return jnp.maximum(z - error * jax.nn.sigmoid(z) ** -mu, 0.0)

    z = jax.lax.fori_loop(0, _STEPS, high_step, excess)
    high = late > 0
    return (
        jnp.where(high, jax.nn.sigmoid(z), u),
        jnp.where(high, -jax.nn.softplus(z), jnp.log1p(-u)),
    )


def _creep_clock(w: Array, p: Array, q: Array) -> Array:
    r"""Return $\int_w^\infty w^{-p}/(1+w)\,dw$, the time that a creeping chain takes to reach w."""
    small, large = jnp.minimum(w, 1.0), jnp.maximum(w, 1.0)
    one = jnp.ones_like(p)
    joint = _creep_far(one, p) + _creep_near(one, q)
    return jnp.where(w <= 1.0, joint - _creep_near(small, q), _creep_far(1.0 / large, p))


def _creep_near(w: Array, q: Array) -> Array:
    """Return ∫ w^(q−1)/(1 + w) dw for w ≤ 1 and q ≤ 0, up to a constant."""
    shifted = jnp.ones_like(w, dtype=bool)
    return _power(w, q, shifted) - _power(w, q + 1.0, shifted) + _creep_far(w, q + 2.0)


def _creep_far(v: Array, nu: Array) -> Array:
    r"""Return $\int_0^v v^{\nu-1}/(1+v)\,dv$ for $v \le 1$, $\nu > 0$.

    The power series in $v$ alternates and converges slowly at $v = 1$. Pfaff's transformation turns
    this power series into a series of positive terms in $v/(1+v) \le 1/2$.
    """
    argument = v / (1.0 + v)

    def add(k: Array, total: Array) -> Array:
        return 1.0 + total * argument * (_TERMS - k) / (nu + _TERMS - k)

    return v**nu / nu / (1.0 + v) * _sum(add, jnp.zeros_like(v))


def _sum(add: Callable[[Array, Any], Any], start: Any) -> Any:
    """Sum a series in a loop; unrolling all terms would take half a minute of compilation."""
    return jax.lax.fori_loop(0, _TERMS, lambda k, total: add(k * 1.0, total), start, unroll=4)


def _creep(time: Array, start: Array, p: Array, q: Array) -> Array:
    """Return the strength w of a creeping chain (on the way to the saddle) a time after `start`.

    Time is nearly linear in w^−p for w > 1 and in w^q for w < 1. Newton's method in these variables
    converges from one side.
    """
    one = jnp.ones_like(p)
    begin, middle = _creep_clock(start, p, q), _creep_far(one, p)
    late = (begin - middle) + time
    goal = jnp.minimum(begin + time, middle)
    smallest = jnp.finfo(start.dtype).tiny

    v = 1.0 / jnp.maximum(start, 1.0)
    guess = v * (1.0 + p * time * v**-p) ** (1.0 / p)

    def far_step(_: Array, v: Array) -> Array:
        error = _creep_far(v, p) - goal
        return jnp.clip(v * jnp.exp(jnp.log1p(-error * p * (1.0 + v) * v**-p) / p), smallest, 1.0)

    v = jax.lax.fori_loop(0, _STEPS, far_step, jnp.minimum(guess, 1.0))

    excess = jnp.maximum(late, 0.0)
    joint = middle + _creep_near(one, q)

    def near_step(_: Array, w: Array) -> Array:
        error = joint - _creep_near(w, q) - middle - excess
        return jnp.clip(w * jnp.exp(jnp.log1p(error * q * (1.0 + w) * w**-q) / q), smallest, 1.0)

    w = jnp.maximum((1.0 - 2.0 * q * excess) ** (1.0 / q), smallest)
    w = jax.lax.fori_loop(0, _STEPS, near_step, w)
    return jnp.where(late > 0, w, 1.0 / v)
