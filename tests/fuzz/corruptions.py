"""Corrupt valid arguments: other types, extreme values, other shapes, other objects."""

import math
from collections.abc import Callable, Iterator
from typing import Any

import jax.numpy as jnp
import numpy as np
from hypothesis import strategies as st

from .rows import Made

# Products of several of these numbers are still doubles; networks and tasks refuse larger ones.
EXTREMES = (0.0, -0.0, -1.0, 0.5, 1e-9, 1e-40, 1e9, 1e40)
NO_NUMBERS = (math.nan, math.inf, -math.inf)
THINGS = (None, "text", b"bytes", 1 + 2j, True, [], {}, {"a": 1.0}, object, np.sum, "", [[1.0], []])
THINGS += (np.datetime64("2000-01-01"), np.array([]), np.array(["a", "b"]), [None], np.ma.masked)


def put(value: np.ndarray, index: int, entry: float) -> np.ndarray:
    changed = value.copy()
    changed.flat[index] = entry
    return changed


def masked(a: np.ndarray) -> np.ndarray:
    mask = np.zeros(a.shape, dtype=bool)
    mask.flat[-1:] = True
    return np.ma.array(a, mask=mask)


def repeated(a: np.ndarray) -> np.ndarray:
    """Return a matrix of rank one, up to rounding."""
    return np.broadcast_to(a[:1], a.shape) * (1 + 1e-14 * a)


TYPES = ("f4", "f2", ">f8", "i8", "?", "O", "c16", "U")
FACTORS = (0.0, -1.0, 1e-9, 1e-40, 1e9, 1e40)
CHANGES: tuple[Callable[[np.ndarray], Any], ...] = (
    *(lambda a, kind=kind: a.astype(kind) for kind in TYPES),
    *(lambda a, factor=factor: factor * a for factor in FACTORS),
    lambda a: a.tolist(),
    lambda a: tuple(a.tolist()),
    lambda a: jnp.asarray(a, dtype=np.float32),
    np.asfortranarray,
    np.ma.array,
    np.ones_like,
    np.abs,
    np.rint,
    masked,
    repeated,
    lambda a: np.repeat(a, 2, axis=-1)[..., ::2],
    lambda a: np.sort(a, axis=0)[::-1],
    np.transpose,
    np.ravel,
    lambda a: a[..., None],
    lambda a: a[None],
    lambda a: a[..., :-1],
    lambda a: a[1:],
    lambda a: a[:0],
    lambda a: a.flat[0],
    lambda a: np.concatenate([a, a]),
    lambda a: [a.tolist(), [1.0]],
)


@st.composite
def corrupted(draw: st.DrawFn, arguments: dict[str, Any]) -> tuple[dict[str, Any], bool]:
    """Draw a corruption of one argument or a part of it, sometimes of two, sometimes of none.

    The second value tells whether an argument is no longer a number or an array of numbers.
    """
    strange = False
    for _ in range(draw(st.sampled_from((0, 1, 1, 1, 1, 2)))):
        path, value = draw(st.sampled_from(list(leaves(arguments))))
        new = draw(_instead(value))
        arguments, strange = replaced(arguments, path, new), strange or not _alike(value, new)
    return arguments, strange


def _alike(value: Any, new: Any) -> bool:
    """Return whether numbers replace numbers of any type; dates count, as NumPy counts days."""
    if new is np.ma.masked:
        return False
    try:
        kind = np.asarray(new).dtype.kind
    except (ValueError, TypeError):  # ragged, or keys
        return False
    return kind in "biufcM" and type(value) in (float, int, np.ndarray)


def leaves(value: Any, path: tuple = ()) -> Iterator[tuple[tuple, Any]]:
    """Yield every argument, and every argument of an object in it, with its path."""
    if path:
        yield path, value
    inner = value.arguments if isinstance(value, Made) else value
    if isinstance(inner, dict):
        for name, each in inner.items():
            yield from leaves(each, (*path, name))
    elif isinstance(inner, list | tuple) and any(isinstance(e, np.ndarray | Made) for e in inner):
        for index, each in enumerate(inner):
            yield from leaves(each, (*path, index))


def replaced(value: Any, path: tuple, new: Any) -> Any:
    if not path:
        return new
    first, *rest = path
    if isinstance(value, Made):
        return Made(value.maker, replaced(value.arguments, path, new))
    if isinstance(value, dict):
        return {**value, first: replaced(value[first], tuple(rest), new)}
    changed = replaced(value[first], tuple(rest), new)
    return type(value)([*value[:first], changed, *value[first + 1 :]])


def _instead(value: Any) -> st.SearchStrategy[Any]:
    things = st.sampled_from(THINGS)
    if isinstance(value, np.ndarray) and value.size and value.ndim and value.dtype.kind == "f":
        change = st.sampled_from(CHANGES).map(lambda f: f(value))
        index, number = st.integers(0, value.size - 1), st.sampled_from(EXTREMES + NO_NUMBERS)
        entry = st.builds(put, st.just(value), index, number)
        return st.one_of(change, change, entry, entry, things)
    if isinstance(value, bool | str | type(None)):
        return st.one_of(things, st.sampled_from((0, 1.5, True, False)))
    if isinstance(value, int | float):
        alike = (np.float32(value), np.array(value), np.array([value]), [value], -value, value / 3)
        if abs(value) < 1e9:
            alike += (np.int64(value), jnp.asarray(value, dtype=np.float32))
        # For whole numbers, avoid counts so large that memory would not hold the arrays.
        extremes = [e for e in EXTREMES if not isinstance(value, int) or not 1e3 < e < 1e20]
        other = st.sampled_from((*extremes, *NO_NUMBERS))
        return st.one_of(other, other, st.sampled_from(alike), things)
    return st.one_of(things, st.just([value]))
