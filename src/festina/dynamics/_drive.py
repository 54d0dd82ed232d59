"""The host's part of a simulation: feed lanes to the compiled program, keep what moves, judge ends.

Trajectories of a batch differ in length. The compiled program has a fixed number of lanes; whenever
one ends, the next trajectory of the queue takes its place, so that nobody waits for the longest.
"""

from collections.abc import Callable
from dataclasses import dataclass, field

import jax
import numpy as np
from jaxtyping import Float

from .._objective import Objective
from .._types import Array
from ._program import (
    ACCEPTED,
    AT_STOP,
    FINISHED,
    IDLE,
    RUNNING,
    Controls,
    Record,
    State,
    Step,
    advance,
    start,
)

Progress = Callable[[str, float], None]
Judge = Callable[[int, int, Array, "Log"], bool]
"""(lane, status, weights, log) → whether the lane is over."""

_MOST_LANES = 64
_MOST_NUMBERS = 4_000_000  # of a record on the device
_MOST_ROWS = 512


@dataclass
class Log:
    """The samples kept of one lane."""

    rows: list[Record] = field(default_factory=list)
    path: float = 0.0
    steps: int = 0

    def joined(self) -> Record:
        return Record(*(np.concatenate(parts) for parts in zip(*self.rows, strict=True)))


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

    def keep(self, record: Record, log: Log, initial_loss: float) -> np.ndarray:
        """Which samples to keep: those where the path through (loss, log rate) passes a mark."""
        if not len(record.loss):
            return np.zeros(0, bool)
        last = log.rows[-1]
        loss = np.concatenate((last.loss[-1:], record.loss))
        rate = np.concatenate((last.rate[-1:], record.rate))
        log_rate = np.log10(np.maximum(rate, 1e-300))
        steps = np.abs(np.diff(loss)) / (self.loss * initial_loss)
        steps += np.abs(np.diff(log_rate)) / self.rate
        path = log.path + np.cumsum(steps)
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

    logs = [Log() for _ in range(total)]
    for lane, log in enumerate(logs):
        log.rows.append(Record(*(np.asarray([part[lane]]) for part in _row(everyone))))

    queue = iter(range(lanes, total))
    slots: list[int | None] = list(range(lanes))
    state = _take(everyone, np.arange(lanes))
    ended = 0
    while ended < total:
        here = Controls(
            controls.stops, controls.rtol, *(part[[s or 0 for s in slots]] for part in controls[2:])
        )
        device_state, device_record, count = advance(
            state, objective.data, here, step=step, structure=objective.structure, length=length
        )
        state = State(*(np.array(part) for part in jax.device_get(device_state)))
        record = Record(*(part[: int(count)] for part in jax.device_get(device_record)))
        for slot, lane in enumerate(slots):
            if lane is None:
                continue
            log = logs[lane]
            _keep(
                Record(*(part[:, slot] for part in record)),
                log,
                resolution,
                float(everyone.loss[lane]),
            )
            status = int(state.status[slot])
            out_of_steps = log.steps >= max_steps
            if status == RUNNING and not out_of_steps:
                continue
            if resolution is not None:
                _keep_last(state, slot, log)
            if not judge(lane, status, state.weights[slot], log):
                if not out_of_steps:
                    state.status[slot] = RUNNING
                    continue
                judge(lane, RUNNING, state.weights[slot], log)
            ended += 1
            slots[slot] = next(queue, None)
            following = slots[slot]
            if following is None:
                state.status[slot] = FINISHED
            else:
                for part, every in zip(state, everyone, strict=True):
                    part[slot] = every[following]
        if progress is not None:
            progress(_words(logs, slots, ended, total), ended / total)
    return logs


def _row(state: State) -> Record:
    return Record(state.time, state.weights, state.loss, state.rate, state.event)


def _take(state: State, lanes: np.ndarray) -> State:
    return State(*(np.array(part[lanes]) for part in state))


def _keep(record: Record, log: Log, resolution: Resolution | None, initial_loss: float) -> None:
    log.steps += int(np.sum(record.event != IDLE))
    useful = (record.event >= ACCEPTED) & np.isfinite(record.loss) & np.isfinite(record.rate)
    if resolution is None:
        useful &= record.event == AT_STOP
        chosen = Record(*(part[useful] for part in record))
    else:
        taken = Record(*(part[useful] for part in record))
        kept = resolution.keep(taken, log, initial_loss or 1.0)
        chosen = Record(*(part[kept] for part in taken))
    if len(chosen.time):
        log.rows.append(chosen)


def _keep_last(state: State, slot: int, log: Log) -> None:
    """The end of a trajectory is always a sample."""
    # A copy: the slot is about to be given to the next lane, in place.
    last = Record(*(part[slot : slot + 1].copy() for part in _row(state)))
    is_new = last.time[0] > log.rows[-1].time[-1]
    if is_new and np.isfinite(last.loss).all() and np.isfinite(last.rate).all():
        log.rows.append(last)


def _words(logs: list[Log], slots: list[int | None], ended: int, total: int) -> str:
    running = [logs[lane] for lane in slots if lane is not None]
    if not running:
        return f"trained {total} of {total}"
    latest = running[0].rows[-1]
    counted = f"{ended} of {total} trained, " if total > 1 else ""
    return f"{counted}time {latest.time[-1]:.3g}, loss {latest.loss[-1]:.3g}"
