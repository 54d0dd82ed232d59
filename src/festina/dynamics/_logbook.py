"""What is kept of every trajectory of a batch: samples where it moves, and how it ended."""

from collections.abc import Callable
from dataclasses import dataclass
from typing import NamedTuple

import numpy as np
from jaxtyping import Bool, Float, Int

from ._program import State

NOBODY = -1
"""The lane of a slot without one."""

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
    """So many samples of some lanes; what rows are left over hold nothing."""

    lanes: Int[np.ndarray, " lane"]
    counts: Int[np.ndarray, " lane"]
    numbers: Float[np.ndarray, "lane row 3"]  # time, loss, rate
    weights: Float[np.ndarray, "lane row number"]  # or what is observed of them


class Logbook:
    """Samples, latest state and status of every lane; each lane has one writer."""

    def __init__(self, start: State, note: Note | None = None, *, keeps_weights: bool = True):
        self._note, self._keeps_weights = note, keeps_weights
        self._pieces: list[Piece] = []
        self.initial = np.asarray(start.weights)
        self.last = State(*(np.array(part) for part in start))
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

    def follow(
        self, lanes: Int[np.ndarray, " slot"], running: Bool[np.ndarray, " slot"], state: State
    ) -> None:
        """Where some lanes are, but for their weights: there may be too many to look at often."""
        for mine, theirs in zip(self.last, state, strict=True):
            if theirs.ndim == 1:
                mine[lanes[running]] = np.asarray(theirs)[running]

    def rest(self, lanes: Int[np.ndarray, " slot"], state: State) -> None:
        """And their weights."""
        whose = lanes != NOBODY
        self.last.weights[:, lanes[whose]] = np.asarray(state.weights)[:, whose]

    def add(
        self,
        lanes: Int[np.ndarray, " lane"],
        counts: Int[np.ndarray, " lane"],
        rows: Float[np.ndarray, "lane row number"],
    ) -> None:
        """So many samples of some lanes, of each at least one."""
        if not lanes.size:
            return
        weights = rows[..., 3:]
        if self._keeps_weights:
            self.sampled[:, lanes] = weights[np.arange(len(lanes)), counts - 1].T
        if self._note is not None and self._keeps_weights:
            seen = [
                self._note(int(lane), each[:count])
                for lane, each, count in zip(lanes, weights, counts, strict=True)
            ]
            weights = np.zeros((*weights.shape[:2], seen[0].shape[1]))
            for k, each in enumerate(seen):
                weights[k, : len(each)] = each
        self._pieces.append(Piece(lanes, counts, rows[..., :3], weights))

    def add_states(self, lanes: Int[np.ndarray, " lane"]) -> None:
        """Where some lanes are is a sample of each."""
        parts = (self.latest, self.last.weights) if self._keeps_weights else (self.latest,)
        rows = np.vstack([part[:, lanes] for part in parts]).T[:, None]
        self.add(lanes, np.ones(len(lanes), int), rows)

    def _width(self) -> int:
        """How many numbers a sample would have."""
        first = self.initial[:, :1].T
        return (first if self._note is None else self._note(0, first)).shape[1]

    def table(self) -> tuple[Samples, Int[np.ndarray, " lane"]]:
        """Everything kept, `(lane, save, …)`, short lanes padded with their last; and counts.

        A lane without a sample, which failed before the first time asked for, has nothing to show.
        """
        total = np.zeros(self.last.time.shape, int)
        for piece in self._pieces:
            total[piece.lanes] += piece.counts
        longest = max(1, total.max())
        width = self._pieces[0].weights.shape[2] if self._pieces else self._width()
        shape = len(total), longest
        table = Samples(
            np.empty(shape), np.empty((*shape, width)), np.empty(shape), np.empty(shape)
        )
        filled = np.zeros_like(total)
        while self._pieces:  # each is let go, so that there is no moment with all of them twice
            piece = self._pieces.pop(0)
            time, loss, rate = np.moveaxis(piece.numbers, -1, 0)
            columns = Samples(time, piece.weights, loss, rate)
            for first in np.unique(filled[piece.lanes]):
                (some,) = np.nonzero(filled[piece.lanes] == first)
                rows = min(time.shape[1], longest - first)
                for mine, theirs in zip(table, columns, strict=True):
                    mine[piece.lanes[some], first : first + rows] = theirs[some, :rows]
            filled[piece.lanes] += piece.counts
        after = np.arange(longest) >= np.maximum(total, 1)[:, None]
        for column in table:
            column[total == 0] = np.nan
            last = column[np.arange(len(total)), np.maximum(total, 1) - 1]
            where = after.reshape(*after.shape, *(1,) * (column.ndim - 2))
            np.copyto(column, last[:, None], where=where)
        return table, total
