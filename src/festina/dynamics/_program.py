"""The compiled part of a simulation: steps of a batch of lanes, and samples where they move."""

import functools
from collections.abc import Callable
from typing import NamedTuple

import jax
import jax.numpy as jnp
import numpy as np
from jaxtyping import Bool, Float, Int

from .._lanes import accelerated, over_lanes
from .._objective import Data, descent
from .._types import Array, Column, Flag, Number
from ..networks._structure import AbstractStructure

RUNNING, AT_FLOOR, STATIONARY, FINISHED, NOT_FINITE, STEP_UNDERFLOW, OUT_OF_STEPS = range(7)
"""Status of a lane; all but the first end it."""

SLIDING = 7
"""Status of a lane on kinks for the host to judge; it returns whenever the time has doubled."""

REJECTED, ACCEPTED, AT_STOP = range(3)
"""What a step is: thrown away, taken, taken and landing on a requested time."""

NEVER = -1.0
"""A tolerance that nothing meets."""

_ROUNDING = 1e-20, 1e-14  # of the largest weight: between these a weight is a rounding error
_ROUNDS = 8  # in which the mean settles
_LATER = 1.01  # times the time of the last sample: when there is another, whatever happens


class State(NamedTuple):
    """Of every lane: where it is, how fast it moves, and what it does next."""

    stop: Int[Array, "*lane"]  # which of the requested times comes next
    status: Int[Array, "*lane"]
    event: Int[Array, "*lane"]
    steps: Int[Array, "*lane"]  # taken or thrown away
    samples: Int[Array, "*lane"]  # so far, that at the start included
    time: Number
    loss: Number
    rate: Number  # |∂L/∂θ|² = −dL/dt
    peak: Number  # the largest rate so far
    step_size: Number
    roughness: Number  # error of the last step tried over its square
    kinks: Number  # how often it was a kink that stopped us lately
    slack: Number  # factor by which the tolerance is loosened there
    loosest: Number  # the largest of these so far
    path: Number  # length of the way through (loss, log rate), in samples
    sampled: Number  # time of the last sample
    lowest: Number  # and the smallest loss of all
    weights: Column
    velocity: Column

    def of(self, lane: int) -> "State":
        """Where one lane is."""
        return State(*(part[..., lane] for part in self))


_WHOLE = 5  # of these, the first


class Lanes(NamedTuple):
    """The same in three arrays, because every array that a program is given takes its time.

    To the host numbers are floats, those that count something among them.
    """

    numbers: Float[Array, "number *lane"]  # all others, the first few of them whole
    weights: Column
    velocity: Column

    @property
    def state(self) -> State:
        """With rows of ours: of NumPy's arrays, what is written to one is in the other."""
        return State._make((*self.numbers, self.weights, self.velocity))


EACH = 6  # from where on controls are those of each lane


class Controls(NamedTuple):
    """What a user can turn without recompiling; the per-lane ones are arrays over lanes."""

    stops: Float[Array, " stop"]
    at_stops: Bool[Array, ""]  # samples are taken there, and nowhere else
    rtol: Float[Array, ""]
    most_steps: Int[Array, ""]
    most_samples: Float[Array, ""]  # after which only what is new is worth another
    rate_resolution: Float[Array, ""]  # of log₁₀ of the rate, between two samples
    loss_resolution: Number
    atol: Number
    loss_scale: Number  # what there is to learn, to which errors of the loss are relative
    loss_tolerance: Number
    gain_tolerance: Number
    learning_rate: Number
    momentum: Number

    @property
    def speed(self) -> Number:
        """Time of the flow in one tick of the clock; momentum adds up the steps before."""
        return self.learning_rate / (1.0 - self.momentum)

    @property
    def common(self) -> Float[np.ndarray, " setting"]:
        """What all lanes have in common, the stops aside."""
        return np.array(self[1:EACH], float)

    @property
    def each(self) -> Float[np.ndarray, "control lane"]:
        """What each has of its own."""
        return np.stack(self[EACH:])


