"""The layer of Eq. (1), which every architecture here is an instance of."""

from dataclasses import dataclass, field

import jax
import jax.numpy as jnp
import numpy as np
from jaxtyping import Float
from numpy.typing import ArrayLike

from .._precision import float64
from .._types import Array
from ._structure import Structure
from ._units import AbstractUnit


@jax.tree_util.register_dataclass
@dataclass(frozen=True, eq=False, repr=False)
class Layer:
    r"""$x \mapsto \sum_i \phi(x; u_i)\, v_i$, Eq. (1) of Zhang, Saxe & Latham.

    `u` has shape `(unit, *weight_shape)` and `v` `(unit, output, *read_shape)`: a neuron's
    response is a number, a kernel's one number per position, a head's a vector. One example in, one
    out; batches are the caller's `vmap`. Axes in front of `unit` make a batch of networks (seeds,
    initial scales), which the dynamics train together.
    """

    u: Float[Array, "..."]
    v: Float[Array, "..."]
    unit: AbstractUnit = field(metadata={"static": True})

    def __repr__(self) -> str:
        if not hasattr(self.u, "shape"):  # a tree of something else, as JAX makes them
            return f"Layer({self.u!r}, {self.v!r}, {self.unit})"
        batch = f"{self.batch_shape} networks, " if self.batch_shape else ""
        return f"Layer({batch}{self.width} units {self.unit}, {self.outputs} outputs)"

    def __call__(self, x: Float[Array, "..."]) -> Float[Array, " output"]:
        """One network, one example, in the precision of JAX's setting; `predict` is float64."""
        if self.batch_shape:
            raise ValueError(
                f"This is a batch of networks, {self.batch_shape}. Use `predict`, or take one of "
                "them: jax.tree.map(lambda weights: weights[0], network)."
            )
        x = jnp.asarray(x)
        self._check_input(x.shape)
        u, v = (jnp.moveaxis(leaf, 0, -1) for leaf in (self.u, self.v))
        return self.structure.outputs(self.features(x)[None], u, v)[0] + self.skip(x)

    @float64
    def predict(self, x: ArrayLike) -> Float[np.ndarray, "*batch sample output"]:
        """Outputs of every network of a batch for examples `(sample, ...)`, in float64."""
        x = np.asarray(x, dtype=float)
        if x.ndim < 2:
            raise ValueError(
                f"`x` must be examples, (sample, …), got shape {x.shape}. For one of them: x[None]."
            )
        flat = [
            np.asarray(leaf).reshape(-1, *leaf.shape[len(self.batch_shape) :])
            for leaf in (self.u, self.v)
        ]
        outputs = jax.vmap(lambda u, v: jax.vmap(Layer(u, v, self.unit))(jnp.asarray(x)))(*flat)
        return np.asarray(outputs).reshape(*self.batch_shape, *outputs.shape[1:])

    def _check_input(self, shape: tuple[int, ...]) -> None:
        """Raises if the network does not take inputs of this shape, whose product may still fit."""
        expected = self.unit.weight_shape(shape), self.unit.read_shape(shape)
        found = self.structure.weight_shape, self.structure.value_shape[1:]
        if found != expected:
            raise ValueError(
                f"Inputs of shape {shape} need units with weights {expected[0]} and responses "
                f"{expected[1]}, the network's have {found[0]} and {found[1]}."
            )

    def features(self, x: Float[Array, "..."]) -> Float[Array, "..."]:
        """ψ(x): what the response is computed from, without any weights."""
        return self.unit.features(x)

    def skip(self, x: Float[Array, "..."]) -> Float[Array, " output"] | float:
        """What a residual connection adds."""
        return self.unit.skip(x, self.outputs)

    @property
    def structure(self) -> Structure:
        """The layer without its weights."""
        axes = len(self.batch_shape) + 1
        return Structure(self.unit, self.width, self.u.shape[axes:], self.v.shape[axes:])

    @property
    def outputs(self) -> int:
        return self.v.shape[len(self.batch_shape) + 1]

    @property
    def width(self) -> int:
        return self.u.shape[len(self.batch_shape)]

    @property
    def batch_shape(self) -> tuple[int, ...]:
        """Axes in front of `unit`: seeds, initial scales."""
        return self.u.shape[: self.u.ndim - 1 - len(self.unit.weight_axes)]


def layer(unit: AbstractUnit, u: ArrayLike, v: ArrayLike) -> Layer:
    """A layer from given arrays, checked: see `Layer` for the shapes.

    For one output a `v` without the output axis is accepted.
    """
    u, v = np.asarray(u, dtype=float), np.asarray(v, dtype=float)
    for name, array in (("u", u), ("v", v)):
        if 0 in array.shape:
            raise ValueError(
                f"`{name}` has shape {array.shape}: there must be at least one along every axis."
            )
        if not np.isfinite(array).all():
            bad = np.sum(~np.isfinite(array))
            raise ValueError(f"`{name}` must be finite, {bad} of its {array.size} values are not.")
    axes, found = u.ndim - len(unit.weight_axes), (u.shape, v.shape)
    if v.ndim == axes + len(unit.read_axes):
        v = np.expand_dims(v, axes)
    if axes < 1 or v.ndim != axes + 1 + len(unit.read_axes) or v.shape[:axes] != u.shape[:axes]:
        raise ValueError(
            f"`u` must have shape (*batch, {', '.join(('unit', *unit.weight_axes))}) and `v` "
            f"(*batch, {', '.join(('unit', 'output', *unit.read_axes))}) for {unit}: "
            f"got {found[0]} and {found[1]}."
        )
    return Layer(u, v, unit)
