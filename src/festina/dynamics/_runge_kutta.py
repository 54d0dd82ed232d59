"""One adaptive step of the Dormand–Prince 5(4) pair."""

import jax.numpy as jnp
import numpy as np

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

# Dormand & Prince (1980). SciPy has the same table, but importing it costs more than a run.
_STAGES = (
    (1 / 5,),
    (3 / 40, 9 / 40),
    (44 / 45, -56 / 15, 32 / 9),
    (19372 / 6561, -25360 / 2187, 64448 / 6561, -212 / 729),
    (9017 / 3168, -355 / 33, 46732 / 5247, 49 / 176, -5103 / 18656),
)
_SOLUTION = (35 / 384, 0.0, 500 / 1113, 125 / 192, -2187 / 6784, 11 / 84)
_ERROR = (-71 / 57600, 0.0, 71 / 16695, -71 / 1920, 17253 / 339200, -22 / 525, 1 / 40)
_SAFETY, _SHRINK, _GROW = 0.9, 0.2, 10.0


def first_step(weights: np.ndarray, velocity: np.ndarray) -> np.ndarray:
    """A hundredth of the time in which the weights would move by their own size."""
    size = np.linalg.norm(weights, axis=1)
    speed = np.linalg.norm(velocity, axis=1)
    return np.where((size > 0) & (speed > 0), 0.01 * size / np.maximum(speed, 1e-300), 1e-3)


def runge_kutta_step(state: State, field: Field, controls: Controls) -> State:
    """Try a step; accept it if the embedded error estimate is within rtol·|θ| + atol."""
    h_wanted = state.step_size
    until_stop = controls.stops[state.stop] - state.time
    lands = h_wanted >= until_stop
    h = jnp.where(lands, until_stop, h_wanted)

    slopes = [state.velocity]
    for coefficients in _STAGES:
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


def _combine(coefficients: tuple[float, ...], slopes: list):
    return sum(c * k for c, k in zip(coefficients, slopes, strict=False) if c != 0.0)
