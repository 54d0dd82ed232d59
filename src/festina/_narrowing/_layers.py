"""Hidden layers of a model: which weights make a unit, and which weights read it.

A hidden layer is a symmetry: if the weights that make its units and the weights that read them are
permuted in the same way, the outputs do not change. Every pair of layers is tested for this
symmetry, however the network was written. Layers that fail the test are not changed.
"""

import math
from abc import ABC, abstractmethod
from collections.abc import Callable, Collection, Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass
from typing import Any, NamedTuple, TypeAlias

import numpy as np
from jaxtyping import Float

from ..theory.saddles._kinds import SIMPLEST_FIRST, Kind
from ._pytorch import Function
from ._samples import Samples, leaves

Weights = Mapping[str, np.ndarray]
Reads = dict[str, np.ndarray]
"""Activations of each hidden layer as passed to the next weights: layer name → array
`(row, unit · block)`."""

Loss = Function
"""A function of outputs and targets that returns one number."""

Network: TypeAlias = Any
"""A PyTorch module, or a tree of arrays."""

Sloped = tuple[float, dict[str, np.ndarray]]
"""A loss, and its gradient with respect to each named array."""

REST = 0.25
"""Largest slope at rest. On clean plateaus of linear, quadratic, ReLU and tanh units the slope is
at most 0.22; in their drops it is 0.3 or more."""

_PROBES = 16  # most directions of the outputs along which the effect of units is measured


@dataclass(frozen=True)
class Part:
    """Units along one axis of an array; the axis has the order (`outer`, unit, block)."""

    name: str
    axis: int = 0
    outer: int = 1

    def combined(self, array: np.ndarray, shares: np.ndarray) -> np.ndarray:
        """Return the array of few units, combined from all units by `shares` `(few, unit)`."""
        few, units = shares.shape
        front = np.moveaxis(array, self.axis, 0)
        split = front.reshape(self.outer, units, -1)
        mixed = np.einsum("fu,oub->ofb", shares, split)
        block = front.shape[0] // (self.outer * units)
        return np.moveaxis(mixed.reshape(self.outer * few * block, *front.shape[1:]), 0, self.axis)

    def read(self, array: np.ndarray, mixing: np.ndarray) -> np.ndarray:
        """Return `mixing` `(few · block, unit · block)` times the readout."""
        return np.moveaxis(np.tensordot(mixing, np.moveaxis(array, self.axis, 0), 1), 0, self.axis)


