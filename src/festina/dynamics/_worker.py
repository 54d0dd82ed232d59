"""A worker: as many lanes as the compiled program has slots, and a queue that waits for them.

Whenever a lane ends, the next one of the queue takes its slot, so that nobody waits for the
longest. Workers share nothing but what `Shared` names, the queue among it.
"""

import threading
from collections.abc import Callable, Iterator
from dataclasses import dataclass, field
from typing import Any

import jax
import numpy as np
from jaxtyping import Int

from .._objective import Objective
from .._precision import float64
from ._logbook import Logbook
from ._program import FINISHED, RUNNING, Controls, Record, State, Step, advance

Progress = Callable[[str, float], None]
"""Called with words and the fraction done, by one thread at a time but not always the same."""

Judge = Callable[[int, int, Logbook], bool]
"""(lane, status, book) → whether the lane is over."""

Watch = Callable[[Logbook], None]
"""Looks at how it stands, now and then, and raises what ends it all."""


@dataclass
class Shared:
    """What all workers of a simulation have in common; each writes only to lanes of its own."""

    objective: Objective
    everyone: State  # every lane at its start
    controls: Controls
    step: Step
    judge: Judge
    book: Logbook
    rows: int  # of a record: the most steps between two looks
    max_steps: int
    progress: Progress | None
    watch: Watch | None
    queue: Iterator[int]  # of lanes; to take the next one is a single operation of the interpreter
    device: Any  # which another thread does not inherit
    ended: int = 0
    interrupted: threading.Event = field(default_factory=threading.Event)
    compiling: threading.Lock = field(default_factory=threading.Lock)
    speaking: threading.Lock = field(default_factory=threading.Lock)

    @property
    def _time_done(self) -> float:
        """Of the time asked for, over all lanes; where none was, nothing is known of it."""
        stop = float(self.controls.stops[-1])
        if not 0 < stop < np.inf:
            return 0.0
        return float(np.clip(np.nan_to_num(self.book.latest[0]) / stop, 0.0, 1.0).mean())

    def report(self, lanes: list[int | None], ended: int) -> None:
        """So many more have ended; say how it stands."""
        with self.speaking:
            self.ended += ended
            if self.watch is not None:
                self.watch(self.book)
            if self.progress is not None:
                total = len(self.book.steps)
                words = _words(self.book, lanes, self.ended, total)
                self.progress(words, max(self.ended / total, self._time_done))


class Worker:
    """Takes lanes of the queue to their ends, `slots` of them at a time."""

    def __init__(self, shared: Shared, slots: int):
        self.shared = shared
        self.lanes: list[int | None] = [next(shared.queue, None) for _ in range(slots)]
        state = lanes_of(shared.everyone, self._shown)
        idle = [lane is None for lane in self.lanes]
        self.state = state._replace(status=np.where(idle, FINISHED, state.status))

    def work(self) -> None:
        try:
            with jax.default_device(self.shared.device):
                self._work()
        except BaseException:
            self.shared.interrupted.set()  # the others stop too
            raise

    @float64
    def _work(self) -> None:
        shared = self.shared
        with shared.compiling:  # or every worker would compile the same program
            if shared.interrupted.is_set():
                return
            record, count = self._take_steps()
        while True:
            self._write(record, count)
            changes, ended = self._judge()
            shared.report(self.lanes, ended)
            if shared.interrupted.is_set() or all(lane is None for lane in self.lanes):
                return
            self.state = _change(self.state, changes)
            record, count = self._take_steps()

    @property
    def _taken(self) -> list[tuple[int, int]]:
        """Slots with a lane in them, and that lane."""
        return [(slot, lane) for slot, lane in enumerate(self.lanes) if lane is not None]

    @property
    def _shown(self) -> list[int]:
        """What the program gets to see in each slot: where there is no lane, any."""
        return [lane or 0 for lane in self.lanes]

    def _take_steps(self) -> tuple[Record, int]:
        shared = self.shared
        most = max(shared.book.steps[lane] for _, lane in self._taken)
        self.state, record, count = advance(
            self.state,
            shared.objective.data,
            shared.controls.of(self._shown),
            np.asarray(min(shared.rows, shared.max_steps - most)),
            step=shared.step,
            structure=shared.objective.structure,
            length=shared.rows,
        )
        return record, int(count)

    def _write(self, record: Record, count: int) -> None:
        weights, numbers = np.asarray(record.weights), np.asarray(record.numbers)
        self.shared.book.write(self._taken, weights[:, :count], numbers[:, :count])

    def _judge(self) -> tuple[dict[int, State], int]:
        """What comes into the slots whose lane has stopped, and how many lanes have ended."""
        book, status = self.shared.book, np.asarray(self.state.status)
        changes: dict[int, State] = {}
        ended = 0
        for slot, lane in self._taken:
            out_of_steps = bool(book.steps[lane] >= self.shared.max_steps)
            if status[slot] == RUNNING and not out_of_steps:
                continue
            if self._is_over(slot, lane, int(status[slot]), out_of_steps):
                book.close(lane)
                book.peak[lane] = self.state.peak[slot]
                book.step_size[lane] = self.state.step_size[slot]
                ended += 1
                changes |= self._refill(slot, status)
            else:
                changes[slot] = self._with_status(slot, RUNNING)
        return changes, ended

    def _is_over(self, slot: int, lane: int, status: int, out_of_steps: bool) -> bool:
        """Ask the judge. Whoever may go on but has no step or no time left is over as well."""
        judge, book = self.shared.judge, self.shared.book
        if judge(lane, status, book):
            return True
        arrived = int(self.state.stop[slot]) >= len(self.shared.controls.stops)
        if not out_of_steps and not arrived:
            return False
        judge(lane, FINISHED if arrived else RUNNING, book)
        return True

    def _refill(self, slot: int, status: Int[np.ndarray, " slot"]) -> dict[int, State]:
        """The next lane of the queue; where there is none, the slot idles."""
        self.lanes[slot] = following = next(self.shared.queue, None)
        if following is not None:
            return {slot: lanes_of(self.shared.everyone, following)}
        return {slot: self._with_status(slot, FINISHED)} if status[slot] == RUNNING else {}

    def _with_status(self, slot: int, status: int) -> State:
        return lanes_of(self.state, slot)._replace(status=np.asarray(status))


def lanes_of(state: State, which: int | list) -> State:
    """Some of the lanes."""
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
