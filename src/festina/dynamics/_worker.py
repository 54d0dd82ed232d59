"""A worker: a thread that trains a pool of lanes with the compiled program.

When half of the lanes in its pool have ended, lanes from the queue replace them. Workers share only
the fields of `Shared`, including the queue.
"""

import itertools
import operator
import threading
import time
from collections.abc import Callable, Iterator
from dataclasses import dataclass, field
from typing import Any, cast

import jax
import numpy as np
from jaxtyping import Bool, Float, Int

from .._lanes import accelerated, on_host, places
from .._objective import Objective
from .._precision import float64
from ._logbook import NOBODY, Logbook
from ._program import (
    EACH,
    FINISHED,
    OUT_OF_STEPS,
    RUNNING,
    SLIDING,
    STATIONARY,
    Controls,
    Kept,
    Lanes,
    State,
    Step,
    advance,
    packed,
)

Progress = Callable[[str, float], None]
"""Function called with a text and the fraction done, by one thread at a time."""

Judge = Callable[[int, State], bool]
"""Function from a lane and its state to whether training goes on past a saddle."""

Watch = Callable[[Logbook], None]
"""Function that looks at the logbook now and then, and may raise to end the simulation."""

_GAIN_TOLERANCE = Controls._fields[EACH:].index("gain_tolerance")
_SHORT, _LONG = 0.1, 0.5  # target range for the seconds between two looks by the host
_FEWEST_STEPS, _MOST_STEPS = 8, 4096  # steps between two looks
_NO_ROOM = Kept(np.empty((0, 0, 0)), np.empty(0, int))
_FIRST, _FIRST_ACCELERATED = 1e8, 1e10  # weights × samples × steps before the first look


@dataclass
class Shared:
    """Data that all workers of a simulation share; each worker writes only to its own lanes."""

    objective: Objective
    everyone: Lanes  # all lanes at their start
    controls: Controls
    each: Float[np.ndarray, "control lane"]  # settings with one value for each lane
    step: Step
    goes_on: Judge
    book: Logbook
    slots: int  # number of lanes of a pool that run together
    rows: int  # number of samples of a lane that fit on the device
    numbers: int  # count of numbers in a sample
    progress: Progress | None
    watch: Watch | None
    queue: Iterator[int]  # indices of waiting lanes; taking the next ones is thread-safe
    device: Any  # a new thread does not inherit JAX's default device
    # Lanes that have reached the step limit of the first round; None if no further round follows.
    aside: list[tuple[Int[np.ndarray, " lane"], Lanes]] | None = None
    ended: int = 0
    interrupted: threading.Event = field(default_factory=threading.Event)
    speaking: threading.Lock = field(default_factory=threading.Lock)

    @property
    def _time_done(self) -> float:
        """Return the mean fraction of the requested time that is done; 0 if none is requested."""
        stop = float(self.controls.stops[-1])
        if not 0 < stop < np.inf:
            return 0.0
        return float(np.clip(np.nan_to_num(self.book.last.time) / stop, 0.0, 1.0).mean())

    def report(self, running: Int[np.ndarray, " lane"], ended: int) -> None:
        """Count lanes that have ended and report progress, unless a worker was interrupted."""
        with self.speaking:
            if self.interrupted.is_set():
                return
            self.ended += ended
            try:
                self._tell(running)
            except BaseException:
                self.interrupted.set()  # before another worker reports
                raise

    def _tell(self, running: Int[np.ndarray, " lane"]) -> None:
        if self.watch is not None:
            self.watch(self.book)
        if self.progress is None:
            return
        last, total = self.book.last, len(self.book.last.time)
        words = f"trained {self.ended} of {total}"
        if running.size:
            counted = f"{self.ended} of {total} trained, " if total > 1 else ""
            first = running[0]
            words = f"{counted}time {last.time[first]:.3g}, loss {last.loss[first]:.3g}"
        self.progress(words, max(self.ended / total, self._time_done))


