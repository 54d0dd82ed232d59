"""One adaptive step of the Dormand–Prince 5(4) pair."""

import functools

import jax
import jax.numpy as jnp
import numpy as np
from jaxtyping import Float

from .._lanes import accelerated
from .._types import Array, Column, Number
from ._adaptive import next_step, relative_error, settle
from ._program import REJECTED, RUNNING, SLIDING, Controls, Field, State, over_weights

# Dormand & Prince (1980). SciPy has the same table, but importing it takes longer than a run. Row s
# combines the slopes 0 … s to the next point. The sixth row is the solution, at which the last
# slope is computed; the seventh row is never used and repeats the sixth.
_SOLUTION = (35 / 384, 0.0, 500 / 1113, 125 / 192, -2187 / 6784, 11 / 84, 0.0)
_POINTS = np.array(
    [
        (1 / 5, 0, 0, 0, 0, 0, 0),
        (3 / 40, 9 / 40, 0, 0, 0, 0, 0),
        (44 / 45, -56 / 15, 32 / 9, 0, 0, 0, 0),
        (19372 / 6561, -25360 / 2187, 64448 / 6561, -212 / 729, 0, 0, 0),
        (9017 / 3168, -355 / 33, 46732 / 5247, 49 / 176, -5103 / 18656, 0, 0),
        _SOLUTION,
        _SOLUTION,
    ]
)
_ERROR = np.array((-71 / 57600, 0, 71 / 16695, -71 / 1920, 17253 / 339200, -22 / 525, 1 / 40))
_SLIDING = 3.0, -0.3  # factor and power of rtol in the number of kinks that make a slide
_FORGET = 0.05  # decrease of the number of kinks in each accepted step
_FEW_PARTS = 4  # largest number of weight arrays for which unrolled stages compile fast enough
_LOOSE, _LOOSEST = 0.5, 3e-3  # tolerance on a kink: rtol to the first power, at most the second


def kinked_runge_kutta_step(state: State, field: Field, controls: Controls) -> State:
    """Try a Runge–Kutta step for units with a kink, along which a trajectory may slide."""
    return runge_kutta_step(state, field, controls, kinked=True)


def runge_kutta_step(
    state: State, field: Field, controls: Controls, *, kinked: bool = False
) -> State:
    """Try a step; accept it if the embedded error estimate is within rtol·|θ| + atol."""
    h, lands = next_step(state, controls)
    sliding = state.kinks > _slide_from(controls)

    across = functools.partial(_dormand_prince, state, h, field, controls)
    along = functools.partial(_along_a_kink, state, h, field, controls)

    def both() -> tuple[Array, ...]:
        pairs = zip(along(), across(), strict=True)
        return tuple(jnp.where(sliding, *pair) for pair in pairs)

    if not kinked:
        reached = across()
    elif state.loss.ndim == 0:
        reached = jax.lax.cond(sliding, along, across)
    else:
        reached = jax.lax.cond(sliding.any(), both, across)
    weights, loss, velocity, error = reached
    there = state._replace(weights=weights, loss=loss, velocity=velocity)
    accepted = error <= (state.slack if kinked else 1.0)
    slides = _slide(state, controls, error / (h * h), accepted) if kinked else {}
    allowed = slides.get("slack", 1.0)
    settled = settle(
        state, there, controls, h, lands, error / allowed, accepted, exponent=0.2, safety=0.9
    )
    if not kinked:
        return settled
    doubled = jnp.floor(jnp.log2(settled.time)) > jnp.floor(jnp.log2(state.time))
    looks = doubled & (state.loosest > 1.0) & (settled.status == RUNNING)
    looks &= jnp.isinf(controls.stops[-1])  # a flow with a last time slides up to this time
    return settled._replace(**slides, status=jnp.where(looks, SLIDING, settled.status))


def _dormand_prince(state: State, h: Array, field: Field, controls: Controls) -> tuple[Array, ...]:
    """Return weights, loss, velocity and relative error after a Dormand–Prince step."""
    alone = state.loss.ndim == 0 and len(field.structure.shapes) <= _FEW_PARTS
    stages = _written_out if alone or accelerated() else _in_a_loop
    weights, loss, slopes = stages(state, h, field)
    error = relative_error(state, controls, weights, h * _combine(_ERROR, slopes), loss)
    return weights, loss, slopes[-1], error


