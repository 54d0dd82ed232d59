"""The structure of a network without its weights, as compiled programs use it."""

import abc
import math
from dataclasses import dataclass

import jax.numpy as jnp
import numpy as np
from jaxtyping import Float

from .._lanes import blocks, on_all_cores
from .._types import Array
from ._contract import chain, mix, pair
from ._units import AbstractUnit, Shape


class AbstractStructure(abc.ABC):
    """Abstract class of a network without its weights; hashable, because programs depend on it.

    Inside compiled programs the weights of one network are a column, and the weights of a batch are
    a matrix with the networks ("lanes") along its last axis. Inside programs, a weight array whose
    first axis is the units has its units just before the lanes.
    """

    @property
    @abc.abstractmethod
    def shapes(self) -> tuple[Shape, ...]:
        """Shape of each part of one network."""

    @property
    def units_first(self) -> tuple[bool, ...]:
        """Whether each part has the units as its first axis."""
        return (False,) * len(self.shapes)

    def inside(self, *parts: Float[Array, "..."]) -> tuple[Float[Array, "..."], ...]:
        """Return the parts of one network in the form used inside programs, with units last."""
        return tuple(
            jnp.moveaxis(part, 0, -1) if units else part
            for part, units in zip(parts, self.units_first, strict=True)
        )

    @abc.abstractmethod
    def outputs(
        self, psi: Float[Array, "sample *features"], *parts: Float[Array, "..."]
    ) -> Float[Array, "sample output *lane"]:
        """Return the outputs for the features of every sample, without a residual connection."""

    @property
    def size(self) -> int:
        """Number of weights."""
        return sum(map(math.prod, self.shapes))

    def split(self, weights: Float[Array, "weight *lane"]) -> tuple[Float[Array, "..."], ...]:
        """Return the parts of a column of weights, with units and lanes last."""
        borders = np.cumsum([0, *map(math.prod, self.shapes)])
        shapes = [
            (*shape[1:], shape[0]) if units else shape
            for shape, units in zip(self.shapes, self.units_first, strict=True)
        ]
        return tuple(
            weights[start:end].reshape(*shape, *weights.shape[1:])
            for start, end, shape in zip(borders[:-1], borders[1:], shapes, strict=True)
        )

    def columns(self, *parts: Float[Array, "..."]) -> Float[np.ndarray, "weight lane"]:
        """Return the weights of a batch of networks, whose parts are `(*batch, …)`, as columns."""
        flat = [
            np.asarray(part, float).reshape(-1, *shape)
            for part, shape in zip(parts, self.shapes, strict=True)
        ]
        lanes = len(flat[0])
        if any(len(part) != lanes for part in flat):
            raise ValueError(
                "All weight arrays of a batch must have the same number of networks, got "
                f"{', '.join(str(len(part)) for part in flat)}."
            )
        columns = np.empty((self.size, lanes))

        def fill(some: slice) -> None:
            places = self.split(columns[:, some])
            for place, part, units in zip(places, flat, self.units_first, strict=True):
                row = np.moveaxis(part[some], 0, -1)
                place[:] = np.moveaxis(row, 0, -2) if units else row

        on_all_cores(fill, blocks(lanes), columns.size)
        return columns

    def arrays(
        self, weights: Float[np.ndarray, "weight *batch"]
    ) -> tuple[Float[np.ndarray, "..."], ...]:
        """Return the parts of a batch of networks, `(*batch, …)`, from columns of weights."""
        batch, arrays = weights.ndim - 1, []
        for part, units in zip(self.split(weights), self.units_first, strict=True):
            part = np.moveaxis(np.asarray(part), range(part.ndim - batch, part.ndim), range(batch))
            arrays.append(np.moveaxis(part, -1, batch) if units else part)
        return tuple(arrays)


@dataclass(frozen=True)
class Structure(AbstractStructure):
    """A `Layer` without its weights; inside programs the units of u and v precede the lanes."""

    unit: AbstractUnit
    width: int
    weight_shape: Shape  # shape of one unit's u
    value_shape: Shape  # shape of one unit's v

    @property
    def shapes(self) -> tuple[Shape, Shape]:
        return (self.width, *self.weight_shape), (self.width, *self.value_shape)

    @property
    def units_first(self) -> tuple[bool, bool]:
        return True, True

    def outputs(
        self, psi: Float[Array, "sample *features"], *parts: Float[Array, "..."]
    ) -> Float[Array, "sample output *lane"]:
        """Return Σ_i φ(x; u_i) v_i for every sample, without a residual connection."""
        u, v = parts
        lanes = v.shape[len(self.value_shape) + 1 :]
        samples, outputs = len(psi), self.value_shape[0]
        coefficients = math.prod(psi.shape[1:]) // math.prod(self.value_shape[1:])
        # With fixed features the map from features to outputs is the same for all samples. The map
        # is computed first if that needs fewer multiplications than the responses of all samples.
        if (
            self.unit.fixed_features
            and outputs * coefficients <= (outputs + coefficients) * samples
        ):
            c = self.unit.coefficients(u).reshape(coefficients, self.width, *lanes)
            total = pair(v.reshape(-1, self.width, *lanes), c).reshape(outputs, -1, *lanes)
            return mix(psi.reshape(samples, -1), jnp.moveaxis(total, 0, 1))
        responses = self.unit.response(psi, u).reshape(samples, -1, *lanes)
        return chain(responses, v.reshape(outputs, -1, *lanes))
