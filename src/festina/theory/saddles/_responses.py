"""Responses of the units of a layer on the data."""

import functools
import math
from collections.abc import Iterator

import jax
import numpy as np
from jaxtyping import Float

from ..._types import Array
from ...networks import AbstractUnit, Layer
from ...tasks._task import Statistics

_BLOCK = 128  # number of units for which responses are computed at once
_NUMBERS = 2**16  # numbers in an array of outputs of several units


class OnData:
    """Responses of the units of one kind on the data, and norms of sums of responses."""

    def __init__(self, network: Layer, statistics: Statistics):
        self.unit = network.unit
        self.block = min(_BLOCK, network.width)  # no result is wider: `respond` compiles once
        self.weight_shape = network.structure.weight_shape
        self.outputs = network.outputs
        self.read = math.prod(network.structure.value_shape[1:])
        self.psi = jax.device_put(statistics.psi)
        self.weight = statistics.weight

    def responses(self, u: Float[np.ndarray, "unit weight"]) -> Float[np.ndarray, "s r unit"]:
        """Return φ(x; u_i) of every sample, with one axis for the features that v reads."""
        blocks = [np.zeros((len(self.weight), self.read, 0))]
        for first in range(0, len(u), self.block):
            block = u[first : first + self.block]
            full = np.zeros((self.block, block.shape[1]))
            full[: len(block)] = block
            columns = np.moveaxis(full.reshape(-1, *self.weight_shape), 0, -1)
            found = np.asarray(respond(self.unit, self.psi, columns))[..., : len(block)]
            blocks.append(found.reshape(len(self.weight), self.read, len(block)))
        return np.concatenate(blocks, axis=-1)

    def each(
        self, responses: np.ndarray, v: Float[np.ndarray, "unit value"]
    ) -> Iterator[Float[np.ndarray, "some_units sample output"]]:
        """Yield the contribution of every unit to the outputs, several units at a time."""
        by_unit, values = np.moveaxis(responses, -1, 0), self._values(v)
        several = max(1, _NUMBERS // (len(self.weight) * self.outputs))
        for first in range(0, len(v), several):
            some = slice(first, first + several)
            yield by_unit[some] @ values[some]

    def contributions(
        self, responses: np.ndarray, v: Float[np.ndarray, "unit value"]
    ) -> Float[np.ndarray, " unit"]:
        """Return the root mean square of the contribution of every unit to the outputs."""
        return np.concatenate([np.zeros(0), *map(self.sizes, self.each(responses, v))])

    def left(
        self,
        outputs: Float[np.ndarray, "sample output"],
        responses: np.ndarray,
        v: Float[np.ndarray, "unit value"],
    ) -> Float[np.ndarray, " none_to_all"]:
        """Return the root mean square of outputs minus those of the first h units, for each h."""
        sizes, rest = [self.sizes(outputs[None])], outputs
        for some in self.each(responses, v):
            rests = rest - np.cumsum(some, axis=0)
            sizes.append(self.sizes(rests))
            rest = rests[-1]
        return np.concatenate(sizes)

    def sum(self, responses: np.ndarray, v: np.ndarray) -> Float[np.ndarray, "sample output"]:
        together = np.moveaxis(self._values(v), 0, 1).reshape(-1, self.outputs)
        return responses.reshape(len(responses), -1) @ together

    def _values(self, v: Float[np.ndarray, "unit value"]) -> Float[np.ndarray, "unit read output"]:
        return v.reshape(len(v), self.outputs, self.read).mT

    def size(self, outputs: Float[np.ndarray, "sample output"]) -> float:
        """Return the root mean square of outputs over the data."""
        return float(self.sizes(outputs[None])[0])

    def sizes(self, outputs: Float[np.ndarray, "some sample output"]) -> Float[np.ndarray, " some"]:
        """Return the root mean square over the data of several arrays of outputs."""
        return np.sqrt(np.sum(outputs**2, axis=2) @ self.weight)

    def powers(self, responses: np.ndarray) -> Float[np.ndarray, " unit"]:
        """Return ⟨|φ_i|²⟩ for each unit."""
        return self.weight @ np.sum(responses**2, axis=1)

    def gram(self, responses: np.ndarray) -> Float[np.ndarray, "unit unit"]:
        """Return ⟨φ_i · φ_j⟩ for each pair of units."""
        rows = (np.sqrt(self.weight)[:, None, None] * responses).reshape(-1, responses.shape[-1])
        return rows.T @ rows


@functools.partial(jax.jit, static_argnames="unit")
def respond(
    unit: AbstractUnit, psi: Float[Array, "sample ..."], u: Float[Array, "..."]
) -> Float[Array, "sample ..."]:
    """Return φ(x; u_i) of every sample and unit, compiled once for each shape."""
    return unit.response(psi, u)
