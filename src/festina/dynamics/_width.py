r"""Many linear units learn what few do.

A linear unit's weights θ_i = (v_i, u_i) move by $\dot\theta_i = M\theta_i$, with the same matrix M
for every unit, which depends on the units only through $\sum_i v_i \otimes u_i$. Rotating units
into each other therefore commutes with training. With $\Theta(0) = QR$, one row for each unit, the
rows of R are the units of a network no wider than a unit has weights, and $\Theta(t) = Q R(t)$ with
the loss and the gradient norm of R(t): the cost does not grow with the width. Q is left for when
the weights of all units are looked at.
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

# The part of a weight's column, over units, that the columns before it do not have.
_INDEPENDENT = 1e-6
# Smallest eigenvalue of the columns' cosines from which squaring them costs no more than a digit.
_FAR_FROM_DEPENDENT = 0.1

Widen = Callable[[Any, slice], Any]
"""From networks `(lane, save, unit, …)` of the few units back to all; which lanes these are."""


@np.errstate(over="ignore")  # of weights that are far too large
def condense(network: Network) -> tuple[Network, Widen]:
    """The network with as few units as learn the same, and the way back.

    Of a deep network there are none to spare: what surrounds a hidden layer is as wide as it is.
    """
    # Linear by construction: a measured algebra knows nothing of weights that it has not tried.
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
        # Not by SVD: Householder's R keeps the relative accuracy of each weight's column.
        triangle = lambda some: np.linalg.qr(flat[some], mode="r")
        few = np.concatenate(on_all_cores(triangle, blocks(len(flat)), flat.size * flat.shape[-1]))
        few = few.reshape(*network.batch_shape, *few.shape[1:])
        independent = np.abs(np.diagonal(few, axis1=-2, axis2=-1))
        if not (independent > _INDEPENDENT * np.linalg.norm(few, axis=-2)).all():
            # Units that span less (all alike, say) lie on an invariant manifold, and rounding in R
            # would lead away from it. (Nor is there anything to condense in what is not finite.)
            return network, as_it_is
    widen = _Rotation(network, flat, _flat(few), squared)
    return _layer(network, few), widen  # pyright: ignore[reportReturnType]


def _from_gram(
    gram: Float[np.ndarray, "... weight weight"],
) -> Float[np.ndarray, "... weight weight"] | None:
    """R from RᵀR = ΘᵀΘ, where columns are far from dependent."""
    size = np.sqrt(np.diagonal(gram, axis1=-2, axis2=-1))
    if not size.all() or not np.isfinite(size).all():
        return None
    cosines = gram / (size[..., :, None] * size[..., None, :])
    if np.linalg.eigvalsh(cosines).min() < _FAR_FROM_DEPENDENT:
        return None
    return np.linalg.cholesky(cosines).mT * size[..., None, :]


@dataclass(frozen=True)
class _Rotation:
    """Θ(t) = Q R(t), with Q formed when it is asked for."""

    network: Layer
    rows: Float[np.ndarray, "lane unit weight"]
    few: Float[np.ndarray, "lane weight weight"]
    squared: bool  # R is of ΘᵀΘ, and well enough conditioned that Q = Θ(0) R(0)⁻¹

    @functools.cached_property
    def _basis(self) -> Float[np.ndarray, "lane unit weight"]:
        rows, few = self.rows, self.few
        basis = rows @ np.linalg.inv(few) if self.squared else np.linalg.qr(rows)[0]
        # A unit without weights has none ever after, not even rounding.
        basis[~rows.any(axis=-1)] = 0.0
        return basis

    def __call__(self, condensed: Layer, lanes: slice) -> Layer:
        rows, few, samples = self.rows[lanes], self.few[lanes], condensed.rows.array
        wide = self._basis[lanes, None] @ samples
        unmoved = (samples == few[:, None]).all(axis=(-1, -2))
        wide[unmoved] = rows[np.nonzero(unmoved)[0]]
        return _layer(self.network, wide)


def as_it_is(condensed: Network, lanes: slice) -> Network:
    """The way back where nothing was condensed."""
    del lanes
    return condensed


def _flat(array: Float[np.ndarray, "... row column"]) -> Float[np.ndarray, "lane row column"]:
    return array.reshape(-1, *array.shape[-2:])


def _layer(like: Layer, rows: Float[np.ndarray, "... unit weight"]) -> Layer:
    structure = like.structure
    return Layer.from_rows(rows, like.unit, structure.weight_shape, structure.value_shape)
