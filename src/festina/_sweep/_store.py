"""The store of a sweep: one writer, and at every moment something that can be read.

Three things make it so. Each file is written beside its place and moved there. Which arrays there
are, and how large, is said once for all in the consolidated metadata at the root: an axis grows by
one such file. And of a piece first its values are written, last its status.
"""

import contextlib
import math
import os
import warnings
from collections.abc import Iterator, Mapping
from pathlib import Path
from typing import Any

import numpy as np
import zarr

from .._beside import held, hidden
from ._grid import Grid, Index, labels
from ._work import Outcome

STATUS = {"status": (str, "waiting"), "reason": (str, ""), "seconds": (float, math.nan)}
"""What is known of each piece, with what is said of it before it is computed."""

_PACKED = 4096  # pieces in one file of what is known of them, and files of a variable
_KEY = "festina_sweep"


class Store:
    """A store that is written to. `open_store` makes or finds it."""

    def __init__(self, path: Path, grid: Grid, group: zarr.Group):
        self.path, self._grid, self._group = path, grid, group
        arrays = dict(group.arrays())
        self._status = {name: arrays.pop(name) for name in STATUS}
        self._arrays = {name: a for name, a in arrays.items() if name not in grid.axes}
        self._sizes: dict[str, int] = {}
        for array in self._arrays.values():
            self._sizes |= dict(zip(_dims(array), array.shape, strict=True))

    def status(self) -> np.ndarray:
        """Of each piece: "waiting", "done" or "failed"."""
        return np.asarray(self._status["status"][...])

    def put(self, index: Index, outcome: Outcome) -> bool:
        """Write down what came of a piece; whether it is done."""
        reason = outcome.reason
        if not reason:
            try:
                self._write(self._grid.region(index), outcome)
            except _Misfit as error:
                reason = str(error)
        self._status["seconds"][index] = outcome.seconds
        self._status["reason"][index] = reason
        self._status["status"][index] = "failed" if reason else "done"
        return not reason

    def _write(self, region: tuple[int | slice, ...], outcome: Outcome) -> None:
        axes, places, sizes = self._grid.axes, {}, dict(self._sizes)
        for dim, size in _inner_sizes(outcome).items():
            if dim in axes or dim in STATUS:
                raise _Misfit(f"its results have an axis `{dim}`, and so has the sweep: rename it")
            places[dim] = self._places(dim, size, outcome.coordinates)
            sizes[dim] = max(sizes.get(dim, 0), int(places[dim].max(initial=-1)) + 1)
        for name, (dims, values) in outcome.values.items():
            self._check(name, dims, values)
        if sizes != self._sizes or not outcome.values.keys() <= self._arrays.keys():
            self._enlarge(sizes, places, outcome)
        lead = [len(values) for axis, values in axes.items() if axis in self._grid.together]
        for name, (dims, values) in outcome.values.items():
            array = self._arrays[name]
            whole = np.full((*lead, *(sizes[dim] for dim in dims)), array.fill_value, values.dtype)
            inside = np.ix_(*map(np.arange, lead), *(places[dim] for dim in dims))
            whole[inside] = values.reshape((*lead, *(len(places[dim]) for dim in dims)))
            array[region] = whole

    def _places(
        self, dim: str, size: int, coordinates: Mapping[str, np.ndarray]
    ) -> np.ndarray[Any, Any]:
        """Where on an axis of the store the entries of a result belong: text by what it says."""
        there = self._arrays.get(dim)
        here = coordinates.get(dim)
        if (there is None) != (here is None) and dim in self._sizes:
            raise _Misfit(f"its axis `{dim}` has labels in some pieces and none in others")
        if here is None or (there is None and here.dtype.kind != "O"):
            return np.arange(size)
        if here.dtype.kind != "O":
            if not np.array_equal(there[...], here):
                raise _Misfit(
                    f"its `{dim}` is not that of earlier pieces: have the same in all, or return "
                    "it as a variable of another name"
                )
            return np.arange(size)
        known = [] if there is None else [str(label) for label in np.asarray(there[...])]
        known += [label for label in dict.fromkeys(here) if label not in known]
        return np.array([known.index(label) for label in here], int)

    def _check(self, name: str, dims: tuple[str, ...], values: np.ndarray) -> None:
        if name in (*STATUS, *self._grid.axes) or name in ("", ".", "..") or "/" in name:
            raise _Misfit(f"nothing can be called `{name}`: rename what is returned")
        if (array := self._arrays.get(name)) is None:
            return
        inner = _dims(array)[len(self._grid.axes) :]
        if inner != dims or np.dtype(array.dtype).kind.replace("T", "O") != values.dtype.kind:
            raise _Misfit(
                f"`{name}` has axes {dims} and type {values.dtype}, in earlier pieces "
                f"{inner} and {array.dtype}"
            )

    def _enlarge(
        self, sizes: dict[str, int], places: Mapping[str, np.ndarray], outcome: Outcome
    ) -> None:
        """Make axes longer and add variables; all of it counts when the root says so."""
        for array in self._arrays.values():
            shape = tuple(sizes.get(d, n) for d, n in zip(_dims(array), array.shape, strict=True))
            if shape != array.shape:
                array.resize(shape)
        for dim, values in outcome.coordinates.items():
            if dim not in self._arrays:
                self._arrays[dim] = _array(self._group, dim, (dim,), (sizes[dim],), values.dtype)
                self._arrays[dim][...] = values
            elif values.dtype.kind == "O":
                self._arrays[dim].oindex[places[dim]] = values
        axes = {name: len(values) for name, values in self._grid.axes.items()}
        per_file = -(-self._grid.pieces // _PACKED)
        for name, (dims, values) in outcome.values.items():
            if name not in self._arrays:
                inner = [sizes[dim] for dim in dims]
                self._arrays[name] = _array(
                    self._group,
                    name,
                    (*axes, *dims),
                    (*axes.values(), *inner),
                    values.dtype,
                    chunks=(*_chunks(self._grid, per_file), *inner),
                )
        self._sizes = sizes
        _settle(self._group)


class _Misfit(ValueError):
    """A piece that does not fit to those before it."""


@contextlib.contextmanager
def open_store(path: Path, grid: Grid, made_by: Mapping[str, Any], code: str) -> Iterator[Store]:
    """The store of this sweep, in hand: made where there is none, gone on with where there is."""
    path = Path(os.path.abspath(path.expanduser()))
    if not path.exists() or (path.is_dir() and not any(path.iterdir())):
        path.parent.mkdir(parents=True, exist_ok=True)
        with hidden(path, Path.mkdir) as partial:
            _make(partial, grid, {_KEY: dict(made_by), "code": [code]})
            os.replace(partial, path)
    with held(path) as whose:
        if whose == "theirs":
            raise ValueError(f"Another process writes to '{path}': wait, or choose another store.")
        yield Store(path, grid, _recovered(path))


def read_plan(path: Path) -> tuple[dict[str, Any], list[str]] | None:
    """What the sweep at a path was made by, and by which code; nothing where there is none."""
    path = path.expanduser()
    if not path.exists() or (path.is_dir() and not any(path.iterdir())):
        return None
    try:
        attributes = zarr.open_group(path, mode="r").attrs.asdict()
        return attributes[_KEY], attributes["code"]  # pyright: ignore[reportReturnType]
    except Exception as error:
        raise ValueError(
            f"'{path}' exists and is no store of a sweep: choose another path."
        ) from error


def add_code(path: Path, code: list[str]) -> None:
    """Note by which code pieces are computed from now on."""
    _settle(
        zarr.open_group(path, mode="r+", use_consolidated=False).update_attributes({"code": code})
    )


def _make(path: Path, grid: Grid, attributes: dict[str, Any]) -> None:
    group = zarr.create_group(path, attributes=attributes)
    for name, values in grid.axes.items():
        array = labels(values)
        array = array.astype(object) if array.dtype.kind == "U" else array
        _array(group, name, (name,), array.shape, array.dtype)[...] = array
    outer, chunks = tuple(grid.outer), _chunks(Grid(grid.outer), _PACKED)
    for name, (kind, fill) in STATUS.items():
        _array(group, name, outer, grid.shape, kind, chunks=chunks, fill=fill)
    _settle(group)


def _recovered(path: Path) -> zarr.Group:
    """The arrays as the root lists them, whatever was under way when a process was killed."""
    for unfinished in path.rglob("*.partial"):
        unfinished.unlink(missing_ok=True)
    listed = zarr.open_group(path, mode="r", use_consolidated=True)
    shapes = {name: array.shape for name, array in listed.arrays()}
    group = zarr.open_group(path, mode="r+", use_consolidated=False)
    for name, array in list(group.arrays()):
        if name not in shapes:
            del group[name]
        elif array.shape != shapes[name]:
            array.resize(shapes[name])
    return group


def _array(
    group: zarr.Group,
    name: str,
    dims: tuple[str, ...],
    shape: tuple[int, ...],
    kind: Any,
    *,
    chunks: tuple[int, ...] | None = None,
    fill: Any = None,
) -> zarr.Array[Any]:
    text = kind is str or np.dtype(kind).kind == "O"
    empty = "" if text else math.nan if np.dtype(kind).kind in "fc" else 0
    return group.create_array(
        name,
        shape=shape,
        chunks=tuple(max(1, size) for size in (shape if chunks is None else chunks)),
        dtype=str if text else kind,
        dimension_names=dims,
        fill_value=empty if fill is None else fill,
    )


def _chunks(grid: Grid, pieces: int) -> tuple[int, ...]:
    """Sizes of a file along the axes, so that about so many pieces are in it."""
    sizes: list[int] = []
    for name, values in reversed(grid.axes.items()):
        size = len(values) if name in grid.together else max(1, min(len(values), pieces))
        pieces = pieces if name in grid.together else -(-pieces // size)
        sizes.insert(0, size)
    return tuple(sizes)


def _settle(group: zarr.Group) -> None:
    with warnings.catch_warnings():  # that others might not read it; they have the arrays' own
        warnings.simplefilter("ignore")
        zarr.consolidate_metadata(group.store)


def _dims(array: zarr.Array[Any]) -> tuple[str, ...]:
    return array.metadata.dimension_names or ()  # pyright: ignore


def _inner_sizes(outcome: Outcome) -> dict[str, int]:
    """Lengths of the axes of a result, but for that of points taken together."""
    sizes: dict[str, int] = {}
    for name, (dims, values) in outcome.values.items():
        for dim, size in zip(dims, values.shape[values.ndim - len(dims) :], strict=True):
            if sizes.setdefault(dim, size) != size:
                raise _Misfit(f"`{name}` has {size} entries along `{dim}`, another {sizes[dim]}")
    return sizes
