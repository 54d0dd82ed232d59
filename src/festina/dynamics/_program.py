"""The compiled part of a simulation: steps of a batch of lanes, and their samples."""

import functools
from collections.abc import Callable
from typing import Any, NamedTuple

import jax
import jax.numpy as jnp
import numpy as np
from jaxtyping import Bool, Float, Int

from .._compiler import HASTY, ONE_CORE, QUICK
from .._lanes import accelerated, over_lanes
from .._objective import Data, descent
from .._types import Array, Column, Flag, Number
from ..networks._structure import AbstractStructure

RUNNING, AT_FLOOR, STATIONARY, FINISHED, NOT_FINITE, STEP_UNDERFLOW, OUT_OF_STEPS = range(7)
"""Status of a lane; every status except the first ends the lane."""

SLIDING = 7
"""Status of a lane that slides along a kink; the host checks for its end whenever time doubles."""

REJECTED, ACCEPTED, AT_STOP = range(3)
"""Result of a step: rejected, accepted, or accepted and at a requested time."""

NEVER = -1.0
"""A tolerance that is never met."""

_ROUNDING = 1e-20, 1e-14  # relative sizes between which a weight counts as a rounding error
_ROUNDS = 8  # iterations after which the capped mean has converged
_SMALL = 20_000  # weights × samples × lanes of a step that takes longer to start than to compute
_BRIEF = 20_000_000  # weights × samples × lanes of a start that takes longer to compile than to run
_LATER = 1.01  # growth factor of the time after which another sample is always saved


class State(NamedTuple):
    """State of every lane: position, speed, and settings of its next step."""

    stop: Int[Array, "*lane"]  # index of the next requested time
    status: Int[Array, "*lane"]
    event: Int[Array, "*lane"]
    steps: Int[Array, "*lane"]  # accepted and rejected
    samples: Int[Array, "*lane"]  # so far, including the sample at the start
    time: Number
    loss: Number
    rate: Number  # |∂L/∂θ|² = −dL/dt
    peak: Number  # largest rate so far
    step_size: Number
    roughness: Number  # error of the last attempted step over its squared length
    kinks: Number  # number of recent steps that a kink stopped, decaying in time
    slack: Number  # factor by which the tolerance is increased on a kink
    loosest: Number  # largest `slack` so far
    path: Number  # distance travelled in (loss, log rate), in units of samples
    sampled: Number  # time of the last sample
    lowest: Number  # smallest loss of all samples
    weights: Column
    velocity: Column

    def of(self, lane: int) -> "State":
        """Return the state of one lane."""
        return State(*(part[..., lane] for part in self))


_WHOLE = 5  # number of leading fields of `State` that are whole numbers


class Lanes(NamedTuple):
    """The state in three arrays, because each array that is passed to a program costs time.

    On the host all numbers are floats, including counts.
    """

    numbers: Float[Array, "number *lane"]  # all fields but weights and velocity; counts come first
    weights: Column
    velocity: Column

    @property
    def state(self) -> State:
        """Return the state as views of these arrays: writing to the state changes the arrays."""
        return State._make((*self.numbers, self.weights, self.velocity))


EACH = 6  # index of the first field of `Controls` that has one value for each lane


class Controls(NamedTuple):
    """Settings that do not require a new compilation; some have one value for each lane."""

    stops: Float[Array, " stop"]
    at_stops: Bool[Array, ""]  # samples only at the stops, the requested times
    rtol: Float[Array, ""]
    most_steps: Int[Array, ""]
    most_samples: Float[Array, ""]  # after so many, only new minima of the loss are saved
    rate_resolution: Float[Array, ""]  # change of log₁₀ of the rate between two samples
    loss_resolution: Number
    atol: Number
    loss_scale: Number  # the learnable loss, relative to which errors of the loss are measured
    loss_tolerance: Number
    gain_tolerance: Number
    learning_rate: Number
    momentum: Number

    @property
    def speed(self) -> Number:
        """Return the flow time of one step of descent, which momentum lengthens; 1 for a flow."""
        return self.learning_rate / (1.0 - self.momentum)

    @property
    def common(self) -> Float[np.ndarray, " setting"]:
        """Return the settings that all lanes share, except the stops."""
        return np.array(self[1:EACH], float)

    @property
    def each(self) -> Float[np.ndarray, "control lane"]:
        """Return the settings with one value for each lane."""
        return np.stack(self[EACH:])


