"""Singular directions shared by paths that interact."""

import functools
from dataclasses import dataclass

import numpy as np
from jaxtyping import Float, Int

from ..._result import Result
from ._paths import Path

Frames = dict[str, Float[np.ndarray, "_node _direction"]]


@dataclass(frozen=True, eq=False, repr=False)
class CommonModes(Result):
    r"""Directions in which the data statistics of a group of interacting paths are diagonal.

    Two paths interact if they share an edge, or if they share an output and are open for common
    examples. For all paths p and j of the group, $\Sigma^{yx}(p) = U\,S(p)\,V^\top$ and
    $\Sigma^x(j, p) = V\,D(j, p)\,V^\top$ with diagonal S and D. The columns of U are directions at
    the output of a path, and the columns of V directions at its input. If a node has no direction
    for a mode, its column is zero. `residual` is the largest deviation from diagonal form, relative
    to the largest correlation or covariance.

    **Example:**

    >>> from festina.networks import gated_from
    >>> from festina.tasks import xor
    >>> from festina.theory.gated import race_reduction
    >>> weights = {"x-a": [[0, -0.1]], "a-y": [[0.1]], "x-b": [[0, 0.1]], "b-y": [[0.1]]}
    >>> gates = {"a": lambda x: x[0] > 0, "b": lambda x: x[0] < 0}
    >>> first, second = race_reduction(gated_from(weights, gates=gates), xor()).groups
    >>> first.paths, first.s, first.d
    ((Path(nodes=('x', 'a', 'y')),), array([[0.5]]), array([[[0.5]]]))
    """

    paths: tuple[Path, ...]
    frames: Frames
    """Matrix V of each input node and U of each output node, by name."""
    s: Float[np.ndarray, "path mode"]
    """`s[p]` is the diagonal of S(p)."""
    d: Float[np.ndarray, "path path mode"]
    """`d[j, p]` is the diagonal of D(j, p); zero if the paths j and p end at different outputs."""
    residual: float
    opened: frozenset[str]
    """Edges on paths that are open for some example. The weights of other edges do not change."""

    @functools.cached_property
    def edges(self) -> tuple[str, ...]:
        """Names of all edges on these paths."""
        return tuple(dict.fromkeys(edge for path in self.paths for edge in path.edges))

    @functools.cached_property
    def _along(self) -> Int[np.ndarray, "path step"]:
        """Indices of the edges on each path; short paths are padded with an edge of strength 1."""
        rows = [[self.edges.index(edge) for edge in path.edges] for path in self.paths]
        longest = max(map(len, rows))
        return np.array([row + [len(self.edges)] * (longest - len(row)) for row in rows])

    def velocity(self, b: Float[np.ndarray, " edge_mode"]) -> Float[np.ndarray, " edge_mode"]:
        """Return τ dB_e/dt = Σ_p B_{p∖e} [S(p) − Σ_j B_j D(j, p)] of all edges, flattened."""
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
        """Return the decrease of the loss by these paths, Σ_p B_p [S(p) − ½ Σ_j B_j D(j, p)]."""
        b = np.stack([strengths[str(path)] for path in self.paths], axis=1)
        pull = self.s - 0.5 * np.einsum("tjm,jpm->tpm", b, self.d)
        return np.sum(b * pull, axis=(1, 2))
