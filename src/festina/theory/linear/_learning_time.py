"""Learning time of a balanced chain at any depth, the inverse of `chain_strength`."""

import math
from typing import Literal

import jax.numpy as jnp
import numpy as np
from jaxtyping import Float

from ..._checks import check_finite
from ..._precision import compiled, is_traced
from ..._types import Array
from ._chain_clock import clock
from ._chains import Depth, Values, as_arrays, check_chain, check_depth


def learning_time(
    correlation: Values,
    initial_strength: Values,
    *,
    depth: Depth,
    fraction: Values | None = None,
    strength: Values | None = None,
    input_variance: Values = 1.0,
    tau: Values = 1.0,
    never: Literal["raise", "infinite"] = "raise",
) -> Float[Array, "*mode"]:
    r"""Return the exact time in which a balanced chain reaches a given strength.

    The strength of a chain of $D$ layers follows $\tau\,\dot a = D\,|a|^{2-2/D}(s - \lambda_x a)$
    from $a_0$, where $s = \langle yx\rangle$ is the correlation and $\lambda_x = \langle
    x^2\rangle$ the input variance. With $\ell = \ln\frac{a(s - \lambda_x a_0)}{a_0(s - \lambda_x
    a)}$ the time is:

    - $D = 1$: $t = \frac{\tau}{\lambda_x} \ln\frac{s - \lambda_x a_0}{s - \lambda_x a}$.
    - $D = 2$: $t = \frac{\tau}{2s}\,\ell$.
    - $D \ge 3$, in $x = \lambda_x a/s$ and with $q = 2/D - 1$:
      $$t = \frac{\tau}{D s}\left(\frac{s}{\lambda_x}\right)^{q} [F(x) - F(x_0)],\qquad
        F(x) = \frac{x^q}{q}\,{}_2F_1(1, q; q + 1; x).$$
    - $D = \infty$: $t = \tau_\infty\left[\frac{\lambda_x}{s^2}\,\ell + \frac{1}{s a_0} -
      \frac{1}{s a}\right]$.

    The results for $D = 1$, 2 and $\infty$ are due to Saxe, McClelland & Ganguli (2014). For small
    weights the term $x^q/q$ of $F(x_0)$ dominates: see `small_weight_law`. The time is
    differentiable in all numbers except `depth`.

    **Arguments:**

    - `correlation`, `initial_strength`, `depth`, `input_variance`, `tau`: as in `chain_strength`.
      For `depth=math.inf`, `tau` is $\tau_\infty = \tau/D$; see `depth_scaled_time_constant`.
    - `fraction`: the strength to reach as a fraction of the target $s/\lambda_x$, between 0 and 1.
      The default is 0.9 if `strength` is not given.
    - `strength`: the strength $a$ to reach; an alternative to `fraction`.
    - `never`: behaviour for a chain that never reaches the strength. `"raise"` raises `ValueError`
      with the reason. `"infinite"`, for sweeps, returns infinity for a chain that never reaches the
      strength, and zero for a chain that starts beyond the strength. Inside `jit`, `grad` and
      `vmap`, `never` is always `"infinite"`.

    **Returns:**

    The learning time, one for each mode.

    **Example:**

    >>> from festina.theory import linear
    >>> linear.learning_time([3.0, 1.0], 0.01, depth=2, fraction=0.5).round(2)
    array([0.95, 2.3 ])

    !!! note "Which chains never learn"

        With two or more layers, a chain with $a_0 = 0$ stays at a saddle, and a chain whose $a_0$
        has the sign opposite to $s$ approaches this saddle. At any depth, a chain that starts above
        its target shrinks towards the target and never reaches a fraction of it, and a mode with
        $s = 0$ has nothing to learn.
    """
    depth = check_depth(depth)
    goals = {"fraction": fraction, "strength": strength}
    check_chain(correlation, initial_strength, input_variance, tau, **goals)
    if fraction is not None and strength is not None:
        raise ValueError("Give either `fraction` or `strength`, not both.")
    if never not in ("raise", "infinite"):
        raise ValueError(f'`never` must be "raise" or "infinite", got {never!r}.')
    if strength is None:
        fraction = 0.9 if fraction is None else fraction
        _check_fraction(fraction)
        goal, relative = fraction, True
    else:
        check_finite("strength", strength)
        goal, relative = strength, False

    arguments = as_arrays(correlation, initial_strength, goal, input_variance, tau)
    if never == "raise" and not is_traced(arguments):
        _explain(*arguments[:4], depth=depth, relative=relative)
    if depth == 1:
        return _shallow_time(*arguments, relative=relative)
    layers = 1.0 if math.isinf(depth) else depth
    return _deep_time(*arguments, *as_arrays(layers, 1.0 / depth), relative=relative)


@compiled("relative")
def _shallow_time(
    s: Array, a0: Array, goal: Array, lam: Array, tau: Array, *, relative: bool
) -> Array:
    s, a0, goal, lam, tau = jnp.broadcast_arrays(s, a0, goal, lam, tau)
    left = s * (1.0 - goal) if relative else s - lam * goal  # s − λa
    ratio = (s - lam * a0) / jnp.where(left == 0, 1.0, left)
    reached = (ratio > 0) & (left != 0)
    time = jnp.log(jnp.where(reached, ratio, 1.0)) * tau / jnp.where(reached, lam, 1.0)
    there = (s == lam * a0) & ~(relative & (s == 0))  # starts at the target, so the goal is passed
    return jnp.where(there, 0.0, jnp.where(reached, jnp.maximum(time, 0.0), jnp.inf))


