"""The host's part of a simulation: feed lanes to the compiled program, and judge their ends.

Trajectories of a batch differ in length, and the compiled program has a fixed number of lanes. Each
core of the processor has a worker of its own (`_worker.py`); all take lanes from one queue.
"""

import concurrent.futures
import math
from typing import NamedTuple

import jax
import numpy as np
from jaxtyping import Float

from .._lanes import accelerated, cores, places
from .._objective import Objective
from ._adaptive import first_step
from ._logbook import Logbook, Note
from ._program import Controls, Start, State, Step
from ._worker import Judge, Progress, Shared, Watch, Worker

_CACHE = 3_600  # numbers: a batch with more weights than this falls out of the processor's cache
_BUSY = 3_000_000  # numbers: a batch with fewer weights than this leaves an accelerator idle
_TURNS = 4  # times as many lanes are at hand as run together
_MOST_NUMBERS = 2_000_000  # of samples that a worker keeps
_MOST_ROWS = 512
_STATE = 30  # arrays like the weights, that a step works with


def initial_state(weights: Float[np.ndarray, "weight lane"], start: Start) -> State:
    """Every lane at time zero."""
    loss, velocity, rate, square = start
    zeros = np.zeros(loss.shape, np.int64)
    return State(
        time=np.zeros(loss.shape),
        weights=weights,
        loss=loss,
        velocity=velocity,
        rate=rate,
        peak=rate,
        step_size=first_step(np.sqrt(square), np.sqrt(rate)),
        stop=zeros,
        status=zeros,
        event=zeros,
        roughness=np.zeros(loss.shape),
        kinks=np.zeros(loss.shape),
        slack=np.ones(loss.shape),
        loosest=np.ones(loss.shape),
        steps=zeros,
        path=np.zeros(loss.shape),
        samples=zeros + 1,
        sampled=np.zeros(loss.shape),
        lowest=loss,
    )


def drive(
    objective: Objective,
    everyone: State,
    controls: Controls,
    *,
    step: Step,
    goes_on: Judge,
    progress: Progress | None,
    watch: Watch | None = None,
    note: Note | None = None,
    keeps_weights: bool = True,
) -> Logbook:
    """Run every lane to its end."""
    weights, total = everyone.weights.shape
    sizes = _sizes(weights, total, 3 + weights * keeps_weights)
    book = Logbook(everyone, note, keeps_weights=keeps_weights)
    every = np.arange(total)
    if not controls.at_stops:
        book.add_states(every)
    shared = Shared(
        objective=objective,
        everyone=everyone,
        controls=controls,
        step=step,
        goes_on=goes_on,
        book=book,
        slots=sizes.slots,
        rows=sizes.rows,
        keeps_weights=keeps_weights,
        progress=progress,
        watch=watch,
        queue=iter(range(total)),
        device=jax.config.jax_default_device,  # pyright: ignore[reportAttributeAccessIssue]
    )
    share = min(sizes.pool, math.ceil(total / sizes.workers))
    crew = [Worker(shared, sizes.pool, share) for _ in range(sizes.workers)]
    if len(crew) == 1:
        crew[0].work()
    else:
        crew[0].compile()  # or every worker would, the same program
        with concurrent.futures.ThreadPoolExecutor(len(crew)) as pool:
            try:
                for finished in [pool.submit(worker.work) for worker in crew]:
                    finished.result()
            finally:
                shared.interrupted.set()  # where the user broke off
    if not controls.at_stops:  # the end of a trajectory is always a sample
        book.add_states(np.flatnonzero(book.last.time > book.last.sampled))
    return book


class _Sizes(NamedTuple):
    workers: int
    pool: int  # lanes that one worker has in hand
    slots: int  # of these run together
    rows: int  # samples of each lane between two looks, at most


def _sizes(weights: int, total: int, kept: int) -> _Sizes:
    """How many lanes run together, and for how many samples, of `kept` numbers each, there is room.

    A processor has a worker for each core, with as many lanes at a time as its cache holds; an
    accelerator one worker, with as many lanes as keep it busy. What programs depend on, all but
    the number of workers, is the same from one power of two lanes to the next.
    """
    most = places(total)
    if accelerated():
        each = _STATE * weights + _MOST_ROWS * kept
        pool = min(most, 2 ** int(math.log2(_accelerator_numbers() / each)))
        slots = min(pool, max(1, 2 ** round(math.log2(_BUSY / weights))))
        return _Sizes(1, pool, slots, _MOST_ROWS)
    slots = min(most, 64, max(8, 2 ** round(math.log2(_CACHE / weights))))
    while slots > 1 and 8 * slots * weights > _MOST_NUMBERS:
        slots //= 2
    workers = min(cores(), math.ceil(total / slots))
    pool = slots if most == slots else _TURNS * slots
    rows = min(max(_MOST_NUMBERS // (pool * kept), 8), _MOST_ROWS // 4)
    return _Sizes(workers, pool, slots, rows)


def _accelerator_numbers() -> int:
    """How many an accelerator has room for: half of its memory."""
    device = jax.config.jax_default_device or jax.devices()[0]  # pyright: ignore[reportAttributeAccessIssue]
    if isinstance(device, str):
        device = jax.devices(device)[0]
    return device.memory_stats()["bytes_limit"] // 16
