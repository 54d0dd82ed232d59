"""The neural race reduction: a gated network as one number for each edge and mode."""

import itertools
import warnings
from dataclasses import dataclass
from typing import TYPE_CHECKING, Any

import numpy as np
from jaxtyping import Float

from ..._checks import check_positive, check_times, real_number
from ..._numerics._integrate import integrate
from ..._result import Result
from ..._types import ArrayLike
from ...networks import Gated
from ...tasks import Task
from ._alone import alone
from ._common import CommonModes, Frames
from ._diagonal import common_modes, interacting, slant
from ._path_strengths import PathStrengths
from ._paths import path_statistics
from ._settle import settle

if TYPE_CHECKING:
    from matplotlib.axes import Axes

_SWEEPS = 200  # of directions through the graph; random weights need some dozens
_MOST_TIMES = 2000


class ReductionWarning(UserWarning):
    """The reduction is an approximation: something is not diagonal."""


@dataclass(frozen=True, eq=False, repr=False)
class RaceReduction(Result):
    r"""A gated network as a race between its paths: call it with times. See `race_reduction`."""

    network: Gated
    """Whose weights it starts from."""
    groups: tuple[CommonModes, ...]
    """Paths that share edges, or outputs and examples, and the modes they have in common."""
    initial: dict[str, Float[np.ndarray, " _mode"]]
    """B_e of every edge at the start."""
    frames: Frames
    """R_v of every hidden node."""
    data_residual: float
    """How far what paths see of the data is from diagonal, relative to its size."""
    weight_residual: float
    """How far weights are from R B Rᵀ, relative to their size, and R from orthogonal."""
    power: float
    """⟨‖y‖²⟩."""

    def __str__(self) -> str:
        paths = sum(len(group.paths) for group in self.groups)
        return (
            f"Reduction(paths: {paths} in {len(self.groups)} groups, residual of the data "
            f"{self.data_residual:.2g}, of the weights {self.weight_residual:.2g})"
        )

    def __call__(
        self, times: ArrayLike | None = None, *, tau: float = 1.0, rtol: float = 1e-10
    ) -> PathStrengths:
        """Return the paths' strengths at these times; by default from the start until convergence.

        - `tau`: time constant of the flow.
        - `rtol`: tolerance of the integrator, of the largest strength in each group of paths.
        """
        check_positive("tau", tau)
        check_positive("rtol", rtol)
        starts = {
            group: np.concatenate([self.initial[edge] for edge in group.edges])
            for group in self.groups
        }
        smallest = min(1e-3, *(np.abs(b).max(initial=0.0) or 1.0 for b in starts.values()))
        atol = rtol * float(smallest)
        drive = lambda group: lambda _, b: group.velocity(b) / tau
        # Not DOP853: where stability limits its steps, it is far off between them.
        method = "RK45"
        if times is None:
            method = "LSODA"  # most of the time next to nothing happens
            ways = [
                settle(drive(group), b, np.abs, rate=group.s.max() / tau, rtol=rtol, atol=atol)[0]
                for group, b in starts.items()
                if b.size
            ]
            times = np.unique(np.concatenate([np.zeros(1), *ways]))
            times = times[:: max(1, len(times) // _MOST_TIMES)]
        check_times(times)
        times = np.asarray(times, float).reshape(-1)
        edges = {}
        for group, b in starts.items():
            rows = integrate(drive(group), times, b, method=method, rtol=rtol, atol=atol)
            rows = rows.reshape(len(times), len(group.edges), -1)
            edges |= {edge: rows[:, k] for k, edge in enumerate(group.edges)}
        return self._path_strengths(times, {edge: edges[edge] for edge in self.initial})

    def alone(
        self, times: ArrayLike, *, tau: float = 1.0
    ) -> dict[str, Float[np.ndarray, "*time _"]]:
        r"""Return B_p of every path as if there were no other, by closed forms.

        A path of N edges is a chain with correlation S(p) and input variance D(p, p):
        $\tau\dot\pi = N\pi^{2-2/N}(S - D\pi)$ if its edges are balanced, `linear.chain_strength`.
        Two edges may differ, `linear.unbalanced_strength`; more of them raise an error. A path that
        shares no edge and meets no other does just this. Of others the difference is what the race
        does to them.
        """
        return {
            str(path): alone(times, path, group, self.initial, tau)
            for group in self.groups
            for path in group.paths
        }

    def draw(self, ax: "Axes | None" = None, **style: Any) -> "Axes":
        """Draw how the strength of each path grows until convergence. `style` goes to `plot`."""
        return self().draw(ax, **style)

    def _path_strengths(
        self, times: Float[np.ndarray, " time"], edges: dict[str, Float[np.ndarray, "time _"]]
    ) -> PathStrengths:
        strengths = {
            str(path): np.prod([edges[edge] for edge in path.edges], axis=0)
            for group in self.groups
            for path in group.paths
        }
        loss = np.full(len(times), self.power / 2)
        for group in self.groups:
            loss -= group.explained(strengths)
        parts = dict(zip(self.initial, map(np.asarray, self.network.parts), strict=True))
        for group in self.groups:
            frames = self.frames | group.frames
            for edge in group.edges:
                source, target = (frames[name] for name in edge.split("-"))
                grown = edges[edge] - self.initial[edge]  # what is not diagonal stays as it is
                parts[edge] = parts[edge] + (target * grown[:, None, :]) @ source.T
        network = self.network.with_parts(*parts.values())
        return PathStrengths(times, edges, strengths, loss, network)


def race_reduction(network: Gated, task: Task, *, tolerance: float = 1e-6) -> RaceReduction:
    r"""Return the race between the paths of a network, from its actual weights.

    Where weights are *decoupled*, $W_e = R_{t(e)} B_e R_{s(e)}^\top$ with diagonal $B_e$ and
    orthonormal R, and what paths see of the data is diagonal together, $\Sigma^{yx}(p) = U\,S(p)\,
    V^\top$ and $\Sigma^x(j, p) = V\,D(j, p)\,V^\top$ with $R = V$ at inputs and $R = U$ at outputs,
    gradient flow on $\frac12\langle\lVert y - f\rVert^2\rangle$ is

    $$\tau\dot B_e = \sum_{p \ni e} B_{p \setminus e}\,\Big[S(p) - \sum_j B_j D(j, p)\Big]$$

    over the paths p through e, and the paths j that end where p does (Saxe, Sodhani & Lewallen
    2022). Each mode is a race of its own. Directions of inputs and outputs are found from the data,
    those of hidden nodes are what grows: $r_v \propto \sum_{e \to v} W_e r_s + \sum_{e \leftarrow
    v} W_e^\top r_t$. Of decoupled weights they are their own. Of others, and of other data, the
    result is an approximation: `data_residual` and `weight_residual` say how far from exact, and
    weights deviate at first order in them.

    **Arguments:**

    - `tolerance`: residuals above it are warned of (`ReductionWarning`).
    """
    tolerance = real_number("tolerance", tolerance)
    seen = path_statistics(network, task)
    weights = dict(zip(network.part_axes, map(np.asarray, network.parts), strict=True))
    products = [
        list(itertools.accumulate((weights[e] for e in p.edges), lambda w, after: after @ w))
        for p in seen.paths
    ]
    groups = tuple(common_modes(seen, members, products) for members in interacting(seen))
    frames, initial, left = {}, {}, 0.0
    for group in groups:
        found = _frames({edge: weights[edge] for edge in group.edges}, group)
        hidden = {node: found[node] for node in found if node not in group.frames}
        frames |= hidden
        for edge in group.edges:
            source, target = (found[name] for name in edge.split("-"))
            b = initial[edge] = np.einsum("om,oi,im->m", target, weights[edge], source)
            if edge in group.opened:
                apart = np.linalg.norm(weights[edge] - (target * b) @ source.T)
                left = max(left, float(apart / max(np.linalg.norm(weights[edge]), 1e-300)))
        left = max([left, *map(slant, hidden.values())])
    residual = max(group.residual for group in groups)
    if residual > tolerance or left > tolerance:
        warnings.warn(
            f"The reduction is approximate: of what paths see of the data {residual:.2g} is not "
            f"diagonal in common directions, of the weights {left:.2g}, relative to their size. "
            "What needs no assumption is `festina.gradient_flow`.",
            ReductionWarning,
            stacklevel=2,
        )
    initial = {edge: initial[edge] for edge in weights}
    return RaceReduction(network, groups, initial, frames, residual, left, seen.power)


def path_directions(network: Gated, task: Task) -> Frames:
    """Return directions of its paths: V of the inputs, U of the outputs, for
    `with_decoupled_weights`.

    Columns are modes. Where groups of paths that have nothing to do with each other meet at a node,
    the edges there have directions of their own. How far the data are from diagonal in them,
    `race_reduction` says.
    """
    seen = path_statistics(network, task)
    groups = [common_modes(seen, members) for members in interacting(seen)]
    count = max(1, *(group.s.shape[1] for group in groups))
    found: Frames = {}
    for node in (*dict(network.plan.inputs), *network.plan.outputs):
        here = [group for group in groups if group.frames.get(node, np.zeros(0)).any()]
        found[node] = np.eye(network.plan.widths[node], count)  # of what sees nothing any will do
        for k, group in enumerate(here):
            frame = group.frames[node]
            frame = np.pad(frame, ((0, 0), (0, count - frame.shape[1])))
            edges = [edge for edge in group.edges if node in edge.split("-")]
            found |= dict.fromkeys((edges if len(here) > 1 else []), frame)
            found |= {node: frame} if k == 0 else {}
    return found


def _frames(weights: dict[str, Float[np.ndarray, "_ _"]], group: CommonModes) -> Frames:
    """R_v of all nodes of a group: those of inputs and outputs are given, hidden ones follow."""
    frames = dict(group.frames)
    pairs = {edge: edge.split("-") for edge in weights}
    hidden = dict.fromkeys(node for ends in pairs.values() for node in ends if node not in frames)
    for _ in range(_SWEEPS):
        before = {node: frames.get(node) for node in hidden}
        for node in hidden:
            ways = [
                (weights[edge].T if end else weights[edge]) @ frames[ends[end]]
                for edge, ends in pairs.items()
                for end in (0, 1)
                if ends[1 - end] == node and ends[end] in frames
            ]
            sizes = np.linalg.norm(ways, axis=1)
            longest = np.take_along_axis(np.array(ways), sizes.argmax(0)[None, None], axis=0)[0]
            total = np.sum(ways, axis=0)
            # Where they cancel, all lie along the longest, or nothing would.
            weak = np.linalg.norm(total, axis=0) < 1e-6 * sizes.sum(axis=0)
            total = np.where(weak, longest, total)
            length = np.linalg.norm(total, axis=0)
            frames[node] = total / np.where(length > 0, length, 1.0)
        if all(r is not None and np.allclose(r, frames[n], 0, 1e-14) for n, r in before.items()):
            break
    return frames
