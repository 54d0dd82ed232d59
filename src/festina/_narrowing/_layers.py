"""Hidden layers of a model: which weights make a unit, and which weights read it.

A hidden layer is a symmetry: where the weights that make its units and the weights that read them
are permuted alike, the outputs stay. This is asked of every pair of layers, and not how the
network was written; what does not pass is left as it is.
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
"""What the reader of a layer is given, `(row, unit · block)`, by the layer's name."""

Loss = Function
"""Of outputs and targets, one number."""

Network: TypeAlias = Any
"""A module of PyTorch, or a tree of arrays."""

Sloped = tuple[float, dict[str, np.ndarray]]
"""A loss, and its gradient by name."""

REST = 0.25
"""Largest slope at rest, the squared slope over the loss a sixteenth: clean plateaus of linear,
quadratic, rectified and tanh units come to .22 at most, their drops to .3 and more."""

_PROBES = 16  # directions of the outputs along which units are weighed, where there are more


@dataclass(frozen=True)
class Part:
    """Units along an axis of an array, which runs over (`outer`, unit, block)."""

    name: str
    axis: int = 0
    outer: int = 1

    def combined(self, array: np.ndarray, shares: np.ndarray) -> np.ndarray:
        """Return the array of few units, combined from all with weights `shares` `(few, unit)`."""
        few, units = shares.shape
        front = np.moveaxis(array, self.axis, 0)
        split = front.reshape(self.outer, units, -1)
        mixed = np.einsum("fu,oub->ofb", shares, split)
        block = front.shape[0] // (self.outer * units)
        return np.moveaxis(mixed.reshape(self.outer * few * block, *front.shape[1:]), 0, self.axis)

    def read(self, array: np.ndarray, mixing: np.ndarray) -> np.ndarray:
        """Return the readout of few units by `mixing` `(few · block, unit · block)` that of all."""
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
    - `counted`: of heads, module and attribute that hold their number.
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

    def combined(self, weights: Weights, shares: np.ndarray) -> dict[str, np.ndarray]:
        """Return weights of units combined by `shares` `(few, unit)`, and read accordingly."""
        found = dict(weights)
        for part in self.makers:
            found[part.name] = part.combined(found[part.name], shares)
        mixing = np.kron(shares, np.eye(self.block))
        found[self.reader.name] = self.reader.read(found[self.reader.name], mixing)
        return found


class Pull(NamedTuple):
    """Inputs of readers, numbers in the output of a sample, and slopes between the two.

    `slopes` are those of a probe's product with the outputs by what readers are given.
    """

    reads: Reads
    numbers: int
    slopes: Callable[[np.ndarray], Reads]


class Tuning(NamedTuple):
    """Coordinates in which weights are tuned to the targets of some samples.

    `slope`: half the mean squared distance from the targets, and its gradient, in these
    coordinates; `inward` and `outward` convert weights to the coordinates and back.
    """

    slope: Callable[[Weights], Sloped]
    inward: Callable[[Weights], Weights]
    outward: Callable[[Weights], Weights]


