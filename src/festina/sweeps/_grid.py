"""The grid of a sweep: axes with their values, divided into pieces that are computed one by one."""

import itertools
import math
import operator
from collections.abc import Iterable, Iterator, Mapping
from dataclasses import dataclass
from numbers import Real
from typing import Any

import numpy as np

Index = tuple[int, ...]
"""The indices of a piece on the axes outside `together`."""

TEXT = np.dtypes.StringDType()

WAYS = "values with commas (2,3,4), FROM:TO:NUMBER or FROM:TO:log:NUMBER"


@dataclass(frozen=True)
class Grid:
    """Values by axis. A piece is one point of the grid, or all points along the axes `together`.

    The names in `together` have the same order as in `axes`.
    """

    axes: Mapping[str, tuple[Any, ...]]
    together: tuple[str, ...] = ()

    @property
    def outer(self) -> tuple[str, ...]:
        return tuple(name for name in self.axes if name not in self.together)

    def sizes(self, names: tuple[str, ...]) -> tuple[int, ...]:
        return tuple(len(self.axes[name]) for name in names)

    @property
    def pieces(self) -> int:
        return math.prod(self.sizes(self.outer))

    @property
    def count(self) -> int:
        """Number of points in a piece; 0 if `together` is empty and each piece is one point."""
        return math.prod(self.sizes(self.together)) if self.together else 0

    def __iter__(self) -> Iterator[Index]:
        return itertools.product(*map(range, self.sizes(self.outer)))

    def point(self, index: Index) -> dict[str, Any]:
        """Return the arguments of a piece: a value for each axis.

        The argument of an axis in `together` is an array with an entry for each point of the piece.
        """
        rows = itertools.product(*(self.axes[name] for name in self.together))
        arrays = zip(self.together, zip(*rows, strict=True), strict=True)
        values = {name: self.axes[name][k] for name, k in zip(self.outer, index, strict=True)}
        return values | {name: np.array(column) for name, column in arrays}

    def region(self, index: Index) -> tuple[int | slice, ...]:
        """Return the index of a piece in an array over all axes."""
        places = iter(index)
        return tuple(slice(None) if name in self.together else next(places) for name in self.axes)


def axis(name: str, given: Any) -> tuple[Any, ...]:
    """Return the values of an axis from a sequence or from text such as "0:1:11"."""
    if not isinstance(given, str):
        given = _plain(given)
        values = [*map(_plain, given)] if isinstance(given, Iterable) else [given]
    elif ":" in given:
        start, end, count, logarithmic = _range(name, given)
        line = (np.geomspace if logarithmic else np.linspace)(start, end, count)
        line = np.array([float(f"{value:.14g}") for value in line])  # 0.3, not 0.30000000000000004
        line[-1:], line[:1] = end, start  # the typed ends, without rounding
        whole = not logarithmic and "." not in given and (line == np.round(line)).all()
        values = line.astype(int if whole else float).tolist()
    else:
        values = [read(text) for text in given.split(",")] if given.strip() else []
    if not values:
        raise ValueError(f"`{name}` has no values, so the grid has no points. Give {WAYS}.")
    for value in values:
        if isinstance(value, float) and not math.isfinite(value):
            raise ValueError(f"`{name}` must have finite values, got {value}.")
    kinds = {_kind(value) for value in values if value not in (None, "none")}
    if len(kinds) > 1 or "" in kinds:
        several = ", ".join(map(repr, values[:5]))
        raise ValueError(
            f"`{name}` must be all numbers, all text, or all lists of these, got {several}."
        )
    return tuple(values)


def length(name: str, given: Any) -> int:
    """Return the number of values of an axis without creating the values."""
    if isinstance(given, str):
        return _range(name, given)[2] if ":" in given else given.count(",") + 1
    return operator.length_hint(given, 1)


def labels(values: tuple[Any, ...]) -> np.ndarray:
    """Return the values of an axis as a coordinate: numbers, or else text."""
    if all(isinstance(value, int | float) for value in values):
        return np.array(values)
    return np.array([_word(value) for value in values], TEXT)


def duration(seconds: float) -> str:
    """Return a time as text in a suitable unit, such as "3 min"."""
    units = {"years": 3.156e7, "days": 86_400.0, "h": 3600.0, "min": 60.0}
    fits = ((size, unit) for unit, size in units.items() if seconds >= 2 * size)
    size, unit = next(fits, (1.0, "s"))
    return f"{seconds / size:,.0f} {unit}"


def _range(name: str, text: str) -> tuple[float, float, int, bool]:
    """Return start, end and number of values of a range, and whether its axis is logarithmic."""
    try:
        start, end, *log, count = text.replace(" ", "").split(":")
        first, last, number = float(start), float(end), int(count)
        if log not in ([], ["log"]) or number < 0 or not math.isfinite(first + last):
            raise ValueError
    except ValueError:
        raise ValueError(f"`{name}` must be finite {WAYS}, got '{text}'.") from None
    if log and min(first, last) <= 0:
        raise ValueError(f"`{name}` must be above zero on a logarithmic axis, got '{text}'.")
    return first, last, number, bool(log)


def read(text: str) -> Any:
    """Parse a typed value: a number, true or false, a word, or several of these after spaces."""
    text = text.strip()
    if " " in text:
        return tuple(map(read, text.split()))
    for kind in (int, float):
        try:
            return kind(text)
        except ValueError:
            continue
    return {"true": True, "false": False}.get(text.lower(), text)


def _plain(value: Any) -> Any:
    """Return lists and numbers for an array of any library, and other values as they are."""
    return np.asarray(value).tolist() if hasattr(value, "__array__") else value


def _kind(value: Any) -> str:
    """Return "number", "text" or "list"; empty for a value that cannot be a coordinate."""
    if isinstance(value, list | tuple):
        return "list" if all(map(_kind, value)) else ""
    return "number" if isinstance(value, Real) else "text" * isinstance(value, str)


def _word(value: Any) -> str:
    if isinstance(value, list | tuple):
        return " ".join(map(_word, value))
    return "none" if value is None else str(value)