class Worker:
    """Train lanes from the queue to their ends, a pool of lanes at a time."""

    def __init__(self, shared: Shared, pool: int, share: int):
        self.shared = shared
        work = len(shared.objective.data.psi) * len(shared.everyone.weights) * shared.slots
        first_look = _FIRST_ACCELERATED if accelerated() else _FIRST
        self.limit = int(np.clip(first_look / work, _FEWEST_STEPS, _MOST_STEPS))
        first = list(itertools.islice(shared.queue, share))
        self.lanes = np.array(first + [NOBODY] * (pool - len(first)))
        self.running = self.lanes != NOBODY
        # The index NOBODY gives an empty slot the state of an arbitrary lane.
        self.pool = Lanes(*(part[..., self.lanes] for part in shared.everyone))
        self.pool.state.status[~self.running] = FINISHED
        self.kept = _NO_ROOM

    def work(self) -> None:
        try:
            with jax.default_device(self.shared.device):
                self._work()
        except BaseException:
            self.shared.interrupted.set()  # stop the other workers
            raise

    @float64
    def compile(self) -> None:
        """Compile the program by calling it without any step."""
        limit, self.limit = self.limit, 0
        self._take_steps()
        self.limit = limit

    @float64
    def _work(self) -> None:
        shared = self.shared
        self._take_steps()
        while True:
            ended = self._judge()
            shared.report(self.lanes[self.running], ended)
            if shared.interrupted.is_set():
                return
            self._make_room()
            if not self.running.any():
                return
            start = time.perf_counter()
            self._take_steps()
            self._pace(time.perf_counter() - start)

    def _take_steps(self) -> None:
        shared, queued = self.shared, operator.length_hint(self.shared.queue) > 0
        self.pool, self.kept = advance(
            self.pool,
            self._room() if self.kept is _NO_ROOM else self.kept,
            shared.objective.data,
            shared.controls.stops,
            shared.controls.common,
            shared.each[:, self.lanes],
            np.asarray(self.limit),
            np.asarray(self.running.sum() // 2 if queued else 0),
            slots=shared.slots,
            step=shared.step,
            structure=shared.objective.structure,
        )
        jax.block_until_ready(self.kept.counts)

    def _pace(self, seconds: float) -> None:
        """Adapt the number of steps between two looks of the host to the measured time."""
        if seconds > _LONG:
            self.limit = max(self.limit // 2, _FEWEST_STEPS)
        elif seconds < _SHORT:
            self.limit = min(self.limit * 2, _MOST_STEPS)

    def _judge(self) -> int:
        """Decide which stopped lanes go on and which have ended; return how many have ended."""
        self.pool = self.pool._replace(numbers=np.array(on_host(self.pool.numbers)))
        book, status = self.shared.book, self.pool.state.status
        book.glance(self.lanes, self.running, self.pool)
        still = self.running & np.isin(status, (STATIONARY, SLIDING))
        if still.any():
            book.follow(self.lanes, still, self.pool)
        for slot in np.flatnonzero(still):
            lane = int(self.lanes[slot])
            status[slot] = book.last.status[lane] = self._after_standstill(lane, book.last.of(lane))
        ended = self.running & (status != RUNNING)
        self.running &= ~ended
        if self.shared.aside is not None and (late := ended & (status == OUT_OF_STEPS)).any():
            laid = Lanes(*(np.asarray(part)[..., late] for part in self.pool))
            self.shared.aside.append((self.lanes[late], laid))
            ended &= ~late
        # The program does not distinguish endings, and no lane waits for the host any more.
        status[:] = np.where(self.running, RUNNING, FINISHED)
        return int(ended.sum())

    def _after_standstill(self, lane: int, state: State) -> int:
        """Return the new status of a lane with a small gradient, which may also be out of steps."""
        if not self.shared.goes_on(lane, state):
            return int(state.status)
        if state.status == STATIONARY:
            self.shared.each[_GAIN_TOLERANCE, lane] *= 1e-2  # next check at a tenth of the gradient
        if state.stop >= len(self.shared.controls.stops):
            return FINISHED
        return OUT_OF_STEPS if state.steps >= self.shared.controls.most_steps else RUNNING

    def _make_room(self) -> None:
        """Replace ended lanes by lanes from the queue, and fetch samples if their space is full."""
        free = np.flatnonzero(~self.running)
        following = list(itertools.islice(self.shared.queue, len(free)))
        full = np.asarray(self.kept.counts).max() == self.shared.rows
        if following or full or not self.running.any():
            self._fetch(np.ones(len(self.lanes), bool) if full else ~self.running)
        if following:
            there = free[: len(following)]
            self.lanes[there], self.running[there] = following, True
            self.pool = Lanes(*(np.array(part) for part in self.pool))
            for part, at_start in zip(self.pool, self.shared.everyone, strict=True):
                part[..., there] = at_start[..., following]

    def _fetch(self, whose: Bool[np.ndarray, " slot"]) -> None:
        """Copy states and samples of the selected slots to the logbook."""
        self.shared.book.follow(self.lanes, whose & (self.lanes != NOBODY), self.pool)
        counts, rows = np.array(self.kept.counts), cast(Any, self.kept.rows)
        (some,) = np.nonzero(whose & (counts > 0))
        if rows.platform() == "cpu":
            # Unlike `np.asarray`, this view does not keep the buffer alive, so JAX can reuse it.
            there = np.arange(self.shared.rows) < np.where(whose, counts, 0)[:, None]
            every = np.from_dlpack(rows).reshape(-1, self.shared.numbers)
            samples = every.compress(there.ravel(), axis=0)
            numbers, weights = np.ascontiguousarray(samples[:, :3].T), samples[:, 3:]
        else:
            total = int(counts[some].sum())
            most = -(-total // (part := max(1, places(total) // 8))) * part  # few distinct sizes
            numbers, weights = map(on_host, packed(rows, np.where(whose, counts, 0), most))
            numbers, weights = numbers[:, :total], weights[:total].copy()  # frees the larger array
        self.shared.book.add(self.lanes[some], counts[some], numbers, weights)
        self.kept = self.kept._replace(counts=np.where(whose, 0, counts))

    def _room(self) -> Kept:
        pool = len(self.lanes)
        empty = np.empty if pool == 1 else jax.lax.empty  # large arrays are made on the device
        room = empty((pool, self.shared.rows, self.shared.numbers), float)
        return Kept(room, np.zeros(pool, np.int64))
