"""The graph of a `DeepNetwork`, and the features that it computes from its inputs."""

import math
from dataclasses import dataclass

import jax
import jax.numpy as jnp
from jaxtyping import Float

from .._types import Array
from ._activations import Activation, linear
from ._graph import Edge, Graph, Input, Node
from ._units import AbstractUnit
from ._view import AbstractView, Shape

Skips = tuple[tuple[int, int], ...]
"""Skip connections (k, l), which add the activity of layer k to layer l; layer 0 is the input."""


@dataclass(frozen=True)
class DeepView(AbstractView):
    """Features of a `DeepNetwork`: features of its units, and the input if a skip starts there.

    A skip from layer 0 adds the input itself to a later layer.
    """

    unit: AbstractUnit
    activations: tuple[Activation, ...]  # of the hidden layers after the first
    bypassed: bool  # whether a skip starts at the input

    @property
    def fixed_features(self) -> bool:
        return self.unit.fixed_features and all(a.power == 1 for a in self.activations)

    @property
    def degree(self) -> int | None:
        powers = (self.unit.degree, *(a.power for a in self.activations))
        return None if None in powers else math.prod(p for p in powers if p is not None)

    def features(self, x: Float[Array, "..."]) -> Float[Array, "..."]:
        psi = self.unit.features(x)
        return jnp.concatenate((psi.ravel(), self.unit.bypass(x))) if self.bypassed else psi

    def check_input(self, input_shape: Shape) -> None:
        self.unit.check_input(input_shape)


def deep_graph(
    unit: AbstractUnit,
    shapes: tuple[Shape, ...],
    activations: tuple[Activation, ...] = (),
    skips: Skips = (),
) -> Graph:
    """Return the graph of a deep network, whose node l is layer l.

    `shapes`: shapes of the weights u (unit, *weight), w2 (out, *read, unit), w3 (out, in), ….
    """
    widths = layer_widths(shapes)
    inputs = [Input(_feature_shape(unit, shapes))]
    if any(source == 0 for source, _ in skips):
        (past,) = {widths[target - 1] for source, target in skips if source == 0}
        inputs.append(Input((past,)))
    first = len(inputs)  # vertex of layer 1; skips from layer 0 start at the input before it
    # The first vertex is linear, because the unit applies its own activation.
    bends = (linear, *activations, linear)[-len(shapes) :]
    return Graph(
        unit,
        tuple(inputs),
        tuple(Node(width, bend) for width, bend in zip(widths, bends, strict=True)),
        (
            Edge(0, first, 0),
            *(Edge(first + layer - 1, first + layer, layer) for layer in range(1, len(shapes))),
            *(Edge(first + source - 1, first + target - 1, None) for source, target in skips),
        ),
        shapes,
    )


def layer_widths(shapes: tuple[Shape, ...]) -> tuple[int, ...]:
    """Return the number of activities in each layer, from the first hidden layer to the output."""
    reads = math.prod(shapes[1][1:-1]) if shapes[1:] else 1
    return shapes[0][0] * reads, *(shape[0] for shape in shapes[1:])


def _feature_shape(unit: AbstractUnit, shapes: tuple[Shape, ...]) -> Shape:
    reads = shapes[1][1:-1] if shapes[1:] else ()
    weight = shapes[0][1:]
    if not unit.fixed_features:
        return (*reads, *weight)
    c = jax.eval_shape(unit.coefficients, jax.ShapeDtypeStruct(weight, "float32"))
    return (*reads, *c.shape)
