"""The neural race reduction: a gated network as one number for each edge and mode."""

import functools
import warnings
from dataclasses import dataclass

import numpy as np
from jaxtyping import Float
from scipy.integrate import solve_ivp

from ..._types import ArrayLike
from ...networks import Gated
from ...tasks import Task
from .._checks import check_times
from ._diagonal import CommonModes, common_modes, interacting
from ._paths import Path, path_statistics

_SWEEPS = 50


class ReductionWarning(UserWarning):
    """The reduction is an approximation: something is not diagonal."""


@dataclass(frozen=True)
class Reduction:
    r"""A gated network whose weights $W_e = R_{t(e)} B_e R_{s(e)}^\top$ have diagonal $B_e$.

    $\tau\dot B_e = \sum_{p \ni e} B_{p \setminus e}\,[S(p) - \sum_j B_j D(j, p)]$, in groups of
    paths that have to do with each other. `data_residual` says how far the data are from being
    diagonal, `weight_residual` the weights; where both are zero the reduction is exact.
    """

    paths: tuple[Path, ...]
    groups: tuple[CommonModes, ...]
    initial: dict[str, Float[np.ndarray, " mode"]]
    """B_e of every edge at the start."""
    frames: dict[str, Float[np.ndarray, "node mode"]]
    """R_v of every hidden node."""
    data_residual: float
    weight_residual: float
    power: float
    """⟨‖y‖²⟩."""

    def __repr__(self) -> str:
        return (
            f"Reduction({len(self.paths)} paths in {len(self.groups)} groups, residual of the data "
            f"{self.data_residual:.2g}, of the weights {self.weight_residual:.2g})"
        )

    def flow(
        self, times: ArrayLike, *, tau: float = 1.0, rtol: float = 1e-10
    ) -> dict[str, Float[np.ndarray, "time mode"]]:
        """B_e of every edge at these times, from zero on."""
        check_times(times)
        times = np.asarray(times, dtype=float)
        found: dict[str, np.ndarray] = {}
        for group in self.groups:
            edges, ways = self._edges(group)
            start = np.concatenate([self.initial[edge] for edge in edges])
            size = max(float(np.abs(start).max()), 1e-300)
            solution = solve_ivp(
                lambda _, b, ways=ways, group=group: _velocity(b, ways, group).ravel() / tau,
                (0.0, float(times.max(initial=0.0))),
                start,
                method="DOP853",
                t_eval=np.unique(times),
                rtol=rtol,
                atol=rtol * min(size, 1e-3),
            )
            place = np.searchsorted(np.unique(times), times)
            rows = solution.y.T.reshape(-1, len(edges), group.s.shape[1])[place]
            found |= {edge: rows[:, k] for k, edge in enumerate(edges)}
        return found

    def strengths(
        self, times: ArrayLike, *, tau: float = 1.0, rtol: float = 1e-10
    ) -> dict[str, Float[np.ndarray, "time mode"]]:
        """B_p of every path at these times: the product along it."""
        edges = self.flow(times, tau=tau, rtol=rtol)
        return {str(p): np.prod([edges[edge] for edge in p.edges], axis=0) for p in self.paths}

    def loss(
        self, times: ArrayLike, *, tau: float = 1.0, rtol: float = 1e-10
    ) -> Float[np.ndarray, " time"]:
        """½⟨‖y − f‖²⟩ at these times."""
        strengths = self.strengths(times, tau=tau, rtol=rtol)
        total = np.full(np.shape(times), self.power / 2)
        for group in self.groups:
            b = np.stack([strengths[str(self.paths[p])] for p in group.members], axis=1)
            total = total - np.sum(group.s * b, axis=(1, 2))
            total = total + 0.5 * np.einsum("tjm,tpm,jpm->t", b, b, group.d)
        return total

    def weights(self, b: dict[str, Float[np.ndarray, " mode"]]) -> dict[str, np.ndarray]:
        """W_e = R_t B_e R_sᵀ of given strengths."""
        return {
            edge: (self._frame(edge, 1) * b[edge]) @ self._frame(edge, 0).T for edge in self.initial
        }

    def _frame(self, edge: str, end: int) -> Float[np.ndarray, "node mode"]:
        node = edge.split("-")[end]
        if node in self.frames:
            return self.frames[node]
        group = next(
            group
            for group in self.groups
            if any(edge in self.paths[p].edges for p in group.members)
        )
        return (group.outputs if end else group.inputs)[node]

    def _edges(self, group: CommonModes) -> tuple[list[str], list[list[int]]]:
        edges = list(dict.fromkeys(edge for p in group.members for edge in self.paths[p].edges))
        return edges, [[edges.index(e) for e in self.paths[p].edges] for p in group.members]