@dataclass(frozen=True)
class Hidden:
    """One hidden layer.

    - `name`: name of the layer that makes the units; for heads, name of the attention module.
    - `units`: number of units.
    - `makers`: arrays that make the units, each with its axis of units.
    - `reader`: array that reads the units.
    - `bias`: name of the bias beside the reader, which absorbs constant responses.
    - `block`: numbers read from each unit: one for a neuron, several for a head.
    - `free`: whether units may be mixed by averaging their weights; otherwise they are selected.
    - `counted`: for heads, the module and the attribute that hold their number.
    - `summed`: whether the outputs are linear in the array `reader`, and no layer reads the units.
      The factors of this array are then the responses of the units. The array is kept flat, unit
      after unit.
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

    def combined(self, weights: Weights, shares: np.ndarray) -> dict[str, np.ndarray]:
        """Return weights with units, and their readout, combined by `shares` `(few, unit)`."""
        found = dict(weights)
        for part in self.makers:
            found[part.name] = part.combined(found[part.name], shares)
        mixing = np.kron(shares, np.eye(self.block))
        found[self.reader.name] = self.reader.read(found[self.reader.name], mixing)
        return found


class Pull(NamedTuple):
    """Inputs of readers, the number of outputs of a sample, and a function of slopes.

    `slopes(probe)` returns the gradient of the product of `probe` and the outputs with respect to
    the inputs of each reader.
    """

    reads: Reads
    numbers: int
    slopes: Callable[[np.ndarray], Reads]


class Tuning(NamedTuple):
    """Coordinates in which weights are tuned to the targets of some samples.

    `slope` returns half the mean squared error and its gradient in these coordinates. `inward`
    converts weights to the coordinates, and `outward` converts the coordinates to weights.
    """

    slope: Callable[[Weights], Sloped]
    inward: Callable[[Weights], Weights]
    outward: Callable[[Weights], Weights]


class AbstractModel(ABC):
    """Interface to a network of any library.

    Weights are named float64 arrays for any number of units; outputs have shape `(sample, number)`.

    - `trained`: names of the weights that are tuned; frozen weights are only combined.
    - `original`: the network as the user gave it.
    - `ranks`: rank of each layer of low rank.
    - `kinds`: kinds of saddles that its units allow, as far as known.
    - `exact`: whether no sample is held out.
    - `size_of_targets`: root mean square of the targets if it is known exactly, for example from
      a task; otherwise 0.
    """

    original: Network
    samples: Samples
    weights: dict[str, np.ndarray]
    trained: frozenset[str]
    hidden: tuple[Hidden, ...] = ()
    ranks: Mapping[str, int] = {}
    kinds: tuple[Kind, ...] = SIMPLEST_FIRST
    kinds_are_known = False
    takes_low_rank = False
    exact = False
    size_of_targets = 0.0
    notes: tuple[str, ...] = ()

    @abstractmethod
    def candidates(self) -> Iterator[Iterable[Hidden]]:
        """Return candidate hidden layers for each reader, the likeliest first."""

    def left_alone(self) -> Iterator[str]:
        """Yield notes on layers of known kinds that keep all their units."""
        yield from ()

    def layers(self) -> Iterator[Hidden]:
        """Yield the hidden layers. Each unit belongs to one layer."""
        taken: set[str] = set()
        for each in self.candidates():
            for layer in each:
                makers = {part.name for part in layer.makers}
                if not taken & makers and self.is_hidden(layer):
                    taken |= makers
                    yield layer
                    break

    def is_hidden(self, layer: Hidden) -> bool:
        """Return whether a permutation of the units leaves the outputs unchanged.

        Each unit must reach the reader separately.
        """
        if layer.units < 2:
            return False
        some = self.samples.part(slice(8))
        permuted = layer.combined(self.weights, np.roll(np.eye(layer.units), 1, axis=0))
        if not close(self.outputs(self.weights, some), self.outputs(permuted, some)):
            return False
        fewer = layer.combined(self.weights, np.eye(layer.units)[1::2])
        held, self.hidden = self.hidden, (layer,)  # `outputs` needs the number of heads
        read = lambda weights: self.reads(weights, some, (layer,))[layer.name]
        try:
            after = read(fewer)
        except (
            RuntimeError,
            ValueError,
        ):  # another array, of a normalisation for example, has that size
            return False
        finally:
            before = read(self.weights)
            self.hidden = held
        shaped = lambda rows, units: rows.reshape(-1, units, layer.block)
        return close(shaped(before, layer.units)[:, 1::2], shaped(after, layer.units // 2))

    @abstractmethod
    def outputs(self, weights: Weights, samples: Samples) -> Float[np.ndarray, "sample number"]: ...

    @abstractmethod
    def reads(self, weights: Weights, samples: Samples, layers: tuple[Hidden, ...]) -> Reads: ...

    @abstractmethod
    def batches(self, samples: Samples) -> Iterable[Samples]:
        """Return the samples in the parts in which they are evaluated."""

    @abstractmethod
    def pull(self, samples: Samples) -> Pull: ...

    @abstractmethod
    def slope(self, weights: Weights, samples: Samples, loss: Loss | None = None) -> Sloped:
        """Return a loss and its gradient; without `loss`, half the mean squared error."""

    def motion(
        self, weights: Weights, free: Collection[str], loss: Loss | None, least: float
    ) -> tuple[float, float]:
        """Return the loss and its slope, |gradient| · |weights| divided by the loss.

        To first order, the slope is the largest fraction of the loss that a relative change of the
        `free` weights removes. A loss below `least` counts as `least`. The network is at rest if
        the slope is at most `REST`.
        """
        here, slopes = self.slope(weights, self.samples, loss)
        size = lambda by_name: math.hypot(
            *(float(np.linalg.norm(by_name[name])) for name in free if name in slopes)
        )
        steep, large = size(slopes), size(weights)
        if large == 0 and steep > 0:  # relative changes of zero weights are zero
            return here, math.inf
        return here, relative(steep * large, max(here, least))

    def low_ranks(self, samples: Samples) -> "Sequence[Callable[[], AbstractModel]]":
        """Return functions that make networks of low rank, from the largest to the smallest.

        Only networks with `takes_low_rank`, those of PyTorch, have a low-rank form.
        """
        return ()

    def tuning(self, samples: Samples, *, error: float) -> Tuning:
        """Return coordinates for tuning, accurate enough for outputs with this `error`."""
        same = lambda weights: weights
        return Tuning(lambda weights: self.slope(weights, samples), same, same)

    @abstractmethod
    def built(self, weights: Weights) -> Network:
        """Return a network of the same kind with these weights."""

    @abstractmethod
    def computed(self, model: Network, samples: Samples) -> Float[np.ndarray, "sample number"]:
        """Return the outputs of a network of the same kind, in its own precision."""

    def contributions(self, samples: Samples) -> dict[str, np.ndarray]:
        """Return for each layer ⟨(r ∂f/∂r)²⟩ of each unit with response r, summed over outputs f.

        To first order this is the unit's contribution to the squared outputs. `probes` returns the
        directions of the outputs.
        """
        total = {layer.name: np.zeros(layer.units) for layer in self.hidden}
        for reads, numbers, slopes in map(self.pull, self.batches(samples)):
            for probe in probes(numbers):
                along = slopes(probe)
                for layer in self.hidden:
                    part = reads[layer.name] * along[layer.name]
                    part = part.reshape(-1, layer.units, layer.block).sum(-1)
                    total[layer.name] += (part**2).sum(0)
        return {name: each / len(samples) for name, each in total.items()}

    def attempt(self, run: Callable[[], np.ndarray]) -> np.ndarray:
        """Return outputs of a run; raise `ValueError` if the network does not take the inputs."""
        try:
            return run()
        except (RuntimeError, TypeError, LookupError, AttributeError, ValueError) as error:
            shapes = ", ".join(str(tuple(each.shape)) for each in leaves(self.samples.x))
            what = (str(error).splitlines() or [repr(error)])[0]
            hint = ""
            if isinstance(self.samples.x, tuple):
                hint = (
                    ". Each entry of a tuple is an argument of the model: give `x` without targets"
                )
            elif "dtype" in what:
                hint = ". Give inputs of the model's type, for example `x.float()`"
            raise ValueError(
                f"`model` does not take these inputs {shapes}: {what}{hint}"
            ) from error

    def check(self) -> None:
        """Raise `ValueError` for too few samples, or if outputs are not finite or reproducible."""
        if len(self.samples) < 2:
            raise ValueError(
                f"`x` must have at least two samples, got {len(self.samples)}: give more."
            )
        here = self.attempt(lambda: self.outputs(self.weights, self.samples))
        if not np.isfinite(here).all():
            raise ValueError(
                "The outputs of `model` are not finite. Its weights or `x` hold NaN or infinity: "
                "leave such samples out, or take a checkpoint from before that."
            )
        if not close(here, self.outputs(self.weights, self.samples), 1e-4):
            raise ValueError(
                "`model` returns other outputs when it is run again, even in evaluation mode: draw "
                "random numbers once, or switch them off in `eval()`."
            )


def relative(steep: float, left: float) -> float:
    """Return a slope divided by the loss."""
    return steep / left if left > 0 else (0.0 if steep == 0 else math.inf)


def probes(numbers: int) -> Float[np.ndarray, "probe number"]:
    """Return directions of the outputs: each output alone, or random signs if there are many."""
    if numbers <= _PROBES:
        return np.eye(numbers)
    signs = np.random.default_rng(0).choice([-1.0, 1.0], size=(_PROBES, numbers))
    return signs / math.sqrt(_PROBES)


def rms(rows: Float[np.ndarray, "sample ..."]) -> float:
    """Return the root of the mean square over samples, summed over all outputs of each."""
    return float(np.sqrt(np.sum(rows**2) / len(rows)))


def close(a: np.ndarray, b: np.ndarray, within: float = 1e-6) -> bool:
    """Return whether arrays agree to a fraction of the largest value, as accelerators round."""
    return a.shape == b.shape and bool(np.abs(a - b).max() <= within * np.abs(a).max())
