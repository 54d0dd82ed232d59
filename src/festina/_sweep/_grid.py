"""The grid of a sweep: axes with their values, and the pieces that are computed one by one."""

import itertools
import math
from collections.abc import Iterator, Mapping
from dataclasses import dataclass
from typing import Any

import numpy as np

Index = tuple[int, ...]
"""Where a piece is on the axes that are not taken together."""

WAYS = "values with commas (2,3,4) or FROM:TO:NUMBER, FROM:TO:log:NUMBER"


@dataclass(frozen=True)
class Grid:
    """Values by axis. A piece is one point of it, or all points along the axes taken `together`."""

    axes: Mapping[str, tuple[Any, ...]]
    together: tuple[str, ...] = ()

    @property
    def outer(self) -> dict[str, tuple[Any, ...]]:
        return {name: values for name, values in self.axes.items() if name not in self.together}

    @property
    def shape(self) -> tuple[int, ...]:
        """How many pieces there are along each axis that is not taken together."""
        return tuple(map(len, self.outer.values()))

    @property
    def pieces(self) -> int:
        return math.prod(self.shape)

    def __iter__(self) -> Iterator[Index]:
        return itertools.product(*map(range, self.shape))

    def point(self, index: Index) -> dict[str, Any]:
        """What a piece is computed from: a value for each axis, for those together an array.

        The arrays are as long as there are points in the piece.
        """
        columns = zip(*itertools.product(*(self.axes[name] for name in self._inner)), strict=True)
        arrays = {name: np.array(column) for name, column in zip(self._inner, columns, strict=True)}
        named = zip(self.outer.items(), index, strict=True)
        return {name: values[k] for (name, values), k in named} | arrays

    def region(self, index: Index) -> tuple[int | slice, ...]:
        """Where a piece is in an array over all axes."""
        places = iter(index)
        return tuple(slice(None) if name in self._inner else next(places) for name in self.axes)

    def kind(self, index: Index) -> tuple[Any, ...]:
        """Pieces of one kind differ in numbers with a point only: their shapes are the same."""
        point = ((values, k) for values, k in zip(self.outer.values(), index, strict=True))
        return tuple(str(values[k]) for values, k in point if not isinstance(values[k], float))

    @property
    def _inner(self) -> list[str]:
        return [name for name in self.axes if name in self.together]

    def __str__(self) -> str:
        return " × ".join(f"{name} {len(values)}" for name, values in self.axes.items())


def axis(name: str, given: Any) -> tuple[Any, ...]:
    """The values of an axis, from a sequence or from how they are typed."""
    if isinstance(given, str):
        values = _ranged(name, given) if ":" in given else tuple(map(_read, given.split(",")))
        values = values if given.strip() else ()
    elif np.ndim(given) == 0 and not hasattr(given, "__iter__"):
        values = (given,)
    else:
        values = tuple(v.item() if isinstance(v, np.generic) else v for v in given)
    if not values:
        raise ValueError(f"`{name}` has no values, so that the grid has no points. Give it {WAYS}.")
    for value in values:
        if isinstance(value, float) and not math.isfinite(value):
            raise ValueError(f"`{name}` must have finite values, got {value}.")
    if len(seen := set(map(repr, values))) < len(values):
        twice = next(text for text in seen if [*map(repr, values)].count(text) > 1)
        raise ValueError(f"`{name}` has the value {twice} twice.")
    return values


def length(name: str, given: Any) -> int:
    """How many values an axis has, before any of them is made."""
    if isinstance(given, str) and ":" in given:
        return _parts(name, given)[2]
    return len(given) if hasattr(given, "__len__") and not isinstance(given, str) else 1


def labels(values: tuple[Any, ...]) -> np.ndarray:
    """The values of an axis as a coordinate: numbers, or words where they are none."""
    numbers = all(isinstance(value, int | float) for value in values)
    return np.array(values if numbers else [_word(value) for value in values])


def duration(seconds: float) -> str:
    """A time as one says it."""
    units = {"years": 3.156e7, "days": 86_400.0, "h": 3600.0, "min": 60.0}
    for unit, size in units.items():
        if seconds >= 2 * size:
            return f"{seconds / size:,.0f} {unit}"
    return f"{seconds:.0f} s"


def _parts(name: str, text: str) -> tuple[float, float, int, bool]:
    """Where a range starts and ends, by how many values, and whether it is logarithmic."""
    parts = [part.strip() for part in text.split(":")]
    try:
        start, end, count = float(parts[0]), float(parts[1]), int(parts[-1])
        scale = parts[2] if len(parts) == 4 else "lin"
        if len(parts) not in (3, 4) or scale not in ("lin", "log") or count < 0:
            raise ValueError
    except (ValueError, IndexError):
        raise ValueError(f"`{name}` must be {WAYS}, got '{text}'.") from None
    if not (math.isfinite(start) and math.isfinite(end)):
        raise ValueError(f"`{name}` must have finite values, got '{text}'.")
    if scale == "log" and min(start, end) <= 0:
        raise ValueError(f"`{name}` must be above zero on a logarithmic axis, got '{text}'.")
    return start, end, count, scale == "log"


def _ranged(name: str, text: str) -> tuple[Any, ...]:
    start, end, count, logarithmic = _parts(name, text)
    if logarithmic:
        return tuple(np.geomspace(start, end, count).tolist())
    values = np.linspace(start, end, count)
    whole = "." not in text and bool((values == np.round(values)).all())
    return tuple(values.astype(int).tolist() if whole else values.tolist())


def _read(text: str) -> Any:
    """A typed value: a number, true or false, several numbers with spaces between, or a word."""
    text = text.strip()
    if " " in text:
        return tuple(map(_read, text.split()))
    for kind in (int, float):
        try:
            return kind(text)
        except ValueError:
            continue
    return {"true": True, "false": False}.get(text.lower(), text)


def _word(value: Any) -> str:
    if isinstance(value, list | tuple):
        return " ".join(map(_word, value))
    return "none" if value is None else str(value)
