"""One step of full-batch gradient descent, with or without momentum; time counts steps."""

import jax.numpy as jnp

from ._program import Controls, Field, State, arrived, over_weights


def descent_step(state: State, field: Field, controls: Controls) -> State:
    """Take one step of gradient descent, θ ← θ − η ∂L/∂θ, in every lane."""
    weights = state.weights + controls.learning_rate * state.velocity
    loss, velocity = field(weights)
    rate = over_weights(velocity**2)
    state = state._replace(weights=weights, loss=loss, velocity=velocity, rate=rate)
    return _counted(state, controls)


def heavy_ball_step(state: State, field: Field, controls: Controls) -> State:
    """Take one heavy-ball step (Polyak): v ← μ v − ∂L/∂θ, θ ← θ + η v; the state holds v."""
    weights = state.weights + controls.learning_rate * state.velocity
    loss, force = field(weights)
    velocity = controls.momentum * state.velocity + force
    controls = controls._replace(learning_rate=controls.speed)  # rate of loss decrease on a plateau
    rate = over_weights(force**2)
    state = state._replace(weights=weights, loss=loss, velocity=velocity, rate=rate)
    return _counted(state, controls)


def _counted(state: State, controls: Controls) -> State:
    time = state.time + 1.0
    lands = time >= controls.stops[state.stop]
    finite = jnp.isfinite(state.loss) & jnp.isfinite(state.rate)
    return arrived(state, controls, time, lands, finite)
