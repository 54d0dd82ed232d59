"""Run programs for any number of networks with few compilations.

A compiled program has a fixed number of lanes, one lane for each network of a batch. The number of
networks is rounded up to a power of two, so that seven networks reuse the program for eight.
"""

import os
from collections.abc import Callable, Iterable
from concurrent.futures import ThreadPoolExecutor
from typing import Any, TypeVar

import jax
import jax.numpy as jnp
import numpy as np
from jaxtyping import Int, Key

_MOST = 1024  # largest number of lanes in one call on a CPU; larger batches take several calls
_MOST_ACCELERATED = 16_384
_BLOCK = 128  # smallest number of lanes in the piece that one thread copies
_MANY_NUMBERS = 2**22  # smallest count of numbers for which several threads are worthwhile

T = TypeVar("T")
R = TypeVar("R")
A = TypeVar("A", np.ndarray, jax.Array)


def places(lanes: int) -> int:
    """Return the number of lanes of the program that runs `lanes` networks: a power of two."""
    return 1 << (lanes - 1).bit_length()


def accelerated() -> bool:
    """Return whether JAX runs programs on a device other than the CPU."""
    device = jax.config.jax_default_device  # pyright: ignore[reportAttributeAccessIssue]
    return (getattr(device, "platform", device) or jax.default_backend()) != "cpu"


def on_host(array: Any) -> np.ndarray:
    """Return a NumPy copy of an array; an array in host memory is not copied.

    Copies from an accelerator go through pinned host memory, which is much faster.
    """
    if isinstance(array, jax.Array) and array.platform() != "cpu":
        (device,) = array.devices()
        if "pinned_host" in (memory.kind for memory in device.addressable_memories()):
            array = jax.device_put(array, array.sharding.with_memory_kind("pinned_host"))
    return np.asarray(array)


def span(lanes: Int[np.ndarray, " lane"]) -> slice | Int[np.ndarray, " lane"]:
    """Return consecutive lane indices as a slice, which avoids a copy; else the indices."""
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
    """Apply a compiled program to arrays with lanes along `axis`, and return its outputs.

    Lanes that fill up the power of two are copies of the last lane, and their outputs are dropped.
    `fetch` converts each output; by default the outputs are NumPy arrays.
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
    if len(pieces) == 1:  # a single piece needs no copy
        return pieces[0]
    library = lambda part: np if isinstance(part, np.ndarray) else jnp
    joined = lambda *parts: library(parts[0]).concatenate(parts, axis)
    return jax.tree.map(joined, *pieces)


def cores() -> int:
    """Return the number of CPU cores that this process may use."""
    return len(os.sched_getaffinity(0)) if hasattr(os, "sched_getaffinity") else os.cpu_count() or 1


def blocks(lanes: int) -> list[slice]:
    """Split the lanes into one slice for each CPU core, each of at least 128 lanes."""
    size = max(_BLOCK, -(-lanes // cores()))
    return [slice(first, min(first + size, lanes)) for first in range(0, lanes, size)]


def on_all_cores(function: Callable[[T], R], pieces: Iterable[T], numbers: int) -> list[R]:
    """Apply a function to every piece, in several threads if there are many numbers in total."""
    pieces = list(pieces)
    if numbers < _MANY_NUMBERS or min(len(pieces), cores()) < 2:
        return [function(piece) for piece in pieces]
    with ThreadPoolExecutor(cores()) as pool:
        return list(pool.map(function, pieces))


def over_keys(program: Callable[[Any], Any], keys: Key[jax.Array, "..."]) -> Any:
    """Apply a compiled program to an array of random keys of any shape, one lane for each key."""
    kind, words = jax.random.key_impl(keys), np.asarray(jax.random.key_data(keys))
    drawn = lambda words: program(jax.random.wrap_key_data(words, impl=kind))
    return over_lanes(drawn, words.reshape(-1, words.shape[-1]))


def _some(part: A, first: int, count: int, axis: int) -> A:
    before = (slice(None),) * (axis % part.ndim)
    return part[(*before, slice(first, first + count))]


def _filled(part: np.ndarray, axis: int) -> np.ndarray:
    lanes = part.shape[axis]
    left = places(lanes) - lanes
    if not left:
        return part
    return np.concatenate((part, np.repeat(_some(part, lanes - 1, 1, axis), left, axis)), axis)
