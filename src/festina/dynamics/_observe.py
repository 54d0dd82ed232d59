"""Store functions of the network at every sample instead of all of its weights."""

import math
import threading
from collections.abc import Callable, Mapping
from typing import Any, TypeAlias

import numpy as np
from jaxtyping import Float

from ..networks import AbstractNetwork
from ..networks._final_networks import FINAL
from ..networks._labels import axis_names
from ._logbook import Pieces
from ._trajectory import NAMES

Observe: TypeAlias = Callable[[Any], Any] | Mapping[str, Callable[[Any], Any]]
"""A function from one network to an array, or a dictionary of such functions by name."""

_ALONE = "observed"
_TAKEN = (*NAMES, "seed", "scale", "learning_rate", "momentum")


class Observation:
    """Functions to observe by name, and the shapes of their values for a batch's first network."""

    def __init__(self, observe: Observe, network: AbstractNetwork):
        self._functions = _named(observe)
        first = network.lane(*(0,) * len(network.batch_shape))
        self._shapes = {name: self._see(name, first).shape for name in self._functions}
        _check_axes(self._shapes, network)
        self._seeing = threading.Lock()  # a user's function need not be thread-safe

    def rows(self, networks: AbstractNetwork) -> Float[np.ndarray, "network number"]:
        """Return the observed values of each network of a batch, flattened to one row each."""
        if not self._functions:
            return np.empty((*networks.batch_shape, 0))
        with self._seeing:
            return np.stack([self._row(networks.lane(i)) for i in range(*networks.batch_shape)])

    def of(self, samples: Pieces, batch: tuple[int, ...]) -> dict[str, Float[np.ndarray, "..."]]:
        """Return the stored values of a batch by name, in the shapes of the functions' values."""
        if not self._functions:
            return {}
        rows = samples.weights
        sizes = [math.prod(shape) for shape in self._shapes.values()]
        parts = np.split(rows, np.cumsum(sizes)[:-1], axis=-1)
        return {
            name: part.reshape(*batch, rows.shape[1], *shape)
            for (name, shape), part in zip(self._shapes.items(), parts, strict=True)
        }

    def _row(self, network: AbstractNetwork) -> Float[np.ndarray, " number"]:
        seen = {name: self._see(name, network) for name in self._functions}
        for name, array in seen.items():
            if array.shape != self._shapes[name]:
                raise ValueError(
                    f"`observe` must return arrays of the same shape at all samples: '{name}' has "
                    f"shape {array.shape} at one sample and {self._shapes[name]} at the first."
                )
        return np.concatenate([array.ravel() for array in seen.values()])

    def _see(self, name: str, network: AbstractNetwork) -> Float[np.ndarray, "..."]:
        try:
            found = self._functions[name](network)
        except Exception as error:
            error.add_note(f"This error was raised in the `observe` function '{name}'.")
            raise
        if isinstance(found, tuple):
            raise ValueError(
                f"`observe` must return one array for a network, but '{name}' returns a tuple of "
                f"{len(found)}. For several arrays, pass a dictionary of functions."
            )
        try:
            array = np.asarray(found)
        except ValueError:  # lists of different lengths
            array = np.empty(0, object)
        if array.dtype.kind not in "fiub":
            raise ValueError(
                f"`observe` must return an array of real numbers for a network, but '{name}' "
                f"returns {found!r}."
            )
        return array.astype(float)


def _check_axes(shapes: Mapping[str, tuple[int, ...]], network: AbstractNetwork) -> None:
    """Raise `ValueError` if an observed name is also the name of an axis of the data set.

    A coordinate with an observed name is replaced, so only axes can clash.
    """
    axes = {axis for part in network.part_axes.values() for axis in part}
    labels = {name: each for name, each in network.labels.items() if name not in shapes}
    axes |= {*axis_names(labels, network.batch_shape)}
    axes |= {f"{name}_{axis}" for name, shape in shapes.items() for axis in range(len(shape))}
    for name in shapes:
        if name in axes:
            raise ValueError(
                f"`observe` cannot use the name {name!r}, because it is the name of an axis of "
                f"these networks. Choose a name other than {', '.join(sorted(axes))}."
            )


def _named(observe: Observe) -> dict[str, Callable[[Any], Any]]:
    functions = {_ALONE: observe} if callable(observe) else observe
    if not isinstance(functions, Mapping):
        raise ValueError(
            "`observe` must be a function from a network to an array, or a dictionary of such "
            f"functions by name, got {observe!r}."
        )
    for name, function in functions.items():
        if not callable(function):
            raise ValueError(
                f"`observe` must contain functions from a network to an array, got {function!r} "
                f"for the name {name!r}."
            )
        known = isinstance(name, str) and name and "/" not in name  # a slash would make a group
        if not known or name in _TAKEN or name.startswith(FINAL):
            raise ValueError(
                f"`observe` cannot use the name {name!r}. Choose any text without '/', other than "
                f"{', '.join(_TAKEN)} and names that begin with '{FINAL}'."
            )
    return dict(functions)
