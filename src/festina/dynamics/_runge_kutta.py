"""One adaptive step of the Dormand–Prince 5(4) pair, with the tableau that SciPy publishes."""

import jax.numpy as jnp
from scipy.integrate import RK45

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
)

# Plain floats, so that zero coefficients drop out when the program is traced.
_STAGES = [[float(a) for a in row[:i]] for i, row in enumerate(RK45.A)]
_SOLUTION = [float(b) for b in RK45.B]
_ERROR = [float(e) for e in RK45.E]
_SAFETY, _SHRINK, _GROW = 0.9, 0.2, 10.0


def runge_kutta_step(state: State, field: Field, controls: Controls) -> State:
    """Try a step; accept it if the embedded error estimate is within rtol·|θ| + atol."""
    h_wanted = state.step_size
    until_stop = controls.stops[state.stop] - state.time
    lands = h_wanted >= until_stop
    h = jnp.where(lands, until_stop, h_wanted)

    slopes = [state.velocity]
    for coefficients in _STAGES[1:]:
        slopes.append(field(state.weights + h * _combine(coefficients, slopes))[1])
    weights = state.weights + h * _combine(_SOLUTION, slopes)
    loss, velocity = field(weights)
    slopes.append(velocity)

    scale = controls.atol + controls.rtol * jnp.maximum(jnp.abs(state.weights), jnp.abs(weights))
    error = jnp.sqrt(jnp.mean((h * _combine(_ERROR, slopes) / scale) ** 2))
    finite = jnp.isfinite(error) & jnp.isfinite(loss)
    error = jnp.where(finite, error, jnp.inf)
    accepted = error <= 1.0
    factor = jnp.clip(_SAFETY * jnp.maximum(error, 1e-10) ** -0.2, _SHRINK, _GROW)
    # A step cut short to land on a requested time says nothing against the step wanted before.
    grown = jnp.where(lands, jnp.maximum(h_wanted, h * factor), h * factor)
    step_size = jnp.where(accepted, grown, h * jnp.minimum(factor, _SAFETY))

    rate = jnp.sum(velocity**2)
    taken = State(
        time=jnp.where(lands, controls.stops[state.stop], state.time + h),
        weights=weights,
        loss=loss,
        velocity=velocity,
        rate=rate,
        peak=jnp.maximum(state.peak, rate),
        step_size=step_size,
        stop=state.stop + lands,
        status=state.status,
        event=jnp.where(lands, AT_STOP, ACCEPTED),
    )
    taken = taken._replace(status=ending(taken, controls, jnp.asarray(True)))
    refused = state._replace(
        step_size=step_size,
        event=jnp.asarray(REJECTED),
        status=jnp.where(
            step_size <= 1e-15 * jnp.maximum(state.time, h_wanted), STEP_UNDERFLOW, RUNNING
        ),
    )
    return State(*(jnp.where(accepted, new, old) for new, old in zip(taken, refused, strict=True)))


def _combine(coefficients: list[float], slopes: list):
    return sum(c * k for c, k in zip(coefficients, slopes, strict=False) if c != 0.0)
