"""Directions that paths have in common if they share an edge, an output or examples."""

import functools
from dataclasses import dataclass

import numpy as np
from jaxtyping import Float, Int

from ..._result import Result
from ._paths import Path

Frames = dict[str, Float[np.ndarray, "_node _direction"]]


@dataclass(frozen=True, eq=False, repr=False)
class CommonModes(Result):
    r"""Directions in which the matrices of some interacting paths are diagonal.

    $\Sigma^{yx}(p) = U\,S(p)\,V^\top$ and $\Sigma^x(j, p) = V\,D(j, p)\,V^\top$ with diagonal S and
    D, where U and V are those of the output and input of each path. A direction that a node does
    not have is zero there. `residual` is the largest part that is not so, relative to the largest
    correlation or covariance.
    """

    paths: tuple[Path, ...]
    frames: Frames
    """V of inputs and U of outputs, by their names."""
    s: Float[np.ndarray, "path mode"]
    d: Float[np.ndarray, "path path mode"]
    """D(j, p), zero between paths that end at different outputs."""
    residual: float
    opened: frozenset[str]
    """Edges that lie on a path whose gate is ever open; weights of others do not move."""

    @functools.cached_property
    def edges(self) -> tuple[str, ...]:
        """Names of all edges along these paths."""
        return tuple(dict.fromkeys(edge for path in self.paths for edge in path.edges))

    @functools.cached_property
    def _along(self) -> Int[np.ndarray, "path step"]:
        """Which edges each path takes; a short one ends with an edge that is always 1."""
        rows = [[self.edges.index(edge) for edge in path.edges] for path in self.paths]
        longest = max(map(len, rows))
        return np.array([row + [len(self.edges)] * (longest - len(row)) for row in rows])

    def velocity(self, b: Float[np.ndarray, " edge_mode"]) -> Float[np.ndarray, " edge_mode"]:
        """Return τ dB_e/dt = Σ_p B_{p∖e} [S(p) − Σ_j B_j D(j, p)], of all edges in one column."""
        modes = self.s.shape[1]
        steps = np.append(b, np.ones(modes)).reshape(len(self.edges) + 1, modes)[self._along]
        before, behind = np.ones_like(steps), np.ones_like(steps)
        np.cumprod(steps[:, :-1], axis=1, out=before[:, 1:])
        behind[:, :-1] = np.cumprod(steps[:, :0:-1], axis=1)[:, ::-1]
        error = self.s - np.einsum("jm,jpm->pm", before[:, -1] * steps[:, -1], self.d)
        velocity = np.zeros((len(self.edges) + 1, modes))
        np.add.at(velocity, self._along, before * behind * error[:, None])
        return velocity[:-1].ravel()

    def explained(
        self, strengths: dict[str, Float[np.ndarray, "time _"]]
    ) -> Float[np.ndarray, " time"]:
        """Return what these paths take off the loss, Σ_p B_p [S(p) − ½ Σ_j B_j D(j, p)]."""
        b = np.stack([strengths[str(path)] for path in self.paths], axis=1)
        pull = self.s - 0.5 * np.einsum("tjm,jpm->tpm", b, self.d)
        return np.sum(b * pull, axis=(1, 2))
