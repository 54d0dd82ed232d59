"""Paths through a gated network, and what each of them sees of the data."""

from collections.abc import Iterator
from dataclasses import dataclass
from typing import NamedTuple

import jax
import numpy as np
from jaxtyping import Float

from ..._precision import float64
from ...networks import Gated
from ...tasks import Task

MOST_PATHS = 4096
"""More are not enumerated: there are as many statistics as pairs of paths."""


class Path(NamedTuple):
    """A way from an input to an output."""

    nodes: tuple[str, ...]

    def __str__(self) -> str:
        return "-".join(self.nodes)

    @property
    def edges(self) -> tuple[str, ...]:
        """Names of the edges along it."""
        return tuple(f"{a}-{b}" for a, b in zip(self.nodes, self.nodes[1:], strict=False))


def count_paths(network: Gated) -> int:
    """How many paths lead from inputs to outputs, without going along any of them."""
    ways = {name: 1 for name, _ in network.plan.inputs}
    for name, _ in network.plan.nodes:
        ways[name] = sum(ways[source] for source, target in network.plan.edges if target == name)
    return sum(ways[name] for name in network.plan.outputs)


def paths(network: Gated) -> tuple[Path, ...]:
    """All paths from inputs to outputs; raises where they are too many."""
    if (count := count_paths(network)) > MOST_PATHS:
        raise ValueError(
            f"The network has {count:,} paths, of which at most {MOST_PATHS:,} are enumerated. "
            "Training and `gradient(…, form='patterns')` need none of them."
        )

    def on(node: str) -> Iterator[tuple[str, ...]]:
        onward = [target for source, target in network.plan.edges if source == node]
        if not onward:
            yield (node,)
        for target in onward:
            yield from ((node, *rest) for rest in on(target))

    return tuple(Path(way) for name, _ in network.plan.inputs for way in on(name))


@float64
def gates_of(network: Gated, task: Task) -> dict[str, Float[np.ndarray, " sample"]]:
    """The gate of every node and edge for every sample of a task; those without have 1."""
    network.view.check_input(task.input_shape)
    x = np.asarray(task.x, float)
    names = (*network.plan.widths, *network.part_axes)
    gates = {name: np.ones(len(x)) for name in names}
    if network.gating is not None:
        values = np.asarray(jax.jit(jax.vmap(network.gating))(x))
        gates |= dict(zip(network.gating.names, values.T, strict=True))
    return gates


@dataclass(frozen=True)
class PathStatistics:
    """What paths see of a task: see `path_statistics`."""

    paths: tuple[Path, ...]
    gates: Float[np.ndarray, "sample path"]
    correlation: tuple[Float[np.ndarray, "output input"], ...]
    _inputs: tuple[Float[np.ndarray, "sample input"], ...]
    _weight: Float[np.ndarray, " sample"]

    def covariance(self, j: int, p: int) -> Float[np.ndarray, "input_j input_p"]:
        """Σ^x(j, p) = ⟨g_j x_s(j) x_s(p)ᵀ g_p⟩."""
        both = self._weight * self.gates[:, j] * self.gates[:, p]
        return (both[:, None] * self._inputs[j]).T @ self._inputs[p]


def path_statistics(network: Gated, task: Task) -> PathStatistics:
    r"""The gate $g_p$ of every path, and what it sees of the data.

    $g_p$ is the product of all gates along p, both ends included. The network's output at v is
    $\sum_p g_p W_p x_{s(p)}$ over the paths that end there, so that data enter its gradients by
    $\Sigma^{yx}(p) = \langle g_p\, y_{t(p)} x_{s(p)}^\top\rangle$ and
    $\Sigma^x(j, p) = \langle g_j\, x_{s(j)} x_{s(p)}^\top g_p\rangle$ alone.
    """
    gates, found = gates_of(network, task), paths(network)
    columns = {name: list(columns) for name, columns in network.plan.inputs}
    borders = np.cumsum([0, *(network.plan.widths[name] for name in network.plan.outputs)])
    place = {name: slice(*borders[k : k + 2]) for k, name in enumerate(network.plan.outputs)}
    product = np.stack(
        [np.prod([gates[name] for name in (*p.nodes, *p.edges)], axis=0) for p in found], axis=1
    )
    x = tuple(np.asarray(task.x, float)[:, columns[path.nodes[0]]] for path in found)
    correlation = tuple(
        ((task.weight * product[:, k])[:, None] * task.y[:, place[path.nodes[-1]]]).T @ x[k]
        for k, path in enumerate(found)
    )
    return PathStatistics(found, product, correlation, x, task.weight)
