"""What is kept of every trajectory of a batch: samples where it moves, and how it ended."""

from collections.abc import Callable
from dataclasses import dataclass
from typing import NamedTuple

import numpy as np
from jaxtyping import Bool, Float, Int

from .._lanes import blocks, on_all_cores, span
from ._program import State

NOBODY = -1
"""The lane of a slot without one."""

_REMEMBERED = (
    *("time", "weights", "loss", "rate", "peak", "step_size", "stop"),
    *("steps", "loosest", "sampled"),
)
_DECADES = 20  # between the rate of a drop and that of convergence


class Samples(NamedTuple):
    """Successive states of all lanes side by side."""

    time: Float[np.ndarray, "lane save"]
    weights: Float[np.ndarray, "lane save number"]  # or what is observed of them
    loss: Float[np.ndarray, "lane save"]
    rate: Float[np.ndarray, "lane save"]


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

    @property
    def most(self) -> float:
        """Samples of a lane after which only what is new is worth another.

        A staircase leads once through the loss and a few times through the decades of its rate.
        """
        return 2 * (1 / self.loss + _DECADES / self.rate)


Note = Callable[[int, np.ndarray], np.ndarray]
"""From a lane and its weights `(save, weight)` to what is written down, `(save, number)`."""


class Piece(NamedTuple):
    """So many samples of some lanes, one lane after the other."""

    lanes: Int[np.ndarray, " lane"]
    counts: Int[np.ndarray, " lane"]
    numbers: Float[np.ndarray, "row 3"]  # time, loss, rate
    weights: Float[np.ndarray, "row number"]  # or what is observed of them


class Logbook:
    """Samples, latest state and status of every lane; each lane has one writer."""

    def __init__(self, start: State, note: Note | None = None, *, keeps_weights: bool = True):
        self._note, self._keeps_weights = note, keeps_weights
        self._pieces: list[Piece] = []
        self.initial = np.asarray(start.weights)
        mine = {name: np.array(getattr(start, name)) for name in (*_REMEMBERED, "status")}
        nothing = np.empty((0, len(start.loss)))  # it is as large as the weights, and nobody asks
        self.last = start._replace(**mine, velocity=nothing)
        # Weights at the latest sample; where none are kept, where they are now.
        self.sampled = self.initial.copy() if keeps_weights else self.last.weights

    @property
    def latest(self) -> Float[np.ndarray, "3 lane"]:
        """Time, loss and rate."""
        return np.stack((self.last.time, self.last.loss, self.last.rate))

    @property
    def steps(self) -> Int[np.ndarray, " lane"]:
        """Taken or thrown away."""
        return np.asarray(self.last.steps)

    def of(self, lane: int) -> State:
        """Where one lane is."""
        return State(*(part[..., lane] for part in self.last))

    def glance(
        self, lanes: Int[np.ndarray, " slot"], whose: Bool[np.ndarray, " slot"], state: State
    ) -> None:
        """How far some lanes are: all that there is time to look at often."""
        for name in ("time", "loss", "steps", "status"):
            getattr(self.last, name)[lanes[whose]] = np.asarray(getattr(state, name))[whose]

    def follow(
        self, lanes: Int[np.ndarray, " slot"], whose: Bool[np.ndarray, " slot"], state: State
    ) -> None:
        """Where some lanes are; of their status the worker decides."""
        (some,) = np.nonzero(whose)
        here, there = span(lanes[some]), span(some)
        for name in _REMEMBERED:
            getattr(self.last, name)[..., here] = np.asarray(getattr(state, name))[..., there]

    def add(
        self,
        lanes: Int[np.ndarray, " lane"],
        counts: Int[np.ndarray, " lane"],
        rows: Float[np.ndarray, "row number"],
    ) -> None:
        """So many samples of some lanes, of each at least one."""
        if not lanes.size:
            return
        numbers, weights = rows[:, :3], rows[:, 3:]
        ends = np.cumsum(counts)
        if self._keeps_weights:
            self.sampled[:, lanes] = weights[ends - 1].T
        if self._note is not None and self._keeps_weights:
            each = np.split(weights, ends[:-1])
            seen = [self._note(int(lane), part) for lane, part in zip(lanes, each, strict=True)]
            numbers, weights = numbers.copy(), np.concatenate(seen)  # the rest is let go
        self._pieces.append(Piece(lanes, counts, numbers, weights))

    def add_states(self, lanes: Int[np.ndarray, " lane"]) -> None:
        """Where some lanes are is a sample of each."""
        parts = (self.latest, self.last.weights) if self._keeps_weights else (self.latest,)
        rows = np.vstack([part[:, lanes] for part in parts]).T
        self.add(lanes, np.ones(len(lanes), int), rows)

    def _width(self) -> int:
        """How many numbers a sample would have."""
        first = self.initial[:, :1].T
        return (first if self._note is None else self._note(0, first)).shape[1]

    def table(self) -> tuple[Samples, Int[np.ndarray, " lane"]]:
        """Everything kept, `(lane, save, …)`, short lanes padded with their last; and counts.

        A lane without a sample, which failed before the first time asked for, has nothing to show.
        """
        pieces, self._pieces = self._pieces, []
        total = np.zeros(self.last.time.shape, int)
        width = pieces[0].weights.shape[1] if pieces else self._width()
        last = np.full((len(total), 3 + width), np.nan)
        firsts = []
        for piece in pieces:
            firsts.append(total[piece.lanes])
            total[piece.lanes] += piece.counts
            ends = np.cumsum(piece.counts) - 1
            last[piece.lanes] = np.hstack((piece.numbers[ends], piece.weights[ends]))
        shape = len(total), max(1, total.max())
        table = Samples(
            np.empty(shape), np.empty((*shape, width)), np.empty(shape), np.empty(shape)
        )

        def pad(lanes: slice) -> None:
            time, loss, rate = last[lanes, :3].T
            for column, value in zip(table, (time, last[lanes, 3:], loss, rate), strict=True):
                column[lanes] = value[:, None]

        def fill(piece: Piece, first: Int[np.ndarray, " lane"], some: slice) -> None:
            counts, before = piece.counts[some], np.cumsum(piece.counts) - piece.counts
            lane = np.repeat(piece.lanes[some], counts)
            rows = slice(before[some][0], before[some][0] + len(lane))
            save = np.arange(len(piece.numbers))[rows] + np.repeat((first - before)[some], counts)
            time, loss, rate = piece.numbers[rows].T
            for column, value in zip(table, (time, piece.weights[rows], loss, rate), strict=True):
                column[lane, save] = value

        on_all_cores(pad, blocks(len(total)), len(total))
        each = zip(pieces, firsts, strict=True)
        parts = [(piece, first, some) for piece, first in each for some in blocks(len(first))]
        on_all_cores(lambda part: fill(*part), parts, len(total))
        return table, total
