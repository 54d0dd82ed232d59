"""What adaptive steps have in common: when to land, when to accept, how long the next one is."""

import jax.numpy as jnp
import numpy as np
from jaxtyping import Bool, Float

from .._types import Array
from ._program import (
    ACCEPTED,
    AT_STOP,
    REJECTED,
    RUNNING,
    STEP_UNDERFLOW,
    Controls,
    State,
    ending,
    over_weights,
)

_SHRINK, _GROW = 0.2, 10.0


def first_step(
    size: Float[np.ndarray, " lane"], speed: Float[np.ndarray, " lane"]
) -> Float[np.ndarray, " lane"]:
    """A hundredth of the time in which the weights would move by their own size."""
    return np.where((size > 0) & (speed > 0), 0.01 * size / np.maximum(speed, 1e-300), 1e-3)


def next_step(
    state: State, controls: Controls
) -> tuple[Float[Array, "*lane"], Bool[Array, "*lane"]]:
    """How far to go: as wanted, or to the next requested time; and whether that is it."""
    until_stop = controls.stops[state.stop] - state.time
    lands = state.step_size >= until_stop
    return jnp.where(lands, until_stop, state.step_size), lands


def relative_error(
    state: State,
    controls: Controls,
    weights: Float[Array, "weight *lane"],
    error: Float[Array, "weight *lane"],
    finite: Bool[Array, "*lane"],
) -> Float[Array, "*lane"]:
    """Root mean square, over weights, of the error in units of rtol·|θ| + atol."""
    scale = controls.atol + controls.rtol * jnp.maximum(jnp.abs(state.weights), jnp.abs(weights))
    size = jnp.sqrt(over_weights((error / scale) ** 2) / len(weights))
    return jnp.where(finite & jnp.isfinite(size), size, jnp.inf)


def settle(
    state: State,
    controls: Controls,
    h: Float[Array, "*lane"],
    lands: Bool[Array, "*lane"],
    weights: Float[Array, "weight *lane"],
    loss: Float[Array, "*lane"],
    velocity: Float[Array, "weight *lane"],
    error: Float[Array, "*lane"],
    accepted: Bool[Array, "*lane"],
    *,
    exponent: float,
    safety: float,
) -> State:
    """Take the step or refuse it, and choose the next, whose error grows as h^(1/exponent)."""
    factor = jnp.clip(safety * jnp.maximum(error, 1e-10) ** -exponent, _SHRINK, _GROW)
    # A step cut short to land on a requested time says nothing against the step wanted before.
    grown = jnp.where(lands, jnp.maximum(state.step_size, h * factor), h * factor)
    step_size = jnp.where(accepted, grown, h * jnp.minimum(factor, safety))

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
            step_size <= 1e-15 * jnp.maximum(state.time, state.step_size), STEP_UNDERFLOW, RUNNING
        ),
    )
    return State(*(jnp.where(accepted, new, old) for new, old in zip(taken, refused, strict=True)))
