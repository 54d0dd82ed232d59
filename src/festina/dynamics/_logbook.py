"""What is kept of every trajectory of a batch: samples where it moves, and the latest state."""

from collections.abc import Callable
from dataclasses import dataclass
from typing import NamedTuple

import numpy as np
from jaxtyping import Bool, Float, Int

from ._program import ACCEPTED, AT_STOP, IDLE, State

_DECADES = 20  # between the rate of a drop and that of convergence
_LATER = 1.01  # times the time of the last sample: when there is another, whatever happens


class Samples(NamedTuple):
    """Successive states of one lane, or of all of them side by side."""

    time: Float[np.ndarray, "*lane save"]
    weights: Float[np.ndarray, "*lane save number"]  # or what is observed of them
    loss: Float[np.ndarray, "*lane save"]
    rate: Float[np.ndarray, "*lane save"]


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

    def path(
        self, loss: Float[np.ndarray, "step lane"], rate: Float[np.ndarray, "step lane"]
    ) -> Float[np.ndarray, "step_less_one lane"]:
        """Length of the way through (loss, log rate) up to each step, in units of a save."""
        by_loss, by_rate = (np.abs(np.diff(part, axis=0)) for part in self._saves(loss, rate))
        return np.cumsum(by_loss + by_rate, axis=0)

    def cells(
        self, loss: Float[np.ndarray, " step"], rate: Float[np.ndarray, " step"]
    ) -> list[tuple[float, float]]:
        """Which square of one save by one each step is in, by its corner."""
        corners = (np.floor(part).tolist() for part in self._saves(loss, rate))
        return list(zip(*corners, strict=True))

    @property
    def most(self) -> float:
        """Samples of a lane after which only what is new is worth another.

        A staircase leads once through the loss and a few times through the decades of its rate.
        What goes on moving to and fro, along a kink or by the noise of a coarse tolerance, would
        fill the memory.
        """
        return 2 * (1 / self.loss + _DECADES / self.rate)

    def _saves(
        self, loss: Float[np.ndarray, "*step"], rate: Float[np.ndarray, "*step"]
    ) -> tuple[Float[np.ndarray, "*step"], Float[np.ndarray, "*step"]]:
        return loss / self.loss, np.log10(np.maximum(rate, 1e-300)) / self.rate


def _rises(loss: Float[np.ndarray, " sample"]) -> bool:
    return bool((np.diff(loss) > 1e-6 * loss[1:]).any())


Note = Callable[[int, np.ndarray], np.ndarray]
"""From a lane and its weights `(save, weight)` to what is written down, `(save, number)`."""


