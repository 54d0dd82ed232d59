"""Deep networks: a first layer of any units, then fully-connected layers, with skip connections."""

from collections.abc import Sequence
from dataclasses import dataclass, field

from jaxtyping import Float

from .._checks import finite_array, misfit, whole_numbers
from .._pytree import pytree
from .._types import Array, ArrayLike
from ._activations import Activation, ActivationLike, activation
from ._deep_graph import DeepView, Skips, deep_graph, layer_widths
from ._graph import Graph
from ._network import AbstractGraphNetwork
from ._units import AbstractUnit, SoftmaxAttentionUnit
from ._view import AbstractView


@pytree
@dataclass(frozen=True, eq=False, repr=False)
class DeepNetwork(AbstractGraphNetwork):
    r"""Deep network of a layer of units, fully-connected layers and optional skip connections.

    The first layer has the activity $a_1 = \phi(x; u)$, the responses of all units. Layer l has

    $$a_l = \sigma_l(W_l a_{l-1}) + \sum_{k \to l} a_k.$$

    The sum is over the `skips` (k, l). Layer 0 is the input, or the query if inputs are tokens. The
    output is $a_D$, without an activation. Eq. (18) of Zhang, Saxe & Latham has the skips (1, 2)
    and (1, 3).

    - `weights`: u `(unit, *weight_shape)`, W₂ `(out, *read_shape, unit)`, and W₃, … `(out, in)`.
      Axes in front, if any, hold a batch of networks.
    - `unit`: kind of unit in the first layer. If the unit has a bias, every hidden layer has
      biases: the last column of W₂ … W_{D−1}.
    - `activations`: activations of layers 2 to D − 1. If all activations are linear and the unit
      has fixed features, the cost of training does not depend on the number of samples.

    **Example:**

    >>> import jax
    >>> import numpy as np
    >>> from festina.networks import deep_network
    >>> network = deep_network((2, 3, 3, 1), activations="relu", scale=0.1, key=jax.random.key(0))
    >>> network.depth, network.widths
    (3, (3, 3, 1))
    >>> [activity.shape for activity in network.hidden(np.array([1.0, -1.0]))]
    [(3,), (3,)]
    """

    weights: tuple[Float[Array, "..."], ...]
    unit: AbstractUnit = field(metadata={"static": True})
    activations: tuple[Activation, ...] = field(metadata={"static": True})
    skips: Skips = field(default=(), metadata={"static": True})

    def _described(self) -> str:
        units, *widths = (shape[0] for shape in self.shapes)
        widths = "-".join(map(str, widths))
        names = "".join(f", {a.name}" for a in self.activations)
        skips = f", skips {self.skips}" if self.skips else ""
        return f"{units} units {self.unit}, then {widths}{names}{skips}"

    def hidden(self, x: Float[Array, "..."]) -> tuple[Float[Array, "..."], ...]:
        """Return the activity of each hidden layer for one example; layer 1 is `(*read, unit)`."""
        first, *others = super().hidden(x)
        return first.reshape(*self.shapes[1][1:-1], -1), *others

    @property
    def depth(self) -> int:
        """Number D of weight arrays, one more than the number of hidden layers."""
        return len(self.weights)

    @property
    def outputs(self) -> int:
        return self.shapes[-1][0]

    @property
    def part_axes(self) -> dict[str, tuple[str, ...]]:
        depth = self.depth
        names = {1: "unit"} | {layer: f"hidden_{layer}" for layer in range(2, depth)}
        seen = {
            layer + 1: f"{name}_and_one" if self.unit.bias and layer + 1 < depth else name
            for layer, name in names.items()
        }
        names[depth] = "output"
        return {
            "u": ("unit", *self.unit.weight_axes),
            "w2": (names[2], *self.unit.read_axes, seen[2]),
            **{f"w{layer}": (names[layer], seen[layer]) for layer in range(3, depth + 1)},
        }

    def with_parts(self, *parts: Float[Array, "..."]) -> "DeepNetwork":
        return DeepNetwork(parts, self.unit, self.activations, self.skips)._labelled_like(self)

    @property
    def shapes(self) -> tuple[tuple[int, ...], ...]:
        """Shape of each weight array of one network."""
        axes = len(self.batch_shape)
        return tuple(weight.shape[axes:] for weight in self.weights)

    @property
    def widths(self) -> tuple[int, ...]:
        """Number of activities in each layer, from the first hidden layer to the output."""
        return layer_widths(self.shapes)

    @property
    def bypassed(self) -> bool:
        """Whether a skip connection starts at the input."""
        return any(source == 0 for source, _ in self.skips)

    @property
    def structure(self) -> Graph:
        return deep_graph(self.unit, self.shapes, self.activations, self.skips)

    @property
    def first_unit(self) -> AbstractUnit:
        return self.unit

    @property
    def attributes(self) -> dict[str, str | list]:
        return {
            **super().attributes,
            "activations": [choice.name for choice in self.activations],
            "skips": [list(skip) for skip in self.skips],
        }

    @property
    def view(self) -> AbstractView:
        view = DeepView(self.unit, self.activations, self.bypassed)
        # For linear layers only, the view of the unit has the same statistics, which a task caches.
        same = view.fixed_features and not view.bypassed
        return self.unit if same else view

    @property
    def kinked(self) -> bool:
        return any(part.algebra.kinked for part in (self.unit, *self.activations))

    def check_fit(self, input_shape: tuple[int, ...], outputs: int) -> None:
        found = self.shapes[0][1:], self.shapes[1][1:-1], self.outputs
        expected = self.unit.weight_shape(input_shape), self.unit.read_shape(input_shape), outputs
        if found != expected:
            takes = self.unit.input_shape(*found[:2])[:1] + input_shape[1:]
            raise misfit(takes, self.outputs, input_shape, outputs)
        for source, target in self.skips:
            if source == 0 and self.widths[target - 1] != input_shape[0]:
                raise ValueError(
                    f"The skip (0, {target}) adds {input_shape[0]} numbers of the input to the "
                    f"{self.widths[target - 1]} numbers of layer {target}. A skip needs equal "
                    "widths."
                )


