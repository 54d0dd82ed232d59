r"""Many linear units learn what few do.

A linear unit's weights θ_i = (u_i, v_i) move by $\dot\theta_i = M\theta_i$, with the same matrix M
for every unit, which depends on the units only through $\sum_i v_i \otimes u_i$. Rotating units
into each other therefore commutes with training. With $\Theta(0) = QR$, one row for each unit, the
rows of R are the units of a network no wider than a unit has weights, and $\Theta(t) = Q R(t)$ with
the loss and the gradient norm of R(t): the cost does not grow with the width. Q is left for when
the weights of all units are looked at.
"""

import math
from collections.abc import Callable
from dataclasses import dataclass
from typing import Any

import numpy as np
from jaxtyping import Float

from .._types import Array
from ..networks import Layer
from ..networks._network import Network

# The part of a weight's column, over units, that the columns before it do not have.
_INDEPENDENT = 1e-6
# Smallest eigenvalue of the columns' cosines from which squaring them costs no more than a digit.
_FAR_FROM_DEPENDENT = 0.1
_WIDE = 1000  # units, from which Householder's reflections take longer than training does
_NARROW = 32  # columns, up to which pieces are faster than everything at once
_PIECE = 1024  # units, few enough for BLAS to multiply narrow columns without packing them first
_VECTOR = 8  # numbers that a processor multiplies at once

Widen = Callable[[Any], Any]
"""From networks `(lane, save, unit, …)` of the few units back to all units."""


def condense(network: Network) -> tuple[Network, Widen]:
    """The network with as few units as learn the same, and the way back.

    Of a deep network there are none to spare: what surrounds a hidden layer is as wide as it is.
    """
    return _condense(network) if isinstance(network, Layer) else (network, as_it_is)  # pyright: ignore[reportReturnType]


def _condense(network: Layer) -> tuple[Layer, Widen]:
    batch, width = network.batch_shape, network.width
    u = np.asarray(network.u, float).reshape(-1, width, math.prod(network.structure.weight_shape))
    v = np.asarray(network.v, float).reshape(-1, width, math.prod(network.structure.value_shape))
    # Linear by construction: a measured algebra knows nothing of weights that it has not tried.
    if network.unit.degree != 1 or width <= u.shape[-1] + v.shape[-1]:
        return network, as_it_is
    basis, few = None, _from_gram(u, v) if width > _WIDE else None
    if few is None:
        # Not by SVD: Householder's R keeps the relative accuracy of each weight's column.
        basis, few = np.linalg.qr(np.concatenate((u, v), axis=-1))
        independent = np.abs(np.diagonal(few, axis1=-2, axis2=-1))
        if not (independent > _INDEPENDENT * np.linalg.norm(few, axis=-2)).all():
            # Units that span less (all alike, say) lie on an invariant manifold, and rounding in R
            # would lead away from it. (Nor is there anything to condense in what is not finite.)
            return network, as_it_is
    widen = _Rotation(network, u, v, few, basis)
    return _layer(network, few.reshape(*batch, *few.shape[1:])), widen


def _from_gram(
    u: Float[np.ndarray, "lane unit input"], v: Float[np.ndarray, "lane unit output"]
) -> Float[np.ndarray, "lane weight weight"] | None:
    """R from RᵀR = ΘᵀΘ, where columns are far from dependent."""
    gram = _gram(u, v)
    size = np.sqrt(np.diagonal(gram, axis1=-2, axis2=-1))
    if not size.all() or not np.isfinite(size).all():
        return None
    cosines = gram / (size[:, :, None] * size[:, None])
    if np.linalg.eigvalsh(cosines).min() < _FAR_FROM_DEPENDENT:
        return None
    return np.linalg.cholesky(cosines).swapaxes(-1, -2) * size[:, None]