class Start(NamedTuple):
    """What there is to know of weights before the first step."""

    loss: Float[Array, " lane"]
    velocity: Float[Array, "weight lane"]  # −∂L/∂θ
    rate: Float[Array, " lane"]  # |∂L/∂θ|²
    size: Float[Array, " lane"]  # root mean square of the weights, but for outliers


class Kept(NamedTuple):
    """Samples that the host has not fetched yet: time, loss, rate, and weights where wanted."""

    rows: Float[Array, "*lane row number"]
    counts: Int[Array, "*lane"]


class Field(NamedTuple):
    """What moves the weights: a loss, on the data it is taken over."""

    structure: AbstractStructure
    data: Data

    def __call__(self, weights: Column) -> tuple[Number, Column]:
        """Loss and velocity −∂L/∂θ."""
        return descent(self.structure, weights, self.data)


Carry = tuple[Int[Array, ""], State, Kept]
"""How many steps were taken, where everybody is, and what was kept on the way."""

Turn = tuple[Int[Array, ""], Lanes, Kept]
"""The same between turns."""

Step = Callable[[State, Field, Controls], State]
"""One step of every lane: by Runge–Kutta, by Rosenbrock or by gradient descent."""


@functools.partial(
    jax.jit,
    static_argnames=("slots", "step", "structure"),
    donate_argnames="kept",
    # Our cores have a worker each: XLA would hand its small operations from one to the other.
    compiler_options={"xla_cpu_scheduler_type": "CPU_SCHEDULER_TYPE_MEMORY_OPTIMIZED"},
)
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
    """Take steps of the lanes of a pool, `slots` at a time, and keep samples where they move.

    Until no more than `enough` of them run, or no more than wait for the host; or until `limit`
    steps are taken.
    """
    field = Field(structure, data)

    def steps(
        count: Int[Array, ""],
        some: Lanes,
        kept: Kept,
        which: Int[Array, " slot"] | None,
        enough: Int[Array, ""],
    ) -> Turn:
        """Until no more than `enough` of these lanes run."""
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

        # The compiler makes a better program of those that are whole if it knows that.
        start = State._make((*some.numbers[:_WHOLE].astype(int), *some.state[_WHOLE:]))
        count, state, kept = jax.lax.while_loop(unfinished, body, (count, start, kept))
        return count, Lanes(jnp.stack(state[:-2]), *state[-2:]), kept

    def turn(carry: Turn) -> Turn:
        """As many lanes as there are slots, until an eighth of them has stopped."""
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
    # A batch of one is slower than no batch.
    alone = jax.tree.map(lambda part: part[..., 0], pool), Kept(*(part[0] for part in kept))
    _, pool, kept = steps(none, *alone, None, none)
    return jax.tree.map(lambda part: part[..., None], pool), Kept(*(p[None] for p in kept))


def _runs(state: State, kept: Kept) -> Flag:
    """Which lanes take steps: those that have not ended and have room for a sample."""
    return (state.status == RUNNING) & (kept.counts < kept.rows.shape[-2])


