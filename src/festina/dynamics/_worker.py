"""A worker: a pool of lanes that the compiled program runs, and a queue that waits for them.

When half of its lanes have ended they make room for the next of the queue. Workers share nothing
but what `Shared` names, the queue among it.
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
"""Called with words and the fraction done, by one thread at a time but not always the same."""

Judge = Callable[[int, State], bool]
"""Of a lane, and where it is: whether it only passes a saddle, and goes on."""

Watch = Callable[[Logbook], None]
"""Looks at how it stands, now and then, and raises what ends it all."""

_GAIN_TOLERANCE = Controls._fields[EACH:].index("gain_tolerance")
_SHORT, _LONG = 0.1, 0.5  # seconds, between which the host is to look again
_FEWEST_STEPS, _MOST_STEPS = 8, 4096  # between two looks
_NO_ROOM = Kept(np.empty((0, 0, 0)), np.empty(0, int))
_FIRST, _FIRST_ACCELERATED = 1e8, 1e10  # products of a weight and a sample before the first look


@dataclass
class Shared:
    """What all workers of a simulation have in common; each writes only to lanes of its own."""

    objective: Objective
    everyone: Lanes  # at their start
    controls: Controls
    each: Float[np.ndarray, "control lane"]  # of the controls, those that each lane has
    step: Step
    goes_on: Judge
    book: Logbook
    slots: int  # lanes of a pool that run together
    rows: int  # samples of a lane for which the device has room
    numbers: int  # of a sample
    progress: Progress | None
    watch: Watch | None
    queue: Iterator[int]  # of lanes; to take the next ones is a single operation of the interpreter
    device: Any  # which another thread does not inherit
    # Lanes that have taken all steps they may for now; None where that is the end of them.
    aside: list[tuple[Int[np.ndarray, " lane"], Lanes]] | None = None
    ended: int = 0
    interrupted: threading.Event = field(default_factory=threading.Event)
    speaking: threading.Lock = field(default_factory=threading.Lock)

    @property
    def _time_done(self) -> float:
        """Of the time asked for, over all lanes; where none was, nothing is known of it."""
        stop = float(self.controls.stops[-1])
        if not 0 < stop < np.inf:
            return 0.0
        return float(np.clip(np.nan_to_num(self.book.last.time) / stop, 0.0, 1.0).mean())

    def report(self, running: Int[np.ndarray, " lane"], ended: int) -> None:
        """So many more have ended; say how it stands, unless somebody has broken off."""
        with self.speaking:
            if self.interrupted.is_set():
                return
            self.ended += ended
            try:
                self._tell(running)
            except BaseException:
                self.interrupted.set()  # before anybody else can speak
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
    """Takes lanes of the queue to their ends, a pool of them at a time."""

    def __init__(self, shared: Shared, pool: int, share: int):
        self.shared = shared
        work = len(shared.objective.data.psi) * len(shared.everyone.weights) * shared.slots
        first_look = _FIRST_ACCELERATED if accelerated() else _FIRST
        self.limit = int(np.clip(first_look / work, _FEWEST_STEPS, _MOST_STEPS))
        first = list(itertools.islice(shared.queue, share))
        self.lanes = np.array(first + [NOBODY] * (pool - len(first)))
        self.running = self.lanes != NOBODY
        self.pool = Lanes(*(part[..., self.lanes] for part in shared.everyone))  # of nobody, any
        self.pool.state.status[~self.running] = FINISHED
        self.kept = _NO_ROOM

    def work(self) -> None:
        try:
            with jax.default_device(self.shared.device):
                self._work()
        except BaseException:
            self.shared.interrupted.set()  # the others stop too
            raise

    @float64
    def compile(self) -> None:
        """The program, by taking no step."""
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
        """Steps between two looks: few enough to be broken off, enough that looks cost nothing."""
        if seconds > _LONG:
            self.limit = max(self.limit // 2, _FEWEST_STEPS)
        elif seconds < _SHORT:
            self.limit = min(self.limit * 2, _MOST_STEPS)

    def _judge(self) -> int:
        """Which of the lanes that have stopped go on, and which have ended; how many these are."""
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
        # To the program all that have ended are the same: nobody waits for us any more.
        status[:] = np.where(self.running, RUNNING, FINISHED)
        return int(ended.sum())

    def _after_standstill(self, lane: int, state: State) -> int:
        """Whoever may go on but has no step or no time left is over as well."""
        if not self.shared.goes_on(lane, state):
            return int(state.status)
        if state.status == STATIONARY:
            self.shared.each[_GAIN_TOLERANCE, lane] *= 1e-2  # ask again at a tenth of this gradient
        if state.stop >= len(self.shared.controls.stops):
            return FINISHED
        return OUT_OF_STEPS if state.steps >= self.shared.controls.most_steps else RUNNING

    def _make_room(self) -> None:
        """For the next lanes of the queue in place of those that have ended, and for samples."""
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
        """Where they are, and samples, to the logbook."""
        self.shared.book.follow(self.lanes, whose & (self.lanes != NOBODY), self.pool)
        counts, rows = np.array(self.kept.counts), cast(Any, self.kept.rows)
        (some,) = np.nonzero(whose & (counts > 0))
        if rows.platform() == "cpu":
            # Unlike what `asarray` makes, it is not held on to, and its memory can be used again.
            there = np.arange(self.shared.rows) < np.where(whose, counts, 0)[:, None]
            every = np.from_dlpack(rows).reshape(-1, self.shared.numbers)
            samples = every.compress(there.ravel(), axis=0)
            numbers, weights = np.ascontiguousarray(samples[:, :3].T), samples[:, 3:]
        else:
            total = int(counts[some].sum())
            most = -(-total // (part := max(1, places(total) // 8))) * part  # for few programs
            numbers, weights = map(on_host, packed(rows, np.where(whose, counts, 0), most))
            numbers, weights = numbers[:, :total], weights[:total].copy()  # they stay for long
        self.shared.book.add(self.lanes[some], counts[some], numbers, weights)
        self.kept = self.kept._replace(counts=np.where(whose, 0, counts))

    def _room(self) -> Kept:
        pool = len(self.lanes)
        empty = np.empty if pool == 1 else jax.lax.empty  # what is large is made on the device
        room = empty((pool, self.shared.rows, self.shared.numbers), float)
        return Kept(room, np.zeros(pool, np.int64))
