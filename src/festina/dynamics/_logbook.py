"""What is kept of every trajectory of a batch: samples where it moves, and how it ended."""

import functools
import threading
from collections.abc import Callable
from dataclasses import dataclass, field
from typing import NamedTuple

import numpy as np
from jaxtyping import Bool, Float, Int

from .._lanes import blocks, on_all_cores, on_host, span
from ._program import Lanes

NOBODY = -1
"""The lane of a slot without one."""

_NOTHING = np.empty((3, 0))
_ONE_AT_A_TIME = threading.Lock()
_DECADES = 20  # between the rate of a drop and that of convergence


@dataclass(frozen=True)
class SaveResolution:
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
class Pieces:
    """Samples of all lanes as they came; each table that is made of them is all that stays."""

    saves: Int[np.ndarray, " lane"]
    pieces: list[Piece] = field(default_factory=list)
    _weights: Float[np.ndarray, "1 lane save number"] | None = None

    def copied(self) -> "Pieces":
        """The same samples, to which others can be added."""
        there = np.arange(self.numbers.shape[-1]) < self.saves[:, None]
        lanes = np.flatnonzero(self.saves)
        numbers, weights = self.numbers[:, there], self.weights[there]
        piece = Piece(lanes, np.zeros_like(lanes), self.saves[lanes], numbers, weights)
        return Pieces(self.saves.copy(), [piece])

    def add(
        self,
        lanes: Int[np.ndarray, " lane"],
        counts: Int[np.ndarray, " lane"],
        numbers: Float[np.ndarray, "3 row"],
        weights: Float[np.ndarray, "row number"],
    ) -> None:
        self.pieces.append(Piece(lanes, self.saves[lanes], counts, numbers, weights))
        self.saves[lanes] += counts

    @functools.cached_property
    def numbers(self) -> Float[np.ndarray, "3 lane save"]:
        """Time, loss and rate."""
        table = self._spread([piece.numbers for piece in self.pieces])
        self.pieces = [piece._replace(numbers=_NOTHING) for piece in self.pieces]
        return table

    @property
    def weights(self) -> Float[np.ndarray, "lane save number"]:
        """Or what is observed of them. By far the most of what is kept: made when asked for."""
        with _ONE_AT_A_TIME:
            if self._weights is None:
                self._weights = self._spread([piece.weights[None] for piece in self.pieces])
                self.pieces = []
            return self._weights[0]

    def _spread(
        self, columns: list[Float[np.ndarray, "column _ *number"]]
    ) -> Float[np.ndarray, "column lane save *number"]:
        """A table for each column of the pieces, short lanes padded with their last.

        A lane without a sample, which failed before the first time asked for, has nothing to show.
        """
        count, _, *numbers = columns[0].shape
        lanes, saves = len(self.saves), max(1, int(self.saves.max()))
        tables = np.empty((count, lanes, saves, *numbers))
        last = np.full((count, lanes, *numbers), np.nan)
        ends = [np.cumsum(piece.counts) for piece in self.pieces]
        for piece, end, rows in zip(self.pieces, ends, columns, strict=True):
            last[:, piece.lanes] = rows[:, end - 1]

        def pad(some: slice) -> None:
            tables[:, some] = last[:, some, None]

        def fill(piece: Piece, end: np.ndarray, rows: np.ndarray, some: slice) -> None:
            counts, before = piece.counts[some], (end - piece.counts)[some]
            first, stop = before[0], end[some][-1]
            places = np.repeat(saves * piece.lanes[some] + piece.first[some] - before, counts)
            places += np.arange(first, stop)
            for table, column in zip(tables, rows, strict=True):
                table.reshape(lanes * saves, *numbers)[places] = column[first:stop]

        on_all_cores(pad, blocks(lanes), tables.size)
        each = zip(self.pieces, ends, columns, strict=True)
        parts = [(*piece, some) for piece in each for some in blocks(len(piece[1]))]
        on_all_cores(lambda part: fill(*part), parts, tables.size)
        return tables


class Logbook:
    """Samples, latest state and status of every lane; each lane has one writer."""

    def __init__(
        self,
        start: Lanes,
        note: Note | None = None,
        *,
        keeps_weights: bool = True,
        keeps_velocity: bool = False,
        before: "Logbook | None" = None,
    ):
        self._note, self._keeps_weights = note, keeps_weights
        self.initial = np.asarray(start.weights)
        velocity = np.array(start.velocity[: None if keeps_velocity else 0])
        self._lanes = Lanes(start.numbers.copy(), self.initial.copy(), velocity)
        self.last = self._lanes.state
        self.samples = Pieces(np.zeros(self.initial.shape[1], int))
        # Weights at the latest sample; where none are kept, where they are now.
        self.sampled = self.initial.copy() if keeps_weights else self.last.weights
        if before is not None:
            self.initial, self.samples = before.initial, before.samples.copied()
            self.sampled = before.sampled.copy() if keeps_weights else self.sampled

    @property
    def steps(self) -> Int[np.ndarray, " lane"]:
        """Taken or thrown away."""
        return np.asarray(self.last.steps).astype(int)

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
        here, there = span(lanes[some]), span(some)
        self.last.weights[:, here] = on_host(pool.weights)[:, there]
        if self.last.velocity.size:
            self.last.velocity[:, here] = on_host(pool.velocity)[:, there]

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
        here = self.last.weights[: len(self.initial) * self._keeps_weights, lanes]
        self.add(lanes, np.ones(len(lanes), int), now, np.asarray(here).T)
        self.last.sampled[lanes] = self.last.time[lanes]

    def add_nothing(self) -> None:
        """Nobody has a sample: an empty piece still says how many numbers one would have."""
        first, nobody = self.initial[:, :1].T, np.empty(0, int)
        seen = first if self._note is None else self._note(0, first)
        self.samples.add(nobody, nobody, np.empty((3, 0)), seen[:0])