def _along_a_kink(state: State, h: Array, field: Field, controls: Controls) -> tuple[Array, ...]:
    """Return weights, loss, velocity and error after a Heun step along a kink.

    Heun's rule averages the slopes at the start and at the end of an Euler step. Short Heun steps
    oscillate around the kink, and their average follows the flow along the kink. Dormand–Prince
    coefficients have both signs, so their combination of slopes would not lie between the slopes on
    the two sides of the kink. The error is the distance of the step from the kink, which does not
    accumulate. The error is relative to the weights of all units together, since a single weight
    may be almost zero at the kink.
    """
    _, ahead = field(state.weights + h * state.velocity)
    off = 0.5 * h * (ahead - state.velocity)
    weights = state.weights + h * state.velocity + off
    loss, velocity = field(weights)
    scale = controls.atol + controls.rtol * jnp.abs(weights)
    error = jnp.sqrt(over_weights(off**2) / over_weights(scale**2))
    return weights, loss, velocity, jnp.where(jnp.isfinite(error + loss), error, jnp.inf)


def _slide(
    state: State, controls: Controls, roughness: Array, accepted: Array
) -> dict[str, Number]:
    """Count kinks, and increase the tolerance where a trajectory slides along one.

    Where both sides of a kink push towards it, as for ReLU units, the flow stays on the kink and
    every step crosses it. The error of such a step falls only in proportion to its length, and the
    requested tolerance would take 1/rtol steps for one unit of time. Crossing a kink once takes
    about ten short steps and does not reduce accuracy. A trajectory slides after ten crossings in a
    row at rtol 1e-5, and after eighty at 1e-8, because a tight tolerance asks for accuracy even at
    a high cost. During a slide, `_along_a_kink` takes short Heun steps.
    """
    crosses = (state.event == REJECTED) & ~accepted & (roughness > state.roughness)
    most = _slide_from(controls)
    kinks = jnp.where(crosses, jnp.minimum(state.kinks + 1.0, most + 10.0), state.kinks)
    kinks = jnp.where(accepted, jnp.maximum(kinks - _FORGET, 0.0), kinks)
    sliding = kinks > most
    loosest = jnp.maximum(jnp.minimum(controls.rtol**_LOOSE, _LOOSEST) / controls.rtol, 1.0)
    looser = jnp.minimum(2.0 * state.slack, loosest)
    slack = jnp.where(sliding, looser, state.slack)
    slack = jnp.where(accepted & ~sliding, jnp.maximum(0.5 * slack, 1.0), slack)
    return {"roughness": roughness, "kinks": kinks, "slack": slack}


def _slide_from(controls: Controls) -> Number:
    """Return how many kinks a trajectory must cross to count as sliding along a kink."""
    factor, power = _SLIDING
    return factor * controls.rtol**power


def _written_out(state: State, h: Array, field: Field) -> tuple[Array, Array, list[Array]]:
    """Return point, loss and slopes of a step with unrolled stages, for one lane or a device."""
    slopes, point, loss = [state.velocity], state.weights, state.loss
    for coefficients in _POINTS[:-1]:
        point = state.weights + h * _combine(coefficients, slopes)
        loss, slope = field(point)
        slopes.append(slope)
    return point, loss, slopes


def _in_a_loop(state: State, h: Array, field: Field) -> tuple[Array, Array, Array]:
    """Return point, loss and slopes of a step with stages in a loop, for a batch on a CPU.

    If the stages were unrolled, XLA would recompute the sum of slopes at each of its many uses. The
    result of a loop iteration is computed once.
    """

    def stage(s: Array, carry: tuple[Array, Array, Array]) -> tuple[Array, Array, Array]:
        point, _, slopes = carry
        loss, slope = field(point)
        slopes = jax.lax.dynamic_update_index_in_dim(slopes, slope, s, 0)
        return state.weights + h * _combine(jnp.asarray(_POINTS)[s], slopes), loss, slopes

    slopes = jnp.zeros((len(_ERROR), *state.velocity.shape)).at[0].set(state.velocity)
    point = state.weights + h * _POINTS[0, 0] * state.velocity
    return jax.lax.fori_loop(1, len(_ERROR), stage, (point, state.loss, slopes))


def _combine(coefficients: Float[Array, " stage"], slopes: list[Array] | Array) -> Column:
    terms = zip(coefficients, slopes, strict=False)
    return sum(c * slope for c, slope in terms if not (isinstance(c, float) and c == 0.0))  # pyright: ignore[reportReturnType]