@compiled("relative")
def _deep_time(
    s: Array,
    a0: Array,
    goal: Array,
    lam: Array,
    tau: Array,
    layers: Array,
    e: Array,
    *,
    relative: bool,
) -> Array:
    s, a0, goal, lam, tau = jnp.broadcast_arrays(s, a0, goal, lam, tau)
    kappa, p = layers / tau, 2.0 - 2.0 * e  # e = 1/D
    sign = jnp.where(a0 < 0, -1.0, 1.0)
    w0, sigma = sign * a0, sign * s
    creeping, flat = sigma < 0, sigma == 0
    toward = ~flat & (w0 > 0) & (lam > 0)
    size, variance = jnp.where(toward, jnp.abs(s), 1.0), jnp.where(toward, lam, 1.0)
    target = size / variance

    # Time from strength x₀ to x in units of the target; both must lie on the same side of 1.
    start = jnp.where(toward, w0, 0.5) / target
    end = jnp.where(creeping, -goal, goal) if relative else sign * goal / target
    same = jnp.where(creeping, end > 0, (start - 1.0) * (end - 1.0) > 0)
    # Passed at the start: the chain is at the target, or the goal is at most zero.
    passed = toward & ~creeping & ((start == 1.0) | (same & (end <= 0)))
    reached = toward & same & ~passed
    x0, x = jnp.where(reached, start, 0.5), jnp.where(reached, end, 0.5)
    rate = jnp.where(toward, kappa, 1.0) * size * target ** (1.0 - 2.0 * e)
    time = (clock(x, creeping, e) - clock(x0, creeping, e)) / rate

    # At zero correlation |a|^−p grows at a constant rate.
    w = jnp.asarray(0.0) if relative else sign * goal
    decays = flat & (w0 > 0) & (w > 0) & (lam > 0)
    w0, w = jnp.where(decays, w0, 1.0), jnp.where(decays, w, 1.0)
    decay = (w**-p - w0**-p) / (p * jnp.where(decays, kappa * lam, 1.0))

    time = jnp.where(flat, jnp.where(decays, decay, jnp.inf), jnp.where(reached, time, jnp.inf))
    return jnp.where(passed, 0.0, jnp.maximum(time, 0.0))


def _check_fraction(fraction: Values) -> None:
    check_finite("fraction", fraction)
    if is_traced(fraction):
        return
    fraction = np.asarray(fraction, dtype=float)
    if not ((fraction > 0) & (fraction < 1)).all():
        raise ValueError(
            f"`fraction` must be between 0 and 1, got {fraction}: a chain needs an infinite time "
            "to reach the target itself. For strengths outside this range use `strength`."
        )


def _explain(s: Array, a0: Array, goal: Array, lam: Array, *, depth: float, relative: bool) -> None:
    """Raise `ValueError` with the reason if a chain never learns or is learned from the start."""
    s, a0, goal, lam = np.broadcast_arrays(s, a0, goal, lam)
    goal = goal * s / np.where(lam > 0, lam, 1.0) if relative else goal
    for s_k, a0_k, goal_k, lam_k in zip(s.flat, a0.flat, goal.flat, lam.flat, strict=True):
        reason = _reason(float(s_k), float(a0_k), float(goal_k), float(lam_k), depth, relative)
        if reason:
            raise ValueError(
                f'{reason} To get infinity or zero instead of this error, pass never="infinite".'
            )


def _reason(
    s: float, a0: float, goal: float, lam: float, depth: float, relative: bool
) -> str | None:
    if s == 0 and (relative or lam == 0):
        return "`correlation` is 0: there is nothing to learn, so there is no learning time."
    deep = depth > 1
    if a0 == 0 and deep:
        return (
            "`initial_strength` is 0, a saddle of chains with two or more layers: the chain stays "
            "there and never learns. Use a small initial strength with the sign of `correlation`."
        )
    if deep and s * a0 < 0 and (relative or goal * a0 <= 0):
        return (
            f"`initial_strength` {a0:.3g} has the sign opposite to `correlation` {s:.3g}: with two "
            "or more layers the chain approaches the saddle at zero and never learns."
        )
    # The chain ends at its target, or at the saddle if the saddle lies in between.
    target = s / lam
    end = 0.0 if deep and s * a0 <= 0 else target
    if goal == a0:
        return None
    if goal == end or (goal - end) * (a0 - end) < 0:
        if (a0 - end) * end > 0:
            return (
                f"`initial_strength` {a0:.3g} is past the target {end:.3g}: the chain shrinks to "
                f"the target and never reaches {goal:.3g}. Use a smaller initial strength, or "
                "compute the curve with `chain_strength`."
            )
        return f"`strength` {goal:.3g} is never reached: the chain ends at {end:.3g}."
    if abs(goal - end) > abs(a0 - end):
        return (
            f"`initial_strength` {a0:.3g} is nearer to the target {end:.3g} than the requested "
            f"strength {goal:.3g}: the mode is learned from the start."
        )
    return None
