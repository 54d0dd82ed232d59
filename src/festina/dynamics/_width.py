r"""Many linear units learn what few do.

A linear unit's weights θ_i = (u_i, v_i) move by $\dot\theta_i = M\theta_i$, with the same matrix M
for every unit, which depends on the units only through $\sum_i v_i \otimes u_i$. Rotating units
into each other therefore commutes with training. With $\Theta(0) = QR$, one row for each unit, the
rows of R are the units of a network no wider than a unit has weights, and $\Theta(t) = Q R(t)$ with
the loss and the gradient norm of R(t): the cost does not grow with the width.
"""

from collections.abc import Callable
from typing import Any

import numpy as np
from jaxtyping import Float

from .._types import Array
from ..networks import AbstractNetwork, Layer

# The part of a weight's column, over units, that the columns before it do not have.
_INDEPENDENT = 1e-6

Widen = Callable[[Any], Any]
"""From networks `(lane, save, unit, …)` of the few units back to all units."""


def condense(network: AbstractNetwork) -> tuple[AbstractNetwork, Widen]:
    """The network with as few units as learn the same, and the way back.

    Of a deep network there are none to spare: what surrounds a hidden layer is as wide as it is.
    """
    return _condense(network) if isinstance(network, Layer) else (network, _as_it_is)


def _condense(network: Layer) -> tuple[Layer, Widen]:
    batch, width = network.batch_shape, network.width
    u = np.asarray(network.u, float).reshape(-1, width, *network.structure.weight_shape)
    v = np.asarray(network.v, float).reshape(-1, width, *network.structure.value_shape)
    rows = _rows(u, v, leading=1)
    # Linear by construction: a measured algebra knows nothing of weights that it has not tried.
    if network.unit.degree != 1 or width <= rows.shape[-1]:
        return network, _as_it_is
    # Not by SVD: Householder's R keeps the relative accuracy of each weight's column.
    basis, few = np.linalg.qr(rows)
    independent = np.abs(np.diagonal(few, axis1=-2, axis2=-1))
    if (independent <= _INDEPENDENT * np.linalg.norm(few, axis=-2)).any():
        # Units that span less (all alike, say) lie on an invariant manifold, and rounding in R
        # would lead away from it.
        return network, _as_it_is
    basis[~rows.any(axis=-1)] = 0.0  # a unit without weights has none ever after, not even rounding

    def widen(condensed: Layer) -> Layer:
        samples = _rows(condensed.u, condensed.v, leading=2)
        wide = basis[:, None] @ samples
        unmoved = (samples == few[:, None]).all(axis=(-1, -2))
        wide[unmoved] = rows[np.nonzero(unmoved)[0]]
        return _layer(network, wide)

    return _layer(network, few.reshape(*batch, *few.shape[1:])), widen


def _as_it_is(condensed: AbstractNetwork) -> AbstractNetwork:
    return condensed


def _rows(u: Array, v: Array, *, leading: int) -> Float[np.ndarray, "... unit weight"]:
    """One row (u_i, v_i) for each unit, behind `leading` axes."""
    front = u.shape[: leading + 1]
    return np.concatenate([np.asarray(part).reshape(*front, -1) for part in (u, v)], axis=-1)


def _layer(like: Layer, rows: Float[np.ndarray, "... unit weight"]) -> Layer:
    structure = like.structure
    border = int(np.prod(structure.weight_shape))
    front = rows.shape[:-1]
    return Layer(
        rows[..., :border].reshape(*front, *structure.weight_shape),
        rows[..., border:].reshape(*front, *structure.value_shape),
        like.unit,
    )