class Logbook:
    """Samples, latest state and number of steps of every lane. `resolution` None: only stops."""

    def __init__(self, start: State, resolution: Resolution | None, note: Note | None = None):
        self.resolution = resolution
        self._note = note or (lambda lane, weights: weights)
        time, loss, rate = (np.array(part) for part in (start.time, start.loss, start.rate))
        self.latest = np.stack((time, loss, rate))  # (3, lane)
        self.weights = np.array(start.weights)  # (weight, lane)
        self._start = np.asarray(start.weights)
        self.sampled = self.weights.copy()  # as they were at the latest sample
        self.steps = np.zeros(len(time), int)
        self.slack = np.ones(len(time))  # the most by which the tolerance was loosened
        self.peak, self.step_size = (np.array(each) for each in (start.peak, start.step_size))
        self._scale = np.where(loss > 0, loss, 1.0)
        self._path = np.zeros(len(time))
        self._counts = np.ones(len(time), int)
        self._known: dict[int, set[tuple[float, float]]] = {}  # cells of lanes with many samples
        self._rows: list[list[Samples]] = [[] for _ in time]
        for lane in range(len(time)):
            self._take(lane, self.latest[:, [lane]], self.weights[:, [lane]].T)

    def _take(
        self,
        lane: int,
        states: Float[np.ndarray, "3 save"],
        weights: Float[np.ndarray, "save weight"],
    ) -> None:
        """Some more samples of a lane."""
        time, loss, rate = states
        self._rows[lane].append(Samples(time, self._note(lane, weights), loss, rate))
        self.sampled[:, lane] = weights[-1]

    def initial_weights(self, lane: int) -> Float[np.ndarray, " weight"]:
        return self._start[:, lane]

    def goes_up(self, lane: int) -> bool:
        """Whether the loss rises, by more than rounding, between some of the last few samples."""
        return _rises(self._recent(lane))

    def has_gone_up(self, lane: int) -> bool:
        """Whether it rose between any of the samples."""
        return _rises(np.concatenate([part.loss for part in self._rows[lane]]))

    def goes_up_and_down(self, lane: int) -> bool:
        """Whether it falls between some of them as well."""
        return self.goes_up(lane) and bool((np.diff(self._recent(lane)) < 0).any())

    def _recent(self, lane: int) -> Float[np.ndarray, " sample"]:
        last = [part.loss[-8:] for part in self._rows[lane][-8:]]
        return np.concatenate((*last, self.latest[1, [lane]]))[-8:]

    def table(self) -> tuple[Samples, Int[np.ndarray, " lane"]]:
        """Everything kept, `(lane, save, …)`, short lanes padded with their last; and counts.

        Where only stops are kept, every requested time is a sample of its own, 0 included, so that
        the initial state is not one. A lane that failed before the first has nothing to show.
        """
        kept = [rows if self.resolution is not None else rows[1:] for rows in self._rows]
        counts = np.array([sum(len(part.time) for part in rows) for rows in kept])
        nothing = Samples(*(np.full_like(part, np.nan) for part in self._rows[0][0]))
        kept = [rows or [nothing] for rows in kept]
        lanes, longest = len(kept), max(1, counts.max())
        table = Samples(*(np.empty((lanes, longest, *part.shape[1:])) for part in self._rows[0][0]))
        for lane, rows in enumerate(kept):
            for column, parts in zip(table, zip(*rows, strict=True), strict=True):
                end = 0
                for part in parts:
                    column[lane, end : end + len(part)] = part
                    end += len(part)
                column[lane, end:] = parts[-1][-1]
        return table, counts

    def close(self, lane: int) -> None:
        """The end of a trajectory is always a sample."""
        last = self.latest[:, [lane]]
        if self.resolution is not None and last[0] > self._rows[lane][-1].time[-1]:
            self._take(lane, last, self.weights[:, [lane]].T)

    # The loss of a lane that diverges overflows in units of a save; its ending says what happened.
    @np.errstate(over="ignore", invalid="ignore")
    def write(
        self,
        taken: list[tuple[int, int]],
        weights: Float[np.ndarray, "all_slots step weight"],
        numbers: Float[np.ndarray, "5 step all_slots"],
    ) -> None:
        """Enter the steps of a record; `taken` says which of its slots belongs to which lane."""
        if not numbers.shape[1]:
            return
        slots, lanes = np.array(taken).T
        time, loss, rate, event, slack = numbers[:, :, slots]
        self.slack[lanes] = np.maximum(self.slack[lanes], slack.max(axis=0))
        self.steps[lanes] += np.sum(event != IDLE, axis=0)
        useful = (event >= ACCEPTED) & np.isfinite(loss) & np.isfinite(rate)
        # For each step the row of the last useful one: 0 is the state before the record.
        rows = np.where(useful, np.arange(1, len(time) + 1)[:, None], 0)
        rows = np.maximum.accumulate(np.concatenate((np.zeros_like(rows[:1]), rows)), axis=0)
        time, loss, rate = (
            np.take_along_axis(np.concatenate((before[None, lanes], part)), rows, axis=0)
            for before, part in zip(self.latest, (time, loss, rate), strict=True)
        )
        kept = useful & self._keep(lanes, loss, rate, event)
        if self.resolution is not None:
            many = self._counts[lanes] + np.sum(kept, axis=0) > self.resolution.most
            for slot, lane in zip(np.flatnonzero(many), lanes[many].tolist(), strict=True):
                (steps,) = np.nonzero(kept[:, slot])
                states = (part[steps + 1, slot] for part in (time, loss, rate))
                kept[steps, slot] = self._news(self.resolution, lane, *states)
        self._counts[lanes] += np.sum(kept, axis=0)

        index, row = np.nonzero(kept.T)
        states = np.stack([part[row + 1, index] for part in (time, loss, rate)])
        chosen = weights[slots[index], row]
        ends = np.cumsum(np.sum(kept, axis=0)).tolist()
        for lane, start, end in zip(lanes.tolist(), [0, *ends], ends, strict=False):
            if start < end:
                self._take(lane, states[:, start:end], chosen[start:end])

        self.latest[:, lanes] = time[-1], loss[-1], rate[-1]
        moved = np.flatnonzero(rows[-1])
        self.weights[:, lanes[moved]] = weights[slots[moved], rows[-1, moved] - 1].T

    def _keep(
        self,
        lanes: Int[np.ndarray, " slot"],
        loss: Float[np.ndarray, "step_plus_one slot"],
        rate: Float[np.ndarray, "step_plus_one slot"],
        event: Float[np.ndarray, "step slot"],
    ) -> Bool[np.ndarray, "step slot"]:
        """Which steps to keep: those where the way through (loss, log rate) passes a mark."""
        if self.resolution is None:
            return event == AT_STOP
        path = self._path[lanes] + self.resolution.path(loss / self._scale[lanes], rate)
        marks = np.floor(np.concatenate((self._path[None, lanes], path)))
        self._path[lanes] = path[-1]
        return np.diff(marks, axis=0) > 0

    def _news(
        self,
        resolution: Resolution,
        lane: int,
        time: Float[np.ndarray, " step"],
        loss: Float[np.ndarray, " step"],
        rate: Float[np.ndarray, " step"],
    ) -> list[bool]:
        """Which steps to keep of a lane with many samples: new to it, or long after the last."""
        scale, samples = self._scale[lane], self._rows[lane]
        if lane not in self._known:
            self._known[lane] = {
                cell for part in samples for cell in resolution.cells(part.loss / scale, part.rate)
            }
        known, last, news = self._known[lane], samples[-1].time[-1], []
        spare = resolution.most - self._counts[lane]
        for now, cell in zip(time, resolution.cells(loss / scale, rate), strict=True):
            news.append(bool(spare > 0 or cell not in known or now > _LATER * last))
            if news[-1]:
                spare, last = spare - 1, now
                known.add(cell)
        return news