def _gram(
    u: Float[np.ndarray, "lane unit input"], v: Float[np.ndarray, "lane unit output"]
) -> Float[np.ndarray, "lane weight weight"]:
    """ΘᵀΘ, Θ = [u, v]: all that reads every unit, and so all that grows with the width."""
    border, size = u.shape[-1], u.shape[-1] + v.shape[-1]
    gram = np.empty((len(u), size, size))
    gram[:, :border, :border] = _products(u, u)
    gram[:, border:, border:] = _products(v, v)
    gram[:, :border, border:] = across = _products(u, v)
    gram[:, border:, :border] = across.mT
    return gram


def _products(
    a: Float[np.ndarray, "lane unit left"], b: Float[np.ndarray, "lane unit right"]
) -> Float[np.ndarray, "lane left right"]:
    """Σ over units, in pieces where there are not many columns.

    A row of a piece holds as many units as fill a vector, and what they have with each other is
    thrown away: more work, in less time. Pieces are also too small for BLAS to call its threads,
    which for one dot product of columns may wait a thousand times as long as they work.
    """
    lanes, width, left = a.shape
    right = b.shape[-1]
    if max(left, right) > _NARROW:
        return a.mT @ b
    abreast = max(1, _VECTOR // max(left, right))
    whole = width - width % _PIECE
    shape = lanes, whole // _PIECE, _PIECE // abreast
    x = a[:, :whole].reshape(*shape, abreast * left)
    y = b[:, :whole].reshape(*shape, abreast * right)
    wide = _squares(x) if a is b else (x.mT @ y).sum(axis=1)
    own = np.trace(wide.reshape(lanes, abreast, left, abreast, right), axis1=1, axis2=3)
    return own + a[:, whole:].mT @ b[:, whole:]


def _squares(x: Float[np.ndarray, "lane piece row column"]) -> Float[np.ndarray, "lane _ _"]:
    """Σ xᵀx over pieces.

    Of a matrix and itself NumPy asks BLAS for one half only, which for few columns takes twice as
    long as the whole: without its first column the matrix is another one.
    """
    squares = np.empty((len(x), x.shape[-1], x.shape[-1]))
    squares[:, :, 1:] = (x.mT @ x[..., 1:]).sum(axis=1)
    squares[:, 1:, 0] = squares[:, 0, 1:]
    squares[:, 0, 0] = np.vecdot(x[..., 0], x[..., 0]).sum(axis=1)
    return squares


@dataclass(frozen=True)
class _Rotation:
    """Θ(t) = Q R(t), with Q = Θ(0) R(0)⁻¹ formed when it is asked for."""

    network: Layer
    u: Float[np.ndarray, "lane unit input"]
    v: Float[np.ndarray, "lane unit output"]
    few: Float[np.ndarray, "lane weight weight"]
    basis: Float[np.ndarray, "lane unit weight"] | None

    def __call__(self, condensed: Layer) -> Layer:
        rows = np.concatenate((self.u, self.v), axis=-1)
        basis = rows @ np.linalg.inv(self.few) if self.basis is None else self.basis.copy()
        # A unit without weights has none ever after, not even rounding.
        basis[~rows.any(axis=-1)] = 0.0
        samples = _rows(condensed.u, condensed.v, leading=2)
        wide = basis[:, None] @ samples
        unmoved = (samples == self.few[:, None]).all(axis=(-1, -2))
        wide[unmoved] = rows[np.nonzero(unmoved)[0]]
        return _layer(self.network, wide)


def as_it_is(condensed: Network) -> Network:
    """The way back where nothing was condensed."""
    return condensed


def _rows(u: Array, v: Array, *, leading: int) -> Float[np.ndarray, "... unit weight"]:
    """One row (u_i, v_i) for each unit, behind `leading` axes."""
    front = u.shape[: leading + 1]
    return np.concatenate([np.asarray(part).reshape(*front, -1) for part in (u, v)], axis=-1)


def _layer(like: Layer, rows: Float[np.ndarray, "... unit weight"]) -> Layer:
    structure = like.structure
    border = math.prod(structure.weight_shape)
    front = rows.shape[:-1]
    return Layer(
        rows[..., :border].reshape(*front, *structure.weight_shape),
        rows[..., border:].reshape(*front, *structure.value_shape),
        like.unit,
    )