class Start(NamedTuple):
    """Loss, velocity, rate and typical size of weights, before the first step."""

    loss: Float[Array, " lane"]
    velocity: Float[Array, "weight lane"]  # −∂L/∂θ
    rate: Float[Array, " lane"]  # |∂L/∂θ|²
    size: Float[Array, " lane"]  # root mean square of the weights without outliers


class Kept(NamedTuple):
    """Samples on the device that the host has not fetched: time, loss, rate and maybe weights."""

    rows: Float[Array, "*lane row number"]
    counts: Int[Array, "*lane"]


class Field(NamedTuple):
    """The loss on the training data, whose negative gradient moves the weights."""

    structure: AbstractStructure
    data: Data

    def __call__(self, weights: Column) -> tuple[Number, Column]:
        """Return the loss and the velocity −∂L/∂θ."""
        return descent(self.structure, weights, self.data)


Carry = tuple[Int[Array, ""], State, Kept]
"""Number of steps taken, state of all lanes, and samples, inside a compiled loop."""

Turn = tuple[Int[Array, ""], Lanes, Kept]
"""Number of steps taken, lanes and samples, between two loops."""

Step = Callable[[State, Field, Controls], State]
"""One step of every lane: Runge–Kutta, Rosenbrock or gradient descent."""


def _compiled(function: Callable[..., tuple[Lanes, Kept]]) -> Callable[..., tuple[Lanes, Kept]]:
    """Compile `advance`; programs with little work per step compile faster, with `QUICK`."""
    static = ("slots", "step", "structure")
    compiled = functools.partial(jax.jit, function, static_argnames=static, donate_argnames="kept")
    small, large = (compiled(compiler_options=ONE_CORE | more) for more in (QUICK, {}))

    @functools.wraps(function)
    def call(pool: Lanes, kept: Kept, data: Data, *others: Any, slots: int, **more: Any):
        work = len(data.psi) * len(pool.weights) * slots
        program = small if work <= _SMALL else large
        return program(pool, kept, data, *others, slots=slots, **more)

    return call


@_compiled
def advance(
    pool: Lanes,
    kept: Kept,
    data: Data,
    stops: Float[Array, " stop"],
    common: Float[Array, " setting"],
    each: Float[Array, "control lane"],
    limit: Int[Array, ""],
    enough: Int[Array, ""],
    *,
    slots: int,
    step: Step,
    structure: AbstractStructure,
) -> tuple[Lanes, Kept]:
    """Step the lanes of a pool, `slots` lanes at a time, and save samples.

    The loop ends when at most `enough` lanes run, when at least as many lanes wait for the host as
    run, or after `limit` steps.
    """
    field = Field(structure, data)

    def steps(
        count: Int[Array, ""],
        some: Lanes,
        kept: Kept,
        which: Int[Array, " slot"] | None,
        enough: Int[Array, ""],
    ) -> Turn:
        """Step these lanes until at most `enough` of them run."""
        controls = Controls(stops, *common, *(each[:, 0] if which is None else each[:, which]))

        def body(carry: Carry) -> Carry:
            count, before, kept = carry
            runs = _runs(before, kept)
            after = _select(runs, before, step(before, field, controls), controls)
            state, marked = _marked(runs, before, after, controls)
            return count + 1, state, _keep(kept, which, state, marked)

        def unfinished(carry: Carry) -> Bool[Array, ""]:
            count, state, kept = carry
            return (count < limit) & (jnp.sum(_runs(state, kept)) > enough)

        # XLA compiles a faster program if counts have an integer type.
        start = State._make((*some.numbers[:_WHOLE].astype(int), *some.state[_WHOLE:]))
        count, state, kept = jax.lax.while_loop(unfinished, body, (count, start, kept))
        return count, Lanes(jnp.stack(state[:-2]), *state[-2:]), kept

    def turn(carry: Turn) -> Turn:
        """Step `slots` lanes (networks of the batch) until an eighth of these lanes has stopped."""
        count, pool, kept = carry
        lanes = jnp.argsort(~_runs(pool.state, kept), stable=True)[:slots]
        some = jax.tree.map(lambda part: part[..., lanes], pool)
        mine = Kept(kept.rows, kept.counts[lanes])
        most = 7 * jnp.sum(_runs(some.state, mine)) // 8
        count, some, mine = steps(count, some, mine, lanes, most)
        pool = jax.tree.map(lambda whole, part: whole.at[..., lanes].set(part), pool, some)
        return count, pool, Kept(mine.rows, jnp.asarray(kept.counts).at[lanes].set(mine.counts))

    def unfinished(carry: Turn) -> Bool[Array, ""]:
        count, pool, kept = carry
        state = pool.state
        runs = _runs(state, kept)
        judged = (state.status == STATIONARY) | (state.status == SLIDING)
        waits = ~runs & ((state.status == RUNNING) | judged)
        return (count < limit) & (jnp.sum(runs) > jnp.maximum(enough, jnp.sum(waits)))

    pool, kept = jax.tree.map(jnp.asarray, (pool, kept))
    none = jnp.asarray(0)
    if pool.weights.shape[1] > 1:
        _, pool, kept = jax.lax.while_loop(unfinished, turn, (none, pool, kept))
        return pool, kept
    # For a single lane, a program without a batch axis is faster.
    alone = jax.tree.map(lambda part: part[..., 0], pool), Kept(*(part[0] for part in kept))
    _, pool, kept = steps(none, *alone, None, none)
    return jax.tree.map(lambda part: part[..., None], pool), Kept(*(p[None] for p in kept))


