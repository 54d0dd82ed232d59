"""The layer of Eq. (1), which every architecture here is an instance of."""

import math
from dataclasses import dataclass, field
from typing import Any

import jax.numpy as jnp
import numpy as np
from jaxtyping import Float

from .._checks import finite_array, misfit
from .._pytree import pytree
from .._types import Array, ArrayLike
from ._network import AbstractNetwork
from ._rows import Rows
from ._structure import Structure
from ._units import AbstractUnit, UnitLike, unit_of


@pytree
@dataclass(frozen=True, eq=False, repr=False)
class Layer(AbstractNetwork):
    r"""$x \mapsto \sum_i \phi(x; u_i)\, v_i$, Eq. (1) of Zhang, Saxe & Latham.

    `u` has shape `(unit, *weight_shape)` and `v` `(unit, output, *read_shape)`: a neuron's
    response is a number, a kernel's one number per position, a head's a vector. One example in, one
    out; batches are the caller's `vmap`. Axes in front of `unit` make a batch of networks (seeds,
    initial scales), which the dynamics train together.
    """

    u: Float[Array, "..."]
    v: Float[Array, "..."]
    unit: AbstractUnit = field(metadata={"static": True})

    def _described(self) -> str:
        return f"{self.width} units {self.unit}, {self.outputs} outputs"

    def hidden(self, x: Float[Array, "..."]) -> tuple[Float[Array, "..."], ...]:
        """Return φ(x; u_i) of every unit, `(*read, unit)`."""
        psi = self.features(self._checked(x))
        return (self.unit.response(psi[None], jnp.moveaxis(self.u, 0, -1))[0],)

    def check_fit(self, input_shape: tuple[int, ...], outputs: int) -> None:
        expected_u = self.unit.weight_shape(input_shape)
        expected_v = (outputs, *self.unit.read_shape(input_shape))
        found_u, found_v = self.structure.weight_shape, self.structure.value_shape
        if found_u != expected_u or found_v != expected_v:
            takes = self.unit.input_shape(found_u, found_v[1:])[:1] + input_shape[1:]
            raise misfit(takes, self.outputs, input_shape, outputs)

    @classmethod
    def from_rows(
        cls,
        array: Float[np.ndarray, "... unit weight"],
        unit: AbstractUnit,
        weight_shape: tuple[int, ...],
        value_shape: tuple[int, ...],
    ) -> "Layer":
        """Return the layer with (v_i, u_i) of unit i in row i of an array, which is locked."""
        front, border = array.shape[:-1], math.prod(value_shape)
        rows = Rows(array)
        v, u = rows.array[..., :border], rows.array[..., border:]
        layer = cls(u.reshape(*front, *weight_shape), v.reshape(*front, *value_shape), unit)
        vars(layer)["_rows"] = rows
        return layer

    @property
    def rows(self) -> Rows:
        """Return (v_i, u_i) for each unit; a copy, unless the layer is one `from_rows`."""
        if (rows := vars(self).get("_rows")) is not None:
            return rows
        front = (*self.batch_shape, self.width, -1)
        parts = [np.asarray(part, float).reshape(front) for part in (self.v, self.u)]
        return Rows(np.concatenate(parts, axis=-1))

    def read(self) -> "Layer":
        """Return the layer, with ΘᵀΘ known where training will ask for it: of many linear units.

        Weights that have just been written are read fastest: later they may have left the
        processor's cache.
        """
        if self.unit.degree == 1 and self.rows.many_and_short:
            _ = self.rows.gram
        return self

    def __getstate__(self) -> dict[str, Any]:
        # The weights of a copy need not look into these rows.
        return {name: value for name, value in vars(self).items() if name != "_rows"}

    @property
    def parts(self) -> tuple[Array, ...]:
        return self.u, self.v

    @property
    def part_axes(self) -> dict[str, tuple[str, ...]]:
        return {
            "u": ("unit", *self.unit.weight_axes),
            "v": ("unit", "output", *self.unit.read_axes),
        }

    def with_parts(self, *parts: Float[Array, "..."]) -> "Layer":
        u, v = parts
        return Layer(u, v, self.unit)._labelled_like(self)

    @property
    def first_unit(self) -> AbstractUnit:
        return self.unit

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


def layer_from(unit: UnitLike, u: ArrayLike, v: ArrayLike) -> Layer:
    """Return a layer from copies of given arrays, checked: see `Layer` for the shapes.

    For one output a `v` without the output axis is accepted; an activation, or its name, stands for
    the neuron that has it.
    """
    unit, u, v = unit_of(unit), finite_array("u", u), finite_array("v", v)
    axes, found = u.ndim - len(unit.weight_axes), (u.shape, v.shape)
    if v.ndim == axes + len(unit.read_axes):
        v = np.expand_dims(v, axes)
    if axes < 1 or v.ndim != axes + 1 + len(unit.read_axes) or v.shape[:axes] != u.shape[:axes]:
        turned = not unit.read_axes and v.ndim == 2 and v.shape[1:] == u.shape[:1]
        raise ValueError(
            f"`u` must have shape (*batch, {', '.join(('unit', *unit.weight_axes))}) and `v` "
            f"(*batch, {', '.join(('unit', 'output', *unit.read_axes))}) for {unit}: "
            f"got {found[0]} and {found[1]}." + " Give v.T?" * turned
        )
    rows = Layer(u, v, unit).rows
    return Layer.from_rows(rows.array, unit, u.shape[axes:], v.shape[axes:]).read()
