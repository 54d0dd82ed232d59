"""The host's part of a simulation: feed lanes to the compiled program, and judge their ends.

Trajectories of a batch differ in length, and the compiled program has a fixed number of lanes. Each
core of the processor has a worker of its own (`_worker.py`); all take lanes from one queue.
"""

import concurrent.futures
import math
import os
from collections.abc import Callable
from typing import NamedTuple

import jax
import numpy as np
from jaxtyping import Float

from .._lanes import places
from .._objective import Objective
from ._logbook import Logbook, Note
from ._program import Controls, State, Step, start
from ._worker import Judge, Progress, Shared, Watch, Worker

_CACHE = 3_600  # numbers: a batch with more weights than this falls out of the processor's cache
_MOST_NUMBERS = 4_000_000  # of samples on the device
_MOST_ROWS = 512
_STATE = 30  # arrays like the weights, that a step works with


def initial_state(
    objective: Objective,
    weights: Float[np.ndarray, "weight lane"],
    step_size: Callable[[np.ndarray, np.ndarray], np.ndarray],
) -> State:
    """Every lane at time zero."""
    loss, velocity, rate = start(weights, objective.data, structure=objective.structure)
    zeros = np.zeros(loss.shape, np.int64)
    return State(
        time=np.zeros(loss.shape),
        weights=weights,
        loss=loss,
        velocity=velocity,
        rate=rate,
        peak=rate,
        step_size=step_size(weights, velocity),
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
    slots, workers, rows = _sizes(weights, total, 3 + weights * keeps_weights)
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
        rows=rows,
        keeps_weights=keeps_weights,
        progress=progress,
        watch=watch,
        queue=iter(range(total)),
        device=jax.config.jax_default_device,  # pyright: ignore[reportAttributeAccessIssue]
    )
    crew = [Worker(shared, slots) for _ in range(workers)]
    if workers == 1:
        crew[0].work()
    else:
        with concurrent.futures.ThreadPoolExecutor(workers) as pool:
            try:
                for finished in [pool.submit(worker.work) for worker in crew]:
                    finished.result()
            finally:
                shared.interrupted.set()  # where the user broke off
    if not controls.at_stops:  # the end of a trajectory is always a sample
        book.add_states(np.flatnonzero(book.last.time > book.last.sampled))
    return book


class _Sizes(NamedTuple):
    slots: int  # lanes that one worker runs together
    workers: int
    rows: int  # samples of each lane between two looks, at most


def _sizes(weights: int, total: int, kept: int) -> _Sizes:
    """How many lanes run together, and for how many samples, of `kept` numbers each, there is room.

    A processor has a worker for each core, with as many lanes as its cache holds; an accelerator
    one worker with all lanes, as far as its memory goes. What programs depend on, slots and rows,
    is the same from one power of two lanes to the next.
    """
    most = places(total)
    if (room := _accelerator_numbers()) is not None:
        slots = min(most, 2 ** int(np.log2(room / (_STATE * weights + _MOST_ROWS * kept))))
        return _Sizes(slots, 1, _MOST_ROWS)
    slots = min(most, int(np.clip(2 ** round(np.log2(_CACHE / weights)), 8, 64)))
    while slots > 1 and 8 * slots * weights > _MOST_NUMBERS:
        slots //= 2
    workers = min(cores(), math.ceil(total / slots))
    rows = _MOST_NUMBERS // (min(cores(), most // slots) * slots * kept)
    return _Sizes(slots, workers, int(np.clip(rows, 8, _MOST_ROWS)))


def _accelerator_numbers() -> int | None:
    """How many an accelerator has room for, half of its memory; None of a processor."""
    device = jax.config.jax_default_device or jax.devices()[0]  # pyright: ignore[reportAttributeAccessIssue]
    if device.platform == "cpu":
        return None
    return device.memory_stats()["bytes_limit"] // 16


def cores() -> int:
    """How many this process may use."""
    return len(os.sched_getaffinity(0)) if hasattr(os, "sched_getaffinity") else os.cpu_count() or 1
