"""Host part of a simulation: pass lanes to the compiled program, and decide which have ended.

Trajectories of a batch differ in length, and the compiled program has a fixed number of lanes. Each
CPU core has its own worker (`_worker.py`), and all workers take lanes from one queue. Lanes that
take very many steps are set aside, because a program for many lanes would be wasted on a few. When
all other lanes have ended, the lanes (networks) set aside continue in a program for fewer lanes.
"""

import concurrent.futures
import contextlib
import dataclasses
import math
from typing import NamedTuple

import jax
import jax.numpy as jnp
import numpy as np
from jaxtyping import Float

from .._lanes import accelerated, cores, places
from .._objective import Objective
from ._logbook import Logbook, Note
from ._program import RUNNING, Controls, Lanes, Start, State, Step
from ._worker import Judge, Progress, Shared, Watch, Worker

_CACHE = 3_600  # largest count of weights in a batch that fits into the CPU's cache
_BUSY = 3_000_000  # smallest count of weights in a batch that keeps an accelerator busy
# Pairs: ratio of a pool's lanes to its running lanes, and samples of each lane that must then fit.
_TURNS = (1, 0), (4, 8), (16, 64)
_MOST_NUMBERS = 2_000_000  # numbers in the samples that a worker keeps
_MOST_ROWS = 512
_MANY_STEPS = 10_000  # steps after which a lane of a batch is set aside
_FEW = 16  # number of lanes that do not keep an accelerator busy
_STATE = 30  # arrays of the size of the weights that a step needs in memory


def initial_state(weights: Float[np.ndarray, "weight lane"], start: Start) -> State:
    """Return the state of every lane at time zero."""
    loss, velocity, rate, size = start
    zero, none, one = np.zeros(loss.shape, int), np.zeros(loss.shape), np.ones(loss.shape)
    # The first step is a hundredth of the time in which typical weights move by their own size.
    norm, speed = np.sqrt(len(weights)) * np.asarray(size), np.sqrt(rate)
    moves = (norm > 0) & (speed > 0) & np.isfinite(speed)
    first = np.where(moves, 0.01 * norm / np.where(moves, speed, 1.0), 1e-3)
    return State(
        stop=zero,
        status=zero,
        event=zero,
        steps=zero,
        samples=zero + 1,
        time=none,
        loss=loss,
        rate=rate,
        peak=rate,
        step_size=first,
        roughness=none,
        kinks=none,
        slack=one,
        loosest=one,
        path=none,
        sampled=none,
        lowest=loss,
        weights=weights,
        velocity=velocity,
    )


def drive(
    objective: Objective,
    state: State,
    controls: Controls,
    *,
    step: Step,
    goes_on: Judge,
    progress: Progress | None,
    watch: Watch | None = None,
    note: Note | None = None,
    keeps_weights: bool = True,
    before: Logbook | None = None,
) -> Logbook:
    """Train every lane to its end, from the start or from the end of an earlier logbook."""
    everyone = Lanes(np.stack(state[:-2]), *state[-2:])
    weights, total = everyone.weights.shape
    numbers = 3 + weights * keeps_weights
    sizes = _sizes(weights, total, numbers)
    book = Logbook(
        everyone,
        note,
        keeps_weights=keeps_weights,
        keeps_velocity=bool(np.any(controls.momentum)),
        before=before,
    )
    if not controls.at_stops and before is None:
        book.add_states(np.arange(total))
    if accelerated():
        everyone = everyone._replace(weights=jnp.asarray(everyone.weights))
    shared = Shared(
        objective=objective,
        everyone=everyone,
        controls=controls,
        each=controls.each,
        step=step,
        goes_on=goes_on,
        book=book,
        slots=sizes.slots,
        rows=sizes.rows,
        numbers=numbers,
        progress=progress,
        watch=watch,
        queue=iter(range(total)),
        device=jax.config.jax_default_device,  # pyright: ignore[reportAttributeAccessIssue]
    )
    if total > 1 and controls.most_steps > _MANY_STEPS:
        shared.controls = controls._replace(most_steps=np.asarray(_MANY_STEPS))
        shared.aside = []
    _run(shared, sizes, total)
    if shared.aside:
        _go_on(shared, sizes, controls)
    if not controls.at_stops:  # the end of a trajectory is always a sample
        book.add_states(np.flatnonzero(book.last.time > book.last.sampled))
    elif not book.samples.pieces:
        book.add_nothing()
    return book


