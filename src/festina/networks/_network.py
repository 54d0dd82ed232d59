"""Abstract networks: the interface that every architecture shares and that training uses."""

import abc
from collections.abc import Mapping
from typing import TypeVar

import jax
import jax.numpy as jnp
import numpy as np
from jaxtyping import Float

from .._checks import check_alone, check_lane
from .._lanes import blocks, on_all_cores, over_lanes
from .._precision import float64
from .._types import Array, ArrayLike
from ._graph import Graph
from ._labels import Labels, checked_labels, lane_labels
from ._structure import AbstractStructure
from ._units import AbstractUnit, NeuronUnit
from ._view import AbstractView

_LINEAR = NeuronUnit()


class AbstractNetwork(abc.ABC):
    """Abstract class of all networks: immutable pytrees of weights that map one example to outputs.

    The `parts` are the arrays of weights. Axes in front of the axes named in `part_axes` hold a
    batch of networks (seeds, initial scales), which are trained together. A call takes one network
    and one example; `predict` takes batches of both.

    **Example:**

    >>> from festina.networks import AbstractNetwork, layer_from
    >>> network = layer_from("linear", [[1.0, 2.0]], [3.0])
    >>> isinstance(network, AbstractNetwork), network.part_axes
    (True, {'u': ('unit', 'input'), 'v': ('unit', 'output')})
    """

    def __repr__(self) -> str:
        name, leaves = type(self).__name__, tuple(jax.tree.leaves(self))
        if not all(hasattr(leaf, "shape") for leaf in leaves):
            return f"{name}{leaves!r}"  # JAX also makes trees whose leaves are not arrays
        batch = f"{self.batch_shape} networks, " if self.batch_shape else ""
        return f"{name}({batch}{self._described()})"

    @abc.abstractmethod
    def _described(self) -> str:
        """Return the description of one network in its `repr`, without its class."""

    @property
    @abc.abstractmethod
    def parts(self) -> tuple[Array, ...]:
        """Arrays of weights, each `(*batch, …)`."""

    @property
    @abc.abstractmethod
    def part_axes(self) -> Mapping[str, tuple[str, ...]]:
        """Name of each part, and the names of its axes without the batch axes."""

    @abc.abstractmethod
    def with_parts(self: "Network", *parts: Float[Array, "..."]) -> "Network":
        """Return the network with other weights, keeping labels if the batch shape is unchanged."""

    @property
    def labels(self) -> Labels:
        """Labels of the networks of a batch, such as `scale` and `seed`, by name.

        Each label is an array that broadcasts against `batch_shape`. A trajectory names its batch
        axes after the labels. Labels are not part of the pytree, so `jax.tree.map` drops them.
        """
        return vars(self).get("_labels", {})

    def labelled(self: "Network", **labels: ArrayLike) -> "Network":
        """Return the same network with additional labels, which replace old labels of equal name.

        For example, `layer_from(unit, u, v).labelled(seed=[7, 9])` labels a batch of two networks.
        """
        return self.with_labels({**self.labels, **checked_labels(labels, self.batch_shape)})

    def with_labels(self: "Network", labels: Labels) -> "Network":
        """Return the same network with these labels instead of its old ones."""
        network = object.__new__(type(self))
        vars(network).update(vars(self), _labels=labels)
        return network

    def _labelled_like(self: "Network", other: "AbstractNetwork") -> "Network":
        return self.with_labels(other.labels) if self.batch_shape == other.batch_shape else self

    @property
    @abc.abstractmethod
    def structure(self) -> AbstractStructure:
        """Structure of the network without its weights, for which programs are compiled."""

    @property
    def first_unit(self) -> AbstractUnit:
        """Unit of the first layer, a linear neuron unless a subclass overrides the property."""
        return _LINEAR

    @property
    def attributes(self) -> dict[str, str | list]:
        """Attributes that a run on disk needs, beside the weights, to rebuild the network."""
        return {"network": type(self).__name__, "unit": repr(self.first_unit)}

    @property
    def view(self) -> AbstractView:
        """Features that the network computes from its inputs without any weights."""
        return self.first_unit

    @property
    def kinked(self) -> bool:
        """Whether any activation has a kink, along which gradient flow can slide."""
        return self.first_unit.algebra.kinked

    @property
    @abc.abstractmethod
    def outputs(self) -> int: ...

    @abc.abstractmethod
    def check_fit(self, input_shape: tuple[int, ...], outputs: int) -> None:
        """Raise `ValueError` if the network does not fit inputs or outputs of these shapes."""

    def check_finite(self) -> None:
        """Raise `ValueError` if a weight is infinite or NaN."""
        for name, part in zip(self.part_axes, self.parts, strict=True):
            finite = lambda some, part=part: np.isfinite(part[some]).all()
            if not all(on_all_cores(finite, blocks(len(part)), part.size)):
                raise ValueError(
                    f"The weights `{name}` are not all finite, perhaps because training diverged. "
                    "Use weights from before the divergence, or a smaller learning rate."
                )

    def __call__(self, x: Float[Array, "..."]) -> Float[Array, " output"]:
        """Return the outputs of one network for one example, in JAX's default precision.

        The method `predict` takes batches and computes in float64.
        """
        x, structure = self._checked(x), self.structure
        parts = structure.inside(*self.parts)
        return structure.outputs(self.features(x)[None], *parts)[0] + self.skip(x)

    @abc.abstractmethod
    def hidden(self, x: Float[Array, "..."]) -> tuple[Float[Array, "..."], ...]:
        """Return the activity of each hidden layer of one network for one example."""

    @property
    def batch_shape(self) -> tuple[int, ...]:
        """Shape of the batch axes, such as seeds and initial scales; () for a single network."""
        part, axes = self.parts[0], next(iter(self.part_axes.values()))
        return part.shape[: part.ndim - len(axes)]

    def lane(self: "Network", *index: int) -> "Network":
        """Return the network of a batch at this index, one number for each batch axis."""
        batch = self.batch_shape
        check_lane(index, batch, alone="network")
        one = self.with_parts(*(part[index] for part in self.parts))
        return one.with_labels(lane_labels(self.labels, batch, index))

    @float64
    def predict(self, x: ArrayLike) -> Float[np.ndarray, "*batch sample output"]:
        """Return the outputs of every network for all examples `(sample, ...)`, in float64."""
        x = np.asarray(x, dtype=float)
        if x.ndim < 2:
            raise ValueError(
                f"`x` must be examples, (sample, …), got shape {x.shape}. For a single example "
                "give x[None]."
            )
        batch = self.batch_shape
        flat = [np.asarray(part).reshape(-1, *part.shape[len(batch) :]) for part in self.parts]
        outputs = over_lanes(lambda lanes: _each_of_each(self.with_parts(*lanes), x), flat)
        return outputs.reshape(*batch, *outputs.shape[1:])

    def features(self, x: Float[Array, "..."]) -> Float[Array, "..."]:
        """Return the features ψ(x), which the network computes without any weights."""
        return self.view.features(x)

    def skip(self, x: Float[Array, "..."]) -> Float[Array, " output"] | float:
        """Return the part of the output that a residual connection adds."""
        return self.view.skip(x, self.outputs)

    def _check_single(self) -> None:
        check_alone(self.batch_shape, use="For the outputs of all networks use `predict`. ")

    def _checked(self, x: Float[Array, "..."]) -> Float[Array, "..."]:
        """Return one example as an array; raise for a batch of networks or a wrong shape."""
        self._check_single()
        x = jnp.asarray(x)
        self.check_fit(x.shape, self.outputs)
        return x


class AbstractGraphNetwork(AbstractNetwork):
    """Abstract class of networks on a graph of nodes, with `weights` for the edges between them."""

    weights: tuple[Float[Array, "..."], ...]

    @property
    def parts(self) -> tuple[Array, ...]:
        return self.weights

    @property
    @abc.abstractmethod
    def structure(self) -> Graph: ...

    def hidden(self, x: Float[Array, "..."]) -> tuple[Float[Array, "..."], ...]:
        """Return the activity of every hidden node of one network for one example."""
        psi, structure = self.features(self._checked(x)), self.structure
        activities = structure.activities(psi[None], *structure.inside(*self.weights))
        return tuple(each[0] for each in activities[: -structure.ends])


Network = TypeVar("Network", bound=AbstractNetwork)


@jax.jit
def _each_of_each(
    networks: AbstractNetwork, x: Float[Array, "sample ..."]
) -> Float[Array, "lane sample output"]:
    """Return the outputs of every network for every example."""
    return jax.vmap(lambda network: jax.vmap(network)(x))(networks)
