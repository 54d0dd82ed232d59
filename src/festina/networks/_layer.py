"""Networks of one hidden layer, Eq. (1) of Zhang, Saxe & Latham."""

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
    r"""Network of one hidden layer, $x \mapsto \sum_i \phi(x; u_i)\, v_i$.

    The network is Eq. (1) of Zhang, Saxe & Latham. `u` has the shape `(*batch, unit,
    *weight_shape)` and `v` the shape `(*batch, unit, output, *read_shape)`. The response φ is one
    number for a neuron, one number per position for a convolution kernel, and a vector for an
    attention head. The batch axes, if any, hold several networks (seeds, initial scales), which are
    trained together. A call takes one example, `predict` takes many.

    **Example:**

    >>> from festina.networks import layer_from
    >>> network = layer_from("relu", [[1.0, 0.0], [0.0, -1.0]], [2.0, 3.0])
    >>> network.width, network.outputs
    (2, 1)
    >>> network.predict([[1.0, 1.0], [1.0, -1.0]])
    array([[2.],
           [5.]])
    """

    u: Float[Array, "..."]
    v: Float[Array, "..."]
    unit: AbstractUnit = field(metadata={"static": True})

    def _described(self) -> str:
        return f"{self.width} units {self.unit}, {self.outputs} outputs"

    def hidden(self, x: Float[Array, "..."]) -> tuple[Float[Array, "..."], ...]:
        """Return the responses φ(x; u_i) of all units to one example, as `((*read, unit),)`."""
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
        """Return the layer with weights (v_i, u_i) in row i of an array, made read-only."""
        front, border = array.shape[:-1], math.prod(value_shape)
        rows = Rows(array)
        v, u = rows.array[..., :border], rows.array[..., border:]
        layer = cls(u.reshape(*front, *weight_shape), v.reshape(*front, *value_shape), unit)
        vars(layer)["_rows"] = rows
        return layer

    @property
    def rows(self) -> Rows:
        """Weights (v_i, u_i) of each unit as rows; a copy unless `from_rows` made the layer."""
        if (rows := vars(self).get("_rows")) is not None:
            return rows
        front = (*self.batch_shape, self.width, -1)
        parts = [np.asarray(part, float).reshape(front) for part in (self.v, self.u)]
        return Rows(np.concatenate(parts, axis=-1))

    def read(self) -> "Layer":
        """Return the layer itself, after computing ΘᵀΘ if it has many linear units.

        Training needs ΘᵀΘ of such layers. Computing it right after the weights were written is
        fastest, because the weights are still in the processor's cache.
        """
        if self.unit.degree == 1 and self.rows.many_and_short:
            _ = self.rows.gram
        return self

    def __getstate__(self) -> dict[str, Any]:
        # The weights of a copy or an unpickled layer need not be views of the same rows.
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
    """Return a `Layer` with copies of given weights; raise `ValueError` if shapes do not fit.

    **Arguments:**

    - `unit`: kind of unit, or the activation of a neuron, or its name.
    - `u`: `(*batch, unit, *weight_shape)`, for neurons `(*batch, unit, input)`.
    - `v`: `(*batch, unit, output, *read_shape)`, for neurons `(*batch, unit, output)`. The output
      axis may be left out if there is one output.

    **Example:**

    >>> from festina.networks import layer_from
    >>> layer_from("linear", [[1.0, 0.0], [0.0, -1.0]], [2.0, 3.0]).predict([[1.0, 1.0]])
    array([[-1.]])
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
            f"got {found[0]} and {found[1]}." + " Transpose `v`: give v.T." * turned
        )
    rows = Layer(u, v, unit).rows
    return Layer.from_rows(rows.array, unit, u.shape[axes:], v.shape[axes:]).read()