def _runs(state: State, kept: Kept) -> Flag:
    """Return which lanes take steps: lanes that have not ended and have room for a sample."""
    return (state.status == RUNNING) & (kept.counts < kept.rows.shape[-2])


def _marked(runs: Flag, before: State, after: State, controls: Controls) -> tuple[State, Flag]:
    """Return the state after a step, and which lanes to sample at it.

    A lane is sampled when its distance travelled in (loss, log rate) passes a whole number. An
    oscillating loss, from a kink or from noise of a loose tolerance, would fill the memory. A lane
    with many samples is therefore sampled only at new minima of the loss, and once whenever the
    time has grown by 1 %.
    """
    taken = runs & (after.event >= ACCEPTED) & (after.status != NOT_FINITE)
    by_loss = jnp.abs(after.loss - before.loss) / controls.loss_resolution
    logs = (jnp.log10(jnp.maximum(state.rate, 1e-300)) for state in (after, before))
    path = before.path + by_loss + jnp.abs(jnp.subtract(*logs)) / controls.rate_resolution
    new = (after.samples < controls.most_samples) | (after.time > _LATER * after.sampled)
    new |= after.loss < after.lowest - controls.loss_resolution
    passed = (jnp.floor(path) > jnp.floor(before.path)) & new
    marked = taken & jnp.where(controls.at_stops, after.event == AT_STOP, passed)
    return after._replace(
        path=jnp.where(taken, path, before.path),
        samples=after.samples + marked,
        sampled=jnp.where(marked, after.time, after.sampled),
        lowest=jnp.where(marked, jnp.minimum(after.lowest, after.loss), after.lowest),
    ), marked


def _keep(
    kept: Kept, lanes: Int[Array, " slot"] | None, state: State, marked: Bool[Array, "*slot"]
) -> Kept:
    room, numbers = kept.rows.shape[-2:]
    row = jnp.stack((state.time, state.loss, state.rate))
    if numbers > len(row):
        row = jnp.concatenate((row, state.weights))
    place = jnp.where(marked, kept.counts, room)  # an index beyond the end drops the row
    where = place if lanes is None else (lanes, place)
    return Kept(jnp.asarray(kept.rows).at[where].set(row.T, mode="drop"), kept.counts + marked)


@functools.partial(jax.jit, static_argnames="total")
def packed(
    rows: Float[Array, "lane row number"], counts: Int[Array, " lane"], total: int
) -> tuple[Float[Array, "3 sample"], Float[Array, "sample weight"]]:
    """Return the samples of all lanes in sequence, in arrays with room for `total` samples."""
    lanes = jnp.repeat(jnp.arange(len(counts)), counts, total_repeat_length=total)
    before = jnp.cumsum(counts) - counts
    samples = rows[lanes, jnp.arange(total) - before[lanes]]
    return samples[:, :3].T, samples[:, 3:]


