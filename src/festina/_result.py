"""Base class of results: conversion to a data set or a table, `repr`, and drawing."""

import dataclasses
import html
import inspect
import reprlib
from collections.abc import Iterator, Mapping
from typing import TYPE_CHECKING, Annotated, Any, ClassVar, get_args, get_origin

import jax
import numpy as np

from ._axes import axes, styled

if TYPE_CHECKING:
    import pandas as pd
    import xarray as xr
    from matplotlib.axes import Axes

_SHOWN = 8  # largest number of entries in a `repr` and in a legend
_WORD = 24  # longest string, in characters, that a `repr` shows
_NUMBERS = bool, int, float, np.generic
_PLAIN = *_NUMBERS, str


class Result:
    """Base class of results: frozen dataclasses whose array fields have named dimensions.

    A field's dimension names come from its jaxtyping annotation, for example
    `Float[np.ndarray, "time mode"]`. Leading underscores of a name, which switch off jaxtyping's
    size check, are ignored. An axis annotated by `_`, a sum or a number is named after the field.
    `Annotated[tuple[str, ...], "mode"]` marks a tuple of strings as the coordinate of `mode`; in a
    tuple of arrays, every array has the annotated dimensions. `field(metadata={"units": …,
    "long_name": …})` describes a variable. In `class Race(Result, also=("gap",), drawn="gap")`, the
    property `gap` counts as a field, and `draw` draws this field.
    """

    _named: ClassVar[dict[str, tuple[str, ...]]] = {}
    _also: ClassVar[tuple[str, ...]] = ()
    _drawn: ClassVar[str | None] = None

    def __init_subclass__(cls, also: tuple[str, ...] = (), drawn: str | None = None) -> None:
        super().__init_subclass__()
        cls._named, cls._also, cls._drawn = dict(cls._named), also, drawn
        annotations = inspect.get_annotations(cls)
        for name in also:
            annotations[name] = inspect.get_annotations(getattr(cls, name).fget)["return"]
        for name, annotation in annotations.items():
            words = _words(annotation)
            if words and not any(_word(each) for each in words):
                raise TypeError(
                    f"`{cls.__name__}.{name}` is an array without named dimensions: annotate it "
                    'as Float[np.ndarray, "time mode"].'
                )
            cls._named[name] = words or ()

    def _parts(self) -> Iterator[tuple[str, tuple[str, ...], Any]]:
        """Yield name, dimensions and value of each public field, containers part by part."""
        for name in (*(field.name for field in _fields(self)), *self._also):
            if not name.startswith("_"):
                yield from _split(name, getattr(self, name), self._named.get(name, ()))

    def to_dataset(self) -> "xr.Dataset":
        """Return an `xarray.Dataset` of the arrays and numbers; strings become attributes.

        An array that has the name of a dimension becomes its coordinate. If a field is a result
        itself, its variables and dimensions are prefixed with the field's name. A dimension is also
        prefixed with the field's name if an earlier field uses the same dimension with another
        size. Networks are left out.
        """
        import xarray as xr

        data, nested, attributes = dict[str, Any](), dict[str, Any](), dict[str, Any]()
        sizes = dict[str, int]()
        about = {field.name: field.metadata for field in _fields(self)}
        for name, dims, value in self._parts():
            if isinstance(value, Result | xr.Dataset):
                inner = value.to_dataset() if isinstance(value, Result) else value
                inner = inner.rename({each: f"{name}_{each}" for each in {*inner, *inner.dims}})
                nested |= dict(inner.variables)
                attributes |= {f"{name}_{key}": each for key, each in inner.attrs.items()}
            elif dims or isinstance(value, _NUMBERS) or getattr(value, "shape", None) == ():
                own = [
                    dim if sizes.setdefault(dim, size) == size else f"{name}_{dim}"
                    for dim, size in _sizes(dims, value).items()
                ]
                known = about.get(name, {})
                words = {key: known[key] for key in ("units", "long_name") if key in known}
                data[name] = own, np.asarray(value), words
            elif isinstance(value, str | tuple):
                attributes[name] = list(value) if isinstance(value, tuple) else value
        return xr.Dataset(data | nested, attrs=attributes)

    def to_dataframe(self, *dims: str) -> "pd.DataFrame":
        """Return a table with one row for each combination of indices along `dims`.

        The columns are the variables that have no other dimension. By default `dims` are the
        dimensions of the first array. A result without arrays gives a single row.
        """
        data = self.to_dataset()
        first = next((each.dims for each in data.data_vars.values() if each.dims), ())
        dims = dims or tuple(map(str, first))
        some = [name for name, each in data.variables.items() if {*each.dims} <= {*dims}]
        if not dims:
            return data[some].expand_dims("row").to_dataframe().reset_index(drop=True)
        return data[some].to_dataframe(dim_order=list(dims)).reset_index()

    def draw(self, ax: "Axes | None" = None, **style: Any) -> "Axes":
        """Plot the first array against time, or against its first dimension if it has no time axis.

        A result without arrays is drawn as one point for each number. New axes are created if `ax`
        is None. `style` is passed to `Axes.plot`.
        """
        import xarray as xr

        ax, data = axes(ax), self.to_dataset()
        numbers = [each for each in data.data_vars.values() if each.dtype.kind in "biuf"]
        clock = data.variables.get("time", xr.Variable((), 0.0))
        arrays = [
            each
            for each in numbers
            if each.dims and each.name != "time" and self._drawn in (None, each.name)
        ]
        if not arrays:
            title, y = type(self).__name__, np.array(numbers, float)[:, None]
            x = [str(each.name) for each in numbers]
        else:
            title, dims = str(arrays[0].name), arrays[0].dims
            timed = clock.ndim == 1 and clock.dims[0] in dims
            along = clock.dims[0] if timed else dims[0]
            y = arrays[0].transpose(along, ...).values
            x, y = clock if timed else data[along], y.reshape(len(y), -1)
            ax.set(xlabel="time" if timed else along, ylabel=title)
        names = [title] if y.shape[1] == 1 else [f"{title} {k}" for k in range(y.shape[1])]
        for name, line in zip(names, y.T, strict=True):
            ax.plot(x, line, **styled(style, **{"marker": ".", "label": name} | style))
        if 0 < len(names) <= _SHOWN:
            ax.legend(frameon=False, fontsize="small")
        return ax

    def __repr__(self) -> str:
        sizes, numbers = dict[str, int](), []
        for name, dims, value in self._parts():
            sizes |= _sizes(dims, value)
            if isinstance(value, _NUMBERS) or (isinstance(value, str) and len(value) <= _WORD):
                numbers.append(f"{name}={_text(value)}")
        axes_shown = (f"{dim}: {n}" for dim, n in sizes.items() if not dim.endswith("_too"))
        shown = [*axes_shown, *numbers]
        return f"{type(self).__name__}({', '.join(shown[:_SHOWN])}{', …' * (len(shown) > _SHOWN)})"

    def _repr_html_(self) -> str:
        rows = (
            (name, " × ".join(f"{dim} {n}" for dim, n in _sizes(dims, value).items()), _text(value))
            for name, dims, value in self._parts()
        )
        cells = ("".join(f"<td>{html.escape(cell)}</td>" for cell in row) for row in rows)
        body = "".join(f"<tr>{each}</tr>" for each in cells)
        return f"<table><caption>{type(self).__name__}</caption>{body}</table>"


