"""The host's part of a simulation: feed lanes to the compiled program, keep what moves, judge ends.

Trajectories of a batch differ in length. The compiled program has a fixed number of lanes; whenever
one ends, the next trajectory of the queue takes its place, so that nobody waits for the longest.
"""

from collections.abc import Callable
from dataclasses import dataclass
from typing import NamedTuple

import numpy as np
from jaxtyping import Float

from .._objective import Objective
from ._program import (
    ACCEPTED,
    AT_STOP,
    FINISHED,
    IDLE,
    RUNNING,
    Controls,
    State,
    Step,
    advance,
    start,
)

Progress = Callable[[str, float], None]
Judge = Callable[[int, int, "Log"], bool]
"""(lane, status, log) → whether the lane is over."""

_MOST_LANES = 64
_MOST_NUMBERS = 4_000_000  # of a record on the device
_MOST_ROWS = 512


class Samples(NamedTuple):
    """Successive states of one lane."""

    time: Float[np.ndarray, " save"]
    weights: Float[np.ndarray, "save weight"]
    loss: Float[np.ndarray, " save"]
    rate: Float[np.ndarray, " save"]

    def choose(self, which: np.ndarray | slice) -> "Samples":
        return Samples(*(part[which] for part in self))


@dataclass
class Log:
    """The samples kept of one lane, the latest state whether kept or not, and how it got there."""

    rows: list[Samples]
    last: Samples
    path: float = 0.0
    steps: int = 0

    def joined(self) -> Samples:
        return Samples(*(np.concatenate(parts) for parts in zip(*self.rows, strict=True)))


@dataclass(frozen=True)
class Resolution:
    """How far loss (in units of the initial one) or log₁₀ of the rate moves between two saves."""

    loss: float = 2e-3
    rate: float = 0.05

    def __post_init__(self) -> None:
        if not (self.loss > 0 and self.rate > 0):
            raise ValueError(
                f"`loss` and `rate` of a resolution must be positive, got {self.loss} and "
                f"{self.rate}."
            )

    def keep(self, taken: Samples, log: Log, initial_loss: float | np.floating) -> np.ndarray:
        """Which samples to keep: those where the path through (loss, log rate) passes a mark."""
        loss = np.concatenate((log.last.loss, taken.loss))
        rate = np.concatenate((log.last.rate, taken.rate))
        moved = np.abs(np.diff(loss)) / (self.loss * initial_loss)
        moved += np.abs(np.diff(np.log10(np.maximum(rate, 1e-300)))) / self.rate
        path = log.path + np.cumsum(moved)
        marks = np.floor(np.concatenate(([log.path], path)))
        log.path = float(path[-1])
        return np.diff(marks) > 0


def initial_state(
    objective: Objective,
    weights: Float[np.ndarray, "lane weight"],
    step_size: Callable[[np.ndarray, np.ndarray], np.ndarray],
) -> State:
    """Every lane at time zero."""
    loss, velocity, rate = map(
        np.asarray, start(weights, objective.data, structure=objective.structure)
    )
    zeros = np.zeros(len(weights), np.int64)
    return State(
        time=np.zeros(len(weights)),
        weights=weights,
        loss=loss,
        velocity=velocity,
        rate=rate,
        peak=rate,
        step_size=step_size(weights, velocity),
        stop=zeros,
        status=zeros,
        event=zeros,
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
) -> list[Log]:
    """Run every lane to its end. `resolution` None keeps exactly the requested times."""
    total, n = everyone.weights.shape
    lanes = min(total, _MOST_LANES)
    length = int(np.clip(_MOST_NUMBERS // (lanes * n), 8, _MOST_ROWS))
    if total > lanes:
        length = min(length, 64)

    first = Samples(
        *map(np.asarray, (everyone.time, everyone.weights, everyone.loss, everyone.rate))
    )
    starts = [first.choose(np.array([lane])) for lane in range(total)]
    logs = [Log([start], start) for start in starts]

    queue = iter(range(lanes, total))
    slots: list[int | None] = list(range(lanes))
    state = State(*(part[:lanes] for part in everyone))
    ended = 0
    while ended < total:
        here = Controls(
            controls.stops, controls.rtol, *(part[[s or 0 for s in slots]] for part in controls[2:])
        )
        most = max(logs[lane].steps for lane in slots if lane is not None)
        state, record, count = advance(
            state,
            objective.data,
            here,
            np.asarray(min(length, max_steps - most)),
            step=step,
            structure=objective.structure,
            length=length,
        )
        weights, numbers, status = map(np.asarray, (record.weights, record.numbers, state.status))
        rows = slice(int(count))
        changes: dict[int, State] = {}
        for slot, lane in enumerate(slots):
            if lane is None:
                continue
            log = logs[lane]
            _keep(log, weights[rows, slot], numbers[rows, slot], resolution, first.loss[lane])
            out_of_steps = log.steps >= max_steps
            if status[slot] == RUNNING and not out_of_steps:
                continue
            if not judge(lane, int(status[slot]), log):
                if not out_of_steps:
                    resumed = State(*(np.asarray(part[slot]) for part in state))
                    changes[slot] = resumed._replace(status=np.asarray(RUNNING))
                    continue
                judge(lane, RUNNING, log)
            if resolution is not None and log.last.time[0] > log.rows[-1].time[-1]:
                log.rows.append(log.last)  # the end of a trajectory is always a sample
            ended += 1
            slots[slot] = following = next(queue, None)
            if following is not None:
                changes[slot] = State(*(part[following] for part in everyone))
            elif status[slot] == RUNNING:
                retired = State(*(np.asarray(part[slot]) for part in state))
                changes[slot] = retired._replace(status=np.asarray(FINISHED))
        if changes:
            state = _change(state, changes)
        if progress is not None:
            progress(_words(logs, slots, ended, total), ended / total)
    return logs


def _keep(
    log: Log,
    weights: Float[np.ndarray, "step weight"],
    numbers: Float[np.ndarray, "step 4"],
    resolution: Resolution | None,
    initial_loss: float | np.floating,
) -> None:
    """Add what a lane's part of a record holds, thinned, to the lane's log."""
    time, loss, rate, event = numbers.T
    log.steps += int(np.sum(event != IDLE))
    useful = (event >= ACCEPTED) & np.isfinite(loss) & np.isfinite(rate)
    if not useful.any():
        return
    taken = Samples(time, weights, loss, rate).choose(useful)
    if resolution is None:
        kept = event[useful] == AT_STOP
    else:
        kept = resolution.keep(taken, log, initial_loss or 1.0)
    log.last = taken.choose(np.array([-1]))
    if kept.any():
        log.rows.append(taken.choose(kept))


def _change(state: State, changes: dict[int, State]) -> State:
    """Put other lanes into some of the slots."""
    parts = [np.array(part) for part in state]
    for slot, lane in changes.items():
        for part, value in zip(parts, lane, strict=True):
            part[slot] = value
    return State(*parts)


def _words(logs: list[Log], slots: list[int | None], ended: int, total: int) -> str:
    running = [logs[lane] for lane in slots if lane is not None]
    if not running:
        return f"trained {total} of {total}"
    latest = running[0].last
    counted = f"{ended} of {total} trained, " if total > 1 else ""
    return f"{counted}time {latest.time[-1]:.3g}, loss {latest.loss[-1]:.3g}"
