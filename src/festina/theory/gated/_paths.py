"""Paths through a gated network, and their statistics of the data."""

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
"""Largest number of paths to enumerate. The number of statistics grows with its square."""


class Path(NamedTuple):
    """Path from an input to an output of a gated network, as a tuple of node names.

    **Example:**

    >>> from festina.theory.gated import Path
    >>> path = Path(("x", "h", "y"))
    >>> str(path), path.edges
    ('x-h-y', ('x-h', 'h-y'))
    """

    nodes: tuple[str, ...]

    def __str__(self) -> str:
        return "-".join(self.nodes)

    @property
    def edges(self) -> tuple[str, ...]:
        """Names of the edges along the path."""
        return tuple(f"{a}-{b}" for a, b in itertools.pairwise(self.nodes))


def count_paths(network: Gated) -> int:
    """Return the number of paths from inputs to outputs, without enumerating them.

    **Example:**

    >>> from festina.networks import gated_from
    >>> from festina.theory.gated import count_paths
    >>> edges = ["x-a", "x-b", "a-b", "a-y", "b-y"]
    >>> network = gated_from({edge: [[1.0]] for edge in edges})
    >>> count_paths(network)
    3
    """
    check_gated(network)
    ways = {name: 1 for name, _ in network.plan.inputs}
    for name, _ in network.plan.nodes:
        ways[name] = sum(ways[source] for source, target in network.plan.edges if target == name)
    return sum(ways[name] for name in network.plan.outputs)


def paths(network: Gated) -> tuple[Path, ...]:
    """Return all paths from inputs to outputs.

    Raises `ValueError` for more than 4,096 paths.

    **Example:**

    >>> from festina.networks import gated_from
    >>> from festina.theory.gated import paths
    >>> edges = ["x-a", "x-b", "a-b", "a-y", "b-y"]
    >>> network = gated_from({edge: [[1.0]] for edge in edges})
    >>> for path in paths(network):
    ...     print(path)
    x-a-b-y
    x-a-y
    x-b-y
    """
    if (count := count_paths(network)) > MOST_PATHS:
        raise ValueError(
            f"The network has {count:,} paths, and at most {MOST_PATHS:,} can be enumerated. Use "
            "fewer edges. Training and `gated_gradient(…, form='patterns')` need no list of paths."
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
    """Result of `path_statistics`: gates of all paths, and data statistics weighted by these gates.

    **Example:**

    >>> from festina.networks import gated_from
    >>> from festina.tasks import xor
    >>> from festina.theory.gated import path_statistics
    >>> network = gated_from({"x-h": [[1.0, 0.0]], "h-y": [[2.0]]}, gates={"h": lambda x: x[0] > 0})
    >>> seen = path_statistics(network, xor())
    >>> seen.correlation[0], seen.covariance(0, 0)
    (array([[ 0. , -0.5]]), array([[0.5, 0. ],
           [0. , 0.5]]))
    """

    paths: tuple[Path, ...]
    gates: Float[np.ndarray, "sample path"]
    """Gate g_p of each sample. A few samples may represent all samples with the same gates."""
    correlation: tuple[Float[np.ndarray, "_output _input"], ...]
    """Σ^yx(p) = ⟨g_p y_t(p) x_s(p)ᵀ⟩ of every path p, from the input s(p) to the output t(p)."""
    power: float
    """⟨‖y‖²⟩: twice the loss of zero output."""
    _samples: Samples

    def covariance(self, j: int, p: int) -> Float[np.ndarray, "input_j input_p"]:
        """Return Σ^x(j, p) = ⟨g_j x_s(j) x_s(p)ᵀ g_p⟩ for the paths with the indices j and p."""
        both = self._samples.weight * self.gates[:, j] * self.gates[:, p]
        x, z = (self._samples.inputs[self.paths[k].nodes[0]] for k in (j, p))
        return (both[:, None] * x).T @ z


def path_statistics(network: Gated, task: Task) -> PathStatistics:
    r"""Return the gate of every path of a network, and the data statistics weighted by this gate.

    The gate $g_p$ of a path p from the input s(p) to the output t(p) is the product of all gates
    along p, including the gates of s(p) and t(p). The network's output at node v is
    $\sum_p g_p W_p x_{s(p)}$, summed over all paths that end at v. The gradients depend on the data
    only through $\Sigma^{yx}(p) = \langle g_p\, y_{t(p)} x_{s(p)}^\top\rangle$ and
    $\Sigma^x(j, p) = \langle g_j\, x_{s(j)} x_{s(p)}^\top g_p\rangle$ (Saxe, Sodhani & Lewallen
    2022).

    **Example:**

    >>> from festina.networks import gated_from
    >>> from festina.tasks import xor
    >>> from festina.theory.gated import path_statistics
    >>> gates = {"a": lambda x: x[0] > 0, "b": lambda x: x[0] < 0}
    >>> weights = {"x-a": [[1.0, 0.0]], "a-y": [[1.0]], "x-b": [[1.0, 0.0]], "b-y": [[1.0]]}
    >>> seen = path_statistics(gated_from(weights, gates=gates), xor())
    >>> dict(zip(map(str, seen.paths), seen.correlation))
    {'x-a-y': array([[ 0. , -0.5]]), 'x-b-y': array([[0. , 0.5]])}
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
