"""One adaptive step of the Dormand–Prince 5(4) pair."""

import jax
import jax.numpy as jnp
import numpy as np
from jaxtyping import Float

from .._types import Array
from ._program import (
    ACCEPTED,
    AT_STOP,
    REJECTED,
    RUNNING,
    STEP_UNDERFLOW,
    Controls,
    Field,
    State,
    ending,
    over_weights,
)

# Dormand & Prince (1980). SciPy has the same table, but importing it costs more than a run. Row s
# leads from the slopes 0 … s to the next point; the sixth is the solution, at which the last slope
# is taken, and stands there twice because nothing follows it.
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
_SAFETY, _SHRINK, _GROW = 0.9, 0.2, 10.0
_SLIDING, _FORGET = 400.0, 0.05  # kinks that make a slide, and their part forgotten in a step


def first_step(weights: np.ndarray, velocity: np.ndarray) -> np.ndarray:
    """A hundredth of the time in which the weights would move by their own size."""
    size = np.linalg.norm(weights, axis=0)
    speed = np.linalg.norm(velocity, axis=0)
    return np.where((size > 0) & (speed > 0), 0.01 * size / np.maximum(speed, 1e-300), 1e-3)


def runge_kutta_step(state: State, field: Field, controls: Controls) -> State:
    """Try a step; accept it if the embedded error estimate is within rtol·|θ| + atol."""
    return _step(state, field, controls, kinked=False)


def kinked_runge_kutta_step(state: State, field: Field, controls: Controls) -> State:
    """The same for units with a kink, along which a trajectory may slide."""
    return _step(state, field, controls, kinked=True)


def _step(state: State, field: Field, controls: Controls, *, kinked: bool) -> State:
    h_wanted = state.step_size
    until_stop = controls.stops[state.stop] - state.time
    lands = h_wanted >= until_stop
    h = jnp.where(lands, until_stop, h_wanted)

    stages = _written_out if state.loss.ndim == 0 else _in_a_loop
    weights, loss, slopes = stages(state, h, field)
    velocity = slopes[-1]

    scale = controls.atol + controls.rtol * jnp.maximum(jnp.abs(state.weights), jnp.abs(weights))
    error = jnp.sqrt(over_weights((h * _combine(_ERROR, slopes) / scale) ** 2) / len(weights))
    finite = jnp.isfinite(error) & jnp.isfinite(loss)
    error = jnp.where(finite, error, jnp.inf)
    accepted = error <= (state.slack if kinked else 1.0)
    slides = _slide(state, controls, error / (h * h), accepted) if kinked else {}
    allowed = slides.get("slack", 1.0)
    factor = jnp.clip(_SAFETY * jnp.maximum(error / allowed, 1e-10) ** -0.2, _SHRINK, _GROW)
    # A step cut short to land on a requested time says nothing against the step wanted before.
    grown = jnp.where(lands, jnp.maximum(h_wanted, h * factor), h * factor)
    step_size = jnp.where(accepted, grown, h * jnp.minimum(factor, _SAFETY))

    rate = over_weights(velocity**2)
    taken = state._replace(
        time=jnp.where(lands, controls.stops[state.stop], state.time + h),
        weights=weights,
        loss=loss,
        velocity=velocity,
        rate=rate,
        peak=jnp.maximum(state.peak, rate),
        step_size=step_size,
        stop=state.stop + lands,
        event=jnp.where(lands, AT_STOP, ACCEPTED),
    )
    taken = taken._replace(status=ending(taken, controls, accepted))
    refused = state._replace(
        step_size=step_size,
        event=jnp.full_like(state.event, REJECTED),
        status=jnp.where(
            step_size <= 1e-15 * jnp.maximum(state.time, h_wanted), STEP_UNDERFLOW, RUNNING
        ),
    )
    chosen = State(
        *(jnp.where(accepted, new, old) for new, old in zip(taken, refused, strict=True))
    )
    return chosen._replace(**slides)


def _slide(
    state: State, controls: Controls, roughness: Array, accepted: Array
) -> dict[str, Float[Array, "*lane"]]:
    """Count kinks, and loosen the tolerance where a trajectory slides along one.

    Where both sides of a kink push towards it, as they do for ReLU units, the flow stays on it and
    crosses it with every step. Its error then falls in proportion to the step, not with the sixth
    power of it, and the tolerance asked for would take 1/rtol steps for one unit of time. To cross
    a kink once takes some ten such steps, which is no reason to give up accuracy; forty times in a
    row is.
    """
    crosses = (state.event == REJECTED) & ~accepted & (roughness > state.roughness)
    kinks = jnp.where(crosses, jnp.minimum(state.kinks + 1.0, _SLIDING + 10.0), state.kinks)
    kinks = jnp.where(accepted, jnp.maximum(kinks - _FORGET, 0.0), kinks)
    sliding = kinks > _SLIDING
    looser = jnp.minimum(2.0 * state.slack, 1.0 / jnp.sqrt(controls.rtol))
    slack = jnp.where(crosses & sliding, looser, state.slack)
    slack = jnp.where(accepted & ~sliding, jnp.maximum(0.5 * slack, 1.0), slack)
    return {"roughness": roughness, "kinks": kinks, "slack": slack}


def _written_out(state: State, h: Array, field: Field) -> tuple[Array, Array, list[Array]]:
    """The point reached, its loss, and all slopes: the quickest for a network alone."""
    slopes, point, loss = [state.velocity], state.weights, state.loss
    for coefficients in _POINTS[:-1]:
        point = state.weights + h * _combine(coefficients, slopes)
        loss, slope = field(point)
        slopes.append(slope)
    return point, loss, slopes


def _in_a_loop(state: State, h: Array, field: Field) -> tuple[Array, Array, Array]:
    """The same for a batch.

    Written out, the compiler would compute the sum that makes a point again in each of the many
    places where the field uses it; what a loop hands on is computed once.
    """

    def stage(s: Array, carry: tuple[Array, Array, Array]) -> tuple[Array, Array, Array]:
        point, _, slopes = carry
        loss, slope = field(point)
        slopes = jax.lax.dynamic_update_index_in_dim(slopes, slope, s, 0)
        return state.weights + h * _combine(jnp.asarray(_POINTS)[s], slopes), loss, slopes

    slopes = jnp.zeros((len(_ERROR), *state.velocity.shape)).at[0].set(state.velocity)
    point = state.weights + h * _POINTS[0, 0] * state.velocity
    return jax.lax.fori_loop(1, len(_ERROR), stage, (point, state.loss, slopes))


def _combine(
    coefficients: Float[Array, " stage"], slopes: list[Array] | Array
) -> Float[Array, "weight *lane"]:
    terms = zip(coefficients, slopes, strict=False)
    return sum(c * slope for c, slope in terms if not (isinstance(c, float) and c == 0.0))  # pyright: ignore[reportReturnType]
