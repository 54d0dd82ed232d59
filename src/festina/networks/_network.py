"""What every network has, and all that training needs to know of one."""

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
    """An immutable pytree of weights: one example in, one out.

    Its `parts` are arrays of weights. Axes in front of those named in `part_axes` make a batch of
    networks (seeds, initial scales), which the dynamics train together.
    """

    def __repr__(self) -> str:
        name, leaves = type(self).__name__, tuple(jax.tree.leaves(self))
        if not all(hasattr(leaf, "shape") for leaf in leaves):
            return f"{name}{leaves!r}"  # a tree of something else, as JAX makes them
        batch = f"{self.batch_shape} networks, " if self.batch_shape else ""
        return f"{name}({batch}{self._described()})"

    @abc.abstractmethod
    def _described(self) -> str:
        """What it is, but for its class and batch."""

    @property
    @abc.abstractmethod
    def parts(self) -> tuple[Array, ...]:
        """The weights, as arrays `(*batch, …)`."""

    @property
    @abc.abstractmethod
    def part_axes(self) -> Mapping[str, tuple[str, ...]]:
        """Name of each part and of its axes, but for those of a batch."""

    @abc.abstractmethod
    def with_parts(self: "Network", *parts: Float[Array, "..."]) -> "Network":
        """Return the network with other weights; labels stay if the batch has the same shape."""

    @property
    def labels(self) -> Labels:
        """What the networks of a batch were drawn with, by name: `scale`, `seed`, ….

        Arrays that broadcast against `batch_shape`; a trajectory names its axes by them. They are
        no part of the tree of arrays: `jax.tree.map` makes networks without.
        """
        return vars(self).get("_labels", {})

    def labelled(self: "Network", **labels: ArrayLike) -> "Network":
        """Return the same network with these labels, beside or instead of those that it has.

        `layer_from(unit, u, v).labelled(seed=[7, 9])` are two networks along an axis `seed`.
        """
        return self.with_labels({**self.labels, **checked_labels(labels, self.batch_shape)})

    def with_labels(self: "Network", labels: Labels) -> "Network":
        """Return the same network with just these labels."""
        network = object.__new__(type(self))
        vars(network).update(vars(self), _labels=labels)
        return network

    def _labelled_like(self: "Network", other: "AbstractNetwork") -> "Network":
        return self.with_labels(other.labels) if self.batch_shape == other.batch_shape else self

    @property
    @abc.abstractmethod
    def structure(self) -> AbstractStructure:
        """The network without its weights."""

    @property
    def first_unit(self) -> AbstractUnit:
        """What the inputs meet first: linear neurons, unless it says."""
        return _LINEAR

    @property
    def attributes(self) -> dict[str, str | list]:
        """What the network is beside its weights, as a run on disk holds it."""
        return {"network": type(self).__name__, "unit": repr(self.first_unit)}

    @property
    def view(self) -> AbstractView:
        """All that the network sees of the inputs: features of its first unit, unless it says."""
        return self.first_unit

    @property
    def kinked(self) -> bool:
        """Whether any response has a kink, which a flow can slide along."""
        return self.first_unit.algebra.kinked

    @property
    @abc.abstractmethod
    def outputs(self) -> int: ...

    @abc.abstractmethod
    def check_fit(self, input_shape: tuple[int, ...], outputs: int) -> None:
        """Raise if the network cannot learn a task with such inputs and outputs."""

    def check_finite(self) -> None:
        """Raise if a weight is infinite or no number."""
        for name, part in zip(self.part_axes, self.parts, strict=True):
            finite = lambda some, part=part: np.isfinite(part[some]).all()
            if not all(on_all_cores(finite, blocks(len(part)), part.size)):
                raise ValueError(
                    f"The weights `{name}` are not all finite. Training that diverges leaves such "
                    "weights: take them from before, or use a smaller learning rate."
                )

    def __call__(self, x: Float[Array, "..."]) -> Float[Array, " output"]:
        """Return one network's outputs for one example, in JAX's precision; see `predict`."""
        x, structure = self._checked(x), self.structure
        parts = structure.inside(*self.parts)
        return structure.outputs(self.features(x)[None], *parts)[0] + self.skip(x)

    @abc.abstractmethod
    def hidden(self, x: Float[Array, "..."]) -> tuple[Float[Array, "..."], ...]:
        """Return the activity of each hidden layer: one network, one example."""

    @property
    def batch_shape(self) -> tuple[int, ...]:
        """Axes in front of a single network's: seeds, initial scales."""
        part, axes = self.parts[0], next(iter(self.part_axes.values()))
        return part.shape[: part.ndim - len(axes)]

    def lane(self: "Network", *index: int) -> "Network":
        """Return one network of a batch."""
        batch = self.batch_shape
        check_lane(index, batch, alone="network")
        one = self.with_parts(*(part[index] for part in self.parts))
        return one.with_labels(lane_labels(self.labels, batch, index))

    @float64
    def predict(self, x: ArrayLike) -> Float[np.ndarray, "*batch sample output"]:
        """Return outputs of every network of a batch for examples `(sample, ...)`, in float64."""
        x = np.asarray(x, dtype=float)
        if x.ndim < 2:
            raise ValueError(
                f"`x` must be examples, (sample, …), got shape {x.shape}. For one of them: x[None]."
            )
        batch = self.batch_shape
        flat = [np.asarray(part).reshape(-1, *part.shape[len(batch) :]) for part in self.parts]
        outputs = over_lanes(lambda lanes: _each_of_each(self.with_parts(*lanes), x), flat)
        return outputs.reshape(*batch, *outputs.shape[1:])

    def features(self, x: Float[Array, "..."]) -> Float[Array, "..."]:
        """Return ψ(x): what the response is computed from, without any weights."""
        return self.view.features(x)

    def skip(self, x: Float[Array, "..."]) -> Float[Array, " output"] | float:
        """Return what a residual connection adds."""
        return self.view.skip(x, self.outputs)

    def _check_single(self) -> None:
        check_alone(self.batch_shape, use="For outputs of all there is `predict`. ")

    def _checked(self, x: Float[Array, "..."]) -> Float[Array, "..."]:
        """Return one example of one network; raises if the network does not take such inputs."""
        self._check_single()
        x = jnp.asarray(x)
        self.check_fit(x.shape, self.outputs)
        return x


class AbstractGraphNetwork(AbstractNetwork):
    """A network of nodes: `weights` are those of the edges between them."""

    weights: tuple[Float[Array, "..."], ...]

    @property
    def parts(self) -> tuple[Array, ...]:
        return self.weights

    @property
    @abc.abstractmethod
    def structure(self) -> Graph: ...

    def hidden(self, x: Float[Array, "..."]) -> tuple[Float[Array, "..."], ...]:
        """Return the activity of every node but the outputs: one network, one example."""
        psi, structure = self.features(self._checked(x)), self.structure
        activities = structure.activities(psi[None], *structure.inside(*self.weights))
        return tuple(each[0] for each in activities[: -structure.ends])


Network = TypeVar("Network", bound=AbstractNetwork)


@jax.jit
def _each_of_each(
    networks: AbstractNetwork, x: Float[Array, "sample ..."]
) -> Float[Array, "lane sample output"]:
    """What every network says to every example."""
    return jax.vmap(lambda network: jax.vmap(network)(x))(networks)