def _velocity(
    b: Float[np.ndarray, " edge_mode"], ways: list[list[int]], group: CommonModes
) -> Float[np.ndarray, "edge mode"]:
    b = b.reshape(-1, group.s.shape[1])
    whole = np.stack([np.prod(b[way], axis=0) for way in ways])
    error = group.s - np.einsum("jm,jpm->pm", whole, group.d)
    velocity = np.zeros_like(b)
    for way, each in zip(ways, error, strict=True):
        for edge in way:
            rest = [other for other in way if other != edge]
            velocity[edge] += np.prod(b[rest], axis=0) * each
    return velocity


def reduction(network: Gated, task: Task, *, tolerance: float = 1e-6) -> Reduction:
    r"""The race between the paths of a network, from its actual weights.

    The directions of inputs and outputs are those that the data have for all paths in common, those
    of hidden nodes what grows: $r_v \propto \sum_{e \to v} W_e r_s + \sum_{e \leftarrow v}
    W_e^\top r_t$. Of decoupled weights these are their own, and the reduction is exact.

    **Arguments:**

    - `tolerance`: residuals above it, of data or weights, are warned of.
    """
    network._check_single()
    seen = path_statistics(network, task)
    groups = tuple(common_modes(seen, members) for members in interacting(seen))
    weights = dict(zip(network.part_axes, map(np.asarray, network.parts), strict=True))
    frames, initial, left = {}, {}, 0.0
    for group in groups:
        edges = list(dict.fromkeys(e for p in group.members for e in seen.paths[p].edges))
        own = {edge: weights[edge] for edge in edges}
        found = _frames(own, group)
        frames |= {node: r for node, r in found.items() if node in dict(network.plan.nodes)}
        for edge, weight in own.items():
            source, target = (found[name] for name in edge.split("-"))
            b = np.einsum("om,oi,im->m", target, weight, source)
            initial[edge] = b
            whole = (target * b) @ source.T
            left = max(
                left, float(np.linalg.norm(weight - whole) / max(np.linalg.norm(weight), 1e-300))
            )
    outputs = set(network.plan.outputs)
    residual = max(group.residual for group in groups)
    if residual > tolerance or left > tolerance:
        warnings.warn(
            f"The reduction is approximate: relative to their size {residual:.2g} of what paths "
            f"see of the data and {left:.2g} of the weights is not diagonal in common directions.",
            ReductionWarning,
            stacklevel=2,
        )
    power = float(task.weight @ np.sum(task.y**2, axis=1))
    return Reduction(
        seen.paths,
        groups,
        initial,
        {node: r for node, r in frames.items() if node not in outputs},
        residual,
        left,
        power,
    )


def _frames(
    weights: dict[str, np.ndarray], group: CommonModes
) -> dict[str, Float[np.ndarray, "node mode"]]:
    """R_v of all nodes of a group: those of inputs and outputs are given, hidden ones follow."""
    frames = group.inputs | group.outputs
    pairs = {edge: tuple(edge.split("-")) for edge in weights}
    hidden = [n for n in dict.fromkeys(n for e in pairs.values() for n in e) if n not in frames]
    for sweep in range(_SWEEPS if len(hidden) > 1 else 2):
        for node in hidden:
            ways = [
                weights[edge] @ frames[source]
                for edge, (source, target) in pairs.items()
                if target == node and source in frames
            ]
            forward = functools.reduce(np.add, ways)
            back = [
                weights[edge].T @ frames[target]
                for edge, (source, target) in pairs.items()
                if source == node and target in frames
            ]
            total = functools.reduce(np.add, back, forward) if sweep or not hidden[1:] else forward
            length = np.linalg.norm(total, axis=0)
            # What cancels has grown in one way and shrinks in the other.
            weak = length < 1e-6 * np.linalg.norm(forward, axis=0)
            total, length = (
                np.where(weak, forward, total),
                np.linalg.norm(np.where(weak, forward, total), axis=0),
            )
            frames[node] = total / np.where(length > 0, length, 1.0)
    return frames
