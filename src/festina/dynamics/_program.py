"""The compiled part of a simulation: a chunk of steps for a batch of lanes, every one recorded."""

import functools
from collections.abc import Callable
from typing import NamedTuple

import jax
import jax.numpy as jnp
import numpy as np
from jaxtyping import Bool, Float, Int

from .._lanes import over_lanes
from .._objective import Data, descent
from .._types import Array
from ..networks._structure import AbstractStructure

RUNNING, AT_FLOOR, STATIONARY, FINISHED, NOT_FINITE, STEP_UNDERFLOW = range(6)
"""Status of a lane; all but the first end it."""

IDLE, REJECTED, ACCEPTED, AT_STOP = range(-1, 3)
"""What a recorded step is: none, thrown away, taken, taken and landing on a requested time."""

NEVER = -1.0
"""A tolerance that nothing meets."""


class State(NamedTuple):
    """Of every lane: where it is, how fast it moves, and what it does next."""

    time: Float[Array, "*lane"]
    weights: Float[Array, "weight *lane"]
    loss: Float[Array, "*lane"]
    velocity: Float[Array, "weight *lane"]
    rate: Float[Array, "*lane"]  # |∂L/∂θ|² = −dL/dt
    peak: Float[Array, "*lane"]  # the largest rate so far
    step_size: Float[Array, "*lane"]
    stop: Int[Array, "*lane"]  # which of the requested times comes next
    status: Int[Array, "*lane"]
    event: Int[Array, "*lane"]
    roughness: Float[Array, "*lane"]  # error of the last step tried over its square
    kinks: Float[Array, "*lane"]  # how often it was a kink that stopped us lately
    slack: Float[Array, "*lane"]  # factor by which the tolerance is loosened there


class Controls(NamedTuple):
    """What a user can turn without recompiling; the per-lane ones are arrays over lanes."""

    stops: Float[Array, " stop"]
    rtol: Float[Array, ""]
    atol: Float[Array, "*lane"]
    loss_tolerance: Float[Array, "*lane"]
    gain_tolerance: Float[Array, "*lane"]
    learning_rate: Float[Array, "*lane"]
    elapsed: Float[Array, "*lane"]  # before time zero, where training goes on
    momentum: Float[Array, "*lane"]

    @property
    def speed(self) -> Float[Array, "*lane"]:
        """Time of the flow in one tick of the clock; momentum adds up the steps before."""
        return self.learning_rate / (1.0 - self.momentum)

    def of(self, lanes: int | list[int]) -> "Controls":
        """The controls of some of the lanes."""
        return Controls(self.stops, self.rtol, *(part[lanes] for part in self[2:]))


class Record(NamedTuple):
    """What is kept of each step.

    Time, loss, rate, event and slack travel together in `numbers`: fetching an array costs more
    than it holds.
    """

    weights: Float[Array, "lane step weight"]
    numbers: Float[Array, "5 step lane"]


class Field(NamedTuple):
    """What moves the weights: a loss, on the data it is taken over."""

    structure: AbstractStructure
    data: Data

    def __call__(
        self, weights: Float[Array, "weight *lane"]
    ) -> tuple[Float[Array, "*lane"], Float[Array, "weight *lane"]]:
        """Loss and velocity −∂L/∂θ."""
        return descent(self.structure, weights, self.data)


Step = Callable[[State, Field, Controls], State]
"""One step of every lane: by Runge–Kutta, by Rosenbrock or by gradient descent."""


