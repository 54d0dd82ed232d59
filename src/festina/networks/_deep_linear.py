"""Deep linear networks."""

import functools
import itertools
from collections.abc import Sequence
from dataclasses import dataclass

from jaxtyping import Float

from .._checks import finite_array, misfit, whole_numbers
from .._precision import float64
from .._pytree import pytree
from .._types import Array, ArrayLike, Keys
from ._activations import linear
from ._build import random_parts
from ._deep_graph import deep_graph
from ._graph import Graph
from ._layer import Layer
from ._network import AbstractGraphNetwork
from ._units import NeuronUnit

_LINEAR = NeuronUnit()


@pytree
@dataclass(frozen=True, eq=False, repr=False)
class DeepLinear(AbstractGraphNetwork):
    r"""Deep linear network $x \mapsto W_D \cdots W_1 x$.

    `weights` are $W_1, \dots, W_D$, each `(*batch, out, in)`. The batch axes, if any, hold several
    networks (seeds, initial scales), which are trained together. A call takes one example,
    `predict` takes many. The cost of training does not depend on the number of samples, because
    training uses only $\Sigma^{xx}$ and $\Sigma^{yx}$.

    **Example:**

    >>> from festina.networks import deep_linear_from
    >>> network = deep_linear_from([[[1.0, 2.0]], [[3.0], [4.0]]])
    >>> network
    DeepLinear(2-1-2)
    >>> network.end_to_end()
    array([[3., 6.],
           [4., 8.]])
    """

    weights: tuple[Float[Array, "..."], ...]

    def _described(self) -> str:
        return "-".join(map(str, self.widths))

    def end_to_end(self) -> Float[Array, "*batch output input"]:
        """Return the product W_D ⋯ W_1 of each network."""
        return functools.reduce(lambda product, weight: weight @ product, self.weights)

    @staticmethod
    def from_layer(layer: Layer) -> "DeepLinear":
        """Return a fully-connected linear `Layer` as a `DeepLinear`, with W₁ = u and W₂ = vᵀ."""
        if layer.unit != _LINEAR:
            raise ValueError(
                "Only a layer of linear neurons without biases is a deep linear network, got a "
                f"layer of {layer.unit}."
            )
        return DeepLinear((layer.u, layer.v.swapaxes(-1, -2)))._labelled_like(layer)

    def to_layer(self) -> Layer:
        """Return a `Layer` of linear neurons with the same weights; raise unless depth is 2."""
        if self.depth != 2:
            raise ValueError(
                f"A `Layer` has two weight matrices, this network has {self.depth}. Only a "
                "network with one hidden layer can be converted."
            )
        first, second = self.weights
        return Layer(first, second.swapaxes(-1, -2), _LINEAR)._labelled_like(self)

    @property
    def depth(self) -> int:
        """Number D of weight matrices, one more than the number of hidden layers."""
        return len(self.weights)

    @property
    def widths(self) -> tuple[int, ...]:
        """Layer sizes from input to output."""
        return self.weights[0].shape[-1], *(weight.shape[-2] for weight in self.weights)

    @property
    def outputs(self) -> int:
        return self.widths[-1]

    @property
    def part_axes(self) -> dict[str, tuple[str, ...]]:
        layers = ("input", *(f"hidden_{layer}" for layer in range(1, self.depth)), "output")
        pairs = zip(layers[1:], layers[:-1], strict=True)
        return {f"w{layer}": axes for layer, axes in enumerate(pairs, start=1)}

    def with_parts(self, *parts: Float[Array, "..."]) -> "DeepLinear":
        return DeepLinear(parts)._labelled_like(self)

    @property
    def structure(self) -> Graph:
        shapes = layer_shapes(self.widths)
        return deep_graph(_LINEAR, shapes, (linear,) * (self.depth - 2))

    def check_fit(self, input_shape: tuple[int, ...], outputs: int) -> None:
        if (self.widths[:1], self.outputs) != (input_shape, outputs):
            raise misfit(self.widths[:1], self.outputs, input_shape, outputs)


def layer_shapes(widths: Sequence[int]) -> tuple[tuple[int, int], ...]:
    """Return the shape (out, in) of each weight matrix."""
    return tuple(zip(widths[1:], widths[:-1], strict=True))


@float64
def deep_linear(widths: Sequence[int], *, scale: ArrayLike, key: Keys) -> DeepLinear:
    """Draw a deep linear network with weights from N(0, scale²).

    **Arguments:**

    - `widths`: layer sizes from input to output, at least two.
    - `scale`: standard deviation of the initial weights, or an array of standard deviations.
    - `key`: random key. An array of keys draws a batch of networks, one for each key. `scale` and
      `key` broadcast against each other: `scale[:, None]` with eight keys draws eight seeds for
      every scale.

    **Example:**

    >>> import jax
    >>> from festina.networks import deep_linear
    >>> network = deep_linear((2, 3, 2), scale=1e-3, key=jax.random.key(0))
    >>> network.depth, network.widths, network.end_to_end().shape
    (2, (2, 3, 2), (2, 2))
    """
    widths = check_widths(widths)
    weights, labels = random_parts(layer_shapes(widths), scale, key)
    return DeepLinear(weights).with_labels(labels)


def deep_linear_from(weights: Sequence[ArrayLike]) -> DeepLinear:
    """Return a deep linear network with the given weights W_1, …, W_D, each `(*batch, out, in)`.

    Raises `ValueError` if the shapes do not match or an entry is not finite.

    **Example:**

    >>> import numpy as np
    >>> from festina.networks import deep_linear_from
    >>> network = deep_linear_from([2 * np.eye(2), [[1.0, -1.0]]])
    >>> network.predict([[3.0, 1.0]])
    array([[4.]])
    """
    arrays = tuple(
        finite_array(f"weights[{layer}]", weight) for layer, weight in enumerate(weights)
    )
    if not arrays:
        raise ValueError("`weights` is empty: a network needs at least one weight matrix.")
    if flat := [array.shape for array in arrays if array.ndim < 2]:
        raise ValueError(
            f"`weights` must be matrices (*batch, out, in), but one has shape {flat[0]}."
        )
    for layer, (before, after) in enumerate(itertools.pairwise(arrays), start=1):
        if before.shape[-2] != after.shape[-1]:
            raise ValueError(
                f"The shapes of `weights` do not match: layer {layer} has {before.shape[-2]} "
                f"outputs and layer {layer + 1} takes {after.shape[-1]} inputs. Each matrix must "
                "be (out, in), and the matrix next to the input comes first."
            )
        if before.shape[:-2] != after.shape[:-2]:
            raise ValueError(
                "`weights` must have the same batch axes in every layer, got "
                f"{before.shape[:-2]} in layer {layer} and {after.shape[:-2]} in the next."
            )
    return DeepLinear(arrays)


def check_widths(widths: Sequence[int], *, depth: int | None = None) -> tuple[int, ...]:
    """Return layer sizes as a tuple; raise for too few or invalid sizes."""
    sizes = tuple(widths)
    if len(sizes) < 2 or (depth is not None and len(sizes) != depth + 1):
        least = "at least an input and an output size" if depth is None else f"{depth + 1} sizes"
        raise ValueError(
            f"`widths` needs {least}, from input to output, got {sizes}. "
            f"For example: {(8, *(16,) * ((depth or 2) - 1), 8)}."
        )
    return whole_numbers("widths", sizes)