class AbstractModel(ABC):
    """Interface to a network, whatever library it was written in.

    Weights are float64 arrays by name, of any width; outputs `(sample, number)`. Those `trained`
    are tuned, what is frozen is only combined; `original` is the network as it was given; `ranks`
    are those of layers that have a low rank; `kinds` are those of saddles that its units may lead
    to, as far as that is known; `exact`: no sample is held out; `size_of_targets`, where more than
    its samples tell is known of it, or 0.
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
        """Say which layers keep all their units, though others of their kind have hidden ones."""
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
        """Return whether units can be permuted, and each goes its own way to the reader."""
        if layer.units < 2:
            return False
        some = self.samples.part(slice(8))
        permuted = layer.combined(self.weights, np.roll(np.eye(layer.units), 1, axis=0))
        if not close(self.outputs(self.weights, some), self.outputs(permuted, some)):
            return False
        fewer = layer.combined(self.weights, np.eye(layer.units)[1::2])
        held, self.hidden = self.hidden, (layer,)  # attention is told how many heads it has
        read = lambda weights: self.reads(weights, some, (layer,))[layer.name]
        try:
            after = read(fewer)
        except (RuntimeError, ValueError):  # another array, of a normalisation say, has that size
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
        """Return the samples in as many parts as they are evaluated in."""

    @abstractmethod
    def pull(self, samples: Samples) -> Pull: ...

    @abstractmethod
    def slope(self, weights: Weights, samples: Samples, loss: Loss | None = None) -> Sloped:
        """Return a loss, or half the mean square to targets, and its gradient."""

    def motion(
        self, weights: Weights, free: Collection[str], loss: Loss | None, least: float
    ) -> tuple[float, float]:
        """Return the loss and its slope, |gradient| · |weights| over what is left of the loss.

        To first order no relative change of the `free` weights removes a larger fraction. A loss
        below `least` counts as `least`. The network is at rest where the slope is `REST` at most.
        """
        here, slopes = self.slope(weights, self.samples, loss)
        size = lambda by_name: math.hypot(
            *(float(np.linalg.norm(by_name[name])) for name in free if name in slopes)
        )
        steep, large = size(slopes), size(weights)
        if large == 0 and steep > 0:  # no change is relative to nothing
            return here, math.inf
        return here, relative(steep * large, max(here, least))

    def low_ranks(self, samples: Samples) -> "Sequence[Callable[[], AbstractModel]]":
        """Return networks with layers of low rank, from the largest to the smallest, made on call.

        Only networks that say `takes_low_rank` have them: those of PyTorch.
        """
        return ()

    def tuning(self, samples: Samples, *, error: float) -> Tuning:
        """Return coordinates for tuning, accurate enough for outputs that are off by `error`."""
        same = lambda weights: weights
        return Tuning(lambda weights: self.slope(weights, samples), same, same)

    @abstractmethod
    def built(self, weights: Weights) -> Network:
        """Return a network of the same kind with these weights."""

    @abstractmethod
    def computed(self, model: Network, samples: Samples) -> Float[np.ndarray, "sample number"]:
        """Return the outputs of a network of the same kind as it is, in its own precision."""

    def contributions(self, samples: Samples) -> dict[str, np.ndarray]:
        """Return ⟨(r ∂f/∂r)²⟩ by layer: what each unit adds to the squared outputs, to first order.

        See `probes` for the directions of the outputs.
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
        """Return outputs of a run; raises `ValueError` if the network does not take the inputs."""
        try:
            return run()
        except (RuntimeError, TypeError, LookupError, AttributeError, ValueError) as error:
            shapes = ", ".join(str(tuple(each.shape)) for each in leaves(self.samples.x))
            what = (str(error).splitlines() or [repr(error)])[0]
            hint = ""
            if isinstance(self.samples.x, tuple):
                hint = ". Each in a tuple is an argument of the model: give `x` alone, no targets"
            elif "dtype" in what:
                hint = ". Give inputs of the type that the model computes with, `x.float()` say"
            raise ValueError(
                f"`model` does not take these inputs {shapes}: {what}{hint}"
            ) from error

    def check(self) -> None:
        """Raise if there are too few samples, or if outputs are not finite or not reproducible."""
        if len(self.samples) < 2:
            raise ValueError(
                f"`x` must have at least two samples, got {len(self.samples)}: one says nothing."
            )
        here = self.attempt(lambda: self.outputs(self.weights, self.samples))
        if not np.isfinite(here).all():
            raise ValueError(
                "The outputs of `model` are not finite. Its weights or `x` hold NaN or infinity: "
                "leave such samples out, or take a checkpoint from before that."
            )
        if not close(here, self.outputs(self.weights, self.samples), 1e-4):
            raise ValueError(
                "`model` gives other outputs when it is run again, though in evaluation mode: draw "
                "what is random in it once, or leave it out in `eval()`."
            )


def relative(steep: float, left: float) -> float:
    """Return a slope as a fraction of what is left of the loss."""
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
    """Return whether arrays agree to a fraction of the largest value; accelerators round."""
    return a.shape == b.shape and bool(np.abs(a - b).max() <= within * np.abs(a).max())