@functools.partial(jax.jit, static_argnames=("step", "structure", "length"))
def advance(
    state: State,
    data: Data,
    controls: Controls,
    limit: Int[Array, ""],
    *,
    step: Step,
    structure: AbstractStructure,
    length: int,
) -> tuple[State, Record, Int[Array, ""]]:
    """Take up to `limit` ≤ `length` steps of every lane that is still running; record each.

    The recorded row is the loop's counter, common to all lanes, so that saving is an update in
    place; a lane that rejected its step or has ended says so in `event`.
    """
    alone = state.time.shape == (1,)
    if alone:
        # A batch of one is slower than no batch.
        state = jax.tree.map(lambda part: part[..., 0], state)
        controls = controls.of(0)
    field = Field(structure, data)
    empty = (
        jnp.zeros((length, *state.weights.shape)),
        jnp.zeros((length, 5, *state.time.shape)),
    )

    def body(carry: tuple[Int[Array, ""], State, tuple[Array, Array]]):
        count, state, record = carry
        state = _select_running(state, step(state, field, controls))
        numbers = jnp.stack((state.time, state.loss, state.rate, state.event * 1.0, state.slack))
        record = jax.tree.map(
            lambda rows, row: jax.lax.dynamic_update_index_in_dim(rows, row, count, 0),
            record,
            (state.weights, numbers),
        )
        return count + 1, state, record

    def unfinished(carry: tuple[Int[Array, ""], State, tuple[Array, Array]]) -> Bool[Array, ""]:
        count, state, _ = carry
        return (count < limit) & jnp.any(state.status == RUNNING)

    count, state, record = jax.lax.while_loop(unfinished, body, (jnp.asarray(0), state, empty))
    if alone:
        state, record = jax.tree.map(lambda part: part[..., None], (state, record))
    weights, numbers = record
    # In the order in which the host reads them.
    return state, Record(jnp.moveaxis(weights, 2, 0), jnp.moveaxis(numbers, 1, 0)), count


def start(
    weights: Float[Array, "weight lane"], data: Data, *, structure: AbstractStructure
) -> tuple[
    Float[np.ndarray, " lane"], Float[np.ndarray, "weight lane"], Float[np.ndarray, " lane"]
]:
    """Loss, velocity and rate at the initial weights."""
    return over_lanes(lambda lanes: _start(lanes, data, structure=structure), weights, axis=-1)


@functools.partial(jax.jit, static_argnames="structure")
def _start(
    weights: Float[Array, "weight lane"], data: Data, *, structure: AbstractStructure
) -> tuple[Float[Array, " lane"], Float[Array, "weight lane"], Float[Array, " lane"]]:
    losses, velocities = descent(structure, weights, data)
    return losses, velocities, over_weights(velocities**2)


def over_weights(x: Float[Array, "weight *lane"]) -> Float[Array, "*lane"]:
    """The sum over all weights.

    In a batch by a matrix product, because the compiler makes a slow thing of a long sum over an
    axis that is not the last.
    """
    return jnp.sum(x) if x.ndim == 1 else jnp.ones(len(x)) @ x


def ending(state: State, controls: Controls, finite: Bool[Array, "*lane"]) -> Int[Array, "*lane"]:
    """Status after a step, from what both kinds of step have in common."""
    status = jnp.where(state.stop >= controls.stops.shape[0], FINISHED, RUNNING)
    # Training as long again would gain next to nothing; and the rate has been far larger before,
    # which at the initial saddle, however slow, it has not.
    gain = state.rate * (controls.elapsed + state.time) * controls.learning_rate
    still = (gain <= controls.gain_tolerance) & (state.rate <= 1e-6 * state.peak)
    status = jnp.where(still, STATIONARY, status)
    status = jnp.where(state.loss <= controls.loss_tolerance, AT_FLOOR, status)
    return jnp.where(finite, status, NOT_FINITE)


def _select_running(before: State, after: State) -> State:
    """Freeze the lanes that have ended."""
    running = before.status == RUNNING
    kept = jax.tree.map(lambda old, new: jnp.where(running, new, old), before, after)
    event = jnp.where(running, after.event, IDLE)
    # A number of Python's has a type of its own in JAX, and with it the chunks after the first
    # would be another program, compiled once more.
    return kept._replace(event=event.astype(before.event.dtype))
