"""Hidden layers of somebody's network: whose weights make a unit, and who reads it.

A hidden layer is a symmetry: where the weights that make its units and the weights that read them
are permuted alike, the outputs stay. This is asked of every pair of layers, and not how the
network was written; what does not pass is left as it is.
"""

from abc import ABC, abstractmethod
from collections.abc import Callable, Mapping
from dataclasses import dataclass
from typing import Any

import numpy as np
from jaxtyping import Float

Weights = Mapping[str, np.ndarray]
Rows = slice | np.ndarray
"""Which of the inputs."""


@dataclass(frozen=True)
class Part:
    """Units along an axis of an array, which runs over (`outer`, unit, block)."""

    name: str
    axis: int = 0
    outer: int = 1

    def combined(self, array: np.ndarray, shares: np.ndarray) -> np.ndarray:
        """Few units for many, each of them `shares` `(few, unit)` of those that are there."""
        few, units = shares.shape
        front = np.moveaxis(array, self.axis, 0)
        split = front.reshape(self.outer, units, -1)
        mixed = np.einsum("fu,oub->ofb", shares, split)
        block = front.shape[0] // (self.outer * units)
        return np.moveaxis(mixed.reshape(self.outer * few * block, *front.shape[1:]), 0, self.axis)

    def read(self, array: np.ndarray, mixing: np.ndarray) -> np.ndarray:
        """What reads the few as the many were read, `mixing` `(few · block, unit · block)`."""
        return np.moveaxis(np.tensordot(mixing, np.moveaxis(array, self.axis, 0), 1), 0, self.axis)


@dataclass(frozen=True)
class Hidden:
    """One hidden layer.

    - `name`: of the layer that makes the units; of attention, of the module whose heads they are.
    - `units`: how many.
    - `block`: numbers that are read of each: one of a neuron, several of a head.
    - `makers`: arrays that make them, along which axes.
    - `reader`: the array that reads them; `bias`, beside it, takes up what is constant.
    - `free`: whether units may be mixed, by their weights, or only be chosen.
    - `counted`: module and attribute that hold the number of heads, where something does.
    - `summed`: where no layer reads them, but the outputs are linear in an array: what that is
      multiplied with is what it reads. It is kept flat, unit after unit.
    """

    name: str
    units: int
    makers: tuple[Part, ...]
    reader: Part
    bias: str | None = None
    block: int = 1
    free: bool = True
    counted: tuple[str, str] | None = None
    summed: bool = False

    @property
    def heads(self) -> bool:
        return self.counted is not None


class AbstractModel(ABC):
    """A network as what is asked of it here, whatever library it was written in.

    Weights are float64 arrays by name, of any width; outputs `(sample, number)`. `taken` are the
    inputs, of those that were given, that are used.
    """

    weights: dict[str, np.ndarray]
    hidden: tuple[Hidden, ...]
    samples: int
    taken: np.ndarray
    notes: tuple[str, ...] = ()

    @abstractmethod
    def outputs(self, weights: Weights, rows: Rows) -> Float[np.ndarray, "sample number"]: ...

    @abstractmethod
    def reads(
        self, weights: Weights, rows: Rows, layers: tuple[Hidden, ...]
    ) -> dict[str, np.ndarray]:
        """What the reader of each of these layers is given, `(row, unit · block)`, by layer."""

    @abstractmethod
    def contributions(self, rows: Rows) -> dict[str, np.ndarray]:
        """Of each unit to the squared outputs, to first order: ⟨(r ∂f/∂r)²⟩, by layer."""

    @abstractmethod
    def slope(
        self, weights: Weights, rows: Rows, target: Any, loss: Callable[..., Any] | None = None
    ) -> tuple[float, dict[str, np.ndarray]]:
        """A loss of the outputs, half the mean square unless another is given, and its gradient."""

    @abstractmethod
    def targets(self, y: Any) -> Any:
        """Targets as a loss is given them, for the inputs that were taken."""

    @abstractmethod
    def built(self, weights: Weights) -> Any:
        """A network of the same kind with these weights."""


def permuted(network: AbstractModel, layer: Hidden, order: np.ndarray) -> dict[str, np.ndarray]:
    """The same network with the units of one layer in another order."""
    chosen = np.eye(layer.units)[order]
    weights = dict(network.weights)
    for part in layer.makers:
        weights[part.name] = part.combined(weights[part.name], chosen)
    mixing = np.kron(chosen, np.eye(layer.block))
    weights[layer.reader.name] = layer.reader.read(weights[layer.reader.name], mixing)
    return weights


def is_hidden(network: AbstractModel, layer: Hidden, *, rows: Rows = slice(8)) -> bool:
    """Whether its units can be permuted, and whether each goes its own way to the reader."""
    if layer.units < 2:
        return False
    order = np.roll(np.arange(layer.units), 1)
    here = network.outputs(network.weights, rows)
    there = network.outputs(permuted(network, layer, order), rows)
    if not _close(here, there):
        return False
    silenced = dict(network.weights)
    half = np.diag((np.arange(layer.units) % 2).astype(float))
    for part in layer.makers:
        silenced[part.name] = part.combined(silenced[part.name], half)
    before, after = (
        network.reads(weights, rows, (layer,))[layer.name].reshape(-1, layer.units, layer.block)[
            :, 1::2
        ]
        for weights in (network.weights, silenced)
    )
    return _close(before, after)


def _close(a: np.ndarray, b: np.ndarray) -> bool:
    return a.shape == b.shape and bool(np.abs(a - b).max() <= 1e-6 * max(np.abs(a).max(), 1e-300))
