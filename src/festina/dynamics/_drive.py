"""The host's part of a simulation: feed lanes to the compiled program, and judge their ends.

Trajectories of a batch differ in length. The compiled program has a fixed number of lanes; whenever
one ends, the next trajectory of the queue takes its place, so that nobody waits for the longest.
Each core of the processor has a queue of its own.
"""

import concurrent.futures
import itertools
import os
import threading
from collections.abc import Callable

import jax
import numpy as np
from jaxtyping import Float

from .._objective import Objective
from .._precision import float64
from ._logbook import Logbook, Resolution
from ._program import FINISHED, RUNNING, Controls, Record, State, Step, advance, start

Progress = Callable[[str, float], None]
"""Called with words and the fraction done, by one thread at a time but not always the same."""

Judge = Callable[[int, int, Logbook], bool]
"""(lane, status, book) → whether the lane is over."""

_CACHE = 3_000  # numbers: a batch with more weights than this falls out of the processor's cache
_MOST_NUMBERS = 4_000_000  # of a record on the device
_MOST_ROWS = 512


def initial_state(
    objective: Objective,
    weights: Float[np.ndarray, "weight lane"],
    step_size: Callable[[np.ndarray, np.ndarray], np.ndarray],
) -> State:
    """Every lane at time zero."""
    loss, velocity, rate = map(
        np.asarray, start(weights, objective.data, structure=objective.structure)
    )
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
    )


def drive(
    objective: Objective,
    everyone: State,
    controls: Controls,
    *,
    step: Step,
    judge: Judge,
    resolution: Resolution | None,
    max_steps: int,
    progress: Progress | None,
) -> Logbook:
    """Run every lane to its end. `resolution` None keeps exactly the requested times."""
    n, total = everyone.weights.shape
    slots = min(total, int(np.clip(2 ** round(np.log2(_CACHE / n)), 8, 64)))
    slots = max(1, min(slots, _MOST_NUMBERS // (8 * n)))
    workers = max(1, min(_cores(), total // slots))
    rows = _MOST_NUMBERS // (workers * slots * n)
    rows = int(np.clip(rows, 8, 64 if total > slots else _MOST_ROWS))
    book = Logbook(everyone, resolution)
    ended, interrupted = [0] * workers, threading.Event()
    device = jax.config.jax_default_device  # pyright: ignore[reportAttributeAccessIssue]
    compiling, speaking = threading.Lock(), threading.Lock()

    def take_steps(state: State, lanes: list[int | None]) -> tuple[State, Record, int]:
        most = max(book.steps[lane] for lane in lanes if lane is not None)
        state, record, count = advance(
            state,
            objective.data,
            controls.of([lane or 0 for lane in lanes]),
            np.asarray(min(rows, max_steps - most)),
            step=step,
            structure=objective.structure,
            length=rows,
        )
        return state, record, int(count)

    def work(worker: int) -> None:
        try:
            with jax.default_device(device):  # which another thread does not inherit
                _work(worker)
        except BaseException:
            interrupted.set()  # the others stop too
            raise

    @float64
    def _work(worker: int) -> None:
        queue = iter(range(worker, total, workers))
        lanes: list[int | None] = list(itertools.islice(queue, slots))
        state = _lanes(everyone, lanes)
        with compiling:  # or every worker would compile the same program
            if interrupted.is_set():
                return
            state, record, count = take_steps(state, lanes)
        while True:
            taken = [(slot, lane) for slot, lane in enumerate(lanes) if lane is not None]
            weights, numbers, status = map(
                np.asarray, (record.weights, record.numbers, state.status)
            )
            book.write(taken, weights[:, :count], numbers[:, :count])
            changes: dict[int, State] = {}
            for slot, lane in taken:
                out_of_steps = book.steps[lane] >= max_steps
                if status[slot] == RUNNING and not out_of_steps:
                    continue
                if not judge(lane, int(status[slot]), book):
                    arrived = int(state.stop[slot]) >= len(controls.stops)
                    if not out_of_steps and not arrived:
                        changes[slot] = _lanes(state, slot)._replace(status=np.asarray(RUNNING))
                        continue
                    judge(lane, FINISHED if arrived else RUNNING, book)
                book.close(lane)
                ended[worker] += 1
                lanes[slot] = following = next(queue, None)
                if following is not None:
                    changes[slot] = _lanes(everyone, following)
                elif status[slot] == RUNNING:
                    changes[slot] = _lanes(state, slot)._replace(status=np.asarray(FINISHED))
            if progress is not None:
                with speaking:
                    progress(_words(book, lanes, sum(ended), total), sum(ended) / total)
            if interrupted.is_set() or all(lane is None for lane in lanes):
                return
            state, record, count = take_steps(_change(state, changes), lanes)

    if workers == 1:
        work(0)
        return book
    with concurrent.futures.ThreadPoolExecutor(workers) as pool:
        try:
            for finished in [pool.submit(work, worker) for worker in range(workers)]:
                finished.result()
        finally:
            interrupted.set()  # where the user broke off
    return book


def _cores() -> int:
    return len(os.sched_getaffinity(0)) if hasattr(os, "sched_getaffinity") else os.cpu_count() or 1


def _lanes(state: State, which: int | list) -> State:
    return State(*(np.asarray(part)[..., which] for part in state))


def _change(state: State, changes: dict[int, State]) -> State:
    """Put other lanes into some of the slots."""
    if not changes:
        return state
    parts = [np.array(part) for part in state]
    for slot, lane in changes.items():
        for part, value in zip(parts, lane, strict=True):
            part[..., slot] = value
    return State(*parts)


def _words(book: Logbook, lanes: list[int | None], ended: int, total: int) -> str:
    running = [lane for lane in lanes if lane is not None]
    if not running:
        return f"trained {ended} of {total}"
    time, loss, _ = book.latest[:, running[0]]
    counted = f"{ended} of {total} trained, " if total > 1 else ""
    return f"{counted}time {time:.3g}, loss {loss:.3g}"
