"""Any number of networks, in programs for few numbers of them.

A program is compiled for the shapes that it is given, and so for a number of networks ("lanes").
Numbers are rounded up to powers of two: seven networks run where eight have run before.
"""

import os
from collections.abc import Callable, Iterable
from concurrent.futures import ThreadPoolExecutor
from typing import Any, TypeVar

import jax
import jax.numpy as jnp
import numpy as np
from jaxtyping import Int, Key

_MOST = 1024  # lanes of one program; where there are more, it is called several times
_MOST_ACCELERATED = 16_384
_BLOCK = 128  # lanes of a piece, at least
_MANY_NUMBERS = 2**22  # to move, that are worth several threads

T = TypeVar("T")
R = TypeVar("R")


def places(lanes: int) -> int:
    """For how many lanes the program is that these run in: the next power of two."""
    return 1 << (lanes - 1).bit_length()


def accelerated() -> bool:
    """Whether programs run on something other than the processor."""
    device = jax.config.jax_default_device  # pyright: ignore[reportAttributeAccessIssue]
    return (getattr(device, "platform", device) or jax.default_backend()) != "cpu"


def on_host(array: Any) -> np.ndarray:
    """The array as one of NumPy's, to read from and let go.

    An accelerator writes to pages that are pinned by itself, and far faster than to others.
    """
    if isinstance(array, jax.Array) and array.platform() != "cpu":
        (device,) = array.devices()
        if "pinned_host" in (memory.kind for memory in device.addressable_memories()):
            array = jax.device_put(array, array.sharding.with_memory_kind("pinned_host"))
    return np.asarray(array)


def span(lanes: Int[np.ndarray, " lane"]) -> slice | Int[np.ndarray, " lane"]:
    """Numbers that follow each other as a slice, which needs no copy."""
    if len(lanes) and np.array_equal(lanes, np.arange(lanes[0], lanes[0] + len(lanes))):
        return slice(lanes[0], lanes[-1] + 1)
    return lanes


def over_lanes(
    program: Callable[[Any], Any],
    lanes: Any,
    *,
    axis: int = 0,
    fetch: Callable[[jax.Array], Any] = np.asarray,
) -> Any:
    """What a program makes of arrays with lanes along `axis`, as arrays of NumPy's or as fetched.

    Places that are left over hold copies of the last lane, which nobody looks at.
    """
    total = jax.tree.leaves(lanes)[0].shape[axis]
    if not total:
        raise ValueError("Expected at least one network or key, got an empty batch.")
    most = _MOST_ACCELERATED if accelerated() else _MOST

    def piece(first: int, count: int) -> Any:
        given = jax.tree.map(lambda part: _filled(_some(part, first, count, axis), axis), lanes)
        made = jax.tree.map(fetch, program(given))
        return jax.tree.map(lambda part: _some(part, 0, count, axis), made)

    pieces = [piece(first, min(most, total - first)) for first in range(0, total, most)]
    if len(pieces) == 1:  # no copy
        return pieces[0]
    library = lambda part: np if isinstance(part, np.ndarray) else jnp
    joined = lambda *parts: library(parts[0]).concatenate(parts, axis)
    return jax.tree.map(joined, *pieces)


def cores() -> int:
    """How many this process may use."""
    return len(os.sched_getaffinity(0)) if hasattr(os, "sched_getaffinity") else os.cpu_count() or 1


def blocks(lanes: int) -> list[slice]:
    """All of them, in pieces for each of the cores."""
    size = max(_BLOCK, -(-lanes // cores()))
    return [slice(first, min(first + size, lanes)) for first in range(0, lanes, size)]


def on_all_cores(function: Callable[[T], R], pieces: Iterable[T], numbers: int) -> list[R]:
    """Of every piece; where there are many numbers, NumPy works on several pieces at a time."""
    pieces = list(pieces)
    if numbers < _MANY_NUMBERS or min(len(pieces), cores()) < 2:
        return [function(piece) for piece in pieces]
    with ThreadPoolExecutor(cores()) as pool:
        return list(pool.map(function, pieces))


def over_keys(program: Callable[[Any], Any], keys: Key[jax.Array, "..."]) -> Any:
    """The same for random keys, a lane for each of them, whatever axes they have."""
    kind, words = jax.random.key_impl(keys), np.asarray(jax.random.key_data(keys))
    drawn = lambda words: program(jax.random.wrap_key_data(words, impl=kind))
    return over_lanes(drawn, words.reshape(-1, words.shape[-1]))


def _some(part: np.ndarray, first: int, count: int, axis: int) -> np.ndarray:
    before = (slice(None),) * (axis % part.ndim)
    return part[(*before, slice(first, first + count))]


def _filled(part: np.ndarray, axis: int) -> np.ndarray:
    lanes = part.shape[axis]
    left = places(lanes) - lanes
    if not left:
        return part
    return np.concatenate((part, np.repeat(_some(part, lanes - 1, 1, axis), left, axis)), axis)
