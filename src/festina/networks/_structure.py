"""What compiled programs see of a network: one column of weights, and what it computes."""

import abc
import math
from dataclasses import dataclass

import jax.numpy as jnp
import numpy as np
from jaxtyping import Float

from .._types import Array
from ._contract import mix, pair
from ._units import AbstractUnit, Shape


class AbstractStructure(abc.ABC):
    """A network without its weights. Hashable: what compiled programs depend on.

    Inside programs the weights of one network are a column, those of a batch a matrix with the
    networks ("lanes") in the last axis.
    """

    @property
    @abc.abstractmethod
    def size(self) -> int:
        """Number of weights."""

    @abc.abstractmethod
    def split(self, weights: Float[Array, "weight *lane"]) -> tuple[Float[Array, "..."], ...]:
        """The parts of a column, with lanes last."""

    @abc.abstractmethod
    def outputs(
        self, psi: Float[Array, "sample *features"], *parts: Float[Array, "..."]
    ) -> Float[Array, "sample output *lane"]:
        """Outputs from the features of every sample, but for a residual connection."""

    @abc.abstractmethod
    def columns(self, *parts: Float[Array, "..."]) -> Float[np.ndarray, "weight lane"]:
        """The weights of a batch of networks, whose parts are `(*batch, …)`, as columns."""

    @abc.abstractmethod
    def arrays(
        self, weights: Float[np.ndarray, "weight *batch"]
    ) -> tuple[Float[np.ndarray, "..."], ...]:
        """The parts of a batch of networks, `(*batch, …)`, from columns."""


@dataclass(frozen=True)
class Structure(AbstractStructure):
    """A layer without its weights. The units of u and v stand just before the lanes."""

    unit: AbstractUnit
    width: int
    weight_shape: Shape  # of one unit's u
    value_shape: Shape  # of one unit's v

    @property
    def size(self) -> int:
        """Number of weights."""
        return self.width * (math.prod(self.weight_shape) + math.prod(self.value_shape))

    def split(
        self, weights: Float[Array, "weight *lane"]
    ) -> tuple[Float[Array, "*u_and_lane"], Float[Array, "*v_and_lane"]]:
        """u `(*weight, unit, *lane)` and v `(output, *read, unit, *lane)`."""
        lanes = weights.shape[1:]
        border = self.width * math.prod(self.weight_shape)
        return (
            weights[:border].reshape(*self.weight_shape, self.width, *lanes),
            weights[border:].reshape(*self.value_shape, self.width, *lanes),
        )

    def outputs(
        self, psi: Float[Array, "sample *features"], *parts: Float[Array, "..."]
    ) -> Float[Array, "sample output *lane"]:
        """Σ_i φ(x; u_i) v_i from the features of every sample, but for a residual connection."""
        u, v = parts
        lanes = v.shape[len(self.value_shape) + 1 :]
        samples, outputs = len(psi), self.value_shape[0]
        coefficients = math.prod(psi.shape[1:]) // math.prod(self.value_shape[1:])
        # Whichever order multiplies less: the map from features to outputs is the same for all
        # samples, but there may be fewer samples than outputs.
        if (
            self.unit.fixed_features
            and outputs * coefficients <= (outputs + coefficients) * samples
        ):
            c = self.unit.coefficients(u).reshape(coefficients, self.width, *lanes)
            total = pair(v.reshape(-1, self.width, *lanes), c).reshape(outputs, -1, *lanes)
            return mix(psi.reshape(samples, -1), jnp.moveaxis(total, 0, 1))
        responses = self.unit.response(psi, u).reshape(samples, -1, *lanes)
        return pair(responses, v.reshape(outputs, -1, *lanes))

    def columns(self, *parts: Float[Array, "..."]) -> Float[np.ndarray, "weight lane"]:
        """The weights of a batch of layers, `(*batch, unit, …)`, as columns."""
        each = zip(parts, (self.weight_shape, self.value_shape), strict=True)
        rows = [
            np.moveaxis(np.asarray(leaf, float).reshape(-1, self.width, *shape), (0, 1), (-1, -2))
            for leaf, shape in each
        ]
        return np.concatenate([row.reshape(-1, row.shape[-1]) for row in rows])

    def arrays(
        self, weights: Float[np.ndarray, "weight *batch"]
    ) -> tuple[Float[np.ndarray, "*batch_u"], Float[np.ndarray, "*batch_v"]]:
        """u and v of a batch of layers, `(*batch, unit, …)`, from columns."""
        parts = self.split(weights)
        batch = weights.ndim - 1
        move = lambda part: np.moveaxis(
            part, range(part.ndim - 1 - batch, part.ndim), (batch, *range(batch))
        )
        return move(parts[0]), move(parts[1])
