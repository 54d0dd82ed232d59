"""Structured worlds: items whose features vary together, and the modes in which they do."""

import functools
from collections.abc import Callable
from dataclasses import dataclass, field
from typing import NamedTuple

import jax
import numpy as np
from jaxtyping import Float, Int, PRNGKeyArray

from ..._checks import whole_number
from ..._precision import float64
from ..._result import Result

Draw = Callable[[int, PRNGKeyArray], Float[np.ndarray, "feature item"]]


class ModeGroup(NamedTuple):
    """Modes that are alike: the contrasts of one level of a tree, the two phases of a wave."""

    name: str
    eigenvalue: float
    modes: Float[np.ndarray, "item multiplicity"]

    @property
    def multiplicity(self) -> int:
        return self.modes.shape[1]


@dataclass(frozen=True, eq=False, repr=False)
class World(Result):
    r"""Items and the process that gives them features, known by its covariance in closed form.

    A feature is one draw of a value for every item, and features are independent of each other:
    the columns of $Y$ (feature, item) are the items as a network is to name them. Of one-hot items
    it sees $\Sigma^{yx} = Y$ (summed over items), and for many features
    $Y^\top Y/N \to C$: the right singular vectors of $\Sigma^{yx}$ are the eigenvectors of $C$, and

    $$s_\alpha = \sqrt{N c_\alpha},$$

    Saxe, McClelland & Ganguli (2019). Made by `tree`, `clusters`, `chain`, `ring`, `grid`, `torus`
    and `graph`.

    - `name`: how it was made.
    - `covariance`: $C$ over items, of one feature.
    - `kinds`: its eigenvalues and orthonormal eigenvectors, largest first, those that are alike
      together. Different kinds may share an eigenvalue.
    - `position`: where to draw each item.
    - `groups`: for each level, coarsest first, the number of the group that an item belongs to:
      nodes of a tree from root to leaves, clusters; no levels otherwise.
    """

    name: str
    covariance: Float[np.ndarray, "item item"]
    kinds: tuple[ModeGroup, ...]
    position: Float[np.ndarray, "item side=2"]
    groups: Int[np.ndarray, "level item"]
    _draw: Draw = field()

    @property
    def items(self) -> int:
        """Number of items, P."""
        return len(self.covariance)

    @functools.cached_property
    def eigenvalues(self) -> Float[np.ndarray, " mode"]:
        """$c$ of every mode, largest first."""
        return np.repeat([kind.eigenvalue for kind in self.kinds], self.multiplicities)

    @functools.cached_property
    def modes(self) -> Float[np.ndarray, "item mode"]:
        """Orthonormal eigenvectors of the covariance, one column each, as `eigenvalues`."""
        return np.concatenate([kind.modes for kind in self.kinds], axis=1)

    @functools.cached_property
    def multiplicities(self) -> Int[np.ndarray, " kind"]:
        """Number of modes of each kind."""
        return np.array([kind.multiplicity for kind in self.kinds])

    @functools.cached_property
    def kind(self) -> Int[np.ndarray, " mode"]:
        """Which of the `kinds` each mode is."""
        return np.repeat(np.arange(len(self.kinds)), self.multiplicities)

    def singular_values(self, features: int) -> Float[np.ndarray, " mode"]:
        r"""Return $s_\alpha = \sqrt{N c_\alpha}$ for that many features, exact in
        `exact_features`."""
        features = whole_number("features", features, 1)
        return np.sqrt(features * self.eigenvalues)

    @float64
    def sample(self, features: int, *, key: PRNGKeyArray) -> Float[np.ndarray, "feature item"]:
        """Draw $Y$: features from the process itself, independently of each other."""
        features = whole_number("features", features, 1)
        if not hasattr(key, "dtype"):
            raise ValueError(f"`key` must be a JAX random key, got {key!r}: jax.random.key(0).")
        return self._draw(features, key)

    def exact_features(self, features: int) -> Float[np.ndarray, "feature item"]:
        r"""Draw $Y$ with $Y^\top Y/N = C$ to rounding: the many-feature limit with few features.

        $Y = \sqrt N\,U\,\mathrm{diag}(\sqrt{c})\,V^\top$ with cosines of rising frequency for the
        orthonormal columns of $U$. The values are no draws: those of a tree are not ±1.
        """
        features = whole_number("features", features, 1)
        if features < self.items:
            raise ValueError(
                f"`features` must be at least the number of items, {self.items}, for YᵀY/N = C, "
                f"which may have full rank; got {features}. `sample` draws any number."
            )
        left = cosines(features)[:, : self.items]
        return np.sqrt(features) * (left * np.sqrt(self.eigenvalues)) @ self.modes.T


def world(
    name: str,
    covariance: Float[np.ndarray, "item item"],
    kinds: list[ModeGroup],
    *,
    position: Float[np.ndarray, "item 2"],
    groups: Int[np.ndarray, "level item"] | None = None,
    draw: Draw | None = None,
) -> World:
    """Return a world of kinds in falling order; features are Gaussian by default."""
    if groups is None:
        groups = np.zeros((0, len(covariance)), dtype=int)
    kinds = sorted((k for k in kinds if k.multiplicity), key=lambda k: -k.eigenvalue)
    for array in (covariance, position, groups, *(kind.modes for kind in kinds)):
        array.setflags(write=False)
    return World(name, covariance, tuple(kinds), position, groups, draw or _gaussian(kinds))


def _gaussian(kinds: list[ModeGroup]) -> Draw:
    """Draw Y = Z diag(√c) Vᵀ with standard normal Z."""
    modes = np.concatenate([np.sqrt(kind.eigenvalue) * kind.modes for kind in kinds], axis=1)

    def draw(features: int, key: PRNGKeyArray) -> Float[np.ndarray, "feature item"]:
        return np.asarray(jax.random.normal(key, (features, len(modes)))) @ modes.T

    return draw


def cosines(size: int) -> Float[np.ndarray, "size size"]:
    """Return orthonormal columns cos(πk(i + ½)/P): the modes of a free chain (DCT-II)."""
    i, k = np.arange(size)[:, None], np.arange(size)
    columns = np.sqrt(2.0 / size) * np.cos(np.pi * k * (i + 0.5) / size)
    columns[:, 0] = np.sqrt(1.0 / size)
    return columns
