"""The compiled part of a simulation: a chunk of steps for a batch of lanes, every one recorded."""

import functools
from collections.abc import Callable
from typing import NamedTuple

import jax
import jax.numpy as jnp
from jaxtyping import Bool, Float, Int

from .._objective import Data, Structure, excess_loss
from .._types import Array
from ..networks import fused

RUNNING, AT_FLOOR, STATIONARY, FINISHED, NOT_FINITE, STEP_UNDERFLOW = range(6)
"""Status of a lane; all but the first end it."""

_SMALL = 20_000  # weights × samples

IDLE, REJECTED, ACCEPTED, AT_STOP = range(-1, 3)
"""What a recorded step is: none, thrown away, taken, taken and landing on a requested time."""


class State(NamedTuple):
    """One lane: where it is, how fast it moves, and what it does next."""

    time: Float[Array, ""]
    weights: Float[Array, " weight"]
    loss: Float[Array, ""]
    velocity: Float[Array, " weight"]
    rate: Float[Array, ""]  # |∂L/∂θ|² = −dL/dt
    peak: Float[Array, ""]  # the largest rate so far
    step_size: Float[Array, ""]
    stop: Int[Array, ""]  # which of the requested times comes next
    status: Int[Array, ""]
    event: Int[Array, ""]


class Controls(NamedTuple):
    """What a user can turn without recompiling; the per-lane ones are arrays over lanes."""

    stops: Float[Array, " stop"]
    rtol: Float[Array, ""]
    atol: Float[Array, " lane"]
    loss_tolerance: Float[Array, " lane"]
    gain_tolerance: Float[Array, " lane"]
    learning_rate: Float[Array, " lane"]


class Record(NamedTuple):
    """What is kept of each step, over `(step, lane)`.

    Time, loss, rate and event travel together in `numbers`: fetching an array costs more than it
    holds.
    """

    weights: Float[Array, "step lane weight"]
    numbers: Float[Array, "step lane 4"]


Field = Callable[[Float[Array, " weight"]], tuple[Float[Array, ""], Float[Array, " weight"]]]
"""Weights to loss and velocity −∂L/∂θ."""

Step = Callable[[State, Field, Controls], State]
"""One step of one lane, by Runge–Kutta or by gradient descent."""

# Which controls have an axis of lanes.
_AXES = Controls(None, None, 0, 0, 0, 0)  # pyright: ignore[reportArgumentType]


@functools.partial(jax.jit, static_argnames=("step", "structure", "length"))
def advance(
    state: State,
    data: Data,
    controls: Controls,
    limit: Int[Array, ""],
    *,
    step: Step,
    structure: Structure,
    length: int,
) -> tuple[State, Record, Int[Array, ""]]:
    """Take up to `limit` ≤ `length` steps of every lane that is still running; record each.

    The recorded row is the loop's counter, common to all lanes, so that saving is an update in
    place; a lane that rejected its step or has ended says so in `event`.
    """
    field = _field(structure, data)

    def one_step(state: State, controls: Controls) -> State:
        return _select_running(state, step(state, field, controls))

    lanes = state.time.shape[0]
    if lanes == 1:
        # A batch of one is slower than no batch.
        alone = jax.tree.map(lambda part, axis: part if axis is None else part[0], controls, _AXES)
        every_lane = lambda state: jax.tree.map(
            lambda part: part[None], one_step(jax.tree.map(lambda part: part[0], state), alone)
        )
    else:
        every_lane = lambda state: jax.vmap(one_step, in_axes=(0, _AXES))(state, controls)
    empty = Record(
        weights=jnp.zeros((length, *state.weights.shape)), numbers=jnp.zeros((length, lanes, 4))
    )

    def body(carry: tuple[Int[Array, ""], State, Record]):
        count, state, record = carry
        state = every_lane(state)
        numbers = jnp.stack((state.time, state.loss, state.rate, state.event * 1.0), axis=-1)
        record = jax.tree.map(
            lambda rows, row: jax.lax.dynamic_update_index_in_dim(rows, row, count, 0),
            record,
            Record(state.weights, numbers),
        )
        return count + 1, state, record

    def unfinished(carry: tuple[Int[Array, ""], State, Record]) -> Bool[Array, ""]:
        count, state, _ = carry
        return (count < limit) & jnp.any(state.status == RUNNING)

    with fused(lanes == 1 and state.weights.size * len(data.y) <= _SMALL):
        count, state, record = jax.lax.while_loop(unfinished, body, (jnp.asarray(0), state, empty))
    return state, record, count


@functools.partial(jax.jit, static_argnames=("structure",))
def start(
    weights: Float[Array, "lane weight"], data: Data, *, structure: Structure
) -> tuple[Float[Array, " lane"], Float[Array, "lane weight"], Float[Array, " lane"]]:
    """Loss, velocity and rate at the initial weights."""
    losses, velocities = jax.vmap(_field(structure, data))(weights)
    return losses, velocities, jnp.sum(velocities**2, axis=1)


def ending(state: State, controls: Controls, finite: Bool[Array, ""]) -> Int[Array, ""]:
    """Status after a step, from what both kinds of step have in common."""
    status = jnp.where(state.stop >= controls.stops.shape[0], FINISHED, RUNNING)
    # Training as long again would gain next to nothing; and the rate has been far larger before,
    # which at the initial saddle, however slow, it has not.
    gain = state.rate * state.time * controls.learning_rate
    still = (gain <= controls.gain_tolerance) & (state.rate <= 1e-6 * state.peak)
    status = jnp.where(still, STATIONARY, status)
    status = jnp.where(state.loss <= controls.loss_tolerance, AT_FLOOR, status)
    return jnp.where(finite, status, NOT_FINITE)


def _field(structure: Structure, data: Data) -> Field:
    gradient = jax.value_and_grad(excess_loss, argnums=1)

    def field(weights: Float[Array, " weight"]):
        # Without the barrier the compiler computes a stage's weights again for each use of them.
        weights = jax.lax.optimization_barrier(weights)
        loss, slope = gradient(structure, weights, data)
        return loss, jax.lax.optimization_barrier(-slope)

    return field


def _select_running(before: State, after: State) -> State:
    """Freeze a lane that has ended."""
    running = before.status == RUNNING
    kept = jax.tree.map(lambda old, new: jnp.where(running, new, old), before, after)
    return kept._replace(event=jnp.where(running, after.event, IDLE))