def _fields(result: Result) -> tuple[dataclasses.Field, ...]:
    return dataclasses.fields(result)  # pyright: ignore[reportArgumentType]


def _words(annotation: Any) -> tuple[str, ...] | None:
    """Return the annotated dimensions of the first array in a union or a container, or None."""
    if get_origin(annotation) is Annotated:
        return tuple(annotation.__metadata__[0].split())
    if (found := getattr(annotation, "dim_str", None)) is not None:
        return tuple(found.split())
    if annotation in (np.ndarray, jax.Array):
        return ("_",)
    return next((each for each in map(_words, get_args(annotation)) if each is not None), None)


def _word(token: str) -> str:
    """Return the name in an annotated dimension, or `""` for `_`, `...`, a sum or a number."""
    word = token.lstrip("*#?_").partition("=")[0]
    return word if word.isidentifier() else ""


def _split(
    name: str, value: Any, words: tuple[str, ...]
) -> Iterator[tuple[str, tuple[str, ...], Any]]:
    value = getattr(value, "_asdict", lambda: value)()  # a named tuple becomes a dictionary
    if isinstance(value, Mapping):
        for key, each in value.items():
            yield from _split(f"{name}_{key}", each, words)
    elif isinstance(value, tuple) and not all(isinstance(each, _PLAIN) for each in value):
        for k, each in enumerate(value):
            yield from _split(f"{name}_{k}", each, words)
    elif isinstance(value, tuple) and words:
        yield words[0], words, value
    else:
        yield name, _dims(name, words, np.ndim(value)) if words else (), value


def _dims(name: str, words: tuple[str, ...], count: int) -> tuple[str, ...]:
    """Return a name for each axis; `*batch` and `...` stand for any number of axes."""
    many = [word == "..." or "*" in word[:2] for word in words]
    rest = count - len(words) + sum(many)
    found = list[str]()
    for token, takes_rest in zip(words, many, strict=True):
        word = _word(token)
        for k in range(rest if takes_rest else 1):
            each = f"{word}_{k}" if word and takes_rest and rest > 1 else word
            each = each or f"{name}_{len(found)}"
            while each in found:
                each += "_too"
            found.append(each)
    return tuple(found[:count])


def _sizes(dims: tuple[str, ...], value: Any) -> dict[str, int]:
    return dict(zip(dims, np.shape(value), strict=True)) if dims else {}


def _text(value: Any) -> str:
    if isinstance(value, np.ndarray) and value.dtype.kind in "iuf":
        known = value[np.isfinite(value)]
        return f"{known.min():.4g} to {known.max():.4g}" if known.size else "no finite number"
    return f"{value:.4g}" if isinstance(value, float) else reprlib.repr(value).strip("'")
