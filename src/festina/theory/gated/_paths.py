"""Paths through a gated network, and what each of them sees of the data."""

import itertools
from collections.abc import Iterator
from dataclasses import dataclass
from typing import NamedTuple

import numpy as np
from jaxtyping import Float

from ..._result import Result
from ...networks import Gated
from ...tasks import Task
from ._samples import Samples, check_gated, samples

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
        return tuple(f"{a}-{b}" for a, b in itertools.pairwise(self.nodes))


def count_paths(network: Gated) -> int:
    """Return how many paths lead from inputs to outputs, without enumerating them."""
    check_gated(network)
    ways = {name: 1 for name, _ in network.plan.inputs}
    for name, _ in network.plan.nodes:
        ways[name] = sum(ways[source] for source, target in network.plan.edges if target == name)
    return sum(ways[name] for name in network.plan.outputs)


def paths(network: Gated) -> tuple[Path, ...]:
    """Return all paths from inputs to outputs; raises if there are too many."""
    if (count := count_paths(network)) > MOST_PATHS:
        raise ValueError(
            f"The network has {count:,} paths, of which at most {MOST_PATHS:,} are enumerated. "
            "Training and `gated_gradient(…, form='patterns')` need none of them."
        )

    def on(node: str) -> Iterator[tuple[str, ...]]:
        onward = [target for source, target in network.plan.edges if source == node]
        if not onward:
            yield (node,)
        for target in onward:
            yield from ((node, *rest) for rest in on(target))

    return tuple(Path(way) for name, _ in network.plan.inputs for way in on(name))


@dataclass(frozen=True, eq=False, repr=False)
class PathStatistics(Result):
    """Result of `path_statistics`: what paths see of a task."""

    paths: tuple[Path, ...]
    gates: Float[np.ndarray, "sample path"]
    """g_p of the samples, or of those that stand for all with the same gates."""
    correlation: tuple[Float[np.ndarray, "_output _input"], ...]
    """Σ^yx(p) = ⟨g_p y_t(p) x_s(p)ᵀ⟩ of every path."""
    power: float
    """⟨‖y‖²⟩: twice the loss of a network that says nothing."""
    _samples: Samples

    def covariance(self, j: int, p: int) -> Float[np.ndarray, "input_j input_p"]:
        """Return Σ^x(j, p) = ⟨g_j x_s(j) x_s(p)ᵀ g_p⟩."""
        both = self._samples.weight * self.gates[:, j] * self.gates[:, p]
        x, z = (self._samples.inputs[self.paths[k].nodes[0]] for k in (j, p))
        return (both[:, None] * x).T @ z


def path_statistics(network: Gated, task: Task) -> PathStatistics:
    r"""Return the gate $g_p$ of every path, and what it sees of the data.

    $g_p$ is the product of all gates along p, both ends included. The network's output at v is
    $\sum_p g_p W_p x_{s(p)}$ over the paths that end there, so that data enter its gradients by
    $\Sigma^{yx}(p) = \langle g_p\, y_{t(p)} x_{s(p)}^\top\rangle$ and
    $\Sigma^x(j, p) = \langle g_j\, x_{s(j)} x_{s(p)}^\top g_p\rangle$ alone (Saxe, Sodhani &
    Lewallen 2022).
    """
    seen, found = samples(network, task), paths(network)
    gates = np.concatenate(
        [np.prod([seen.gates[name] for name in (*p.nodes, *p.edges)], axis=0) for p in found], 1
    )
    correlation = tuple(
        ((seen.weight * gates[:, k])[:, None] * seen.targets[p.nodes[-1]]).T
        @ seen.inputs[p.nodes[0]]
        for k, p in enumerate(found)
    )
    power = sum(float(seen.weight @ np.sum(y**2, axis=1)) for y in seen.targets.values())
    return PathStatistics(found, gates, correlation, power + 2 * seen.floor, seen)