def _run(shared: Shared, sizes: "_Sizes", total: int) -> None:
    """Train all lanes of the queue with one or several workers."""
    share = min(sizes.pool, math.ceil(total / sizes.workers))
    crew = [Worker(shared, sizes.pool, share) for _ in range(sizes.workers)]
    if len(crew) == 1:
        crew[0].work()
        return
    crew[0].compile()  # compile once, before all workers need the same program
    with concurrent.futures.ThreadPoolExecutor(len(crew)) as pool:
        try:
            for finished in [pool.submit(worker.work) for worker in crew]:
                finished.result()
        except BaseException:
            shared.interrupted.set()  # the user interrupted the main thread
            raise


def _go_on(shared: Shared, sizes: "_Sizes", controls: Controls) -> None:
    """Finish training the networks that were set aside; if they are few, use the CPU."""
    assert shared.aside is not None
    everyone = Lanes(*(np.array(part) for part in shared.everyone))
    for lanes, laid in shared.aside:
        for part, theirs in zip(everyone, laid, strict=True):
            part[..., lanes] = theirs
    lanes = np.concatenate([lanes for lanes, _ in shared.aside])
    everyone.state.status[lanes] = RUNNING
    here = shared.device
    if accelerated() and len(lanes) <= _FEW:
        with contextlib.suppress(RuntimeError):  # JAX may be configured without a CPU backend
            here = jax.devices("cpu")[0]
    with jax.default_device(here):
        if not accelerated():
            sizes = _sizes(len(everyone.weights), len(lanes), shared.numbers)
        left = dataclasses.replace(
            shared,
            everyone=everyone,
            controls=controls,
            slots=sizes.slots,
            rows=sizes.rows,
            queue=iter(lanes.tolist()),
            device=here,
            aside=None,
        )
        _run(left, sizes, len(lanes))


class _Sizes(NamedTuple):
    workers: int
    pool: int  # number of lanes of one worker
    slots: int  # number of lanes of a pool that run together
    rows: int  # largest number of samples of a lane between two looks


def _sizes(weights: int, total: int, numbers: int) -> _Sizes:
    """Choose how many lanes run together, and how many samples of each fit in memory.

    On a CPU each core has a worker, which runs as many lanes as its cache holds. On an accelerator
    a single worker runs as many lanes as keep the device busy. Sizes depend on the number of lanes
    only through its next power of two, because every new size needs a compilation.
    """
    most = places(total)
    if accelerated():
        each = _STATE * weights + _MOST_ROWS * numbers
        pool = min(most, 2 ** int(math.log2(_accelerator_numbers() / each)))
        slots = min(pool, max(1, 2 ** round(math.log2(_BUSY / weights))))
        return _Sizes(1, pool, slots, _MOST_ROWS)
    slots = min(most, 64, max(8, 2 ** round(math.log2(_CACHE / weights))))
    while slots > 1 and 8 * slots * weights > _MOST_NUMBERS:
        slots //= 2
    workers = min(cores(), math.ceil(total / slots))
    share = math.ceil(most / min(cores(), math.ceil(most / slots)))
    fit = [turns for turns, rows in _TURNS if turns * rows * slots * numbers <= _MOST_NUMBERS]
    pool = slots * next((turns for turns in fit if share <= turns * slots), fit[-1])
    rows = min(max(_MOST_NUMBERS // (pool * numbers), 8), _MOST_ROWS // 2)
    return _Sizes(workers, pool, slots, rows)


def _accelerator_numbers() -> int:
    """Return how many numbers fit into half of an accelerator's memory."""
    device = jax.config.jax_default_device or jax.devices()[0]  # pyright: ignore[reportAttributeAccessIssue]
    if isinstance(device, str):
        device = jax.devices(device)[0]
    return device.memory_stats()["bytes_limit"] // 16
