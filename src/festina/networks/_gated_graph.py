"""The graph of a gated network in compiled programs, which merge nodes with equal neighbours."""

import functools
import itertools
from collections.abc import Sequence
from dataclasses import dataclass
from types import ModuleType
from typing import Any

import jax.numpy as jnp
import numpy as np
from jaxtyping import Float

from .._types import Array
from ._activations import linear
from ._graph import Edge, Graph, Input, Node, gated_activity, through
from ._units import NeuronUnit
from ._view import Shape

Block = tuple[tuple[int, ...], ...]
"""Indices of edges as a matrix: a row for each target node, a column for each source node."""


@dataclass(frozen=True)
class Plan:
    """The graph of a gated network: names and widths of its nodes, and the edges between them."""

    inputs: tuple[tuple[str, tuple[int, ...]], ...]  # name, and columns of x that the node reads
    nodes: tuple[tuple[str, int], ...]  # name and width; sources before targets, outputs last
    edges: tuple[tuple[str, str], ...]
    columns: int = 0  # number of columns of x, 0 if it is not known

    @property
    def ends(self) -> int:
        """Number of output nodes."""
        return len(dict(self.nodes).keys() - {source for source, _ in self.edges})

    @property
    def widths(self) -> dict[str, int]:
        """Width of every input node and other node, by name."""
        return {name: len(columns) for name, columns in self.inputs} | dict(self.nodes)

    @property
    def outputs(self) -> tuple[str, ...]:
        """Names of the output nodes, which no edge leaves."""
        return tuple(name for name, _ in self.nodes[-self.ends :])

    @property
    def shapes(self) -> tuple[Shape, ...]:
        """Shape (out, in) of the weights of each edge."""
        widths = self.widths
        return tuple((widths[target], widths[source]) for source, target in self.edges)


@dataclass(frozen=True)
class GatedGraph(Graph):
    """A gated graph in which one matrix per node holds the weights of all its incoming edges.

    The number of matrix products is then the number of nodes instead of the number of edges.
    """

    blocks: tuple[Block, ...] = ()
    single: tuple[Shape, ...] = ()  # shape of the weights of each edge

    @property
    def units_first(self) -> tuple[bool, ...]:
        return (False,) * len(self.shapes)

    def outputs(
        self, psi: Float[Array, "sample feature"], *parts: Float[Array, "..."]
    ) -> Float[Array, "sample output *lane"]:
        return _side_by_side(self.activities(psi, *parts)[-self.ends :])

    def activities(
        self, psi: Float[Array, "sample feature"], *parts: Float[Array, "..."]
    ) -> list[Float[Array, "sample _ *lane"]]:
        front = len(self.inputs)
        known, gates = self._apart(psi)
        known = [
            gated_activity(entry.gates, gates, seen)
            for entry, seen in zip(self.inputs, known, strict=True)
        ]
        for vertex, (node, weight) in enumerate(zip(self.nodes, parts, strict=True), start=front):
            edges = [edge for edge in self.edges if edge.target == vertex]
            arriving = [
                gated_activity(((edge.gate, 1),), gates, known[edge.source]) for edge in edges
            ]
            # Edges from inputs come first; the features of inputs have no axis for lanes.
            read = sum(edge.source < front for edge in edges)
            columns = sum(seen.shape[1] for seen in arriving[:read])
            driven = []
            if read:
                seen = _side_by_side(arriving[:read])
                driven.append(jnp.tensordot(seen, weight[:, :columns], ((1,), (1,))))
            if read < len(edges):
                driven.append(through(_side_by_side(arriving[read:]), weight[:, columns:]))
            known.append(gated_activity(node.gates, gates, functools.reduce(jnp.add, driven)))
        return known[front:]

    def columns(self, *parts: Float[Array, "..."]) -> Float[np.ndarray, "weight lane"]:
        return super().columns(*self._joined(np, parts))

    def inside(self, *parts: Float[Array, "..."]) -> tuple[Float[Array, "..."], ...]:
        return super().inside(*self._joined(jnp, parts))

    def arrays(
        self, weights: Float[np.ndarray, "weight *batch"]
    ) -> tuple[Float[np.ndarray, "..."], ...]:
        found: dict[int, np.ndarray] = {}
        for rows, whole in zip(self.blocks, super().arrays(weights), strict=True):
            down = np.cumsum([self.single[row[0]][0] for row in rows[:-1]])
            along = np.cumsum([self.single[edge][1] for edge in rows[0][:-1]])
            for row, strip in zip(rows, np.split(whole, down, axis=-2), strict=True):
                found |= zip(row, np.split(strip, along, axis=-1), strict=True)
        return tuple(found[edge] for edge in range(len(found)))

    def _joined(self, library: ModuleType, parts: Any) -> list[Any]:
        return [library.block([[parts[k] for k in row] for row in rows]) for rows in self.blocks]


def _side_by_side(arrays: Sequence[Float[Array, "sample _ *lane"]]) -> Float[Array, "..."]:
    return arrays[0] if len(arrays) == 1 else jnp.concatenate(arrays, axis=1)


@functools.lru_cache(maxsize=256)
def gated_graph(plan: Plan, gates: tuple[str, ...]) -> GatedGraph:
    """Return the graph of a plan, with consecutive nodes that have equal neighbours merged."""
    gate = {name: number for number, name in enumerate(gates)}
    alone = {name for edge in gates if "-" in edge for name in edge.split("-")}
    alike = lambda name: (
        name if name in alone else "",
        {source for source, target in plan.edges if target == name},
        {target for source, target in plan.edges if source == name},
    )
    groups = [tuple(names) for _, names in itertools.groupby(plan.widths, key=alike)]
    place = {name: number for number, names in enumerate(groups) for name in names}
    runs = [tuple((gate.get(name), plan.widths[name]) for name in names) for names in groups]
    inputs, ends = (
        len({place[name] for name in names}) for names in (dict(plan.inputs), plan.outputs)
    )
    number = {edge: k for k, edge in enumerate(plan.edges)}
    nodes = range(inputs, len(groups))
    sources = {
        b: sorted({place[source] for source, target in plan.edges if place[target] == b})
        for b in nodes
    }
    blocks = tuple(
        tuple(
            tuple(number[source, target] for a in sources[b] for source in groups[a])
            for target in groups[b]
        )
        for b in nodes
    )
    width = lambda group: sum(plan.widths[name] for name in groups[group])
    gate_of = lambda a, b: gate.get(f"{groups[a][0]}-{groups[b][0]}")
    return GatedGraph(
        NeuronUnit(),
        tuple(Input((width(k),), runs[k]) for k in range(inputs)),
        tuple(Node(width(b), linear, runs[b]) for b in nodes),
        tuple(Edge(a, b, b - inputs, gate_of(a, b)) for b in nodes for a in sources[b]),
        tuple((width(b), sum(map(width, sources[b]))) for b in nodes),
        ends,
        len(gates),
        blocks,
        plan.shapes,
    )
