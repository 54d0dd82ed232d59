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
from .._checks import check_positive, check_times
from ..linear import chain_strength, unbalanced_strength
from ._diagonal import CommonModes, common_modes, interacting, slant
from ._paths import Path, path_statistics
from ._pathways import Pathways
from ._settle import settle

_SWEEPS = 200
_MOST_TIMES = 2000
_BALANCED = 1e-9


class ReductionWarning(UserWarning):
    """The reduction is an approximation: something is not diagonal."""


@dataclass(frozen=True, eq=False, repr=False)
class Reduction:
    r"""A gated network as a race between its paths: call it with times. See `reduction`."""

    network: Gated
    """Whose weights it starts from."""
    paths: tuple[Path, ...]
    groups: tuple[CommonModes, ...]
    """Paths that have to do with each other, and the modes that they have in common."""
    initial: dict[str, Float[np.ndarray, " _"]]
    """B_e of every edge at the start."""
    frames: dict[str, Float[np.ndarray, "_ _"]]
    """R_v of every hidden node."""
    data_residual: float
    """How far what paths see of the data is from diagonal, relative to its size."""
    weight_residual: float
    """How far the weights are from R B Rᵀ, and R from orthogonal."""
    power: float
    """⟨‖y‖²⟩."""

    def __repr__(self) -> str:
        paths = f"{len(self.paths)} path{'s' if len(self.paths) > 1 else ''}"
        return (
            f"Reduction({paths} in {len(self.groups)} groups, residual of the data "
            f"{self.data_residual:.2g}, of the weights {self.weight_residual:.2g})"
        )

    def __call__(
        self, times: ArrayLike | None = None, *, tau: float = 1.0, rtol: float = 1e-10
    ) -> Pathways:
        """The network at these times; without, from the start until nothing happens any more."""
        check_positive("tau", tau)
        starts = {group: self._start(group) for group in self.groups}
        atol = rtol * min(1e-3, *(float(np.abs(start).max()) for start in starts.values()))
        how = {"rtol": rtol, "atol": max(atol, 1e-300)}
        drive = lambda group: lambda _, b: self._velocity(group, b) / tau
        if times is None:
            ways = (settle(drive(g), b, np.abs, **how)[0] for g, b in starts.items())
            times = np.unique(np.concatenate(list(ways)))
            times = times[:: max(1, len(times) // _MOST_TIMES)]
        check_times(times)
        times = np.asarray(times, float).reshape(-1)
        moments, place = np.unique(times, return_inverse=True)
        span = (0.0, max(float(moments[-1]), 1e-300))
        rows = {
            group: solve_ivp(drive(group), span, b, "DOP853", t_eval=moments, **how).y[:, place]
            for group, b in starts.items()
        }
        edges = {}
        for group, columns in rows.items():
            found = columns.T.reshape(len(times), -1, group.s.shape[1])
            edges |= {edge: found[:, k] for k, edge in enumerate(self._edges(group))}
        return self._pathways(times, {edge: edges[edge] for edge in self.initial})

    def alone(
        self, times: ArrayLike, *, tau: float = 1.0
    ) -> dict[str, Float[np.ndarray, "time _"]]:
        r"""B_p of every path as if no other were there, by closed forms.

        A path of N edges is a chain with correlation S(p) and input variance D(p, p). With
        balanced edges $\tau\dot\pi = N\pi^{2-2/N}(S - D\pi)$: `theory.linear.chain_strength`. Two
        edges may be unequal: `theory.linear.unbalanced_strength`. Of a path that shares no edge and
        meets no other this is what it does; of others the difference is what the race does to it.
        """
        check_times(times)
        found: dict[str, np.ndarray] = {}
        for depth in dict.fromkeys(len(path.edges) for path in self.paths):
            chains = [(g, k) for g in self.groups for k, p in enumerate(g.members)]
            chains = [(g, k) for g, k in chains if len(self.paths[g.members[k]].edges) == depth]
            # In one go: every shape is compiled.
            s = np.concatenate([g.s[k] for g, k in chains])
            d = np.concatenate([g.d[k, k] for g, k in chains])
            paths = [self.paths[g.members[k]] for g, k in chains]
            b = np.hstack([[self.initial[edge] for edge in path.edges] for path in paths])
            if depth == 2:
                a = unbalanced_strength(times, b[0], b[1], s, input_variance=d, tau=tau)
            else:
                apart = np.ptp(b**2, axis=0) > _BALANCED * np.max(b**2, axis=0)
                if apart.any():
                    which = paths[
                        int(
                            np.repeat(range(len(paths)), [len(g.s[0]) for g, _ in chains])[
                                np.argmax(apart)
                            ]
                        )
                    ]
                    raise ValueError(
                        f"The edges of {which} are not balanced, and there is no closed form for "
                        f"{depth} unequal ones. Call the reduction itself, which integrates."
                    )
                a = chain_strength(
                    times, s, np.prod(b, axis=0), depth=depth, input_variance=d, tau=tau
                )
            borders = np.cumsum([len(g.s[k]) for g, k in chains])[:-1]
            found |= dict(zip(map(str, paths), np.split(np.asarray(a), borders, -1), strict=True))
        return {str(path): found[str(path)] for path in self.paths}

    def draw(self, ax=None):
        """How the strength of each path grows until nothing happens any more."""
        return self().draw(ax)

    def _edges(self, group: CommonModes) -> list[str]:
        return list(dict.fromkeys(edge for p in group.members for edge in self.paths[p].edges))

    def _start(self, group: CommonModes) -> Float[np.ndarray, " edge_mode"]:
        return np.concatenate([self.initial[edge] for edge in self._edges(group)])

    @functools.cached_property
    def _ways(self) -> dict[CommonModes, np.ndarray]:
        """Which edges each path goes along; beyond its last is one more, that is always 1."""
        ways = {}
        for group in self.groups:
            edges, along = self._edges(group), [self.paths[p].edges for p in group.members]
            rows = [[edges.index(edge) for edge in path] for path in along]
            deepest = max(map(len, rows))
            ways[group] = np.array([row + [len(edges)] * (deepest - len(row)) for row in rows])
        return ways

    def _velocity(
        self, group: CommonModes, b: Float[np.ndarray, " edge_mode"]
    ) -> Float[np.ndarray, " edge_mode"]:
        """τ dB_e/dt = Σ_p B_{p∖e} [S(p) − Σ_j B_j D(j, p)]."""
        ways, modes = self._ways[group], group.s.shape[1]
        along = np.append(b, np.ones(modes)).reshape(-1, modes)[ways]
        before, behind = np.ones_like(along), np.ones_like(along)
        np.cumprod(along[:, :-1], axis=1, out=before[:, 1:])
        behind[:, :-1] = np.cumprod(along[:, :0:-1], axis=1)[:, ::-1]
        error = group.s - np.einsum("jm,jpm->pm", before[:, -1] * along[:, -1], group.d)
        velocity = np.zeros((len(b) // max(modes, 1) + 1, modes))
        np.add.at(velocity, ways, before * behind * error[:, None])
        return velocity[:-1].ravel()

    def _pathways(self, times: np.ndarray, edges: dict[str, np.ndarray]) -> Pathways:
        strengths = {
            str(path): np.prod([edges[edge] for edge in path.edges], axis=0) for path in self.paths
        }
        loss = np.full(len(times), self.power / 2)
        for group in self.groups:
            b = np.stack([strengths[str(self.paths[p])] for p in group.members], axis=1)
            loss = loss - np.sum(group.s * b, axis=(1, 2))
            loss = loss + 0.5 * np.einsum("tjm,tpm,jpm->t", b, b, group.d)
        return Pathways(times, edges, strengths, loss, self._networks(edges))

    def _networks(self, edges: dict[str, Float[np.ndarray, "time _"]]) -> Gated:
        """W_e = R_t B_e R_sᵀ."""
        parts = {}
        for group in self.groups:
            frames = self.frames | group.frames
            for edge in self._edges(group):
                source, target = (frames[name] for name in edge.split("-"))
                parts[edge] = (target * edges[edge][:, None, :]) @ source.T
        return self.network.with_parts(*(parts[edge] for edge in self.initial))


def reduction(network: Gated, task: Task, *, tolerance: float = 1e-6) -> Reduction:
    r"""The race between the paths of a network, from its actual weights.

    Where weights are *decoupled*, $W_e = R_{t(e)} B_e R_{s(e)}^\top$ with diagonal $B_e$ and
    orthonormal R, and what paths see of the data is diagonal together, $\Sigma^{yx}(p) = U\,S(p)\,
    V^\top$ and $\Sigma^x(j, p) = V\,D(j, p)\,V^\top$ with $R = V$ at inputs and $R = U$ at outputs,
    gradient flow on $\frac12\langle\lVert y - f\rVert^2\rangle$ is

    $$\tau\dot B_e = \sum_{p \ni e} B_{p \setminus e}\,\Big[S(p) - \sum_j B_j D(j, p)\Big]$$

    over the paths p through e, and the paths j that end where p does (Saxe, Sodhani & Lewallen
    2022). Each mode is a race of its own. Directions of inputs and outputs are found from the data,
    those of hidden nodes are what grows: $r_v \propto \sum_{e \to v} W_e r_s + \sum_{e \leftarrow
    v} W_e^\top r_t$. Of decoupled weights they are their own. Of others, and of other data, the
    result is an approximation; `data_residual` and `weight_residual` say how far from exact, and
    weights are wrong by about as much.

    **Arguments:**

    - `tolerance`: residuals above it are warned of.
    """
    seen = path_statistics(network, task)
    weights = dict(zip(network.part_axes, map(np.asarray, network.parts), strict=True))
    whole = [
        functools.reduce(lambda w, edge: weights[edge] @ w, p.edges[1:], weights[p.edges[0]])
        for p in seen.paths
    ]
    groups = tuple(common_modes(seen, members, whole) for members in interacting(seen))
    frames, initial, left = {}, {}, 0.0
    for group in groups:
        edges = dict.fromkeys(edge for p in group.members for edge in seen.paths[p].edges)
        found = _frames({edge: weights[edge] for edge in edges}, group)
        hidden = {node: found[node] for node in found if node not in group.frames}
        frames |= hidden
        left = max([left, *map(slant, hidden.values())])
        for edge in edges:
            source, target = (found[name] for name in edge.split("-"))
            b = initial[edge] = np.einsum("om,oi,im->m", target, weights[edge], source)
            apart = np.linalg.norm(weights[edge] - (target * b) @ source.T)
            left = max(left, float(apart / max(np.linalg.norm(weights[edge]), 1e-300)))
    residual = max(group.residual for group in groups)
    if residual > tolerance or left > tolerance:
        warnings.warn(
            f"The reduction is approximate: of what paths see of the data {residual:.2g} is not "
            f"diagonal in common directions, of the weights {left:.2g}, relative to their size. "
            "What holds without assumptions is `festina.gradient_flow`.",
            ReductionWarning,
            stacklevel=2,
        )
    initial = {edge: initial[edge] for edge in weights}
    return Reduction(network, seen.paths, groups, initial, frames, residual, left, seen.power)


def _frames(
    weights: dict[str, Float[np.ndarray, "_ _"]], group: CommonModes
) -> dict[str, Float[np.ndarray, "_ mode"]]:
    """R_v of all nodes of a group: those of inputs and outputs are given, hidden ones follow."""
    frames = dict(group.frames)
    pairs = {edge: edge.split("-") for edge in weights}
    hidden = dict.fromkeys(node for ends in pairs.values() for node in ends if node not in frames)
    for _ in range(_SWEEPS):
        moved = 0.0
        for node in hidden:
            known = frames.get(node)
            forward, back = (
                sum(
                    (weights[e].T if back else weights[e]) @ frames[ends[back]]
                    for e, ends in pairs.items()
                    if ends[1 - back] == node and ends[back] in frames
                )
                for back in (0, 1)
            )
            total = forward + back
            # Where these cancel the one grows that came first.
            weak = np.linalg.norm(total, axis=0) < 1e-6 * np.linalg.norm(forward, axis=0)
            total = np.where(weak, forward, total)
            length = np.linalg.norm(total, axis=0)
            frames[node] = total / np.where(length > 0, length, 1.0)
            moved = max(
                moved,
                1.0 if known is None else float(np.abs(frames[node] - known).max(initial=0.0)),
            )
        if moved < 1e-14:
            break
    return frames