def _marked(runs: Flag, before: State, after: State, controls: Controls) -> tuple[State, Flag]:
    """Which lanes to sample: those whose way through (loss, log rate) has passed a mark.

    What goes on moving to and fro, along a kink or by the noise of a coarse tolerance, would fill
    the memory: of a lane with many samples only new lows of the loss are kept, and one whenever the
    time has grown by a hundredth.
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
    place = jnp.where(marked, kept.counts, room)  # where there is none it is dropped
    where = place if lanes is None else (lanes, place)
    return Kept(jnp.asarray(kept.rows).at[where].set(row.T, mode="drop"), kept.counts + marked)


@functools.partial(jax.jit, static_argnames="total")
def packed(
    rows: Float[Array, "lane row number"], counts: Int[Array, " lane"], total: int
) -> tuple[Float[Array, "3 sample"], Float[Array, "sample weight"]]:
    """So many samples of each lane, one lane after the other, in arrays for so many at most."""
    lanes = jnp.repeat(jnp.arange(len(counts)), counts, total_repeat_length=total)
    before = jnp.cumsum(counts) - counts
    samples = rows[lanes, jnp.arange(total) - before[lanes]]
    return samples[:, :3].T, samples[:, 3:]


def start(
    weights: Float[Array, "weight lane"], data: Data, *, structure: AbstractStructure
) -> Start:
    """Where weights are, and where the loss pushes them.

    What is as large as the weights stays where it was made: an accelerator will want it there.
    """
    program = lambda lanes: _start(lanes, data, structure=structure)
    fetch = lambda made: made if accelerated() and made.ndim > 1 else np.asarray(made)
    return over_lanes(program, weights, axis=-1, fetch=fetch)


@functools.partial(jax.jit, static_argnames="structure")
def _start(
    weights: Float[Array, "weight lane"], data: Data, *, structure: AbstractStructure
) -> Start:
    loss, velocity = descent(structure, weights, data)
    return Start(loss, velocity, over_weights(velocity**2), _size(weights))


def _size(weights: Float[Array, "weight lane"]) -> Number:
    """Return the size of a typical weight, which a few huge ones do not change.

    This is the root mean square, but no more than ten times the geometric mean, in which a weight
    counts as no more than ten times that mean. Zeros do not enter it, nor do rounding errors of the
    largest weight.
    """
    sizes = jnp.abs(weights)
    largest = jnp.max(sizes, axis=0)
    shares = sizes / jnp.where(largest > 0, largest, 1.0)
    root_mean_square = largest * jnp.sqrt(over_weights(shares**2) / len(weights))
    counted = (shares > _ROUNDING[1]) | ((shares > 0) & (shares < _ROUNDING[0]))
    logs, count = jnp.log10(jnp.where(counted, sizes, 1.0)), over_weights(1.0 * counted)
    mean = jnp.log10(jnp.where(largest > 0, largest, 1.0))
    for _ in range(_ROUNDS):
        capped = jnp.where(counted, jnp.minimum(logs, mean + 1.0), 0.0)
        mean = over_weights(capped) / jnp.maximum(count, 1.0)
    return jnp.minimum(root_mean_square, 10.0 ** (mean + 1.0))


def over_weights(x: Column) -> Number:
    """The sum over all weights.

    In a batch by a matrix product, because the compiler makes a slow thing of a long sum over an
    axis that is not the last.
    """
    return jnp.sum(x) if x.ndim == 1 else jnp.ones(len(x)) @ x


def arrived(state: State, controls: Controls, time: Number, lands: Flag, finite: Flag) -> State:
    """Where a step has led: the clock there, and whether that is the end, for any kind of step."""
    state = state._replace(
        time=time,
        peak=jnp.maximum(state.peak, state.rate),
        stop=state.stop + lands,
        event=jnp.where(lands, AT_STOP, ACCEPTED),
    )
    status = jnp.where(state.stop >= controls.stops.shape[0], FINISHED, RUNNING)
    # Training as long again would gain next to nothing; and the rate has been far larger before,
    # which at the initial saddle, however slow, it has not.
    gain = state.rate * state.time * controls.learning_rate
    still = (gain <= controls.gain_tolerance) & (state.rate <= 1e-6 * state.peak)
    status = jnp.where(still, STATIONARY, status)
    status = jnp.where(state.loss <= controls.loss_tolerance, AT_FLOOR, status)
    return state._replace(status=jnp.where(finite, status, NOT_FINITE))


def _select(runs: Flag, before: State, after: State, controls: Controls) -> State:
    """Freeze the lanes that do not run; of those that broke off stays what was finite last."""
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
