"""One step of full-batch gradient descent. The clock counts steps."""

import jax.numpy as jnp

from ._program import ACCEPTED, AT_STOP, Controls, Field, State, ending, over_weights


def descent_step(state: State, field: Field, controls: Controls) -> State:
    weights = state.weights + controls.learning_rate * state.velocity
    loss, velocity = field(weights)
    rate = over_weights(velocity**2)
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
