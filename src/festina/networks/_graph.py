"""Networks on any directed graph without cycles, as compiled programs compute them."""

import functools
import math
from collections.abc import Sequence
from dataclasses import dataclass
from typing import NamedTuple

import jax.numpy as jnp
import numpy as np
from jaxtyping import Float

from .._types import Array
from ._activations import Activation
from ._contract import chain, mix, pair
from ._structure import AbstractStructure
from ._units import AbstractUnit
from ._view import Shape

_FEW = 8  # number of samples up to which `through` computes each product singly


class Edge(NamedTuple):
    """A connection between two vertices of a graph."""

    source: int
    target: int
    part: int | None  # index of its weights; None is a skip, which adds the source's activity
    gate: int | None = None  # index of its gate; None is always open


Gates = tuple[tuple[int | None, int], ...]
"""Runs of consecutive neurons with the same gate: index of the gate (None: open), run length."""


class Node(NamedTuple):
    """A group of neurons with the same incoming edges and activation."""

    width: int
    activation: Activation
    gates: Gates = ((None, 1),)


class Input(NamedTuple):
    """A group of features at which edges of the graph start."""

    shape: Shape
    gates: Gates = ((None, 1),)


@dataclass(frozen=True)
class Graph(AbstractStructure):
    r"""A network on a directed graph without its weights.

    Vertices are numbered so that edges lead to higher numbers: inputs first, then nodes. The last
    `ends` nodes are outputs. The activity of node v is

    $$h_v = g_v\,[\sigma_v(\sum_e g_e W_e h_{s(e)}) + \sum_k g_k h_{s(k)}].$$

    The first sum is over incoming edges e with weights, the second over incoming edges k without
    weights. An edge with weights from an input holds units that respond to its features. The gates
    g of each sample are the last entries of its features. A weight matrix may have one more column
    than its source has activities. The last column then holds biases, which multiply the last
    feature of the first input, 1.
    """

    unit: AbstractUnit
    inputs: tuple[Input, ...]
    nodes: tuple[Node, ...]
    edges: tuple[Edge, ...]
    weights: tuple[Shape, ...]  # (out, in) for an edge between nodes, (unit, *weight) for units
    ends: int = 1
    gates: int = 0

    @property
    def shapes(self) -> tuple[Shape, ...]:
        return self.weights

    @property
    def units_first(self) -> tuple[bool, ...]:
        looking = {edge.part for edge in self.edges if edge.source < len(self.inputs)}
        return tuple(part in looking for part in range(len(self.shapes)))

    def outputs(
        self, psi: Float[Array, "sample *features"], *parts: Float[Array, "..."]
    ) -> Float[Array, "sample output *lane"]:
        if self._cheaper_from_the_end(psi):
            return self._linear_outputs(psi, *parts)
        ends = self.activities(psi, *parts)[-self.ends :]
        return ends[0] if len(ends) == 1 else jnp.concatenate(ends, axis=1)

    def _cheaper_from_the_end(self, psi: Float[Array, "sample *features"]) -> bool:
        """Return whether it is cheaper to compute the map from features to outputs first.

        In a network without activations the map is the same for all samples.
        """
        bent = any(node.activation.power != 1 for node in self.nodes)
        if bent or self.gates or self.ends > 1 or not self.unit.fixed_features:
            return False
        samples, outputs, last = len(psi), self.nodes[-1].width, len(self.inputs) + len(self.nodes)
        products = sum(math.prod(self.shapes[e.part]) for e in self.edges if e.part is not None)
        final = sum(
            math.prod(self.shapes[edge.part])
            for edge in self.edges
            if edge.part is not None and edge.target == last - 1
        )
        there = outputs * (products - final + samples * math.prod(psi.shape[1:]))
        return there <= samples * products

    def _linear_outputs(
        self, psi: Float[Array, "sample *features"], *parts: Float[Array, "..."]
    ) -> Float[Array, "sample output *lane"]:
        """Return outputs from the map B_s = ∂f/∂h_s = Σ_e B_t(e) W_e, summed over edges from s.

        The recursion starts at the output, whose B is the identity.
        """
        front, lanes = len(self.inputs), self._lanes(parts)
        outputs = self.nodes[-1].width
        identity = jnp.eye(outputs).reshape(outputs, outputs, *(1,) * len(lanes))
        readers: list = [None] * (front + len(self.nodes))
        known, summands = self._apart(psi)[0], []
        for vertex in range(len(readers) - 1, -1, -1):
            ways = []
            for edge in (edge for edge in self.edges if edge.source == vertex):
                reader = readers[edge.target]  # None stands for the identity
                if edge.part is None:
                    ways.append(identity if reader is None else reader)
                    continue
                weight = parts[edge.part]
                if vertex < front:
                    units = self.shapes[edge.part][0]
                    c = self.unit.coefficients(weight).reshape(-1, units, *lanes)
                    if reader is None:
                        ways.append(jnp.swapaxes(c, 0, 1))
                        continue
                    ways.append(
                        pair(reader.reshape(-1, units, *lanes), c).reshape(outputs, -1, *lanes)
                    )
                elif reader is None:
                    ways.append(weight.reshape(outputs, -1, *lanes))
                else:
                    into = jnp.swapaxes(weight.reshape(len(weight), -1, *lanes), 0, 1)
                    width = self.nodes[vertex - front].width
                    ways.append(chain(reader, into[:width]))
                    if len(into) > width:
                        bias = chain(reader, into[width:])
                        summands.append(mix(_ones(known), jnp.swapaxes(bias, 0, 1)))
            if ways:
                readers[vertex] = functools.reduce(jnp.add, ways)
        for seen, reader in zip(known, readers, strict=False):
            summands.append(mix(seen.reshape(len(psi), -1), jnp.swapaxes(reader, 0, 1)))
        return functools.reduce(jnp.add, summands)

    def activities(
        self, psi: Float[Array, "sample *features"], *parts: Float[Array, "..."]
    ) -> list[Float[Array, "sample _ *lane"]]:
        """Return the activity of every node for every sample."""
        lanes = self._lanes(parts)
        known, gates = self._apart(psi)
        ones = _ones(known)
        known = [
            gated_activity(entry.gates, gates, seen)
            for entry, seen in zip(self.inputs, known, strict=True)
        ]
        for vertex, node in enumerate(self.nodes, start=len(self.inputs)):
            driven, added = [], []
            for edge in (edge for edge in self.edges if edge.target == vertex):
                arriving = known[edge.source]
                if edge.part is not None:
                    weight = parts[edge.part]
                    if edge.source < len(self.inputs):
                        arriving = self.unit.response(arriving, weight)
                        arriving = arriving.reshape(len(psi), -1, *lanes)
                    else:
                        weight = weight.reshape(len(weight), -1, *lanes)
                        if weight.shape[1] > arriving.shape[1]:
                            one = ones.reshape(len(psi), 1, *(1,) * len(lanes))
                            one = jnp.broadcast_to(one, (len(psi), 1, *lanes))
                            arriving = jnp.concatenate((arriving, one), axis=1)
                        arriving = through(arriving, weight)
                elif edge.source < len(self.inputs):
                    arriving = arriving.reshape(*arriving.shape, *(1,) * len(lanes))
                (added if edge.part is None else driven).append(
                    gated_activity(((edge.gate, 1),), gates, arriving)
                )
            activity = node.activation(functools.reduce(jnp.add, driven))
            activity = functools.reduce(jnp.add, added, activity)
            known.append(gated_activity(node.gates, gates, activity))
        return known[len(self.inputs) :]

    def _apart(
        self, psi: Float[Array, "sample *features"]
    ) -> tuple[Sequence[Float[Array, "sample ..."]], Float[Array, "sample gate"]]:
        """Return the features of each input separately, and the gates."""
        if len(self.inputs) == 1 and not self.gates:
            return [psi], jnp.zeros((len(psi), 0))
        sizes = [math.prod(entry.shape) for entry in self.inputs]
        pieces = jnp.split(psi, np.cumsum(sizes), axis=1)
        shaped = [
            piece.reshape(-1, *entry.shape)
            for piece, entry in zip(pieces[:-1], self.inputs, strict=True)
        ]
        return shaped, pieces[-1]

    def _lanes(self, parts: tuple[Float[Array, "..."], ...]) -> Shape:
        return parts[0].shape[len(self.shapes[0]) :]


