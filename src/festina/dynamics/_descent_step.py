"""One step of full-batch gradient descent, plain or a heavy ball's. The clock counts steps."""

import jax.numpy as jnp
from jaxtyping import Float

from .._types import Array
from ._program import ACCEPTED, AT_STOP, Controls, Field, State, ending, over_weights


def descent_step(state: State, field: Field, controls: Controls) -> State:
    weights = state.weights + controls.learning_rate * state.velocity
    loss, velocity = field(weights)
    rate = over_weights(velocity**2)
    return _taken(state, controls, weights, loss, velocity, rate)


def heavy_ball_step(state: State, field: Field, controls: Controls) -> State:
    """Polyak's: v ← μ v − ∂L/∂θ, θ ← θ + η v. The state's velocity is v, from rest."""
    weights = state.weights + controls.learning_rate * state.velocity
    loss, force = field(weights)
    velocity = controls.momentum * state.velocity + force
    controls = controls._replace(learning_rate=controls.speed)  # at which it would go on gaining
    return _taken(state, controls, weights, loss, velocity, over_weights(force**2))


def _taken(
    state: State,
    controls: Controls,
    weights: Float[Array, "weight *lane"],
    loss: Float[Array, "*lane"],
    velocity: Float[Array, "weight *lane"],
    rate: Float[Array, "*lane"],
) -> State:
    time = state.time + 1.0
    lands = time >= controls.stops[state.stop]
    taken = state._replace(
        time=time,
        weights=weights,
        loss=loss,
        velocity=velocity,
        rate=rate,
        peak=jnp.maximum(state.peak, rate),
        stop=state.stop + lands,
        event=jnp.where(lands, AT_STOP, ACCEPTED),
    )
    finite = jnp.isfinite(loss) & jnp.isfinite(rate)
    return taken._replace(status=ending(taken, controls, finite))