def start(
    weights: Float[Array, "weight lane"], data: Data, *, structure: AbstractStructure
) -> Start:
    """Return loss, velocity, rate and typical size of weights.

    On an accelerator, arrays as large as the weights stay on the device for the next step.
    """
    brief = len(data.psi) * weights.size <= _BRIEF and not accelerated()
    compiled = _quick_start if brief else _thorough_start
    program = lambda lanes: compiled(lanes, data, structure=structure)
    fetch = lambda made: made if accelerated() and made.ndim > 1 else np.asarray(made)
    return over_lanes(program, weights, axis=-1, fetch=fetch)


def _start(
    weights: Float[Array, "weight lane"], data: Data, *, structure: AbstractStructure
) -> Start:
    loss, velocity = descent(structure, weights, data)
    return Start(loss, velocity, over_weights(velocity**2), _size(weights))


_quick_start, _thorough_start = (
    jax.jit(_start, static_argnames="structure", compiler_options=options)
    for options in (HASTY, QUICK)
)


def _size(weights: Float[Array, "weight lane"]) -> Number:
    """Return the size of a typical weight, which a few huge weights do not change.

    The size is the root mean square, limited to ten times a geometric mean. In this geometric mean
    each weight counts as at most ten times the mean. The geometric mean leaves out zeros, and
    weights as small as the rounding error of the largest weight.
    """
    sizes = jnp.abs(weights)
    largest = jnp.max(sizes, axis=0)
    shares = sizes / jnp.where(largest > 0, largest, 1.0)
    root_mean_square = largest * jnp.sqrt(over_weights(shares**2) / len(weights))
    counted = (shares > _ROUNDING[1]) | ((shares > 0) & (shares < _ROUNDING[0]))
    logs, count = jnp.log10(jnp.where(counted, sizes, 1.0)), over_weights(1.0 * counted)
    mean = jnp.log10(jnp.where(largest > 0, largest, 1.0))

    def capped(_: Array, mean: Number) -> Number:
        capped = jnp.where(counted, jnp.minimum(logs, mean + 1.0), 0.0)
        return over_weights(capped) / jnp.maximum(count, 1.0)

    mean = jax.lax.fori_loop(0, _ROUNDS, capped, mean)  # written out, it compiles slowly
    return jnp.minimum(root_mean_square, 10.0 ** (mean + 1.0))


def over_weights(x: Column) -> Number:
    """Return the sum over all weights.

    A batch uses a matrix product, because XLA compiles slow code for long sums over an axis that is
    not the last.
    """
    return jnp.sum(x) if x.ndim == 1 else jnp.ones(len(x)) @ x


def arrived(state: State, controls: Controls, time: Number, lands: Flag, finite: Flag) -> State:
    """Return the state after an accepted step of any method, with its new time and status."""
    state = state._replace(
        time=time,
        peak=jnp.maximum(state.peak, state.rate),
        stop=state.stop + lands,
        event=jnp.where(lands, AT_STOP, ACCEPTED),
    )
    status = jnp.where(state.stop >= controls.stops.shape[0], FINISHED, RUNNING)
    # Stationary: training for as long again would gain almost nothing, and the rate is far below
    # its maximum. The second condition excludes a slow initial saddle.
    gain = state.rate * state.time * controls.learning_rate
    still = (gain <= controls.gain_tolerance) & (state.rate <= 1e-6 * state.peak)
    status = jnp.where(still, STATIONARY, status)
    status = jnp.where(state.loss <= controls.loss_tolerance, AT_FLOOR, status)
    return state._replace(status=jnp.where(finite, status, NOT_FINITE))


def _select(runs: Flag, before: State, after: State, controls: Controls) -> State:
    """Keep the old state of lanes that do not run, and of lanes whose new state is not finite."""
    steps = before.steps + runs
    status = jnp.where(
        (after.status == RUNNING) & (steps >= controls.most_steps), OUT_OF_STEPS, after.status
    )
    moves = runs & (status != NOT_FINITE)
    kept = jax.tree.map(lambda old, new: jnp.where(moves, new, old), before, after)
    return kept._replace(
        status=jnp.where(runs, status, before.status),
        steps=steps,
        loosest=jnp.maximum(before.loosest, kept.slack),
    )
