"""Functions shared by adaptive steps: landing on a time, acceptance, and the next step size."""

import jax.numpy as jnp

from .._types import Column, Flag, Number
from ._program import REJECTED, RUNNING, STEP_UNDERFLOW, Controls, State, arrived, over_weights

_SHRINK, _GROW = 0.2, 10.0
_LOSS_ROUNDING = 1e-10  # relative rise of the loss that large weights cause by rounding


def next_step(state: State, controls: Controls) -> tuple[Number, Flag]:
    """Return the next step size, and whether the step ends at the next requested time."""
    until_stop = controls.stops[state.stop] - state.time
    lands = state.step_size >= until_stop
    return jnp.where(lands, until_stop, state.step_size), lands


def relative_error(
    state: State, controls: Controls, weights: Column, error: Column, loss: Number
) -> Number:
    """Return the error of a step relative to the tolerance.

    The error is the root mean square over weights of the error in units of rtol·|θ| + atol. A rise
    of the loss is also an error, since gradient flow never raises the loss. The rise of the loss is
    measured in units of rtol times the sum of the loss and the learnable loss.
    """
    scale = controls.atol + controls.rtol * jnp.maximum(jnp.abs(state.weights), jnp.abs(weights))
    size = jnp.sqrt(over_weights((error / scale) ** 2) / len(weights))
    allowed = jnp.maximum(controls.rtol, _LOSS_ROUNDING) * (state.loss + controls.loss_scale)
    size = jnp.maximum(size, (loss - state.loss) / allowed)
    return jnp.where(jnp.isfinite(size), size, jnp.inf)


def settle(
    state: State,
    reached: State,  # weights, loss and velocity after the step
    controls: Controls,
    h: Number,
    lands: Flag,
    error: Number,
    accepted: Flag,
    *,
    exponent: float,
    safety: float,
) -> State:
    """Accept or reject a step, and choose the next step size; the error grows as h^(1/exponent)."""
    factor = jnp.clip(safety * jnp.maximum(error, 1e-10) ** -exponent, _SHRINK, _GROW)
    # A step that was shortened to land on a requested time does not reduce the next step size.
    grown = jnp.where(lands, jnp.maximum(state.step_size, h * factor), h * factor)
    step_size = jnp.where(accepted, grown, h * jnp.minimum(factor, safety))

    reached = reached._replace(rate=over_weights(reached.velocity**2), step_size=step_size)
    time = jnp.where(lands, controls.stops[state.stop], state.time + h)
    taken = arrived(reached, controls, time, lands, accepted)
    too_short = step_size <= 1e-15 * jnp.maximum(state.time, state.step_size)
    refused = state._replace(
        step_size=step_size,
        event=jnp.full_like(state.event, REJECTED),
        status=jnp.where(too_short, STEP_UNDERFLOW, RUNNING),
    )
    return State(*(jnp.where(accepted, new, old) for new, old in zip(taken, refused, strict=True)))
