"""What compiled programs see of a stack of layers, and what the stack sees of its inputs."""

import functools
import math
from dataclasses import dataclass
from typing import Any

import jax
import jax.numpy as jnp
import numpy as np
from jaxtyping import Float

from .._types import Array
from ._activations import Activation
from ._contract import chain, mix, pair
from ._structure import AbstractStructure
from ._units import AbstractUnit
from ._view import AbstractView, Shape

_FEW = 8  # samples that are written out one by one

Skips = tuple[tuple[int, int], ...]
"""(k, l): the activity of layer k is added to that of layer l. Inputs are layer 0."""


@dataclass(frozen=True)
class StackView(AbstractView):
    """Features of a first unit as seen through all the layers behind it.

    With a connection past the first layer the input itself is one more feature of the network.
    """

    unit: AbstractUnit
    activations: tuple[Activation, ...]  # of the layers behind the first
    bypassed: bool

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


@dataclass(frozen=True)
class StackStructure(AbstractStructure):
    """A stack without its weights. In programs units and, behind them, lanes are the last axes."""

    unit: AbstractUnit
    shapes: tuple[Shape, ...]  # of u (unit, *weight), w2 (out, *read, unit), w3 (out, in), …
    activations: tuple[Activation, ...]
    skips: Skips

    @property
    def widths(self) -> tuple[int, ...]:
        """Numbers of each layer's activity, from the first to the output."""
        units, reads = self.shapes[0][0], self.shapes[1][1:-1]
        return units * math.prod(reads), *(shape[0] for shape in self.shapes[1:])

    @property
    def view(self) -> StackView:
        """What the stack sees of its inputs."""
        return StackView(self.unit, self.activations, self.bypassed)

    @property
    def bypassed(self) -> bool:
        """Whether the input goes past the first layer."""
        return any(source == 0 for source, _ in self.skips)

    @property
    def size(self) -> int:
        return sum(map(math.prod, self.shapes))

    def split(self, weights: Float[Array, "weight *lane"]) -> tuple[Float[Array, "..."], ...]:
        units, *weight_shape = self.shapes[0]
        shapes = ((*weight_shape, units), *self.shapes[1:])
        borders = np.cumsum([0, *map(math.prod, shapes)])
        return tuple(
            weights[start:end].reshape(*shape, *weights.shape[1:])
            for start, end, shape in zip(borders[:-1], borders[1:], shapes, strict=True)
        )

    def outputs(
        self, psi: Float[Array, "sample *features"], *parts: Float[Array, "..."]
    ) -> Float[Array, "sample output *lane"]:
        # Where nothing bends, the map from features to outputs is the same for all samples.
        if self.view.fixed_features and self.widths[-1] <= len(psi):
            return self._linear_outputs(psi, *parts)
        return self.activities(psi, *parts)[-1]

    def _linear_outputs(
        self, psi: Float[Array, "sample *features"], *parts: Float[Array, "..."]
    ) -> Float[Array, "sample output *lane"]:
        """From the outputs' end: B_l = ∂a_D/∂a_l = B_{l+1} W_{l+1} + Σ_m B_m, skips from l to m.

        Biases b_l add Σ B_l b_l.
        """
        u, *weights = parts
        lanes = u.shape[len(self.shapes[0]) :]
        depth, outputs = len(parts), self.widths[-1]
        identity = jnp.eye(outputs).reshape(outputs, outputs, *(1,) * len(lanes))
        biases: list[Any] = []
        readers = {depth: jnp.broadcast_to(identity, (outputs, outputs, *lanes))}
        for layer in range(depth - 1, -1, -1):
            paths: list[Any] = [readers[target] for source, target in self.skips if source == layer]
            if layer == depth - 1:  # B_D is the identity
                paths.append(weights[-1].reshape(outputs, -1, *lanes))
            elif layer > 0:
                weight = weights[layer - 1].reshape(self.widths[layer], -1, *lanes)
                into = jnp.swapaxes(weight[:, : self.widths[layer - 1]], 0, 1)
                paths.append(chain(readers[layer + 1], into))
                if self.unit.bias:
                    biases.append(chain(readers[layer + 1], jnp.swapaxes(weight[:, -1:], 0, 1)))
            if paths:
                readers[layer] = functools.reduce(jnp.add, paths)
        x = None
        if self.bypassed:
            psi, x = self._apart(psi)
        units = self.shapes[0][0]
        c = self.unit.coefficients(u).reshape(-1, units, *lanes)
        total = pair(readers[1].reshape(-1, units, *lanes), c).reshape(outputs, -1, *lanes)
        output = mix(psi.reshape(len(psi), -1), jnp.swapaxes(total, 0, 1))
        if biases:
            output = output + mix(_ones(psi), jnp.swapaxes(functools.reduce(jnp.add, biases), 0, 1))
        return output if x is None else output + mix(x, jnp.swapaxes(readers[0], 0, 1))

    def activities(
        self, psi: Float[Array, "sample *features"], *parts: Float[Array, "..."]
    ) -> tuple[Float[Array, "sample _ *lane"], ...]:
        """a_1 = φ(x; u) and a_l = σ_l(W_l a_{l−1}) + Σ_k a_k over the skips from k to l."""
        u, *weights = parts
        lanes = u.shape[len(self.shapes[0]) :]
        x = None
        if self.bypassed:
            psi, x = self._apart(psi)
            x = x.reshape(*x.shape, *(1,) * len(lanes))
        activities: list[Any] = [x, self.unit.response(psi, u).reshape(len(psi), -1, *lanes)]
        for layer, weight in enumerate(weights, start=2):
            before = activities[-1]
            if self.unit.bias and layer < len(parts):
                ones = _ones(psi).reshape(len(psi), 1, *(1,) * len(lanes))
                ones = jnp.broadcast_to(ones, (len(psi), 1, *lanes))
                before = jnp.concatenate((before, ones), axis=1)
            activity = _through(before, weight.reshape(len(weight), -1, *lanes))
            if layer < len(parts):
                activity = self.activations[layer - 2](activity)
            for source, target in self.skips:
                if target == layer:
                    activity = activity + activities[source]
            activities.append(activity)
        return tuple(activities[1:])

    def _apart(
        self, features: Float[Array, "sample feature"]
    ) -> tuple[Float[Array, "sample ..."], Float[Array, "sample input"]]:
        """The unit's features and the input, which stand side by side."""
        (inputs,) = {self.widths[target - 1] for source, target in self.skips if source == 0}
        psi, x = features[:, :-inputs], features[:, -inputs:]
        reads = self.shapes[1][1:-1]
        return psi.reshape(-1, *reads, *self._coefficient_shape), x

    @property
    def _coefficient_shape(self) -> Shape:
        """Of what a unit's response contracts the last axes of its features with."""
        weight = self.shapes[0][1:]
        if not self.unit.fixed_features:
            return weight
        return jax.eval_shape(self.unit.coefficients, jax.ShapeDtypeStruct(weight, float)).shape

    def columns(self, *parts: Float[Array, "..."]) -> Float[np.ndarray, "weight lane"]:
        u, *others = (
            np.asarray(part, float).reshape(-1, *shape)
            for part, shape in zip(parts, self.shapes, strict=True)
        )
        rows = (np.moveaxis(u, 1, -1), *others)
        return np.concatenate([row.reshape(len(row), -1) for row in rows], axis=1).T

    def arrays(
        self, weights: Float[np.ndarray, "weight *batch"]
    ) -> tuple[Float[np.ndarray, "..."], ...]:
        batch = weights.ndim - 1
        u, *others = (
            np.moveaxis(np.asarray(part), range(part.ndim - batch, part.ndim), range(batch))
            for part in self.split(weights)
        )
        return np.moveaxis(u, -1, batch), *others


def _ones(psi: Float[Array, "sample *features"]) -> Float[Array, "sample 1"]:
    """The last feature of a unit with a bias: 1, and of a pseudo-sample what stands for it."""
    return psi.reshape(len(psi), -1)[:, -1:]


def _through(
    activity: Float[Array, "sample n *lane"], weight: Float[Array, "m n *lane"]
) -> Float[Array, "sample m *lane"]:
    """W a for every sample, in every lane."""
    if len(activity) <= _FEW:
        return chain(activity, weight)
    return jnp.einsum("sn...,mn...->sm...", activity, weight)
