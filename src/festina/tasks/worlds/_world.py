"""Structured worlds: items, and a random process for their features with known covariance."""

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
    """Modes of a world with equal eigenvalue and role, such as the contrasts of one tree level.

    - `name`: name of the group, such as "level 2" or "wave 1".
    - `eigenvalue`: common eigenvalue c of these modes.
    - `modes`: orthonormal eigenvectors as columns, `(item, mode)`.

    **Example:**

    >>> from festina.tasks.worlds import ring
    >>> group = ring(4).kinds[1]
    >>> group.name, round(group.eigenvalue, 3), group.multiplicity
    ('wave 1', 0.333, 2)
    >>> group.modes.round(3)
    array([[ 0.707,  0.   ],
           [ 0.   ,  0.707],
           [-0.707,  0.   ],
           [-0.   , -0.707]])
    """

    name: str
    eigenvalue: float
    modes: Float[np.ndarray, "item multiplicity"]

    @property
    def multiplicity(self) -> int:
        """Number of modes in the group."""
        return self.modes.shape[1]


@dataclass(frozen=True, eq=False, repr=False)
class World(Result):
    r"""Items and a random process for their features, whose covariance has a known spectrum.

    A feature is a random value for every item. Different features are independent draws, the rows
    of $Y$ (feature, item). A network that maps one-hot items to features depends on the correlation
    $\Sigma^{yx} = Y$ (summed over items). For many features $Y^\top Y/N \to C$. The right singular
    vectors of $\Sigma^{yx}$ are then the eigenvectors of $C$, and its singular values are

    $$s_\alpha = \sqrt{N c_\alpha}$$

    (Saxe, McClelland & Ganguli 2019). Worlds are made by `tree`, `clusters`, `chain`, `ring`,
    `grid`, `torus` and `graph`.

    - `name`: description of the world.
    - `covariance`: covariance $C$ of a feature, `(item, item)`.
    - `kinds`: groups of modes with their eigenvalues, largest first. Two groups can have equal
      eigenvalues.
    - `position`: position of each item in a figure, `(item, 2)`.
    - `groups`: number of the group of each item, `(level, item)`, coarsest level first: nodes of a
      tree from root to leaves, or clusters. Only `tree` and `clusters` define groups.

    **Example:**

    >>> from festina.tasks.worlds import tree
    >>> world = tree([2, 2], 0.1)
    >>> world.covariance.round(3)
    array([[1.  , 0.64, 0.41, 0.41],
           [0.64, 1.  , 0.41, 0.41],
           [0.41, 0.41, 1.  , 0.64],
           [0.41, 0.41, 0.64, 1.  ]])
    >>> world.singular_values(100).round(3)
    array([15.682,  9.06 ,  6.   ,  6.   ])
    """

    name: str
    covariance: Float[np.ndarray, "item item"]
    kinds: tuple[ModeGroup, ...]
    position: Float[np.ndarray, "item side=2"]
    groups: Int[np.ndarray, "level item"]
    _draw: Draw = field()

    @property
    def items(self) -> int:
        """Number P of items."""
        return len(self.covariance)

    @functools.cached_property
    def eigenvalues(self) -> Float[np.ndarray, " mode"]:
        """Eigenvalue $c$ of every mode, `(mode,)`, largest first."""
        return np.repeat([kind.eigenvalue for kind in self.kinds], self.multiplicities)

    @functools.cached_property
    def modes(self) -> Float[np.ndarray, "item mode"]:
        """Orthonormal eigenvectors of the covariance as columns, in the order of `eigenvalues`."""
        return np.concatenate([kind.modes for kind in self.kinds], axis=1)

    @functools.cached_property
    def multiplicities(self) -> Int[np.ndarray, " kind"]:
        """Number of modes in each group of `kinds`."""
        return np.array([kind.multiplicity for kind in self.kinds])

    @functools.cached_property
    def kind(self) -> Int[np.ndarray, " mode"]:
        """Index in `kinds` of the group of each mode, `(mode,)`."""
        return np.repeat(np.arange(len(self.kinds)), self.multiplicities)

    def singular_values(self, features: int) -> Float[np.ndarray, " mode"]:
        r"""Return the singular values $s_\alpha = \sqrt{N c_\alpha}$ for N features, `(mode,)`.

        The features that `exact_features` returns have exactly these singular values.
        """
        features = whole_number("features", features, 1)
        return np.sqrt(features * self.eigenvalues)

    @float64
    def sample(self, features: int, *, key: PRNGKeyArray) -> Float[np.ndarray, "feature item"]:
        """Draw independent features $Y$, `(feature, item)`, from the process of the world."""
        features = whole_number("features", features, 1)
        if not hasattr(key, "dtype"):
            raise ValueError(
                f"`key` must be a JAX random key, such as jax.random.key(0), got {key!r}."
            )
        return self._draw(features, key)

    def exact_features(self, features: int) -> Float[np.ndarray, "feature item"]:
        r"""Return features $Y$ with exactly $Y^\top Y/N = C$, the limit of many features.

        The features are $Y = \sqrt N\,U\,\mathrm{diag}(\sqrt{c})\,V^\top$. The orthonormal columns
        of $U$ are cosines of increasing frequency. The values are not draws from the process: the
        features of a tree, for example, are not ±1.
        """
        features = whole_number("features", features, 1)
        if features < self.items:
            raise ValueError(
                f"`features` must be at least the number of items, {self.items}, because the "
                f"covariance can have full rank; got {features}. Any number of features can be "
                "drawn with a `key` (method `sample`)."
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
    """Return a `World` with its kinds sorted by eigenvalue; features are Gaussian by default."""
    if groups is None:
        groups = np.zeros((0, len(covariance)), dtype=int)
    kinds = sorted((k for k in kinds if k.multiplicity), key=lambda k: -k.eigenvalue)
    for array in (covariance, position, groups, *(kind.modes for kind in kinds)):
        array.setflags(write=False)
    return World(name, covariance, tuple(kinds), position, groups, draw or _gaussian(kinds))


def _gaussian(kinds: list[ModeGroup]) -> Draw:
    """Return the function that draws Y = Z diag(√c) Vᵀ with standard normal Z."""
    modes = np.concatenate([np.sqrt(kind.eigenvalue) * kind.modes for kind in kinds], axis=1)

    def draw(features: int, key: PRNGKeyArray) -> Float[np.ndarray, "feature item"]:
        return np.asarray(jax.random.normal(key, (features, len(modes)))) @ modes.T

    return draw


def cosines(size: int) -> Float[np.ndarray, "size size"]:
    """Return orthonormal columns ∝ cos(πk(i + ½)/P), the modes of a free chain (DCT-II)."""
    i, k = np.arange(size)[:, None], np.arange(size)
    columns = np.sqrt(2.0 / size) * np.cos(np.pi * k * (i + 0.5) / size)
    columns[:, 0] = np.sqrt(1.0 / size)
    return columns
