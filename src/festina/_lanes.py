"""Any number of networks, in programs for few numbers of them.

A program is compiled for the shapes that it is given, and so for a number of networks ("lanes").
Numbers are rounded up to powers of two: seven networks run where eight have run before.
"""

from collections.abc import Callable
from typing import Any

import jax
import numpy as np
from jaxtyping import Key

_MOST = 1024  # lanes of one program; where there are more, it is called several times


def places(lanes: int) -> int:
    """For how many lanes the program is that these run in: the next power of two."""
    return 1 << (lanes - 1).bit_length()


def over_lanes(program: Callable[[Any], Any], lanes: Any, *, axis: int = 0) -> Any:
    """What a program makes of arrays with lanes along `axis`, as such arrays of NumPy's.

    Places that are left over hold copies of the last lane, which nobody looks at.
    """
    total = jax.tree.leaves(lanes)[0].shape[axis]

    def piece(first: int, count: int) -> Any:
        given = jax.tree.map(lambda part: _filled(_some(part, first, count, axis), axis), lanes)
        made = jax.tree.map(np.asarray, program(given))
        return jax.tree.map(lambda part: _some(part, 0, count, axis), made)

    pieces = [piece(first, min(_MOST, total - first)) for first in range(0, total, _MOST)]
    if len(pieces) == 1:  # no copy
        return pieces[0]
    return jax.tree.map(lambda *parts: np.concatenate(parts, axis), *pieces)


def over_keys(program: Callable[[Any], Any], keys: Key[jax.Array, "..."]) -> Any:
    """The same for random keys, a lane for each of them, whatever axes they have."""
    kind, words = jax.random.key_impl(keys), np.asarray(jax.random.key_data(keys))
    drawn = lambda words: program(jax.random.wrap_key_data(words, impl=kind))
    return over_lanes(drawn, words.reshape(-1, words.shape[-1]))


def _some(part: np.ndarray, first: int, count: int, axis: int) -> np.ndarray:
    return np.moveaxis(np.moveaxis(part, axis, 0)[first : first + count], 0, axis)


def _filled(part: np.ndarray, axis: int) -> np.ndarray:
    lanes = part.shape[axis]
    left = places(lanes) - lanes
    if not left:
        return part
    return np.concatenate((part, np.repeat(_some(part, lanes - 1, 1, axis), left, axis)), axis)
