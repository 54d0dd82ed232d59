"""What compiled programs see of a gated network: nodes that are connected alike are one."""

import functools
import itertools
from dataclasses import dataclass
from types import ModuleType
from typing import Any

import jax.numpy as jnp
import numpy as np
from jaxtyping import Float

from .._types import Array
from ._activations import linear
from ._graph import Edge, Graph, Input, Node
from ._units import Neuron
from ._view import Shape

Block = tuple[tuple[int, ...], ...]
"""Numbers of edges, those to the same node in a row and those from the same in a column."""


@dataclass(frozen=True)
class Plan:
    """A graph by names: what a gated network is beside its weights and gates."""

    inputs: tuple[tuple[str, tuple[int, ...]], ...]  # with the columns of x that each reads
    nodes: tuple[tuple[str, int], ...]  # with widths, along the edges, outputs last
    edges: tuple[tuple[str, str], ...]
    columns: int = 0  # that x has, where that is known

    @property
    def ends(self) -> int:
        """How many outputs there are."""
        return len(dict(self.nodes).keys() - {source for source, _ in self.edges})

    @property
    def widths(self) -> dict[str, int]:
        """Of inputs and nodes."""
        return {name: len(columns) for name, columns in self.inputs} | dict(self.nodes)

    @property
    def outputs(self) -> tuple[str, ...]:
        """Nodes that no edge leaves."""
        return tuple(name for name, _ in self.nodes[-self.ends :])

    @property
    def shapes(self) -> tuple[Shape, ...]:
        """Of the weights of every edge, (out, in)."""
        widths = self.widths
        return tuple((widths[target], widths[source]) for source, target in self.edges)


@dataclass(frozen=True)
class GatedGraph(Graph):
    """A graph whose weights are blocks of those of several edges."""

    blocks: tuple[Block, ...] = ()
    single: tuple[Shape, ...] = ()  # shapes of the weights of every edge

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


@functools.lru_cache(maxsize=256)
def gated_graph(plan: Plan, gates: tuple[str, ...]) -> GatedGraph:
    """The graph of a plan in which nodes with the same neighbours, side by side, are one."""
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
    links = list(dict.fromkeys((place[source], place[target]) for source, target in plan.edges))
    blocks = tuple(
        tuple(tuple(number[source, target] for source in groups[a]) for target in groups[b])
        for a, b in links
    )
    width = lambda group: sum(plan.widths[name] for name in groups[group])
    return GatedGraph(
        Neuron(),
        tuple(Input((width(k),), runs[k]) for k in range(inputs)),
        tuple(Node(width(k), linear, runs[k]) for k in range(inputs, len(groups))),
        tuple(
            Edge(a, b, k, gate.get("-".join(plan.edges[blocks[k][0][0]])))
            for k, (a, b) in enumerate(links)
        ),
        tuple((width(b), width(a)) for a, b in links),
        ends,
        len(gates),
        blocks,
        plan.shapes,
    )