def gated_activity(
    runs: Gates, gates: Float[Array, "sample gate"], activity: Float[Array, "sample *rest"]
) -> Float[Array, "sample *rest"]:
    """Return the activities of neurons times their gates; a run of neurons has equal gates."""
    if all(gate is None for gate, _ in runs):
        return activity
    numbers, widths = zip(*((len(gates.T) if g is None else g, n) for g, n in runs), strict=True)
    known = jnp.concatenate((gates, jnp.ones_like(gates[:, :1])), axis=1)
    factors = known[:, np.repeat(numbers, widths if len(widths) > 1 else 1)]
    return factors.reshape(*factors.shape, *(1,) * (activity.ndim - 2)) * activity


def _ones(inputs: Sequence[Float[Array, "sample ..."]]) -> Float[Array, "sample 1"]:
    """Return the last feature, which is 1 for a unit with a bias.

    In a pseudo-sample, which represents moments of the data, this last feature can differ from 1.
    """
    return inputs[0].reshape(len(inputs[0]), -1)[:, -1:]


def through(
    activity: Float[Array, "sample n *lane"], weight: Float[Array, "m n *lane"]
) -> Float[Array, "sample m *lane"]:
    """Return the product W a of weights and activity for every sample, in every lane."""
    if len(activity) <= _FEW:
        return chain(activity, weight)
    return jnp.einsum("sn...,mn...->sm...", activity, weight)