def deep_network_from(
    unit: AbstractUnit,
    weights: Sequence[ArrayLike],
    *,
    activations: ActivationLike | Sequence[ActivationLike] = "linear",
    skips: Sequence[tuple[int, int]] = (),
) -> DeepNetwork:
    """Return a `DeepNetwork` with the given weights; raise if shapes of weights do not fit.

    **Arguments:**

    - `unit`: kind of unit in the first layer, including its activation.
    - `weights`: u, W₂, …, W_D from input to output, with the shapes of `DeepNetwork`.
    - `activations`: activation of all layers from 2 to D − 1, or a list with one for each.
    - `skips`: skip connections (k, l), which add the activity of layer k to layer l. Layer 0 is the
      input.

    **Example:**

    >>> import numpy as np
    >>> from festina.networks import NeuronUnit, deep_network_from
    >>> weights = [np.eye(2), -np.eye(2), np.ones((1, 2))]
    >>> network = deep_network_from(NeuronUnit(), weights, activations="relu")
    >>> network.predict([[3.0, -1.0]])
    array([[1.]])
    """
    if unit.bias and unit.read_axes and len(weights) > 2:
        raise ValueError(
            f"Biases of hidden layers behind {unit} are not supported. Use units without `bias`, "
            "or no further hidden layer."
        )
    arrays = tuple(
        finite_array(f"weights[{layer}]", weight) for layer, weight in enumerate(weights)
    )
    if len(arrays) < 2:
        raise ValueError(
            "`weights` must be at least two arrays, weights of the units and of the output, got "
            f"{len(arrays)}."
        )
    if not _fit_together(unit, [array.shape for array in arrays]):
        biases = ", and hidden layers one more for their biases" if unit.bias else ""
        raise ValueError(
            f"The shapes of `weights` do not match. For {unit} the first array must have axes "
            f"(*batch, {', '.join(('unit', *unit.weight_axes))}), the second (*batch, "
            f"{', '.join(('out', *unit.read_axes, 'unit'))}), and all others (*batch, out, in). "
            "Batch axes must be equal, and each layer must have as many inputs as the layer before "
            f"has outputs{biases}. Got {', '.join(str(array.shape) for array in arrays)}."
        )
    chosen = check_activations(activations, len(arrays) - 2)
    pairs = [whole_numbers("skips", pair, 0) for pair in skips]
    if bad := [pair for pair in pairs if len(pair) != 2]:
        raise ValueError(f"`skips` must be pairs of layers, such as ((1, 3),), got {bad[0]}.")
    pairs = tuple((source, target) for source, target in pairs)
    network = DeepNetwork(arrays, unit, chosen, pairs)
    _check_skips(network)
    return network


def _fit_together(unit: AbstractUnit, shapes: Sequence[tuple[int, ...]]) -> bool:
    axes = (1 + len(unit.weight_axes), 2 + len(unit.read_axes), *(2,) * (len(shapes) - 2))
    if any(len(shape) < n for shape, n in zip(shapes, axes, strict=True)):
        return False
    batches = {shape[: len(shape) - n] for shape, n in zip(shapes, axes, strict=True)}
    into = [shape[-1] for shape in shapes[1:]]
    out_of = [shape[-n] for shape, n in zip(shapes, axes, strict=True)][:-1]
    if unit.bias:
        out_of = [*(width + 1 for width in out_of[:-1]), out_of[-1]]
    return len(batches) == 1 and into == out_of


def check_activations(
    activations: ActivationLike | Sequence[ActivationLike], layers: int
) -> tuple[Activation, ...]:
    """Return one activation for each of `layers` layers; a single one is used for all of them."""
    if isinstance(activations, str | Activation) or callable(activations):
        return (activation(activations),) * max(layers, 0)
    if len(activations) != layers:
        raise ValueError(
            f"`activations` must be one for all layers, or a list of {layers} activations, got "
            f"{len(activations)}."
        )
    return tuple(activation(choice) for choice in activations)


def _check_skips(network: DeepNetwork) -> None:
    widths, unit = network.widths, network.unit
    if getattr(unit, "residual", False):
        raise ValueError(
            f"The residual connection of {unit} must be a skip in a `DeepNetwork`: give a unit "
            "with `residual=False`, and `skips=((0, 2),)`."
        )
    for source, target in network.skips:
        if not 0 <= source < target <= network.depth or target == 1:
            raise ValueError(
                f"`skips` must lead from a layer to a later layer, one of 2 to {network.depth}, "
                f"got {(source, target)}. Layer 0 is the input, layer {network.depth} the output."
            )
        if source > 0 and widths[source - 1] != widths[target - 1]:
            raise ValueError(
                f"The skip {(source, target)} adds {widths[source - 1]} numbers to "
                f"{widths[target - 1]} numbers. A skip needs layers of equal width."
            )
    if network.bypassed and isinstance(unit, SoftmaxAttentionUnit):
        raise ValueError(
            "A skip from the input past softmax attention is not supported. Remove the skip, or "
            "use linear attention."
        )
