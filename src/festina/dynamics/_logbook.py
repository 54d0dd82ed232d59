"""Record the samples and the latest state of every lane of a batch."""

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
"""Index of a slot that holds no lane."""

_NOTHING = np.empty((3, 0))
_ONE_AT_A_TIME = threading.Lock()
_DECADES = 20  # number of decades between the rate of a drop and the rate at convergence


@dataclass(frozen=True)
class SaveResolution:
    r"""Set how densely a run is sampled.

    The changes of the loss and of the gradient, each in units of its setting, are added up. A
    sample is saved each time this sum passes a whole number.

    - `loss`: change of the loss per sample, in units of the initial loss.
    - `rate`: change of $\log_{10}|\partial L/\partial\theta|^2$ per sample.

    **Example:**

    >>> import numpy as np
    >>> import festina
    >>> from festina.dynamics import SaveResolution
    >>> network = festina.networks.deep_linear_from([0.1 * np.eye(2), 0.1 * np.eye(2)])
    >>> task = festina.tasks.from_arrays(np.eye(2), np.diag([2.0, 1.0]))
    >>> fine = festina.gradient_flow(network, task)
    >>> coarse = festina.gradient_flow(network, task, resolution=SaveResolution(loss=0.2, rate=2.0))
    >>> bool(fine.saves > coarse.saves)
    True
    """

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
        """Largest usual number of samples of a lane; later samples are saved only at new minima.

        On a staircase the loss takes each value once, and the squared gradient passes through all
        its decades a few times.
        """
        return 2 * (1 / self.loss + _DECADES / self.rate)


Note = Callable[[int, np.ndarray], np.ndarray]
"""Function from a lane and its weights `(save, weight)` to the stored values `(save, number)`."""


class Piece(NamedTuple):
    """Consecutive samples of several lanes, sorted by lane."""

    lanes: Int[np.ndarray, " lane"]
    first: Int[np.ndarray, " lane"]  # number of earlier samples of each lane
    counts: Int[np.ndarray, " lane"]
    numbers: Float[np.ndarray, "3 row"]  # time, loss, rate
    weights: Float[np.ndarray, "row number"]  # or observed values


@dataclass
class Pieces:
    """Samples of all lanes in order of arrival; the first use replaces the samples by a table."""

    saves: Int[np.ndarray, " lane"]
    pieces: list[Piece] = field(default_factory=list)
    _weights: Float[np.ndarray, "1 lane save number"] | None = None

    def copied(self) -> "Pieces":
        """Return a copy; samples added to the copy do not change the original."""
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
        """Return time, loss and rate of all samples."""
        table = self._spread([piece.numbers for piece in self.pieces])
        self.pieces = [piece._replace(numbers=_NOTHING) for piece in self.pieces]
        return table

    @property
    def weights(self) -> Float[np.ndarray, "lane save number"]:
        """Return weights or observed values of all samples, as a table made at the first access."""
        with _ONE_AT_A_TIME:
            if self._weights is None:
                self._weights = self._spread([piece.weights[None] for piece in self.pieces])
                self.pieces = []
            return self._weights[0]

    def _spread(
        self, columns: list[Float[np.ndarray, "column _ *number"]]
    ) -> Float[np.ndarray, "column lane save *number"]:
        """Return a table for each column of the pieces; short lanes repeat their last sample.

        A lane without samples, which failed before the first requested time, is filled with NaN.
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
    """Samples, latest state and status of every lane; only one thread writes to each lane."""

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
        # Weights at the latest sample; if no weights are kept, the current weights.
        self.sampled = self.initial.copy() if keeps_weights else self.last.weights
        if before is not None:
            self.initial, self.samples = before.initial, before.samples.copied()
            self.sampled = before.sampled.copy() if keeps_weights else self.sampled

    @property
    def steps(self) -> Int[np.ndarray, " lane"]:
        """Return the number of accepted and rejected steps of each lane."""
        return np.asarray(self.last.steps).astype(int)

    def glance(
        self, lanes: Int[np.ndarray, " slot"], whose: Bool[np.ndarray, " slot"], pool: Lanes
    ) -> None:
        """Copy the numbers of the running lanes, but not their weights, from a pool."""
        self._lanes.numbers[:, lanes[whose]] = pool.numbers[:, whose]

    def follow(
        self, lanes: Int[np.ndarray, " slot"], whose: Bool[np.ndarray, " slot"], pool: Lanes
    ) -> None:
        """Copy the weights and velocities of the selected lanes from a pool."""
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
        """Add `counts[k] ≥ 1` samples of the network in lane `lanes[k]`, for every k."""
        if not lanes.size:
            return
        ends = np.cumsum(counts)
        if self._keeps_weights:
            self.sampled[:, lanes] = weights[ends - 1].T
        if self._note is not None and self._keeps_weights:
            each = np.split(weights, ends[:-1])
            seen = [self._note(int(lane), part) for lane, part in zip(lanes, each, strict=True)]
            weights = np.concatenate(seen)  # the weights themselves are not kept
        self.samples.add(lanes, counts, numbers, weights)

    def add_states(self, lanes: Int[np.ndarray, " lane"]) -> None:
        """Add the latest state of some lanes as a sample of each."""
        now = np.stack((self.last.time, self.last.loss, self.last.rate))[:, lanes]
        here = self.last.weights[: len(self.initial) * self._keeps_weights, lanes]
        self.add(lanes, np.ones(len(lanes), int), now, np.asarray(here).T)
        self.last.sampled[lanes] = self.last.time[lanes]

    def add_nothing(self) -> None:
        """Add no samples, so that a table without samples still has all its columns."""
        first, nobody = self.initial[:, :1].T, np.empty(0, int)
        seen = first if self._note is None else self._note(0, first)
        self.samples.add(nobody, nobody, np.empty((3, 0)), seen[:0])
