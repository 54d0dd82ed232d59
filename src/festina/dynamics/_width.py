r"""Train a wide linear layer as an equivalent layer with few units.

The weights $\theta_i = (v_i, u_i)$ of a linear unit follow $\dot\theta_i = M\theta_i$. The matrix
$M$ is the same for every unit and depends on the units only through $\sum_i v_i \otimes u_i$.
Rotating units into each other therefore commutes with training. Write the initial weights, one row
for each unit, as $\Theta(0) = QR$. The rows of $R$ are the units of a narrow network, which has at
most as many units as one unit has weights. Then $\Theta(t) = Q R(t)$, with the loss and the
gradient norm of $R(t)$, so the cost does not grow with the width. $Q$ is computed only when all
weights are needed.
"""

import functools
import math
from collections.abc import Callable
from dataclasses import dataclass
from typing import Any

import numpy as np
from jaxtyping import Float

from .._lanes import blocks, on_all_cores
from ..networks import Layer
from ..networks._network import Network
from ..networks._rows import MANY

# Smallest part of a weight's column, over units, that is independent of the columns before it.
_INDEPENDENT = 1e-6
# Smallest eigenvalue of the columns' cosines at which a Gram matrix loses at most one digit.
_FAR_FROM_DEPENDENT = 0.1

Widen = Callable[[Any, slice], Any]
"""Function from condensed networks `(lane, save, unit, …)` and their lanes to the full width."""


@np.errstate(over="ignore")  # far too large weights overflow
def condense(network: Network) -> tuple[Network, Widen]:
    """Return an equivalent network with the fewest units, and the function back to full width.

    A deep network is returned unchanged, because its hidden layers cannot be condensed.
    """
    # Only units that are linear by construction: a measured degree holds at tested weights only.
    if not isinstance(network, Layer) or network.unit.degree != 1:
        return network, as_it_is
    width, structure = network.width, network.structure
    if width <= math.prod(structure.weight_shape) + math.prod(structure.value_shape):
        return network, as_it_is
    rows = network.rows
    flat = _flat(rows.array)
    few = _from_gram(rows.gram) if width > MANY else None
    squared = few is not None
    if few is None:
        # QR instead of SVD: Householder's R keeps the relative accuracy of each weight's column.
        triangle = lambda some: np.linalg.qr(flat[some], mode="r")
        few = np.concatenate(on_all_cores(triangle, blocks(len(flat)), flat.size * flat.shape[-1]))
        few = few.reshape(*network.batch_shape, *few.shape[1:])
        independent = np.abs(np.diagonal(few, axis1=-2, axis2=-1))
        if not (independent > _INDEPENDENT * np.linalg.norm(few, axis=-2)).all():
            # Units that span fewer directions, such as identical units, lie on an invariant
            # manifold, and rounding errors in R would leave it. NaN weights also end here.
            return network, as_it_is
    widen = _Rotation(network, flat, _flat(few), squared)
    return _layer(network, few), widen  # pyright: ignore[reportReturnType]


def _from_gram(
    gram: Float[np.ndarray, "... weight weight"],
) -> Float[np.ndarray, "... weight weight"] | None:
    """Return R from RᵀR = ΘᵀΘ, or None if the columns are almost dependent."""
    size = np.sqrt(np.diagonal(gram, axis1=-2, axis2=-1))
    if not size.all() or not np.isfinite(size).all():
        return None
    cosines = gram / (size[..., :, None] * size[..., None, :])
    if np.linalg.eigvalsh(cosines).min() < _FAR_FROM_DEPENDENT:
        return None
    return np.linalg.cholesky(cosines).mT * size[..., None, :]


@dataclass(frozen=True)
class _Rotation:
    """The map Θ(t) = Q R(t) from condensed to full networks; Q is computed at its first use."""

    network: Layer
    rows: Float[np.ndarray, "lane unit weight"]
    few: Float[np.ndarray, "lane weight weight"]
    squared: bool  # R was computed from ΘᵀΘ and is well conditioned, so that Q = Θ(0) R(0)⁻¹

    @functools.cached_property
    def _basis(self) -> Float[np.ndarray, "lane unit weight"]:
        rows, few = self.rows, self.few
        basis = rows @ np.linalg.inv(few) if self.squared else np.linalg.qr(rows)[0]
        # A unit with zero weights stays exactly zero; rounding errors are removed.
        basis[~rows.any(axis=-1)] = 0.0
        return basis

    def __call__(self, condensed: Layer, lanes: slice) -> Layer:
        rows, few, samples = self.rows[lanes], self.few[lanes], condensed.rows.array
        wide = self._basis[lanes, None] @ samples
        unmoved = (samples == few[:, None]).all(axis=(-1, -2))
        wide[unmoved] = rows[np.nonzero(unmoved)[0]]
        return _layer(self.network, wide)


def as_it_is(condensed: Network, lanes: slice) -> Network:
    """Return the network unchanged, because it was not condensed."""
    del lanes
    return condensed


def _flat(array: Float[np.ndarray, "... row column"]) -> Float[np.ndarray, "lane row column"]:
    return array.reshape(-1, *array.shape[-2:])


def _layer(like: Layer, rows: Float[np.ndarray, "... unit weight"]) -> Layer:
    structure = like.structure
    return Layer.from_rows(rows, like.unit, structure.weight_shape, structure.value_shape)
