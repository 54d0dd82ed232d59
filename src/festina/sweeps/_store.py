"""The store of a sweep: one process writes it, and it is readable at every moment.

Three rules ensure this. Zarr writes each file under a temporary name and then renames it. One file,
the consolidated metadata at the root, lists all arrays and their sizes, so axes grow only when this
file is replaced. The values of a piece are written first, and its status is written last.
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

from .._run._beside import held, hidden, left_over
from .._run._code import origin
from ..experiments.claims._collector import is_identifier
from ._grid import TEXT, Grid, Index, labels
from ._work import Outcome, lengths_of

STATUS = {"status": "waiting", "reason": "", "seconds": math.nan}
"""Arrays with an entry for each piece, and the entry of a piece that is not computed yet."""

_PACKED = 4096  # pieces in a file of a `STATUS` array, and files of each result


class Store:
    """A store open for writing. `open_store` makes or opens it."""

    def __init__(self, grid: Grid, group: zarr.Group):
        self._grid, self._group = grid, group
        self._arrays = {name: a for name, a in group.arrays() if name not in grid.axes}
        self._known = {name: self._arrays.pop(name) for name in STATUS}
        shapes = (zip(_dims(a), a.shape, strict=True) for a in self._arrays.values())
        self._sizes = {d: n for shape in shapes for d, n in shape if d not in grid.axes}

    def known(self, name: str) -> np.ndarray:
        """Return the `status`, the `reason` or the `seconds` of each piece."""
        return np.asarray(self._known[name][...])

    def forget_failures(self) -> None:
        """Set the status of failed pieces to "waiting"."""
        status = self.known("status")
        self._known["status"][...] = np.where(status == "failed", "waiting", status)

    def put(self, index: Index, outcome: Outcome) -> bool:
        """Write the outcome of a piece; return whether the piece is done."""
        reason, region = outcome.reason, self._grid.region(index)
        try:
            if outcome.misfit:
                raise _Misfit(outcome.misfit)
            self._write(region, outcome)
        except _Misfit as error:
            if not self._arrays:  # no piece was ever kept: the function is wrong, not this point
                raise ValueError(f"{error}.") from error
            reason = str(error)
        kept = {} if reason else outcome.values
        for name in self._arrays.keys() - self._sizes.keys() - kept.keys():
            # A killed process may have written part of the piece.
            self._arrays[name][region] = self._arrays[name].fill_value
        self._known["seconds"][index] = outcome.seconds
        self._known["reason"][index] = reason
        self._known["status"][index] = "failed" if reason else "done"
        return not reason

    def _write(self, region: tuple[int | slice, ...], outcome: Outcome) -> None:
        places = {dim: self._places(dim, n, outcome) for dim, n in lengths_of(outcome.values)}
        needed = {dim: int(at.max(initial=-1)) + 1 for dim, at in places.items()}
        sizes = self._sizes | {d: max(self._sizes.get(d, 0), n) for d, n in needed.items()}
        for name, (dims, values) in outcome.values.items():
            self._check(name, dims, values, sizes)
        if sizes != self._sizes or not outcome.values.keys() <= self._arrays.keys():
            self._enlarge(sizes, places, outcome)
        lead = self._grid.sizes(self._grid.together)
        for name, (dims, values) in outcome.values.items():
            array = self._arrays[name]
            whole = np.full((*lead, *(sizes[dim] for dim in dims)), array.fill_value, values.dtype)
            inside = np.ix_(*map(np.arange, lead), *(places[dim] for dim in dims))
            whole[inside] = values.reshape((*lead, *(len(places[dim]) for dim in dims)))
            array[region] = whole

    def _places(self, dim: str, size: int, outcome: Outcome) -> np.ndarray:
        """Return the indices of a result's entries on an axis of the store; text labels by name."""
        if dim in self._grid.axes or dim in STATUS:
            raise _Misfit(f"its results have an axis `{dim}`, as the sweep has: rename that axis")
        here = outcome.coordinates.get(dim)
        there = self._arrays[dim][...] if dim in self._arrays else None
        if dim in self._sizes and (here is None) != (there is None):
            raise _Misfit(f"its axis `{dim}` has labels in some pieces and none in others")
        if here is not None and here.dtype == TEXT:
            if len(set(here)) < len(here):
                raise _Misfit(f"two entries along `{dim}` have the same name")
            known = list(dict.fromkeys([*(() if there is None else np.asarray(there)), *here]))
            return np.array([known.index(label) for label in here], int)
        if there is not None and here is not None and not np.array_equal(there, here):
            raise _Misfit(
                f"its coordinate `{dim}` differs from the coordinate of earlier pieces: return the "
                "same coordinate in all pieces, or return it as a variable with another name"
            )
        return np.arange(size)

    def _check(
        self, name: str, dims: tuple[str, ...], values: np.ndarray, sizes: Mapping[str, int]
    ) -> None:
        if name in (*STATUS, *self._grid.axes, *sizes, "", ".", "..") or "/" in name:
            raise _Misfit(
                f"`{name}` is an axis or a name that the store reserves: rename this result"
            )
        if (array := self._arrays.get(name)) is not None:
            inner = _dims(array)[len(self._grid.axes) :]
            if inner != dims or array.dtype != values.dtype:
                raise _Misfit(
                    f"`{name}` has axes {dims} and type {values.dtype}, in earlier pieces {inner} "
                    f"and {array.dtype}"
                )

    def _enlarge(
        self, sizes: dict[str, int], places: Mapping[str, np.ndarray], outcome: Outcome
    ) -> None:
        """Make axes longer and add variables; the changes count once the root lists them."""
        for array in self._arrays.values():
            array.resize(
                tuple(sizes.get(d, n) for d, n in zip(_dims(array), array.shape, strict=True))
            )
        for dim, values in outcome.coordinates.items():
            if dim in self._arrays:
                self._arrays[dim].oindex[places[dim]] = values
            else:
                self._arrays[dim] = self._group.create_array(
                    dim, data=values, dimension_names=(dim,)
                )
        axes = tuple(self._grid.axes)
        chunks = _chunks(self._grid, axes, -(-self._grid.pieces // _PACKED))
        for name, (dims, values) in outcome.values.items():
            if name not in self._arrays:
                inner = tuple(sizes[dim] for dim in dims)
                self._arrays[name] = self._group.create_array(
                    name,
                    shape=self._grid.sizes(axes) + inner,
                    chunks=chunks + tuple(max(1, size) for size in inner),
                    dtype=values.dtype,
                    dimension_names=axes + dims,
                    fill_value="" if values.dtype == TEXT else math.nan,
                )
        self._sizes = sizes
        _settle(self._group)


class _Misfit(ValueError):
    """A piece whose results do not fit those of earlier pieces."""


@contextlib.contextmanager
def open_store(
    path: Path,
    grid: Grid,
    made_by: Mapping[str, str],
    code: str,
    *,
    changed: bool,
    of_claims: bool = False,
) -> Iterator[Store]:
    """Yield the locked store of this sweep: the store at `path`, or a new store.

    With `of_claims`, the labels along `claim` must be identifiers of claims.
    """
    if not path.exists():
        path.parent.mkdir(parents=True, exist_ok=True)
        list(left_over(path.parent))  # removes leftovers of killed processes
        with hidden(path, Path.mkdir) as partial:
            _make(partial, grid, {"sweep": dict(made_by), "code": [code], **origin()})
            try:
                os.replace(partial, path)
            except OSError:  # another process has made the store
                if not path.exists():
                    raise
    with held(path) as whose:
        if whose == "theirs":
            raise ValueError(f"Another process writes to '{path}': wait, or choose another store.")
        group = _checked(path, made_by, code, changed=changed, of_claims=of_claims)
        yield Store(grid, _recovered(path, group))


def _make(path: Path, grid: Grid, attributes: dict[str, Any]) -> None:
    group = zarr.create_group(path, attributes=attributes)
    for name, values in grid.axes.items():
        group.create_array(name, data=labels(values), dimension_names=(name,))
    for name, fill in STATUS.items():
        group.create_array(
            name,
            shape=grid.sizes(grid.outer),
            chunks=_chunks(grid, grid.outer, _PACKED),
            dtype=type(fill),
            dimension_names=grid.outer,
            fill_value=fill,
        )
    _settle(group)


def _checked(
    path: Path, made_by: Mapping[str, str], code: str, *, changed: bool, of_claims: bool
) -> zarr.Group:
    """Return the root; raise `ValueError` if another sweep or other code wrote the store."""
    try:
        group = zarr.open_group(path, mode="r+", use_consolidated=True)
        attributes: dict[str, Any] = group.attrs.asdict()
        there, codes = attributes["sweep"], attributes["code"]
    except Exception as error:
        raise ValueError(f"'{path}' exists and is not a sweep: choose another path.") from error
    told = [
        f"`{name}` is {there.get(name, 'not given')} there, {made_by.get(name, 'not given')} here"
        for name in dict.fromkeys((*there, *made_by))
        if there.get(name) != made_by.get(name)
    ]
    if told:
        raise ValueError(f"'{path}' holds another sweep: {'; '.join(told)}. Choose another store.")
    if of_claims and "claim" in group and not all(map(is_identifier, group["claim"][...])):  # pyright: ignore
        raise ValueError(
            f"'{path}' was written by an older festina, whose claims had no identifiers, and is "
            "left unchanged. Choose another store."
        )
    if code != codes[-1]:
        if not changed and (group["status"][...] == "done").any():  # pyright: ignore
            raise ValueError(
                f"The code was changed since '{path}' was begun. Choose another store, or resume "
                "with `changed` (`--changed`), which keeps finished pieces."
            )
        group.update_attributes({"code": [*codes, code]})  # the root's list of arrays is unchanged
    return group


def _recovered(path: Path, listed: zarr.Group) -> zarr.Group:
    """Return the arrays that the root lists, without unfinished work of killed processes."""
    for unfinished in path.rglob("*.partial"):
        unfinished.unlink(missing_ok=True)
    shapes = {name: array.shape for name, array in listed.arrays()}
    group = zarr.open_group(path, mode="r+", use_consolidated=False)
    for name, array in list(group.arrays()):
        if name not in shapes:
            del group[name]
        elif array.shape != shapes[name]:
            array.resize(shapes[name])
    return group


def _chunks(grid: Grid, names: tuple[str, ...], pieces: int) -> tuple[int, ...]:
    """Return the length of a file along each axis, for files of about this number of pieces."""
    sizes = dict(zip(names, grid.sizes(names), strict=True))
    for name in reversed(grid.outer):
        sizes[name] = min(sizes[name], pieces)
        pieces = -(-pieces // sizes[name])
    return tuple(sizes.values())


def _settle(group: zarr.Group) -> None:
    with warnings.catch_warnings():  # Zarr warns that other readers may ignore these metadata
        warnings.simplefilter("ignore")
        zarr.consolidate_metadata(group.store)


def _dims(array: zarr.Array) -> tuple[str, ...]:
    return array.metadata.dimension_names or ()  # pyright: ignore
