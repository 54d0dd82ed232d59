"""What is kept of every trajectory of a batch: samples where it moves, and how it ended."""

import functools
from collections.abc import Callable
from dataclasses import dataclass, field
from typing import NamedTuple

import numpy as np
from jaxtyping import Bool, Float, Int

from .._lanes import blocks, on_all_cores, span
from ._program import Lanes, State

NOBODY = -1
"""The lane of a slot without one."""

_DECADES = 20  # between the rate of a drop and that of convergence


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
    first: Int[np.ndarray, " lane"]  # how many samples these had before
    counts: Int[np.ndarray, " lane"]
    numbers: Float[np.ndarray, "3 row"]  # time, loss, rate
    weights: Float[np.ndarray, "row number"]  # or what is observed of them


@dataclass
class Samples:
    """Of all lanes, in the pieces that they came in."""

    saves: Int[np.ndarray, " lane"]
    pieces: list[Piece] = field(default_factory=list)

    def add(
        self,
        lanes: Int[np.ndarray, " lane"],
        counts: Int[np.ndarray, " lane"],
        numbers: Float[np.ndarray, "3 row"],
        weights: Float[np.ndarray, "row number"],
    ) -> None:
        self.pieces.append(Piece(lanes, self.saves[lanes], counts, numbers, weights))
        self.saves[lanes] += counts

    @property
    def shape(self) -> tuple[int, int]:
        return len(self.saves), max(1, int(self.saves.max()))

    @property
    def numbers(self) -> Float[np.ndarray, "3 lane save"]:
        """Time, loss and rate."""
        table = np.empty((3, *self.shape))
        self._spread(lambda piece: piece.numbers, table)
        return table

    @functools.cached_property
    def weights(self) -> Float[np.ndarray, "lane save number"]:
        """Or what is observed of them. By far the most of what is kept: made when asked for."""
        table = np.empty((1, *self.shape, self.pieces[0].weights.shape[1]))
        self._spread(lambda piece: piece.weights[None], table)
        self.pieces.clear()  # or all would be in memory, and in a pickle, twice
        return table[0]

    def _spread(
        self,
        columns_of: Callable[[Piece], Float[np.ndarray, "column row *number"]],
        tables: Float[np.ndarray, "column lane save *number"],
    ) -> None:
        """Fill a table for each column, short lanes padded with their last.

        A lane without a sample, which failed before the first time asked for, has nothing to show.
        """
        count, lanes, saves, *numbers = tables.shape
        ends = [np.cumsum(piece.counts) for piece in self.pieces]
        last = np.full((count, lanes, *numbers), np.nan)
        for piece, end in zip(self.pieces, ends, strict=True):
            last[:, piece.lanes] = columns_of(piece)[:, end - 1]

        def pad(some: slice) -> None:
            tables[:, some] = last[:, some, None]

        def fill(piece: Piece, end: Int[np.ndarray, " lane"], some: slice) -> None:
            counts, before = piece.counts[some], (end - piece.counts)[some]
            rows = np.arange(before[0], end[some][-1])
            first = saves * piece.lanes[some] + piece.first[some] - before
            places = rows + np.repeat(first, counts)
            for table, column in zip(tables, columns_of(piece), strict=True):
                table.reshape(lanes * saves, *numbers)[places] = column[span(rows)]

        on_all_cores(pad, blocks(lanes), tables.size)
        each = zip(self.pieces, ends, strict=True)
        parts = [(piece, end, some) for piece, end in each for some in blocks(len(end))]
        on_all_cores(lambda part: fill(*part), parts, tables.size)


class Logbook:
    """Samples, latest state and status of every lane; each lane has one writer."""

    def __init__(self, start: Lanes, note: Note | None = None, *, keeps_weights: bool = True):
        self._note, self._keeps_weights = note, keeps_weights
        self.initial = np.asarray(start.weights)
        nothing = np.empty((0, self.initial.shape[1]))  # as large as the weights, and nobody asks
        self._lanes = Lanes(start.numbers.copy(), self.initial.copy(), nothing)
        self.last = self._lanes.state
        self.samples = Samples(np.zeros(self.initial.shape[1], int))
        # Weights at the latest sample; where none are kept, where they are now.
        self.sampled = self.initial.copy() if keeps_weights else self.last.weights

    @property
    def steps(self) -> Int[np.ndarray, " lane"]:
        """Taken or thrown away."""
        return np.asarray(self.last.steps).astype(int)

    def of(self, lane: int) -> State:
        """Where one lane is."""
        return State(*(part[..., lane] for part in self.last))

    def glance(
        self, lanes: Int[np.ndarray, " slot"], whose: Bool[np.ndarray, " slot"], pool: Lanes
    ) -> None:
        """How far some lanes are: all that there is time to look at often."""
        self._lanes.numbers[:, lanes[whose]] = pool.numbers[:, whose]

    def follow(
        self, lanes: Int[np.ndarray, " slot"], whose: Bool[np.ndarray, " slot"], pool: Lanes
    ) -> None:
        """Where exactly."""
        (some,) = np.nonzero(whose)
        self.last.weights[:, span(lanes[some])] = np.asarray(pool.weights)[:, span(some)]

    def add(
        self,
        lanes: Int[np.ndarray, " lane"],
        counts: Int[np.ndarray, " lane"],
        numbers: Float[np.ndarray, "3 row"],
        weights: Float[np.ndarray, "row weight"],
    ) -> None:
        """So many samples of some lanes, of each at least one."""
        if not lanes.size:
            return
        ends = np.cumsum(counts)
        if self._keeps_weights:
            self.sampled[:, lanes] = weights[ends - 1].T
        if self._note is not None and self._keeps_weights:
            each = np.split(weights, ends[:-1])
            seen = [self._note(int(lane), part) for lane, part in zip(lanes, each, strict=True)]
            weights = np.concatenate(seen)  # the rest is let go
        self.samples.add(lanes, counts, numbers, weights)

    def add_states(self, lanes: Int[np.ndarray, " lane"]) -> None:
        """Where some lanes are is a sample of each."""
        now = np.stack((self.last.time, self.last.loss, self.last.rate))[:, lanes]
        here = self.last.weights if self._keeps_weights else self.last.velocity  # which is empty
        self.add(lanes, np.ones(len(lanes), int), now, np.asarray(here)[:, lanes].T)

    def add_nothing(self) -> None:
        """Nobody has a sample: an empty piece still says how many numbers one would have."""
        first, nobody = self.initial[:, :1].T, np.empty(0, int)
        seen = first if self._note is None else self._note(0, first)
        self.samples.add(nobody, nobody, np.empty((3, 0)), seen[:0])
