"""Weighted points whose averages of polynomials equal averages over a Gaussian."""

import math

import numpy as np
from jaxtyping import Float

from .._checks import real_array, whole_number
from .._types import ArrayLike

_MOST_POINTS = 1_000_000


def square_root(covariance: ArrayLike, *, name: str = "covariance") -> Float[np.ndarray, "d d"]:
    """Return the symmetric square root of a covariance; raise unless it is a valid covariance."""
    covariance = real_array(name, covariance)
    if covariance.ndim != 2 or covariance.shape[0] != covariance.shape[1]:
        raise ValueError(f"`{name}` must be a square matrix, got shape {covariance.shape}.")
    if not np.isfinite(covariance).all():
        raise ValueError(f"`{name}` holds values that are not finite. Remove or replace them.")
    if not np.allclose(covariance, covariance.T, rtol=1e-10, atol=1e-12 * np.abs(covariance).max()):
        raise ValueError(
            f"`{name}` must be symmetric, the largest asymmetry is "
            f"{np.abs(covariance - covariance.T).max():.3g}. Use (C + C.T) / 2."
        )
    variances, axes = np.linalg.eigh((covariance + covariance.T) / 2)
    if variances[0] < -1e-10 * np.abs(variances).max():
        raise ValueError(
            f"`{name}` must be positive semi-definite, its smallest eigenvalue is "
            f"{variances[0]:.6g}."
        )
    return (axes * np.sqrt(np.maximum(variances, 0.0))) @ axes.T


def gaussian_cubature_points(
    covariance: ArrayLike, *, degree: int = 2, nodes: int | None = None
) -> tuple[Float[np.ndarray, "point d"], Float[np.ndarray, " point"]]:
    """Return points and weights whose averages of polynomials equal those over N(0, covariance).

    **Arguments:**

    - `covariance`: positive semi-definite matrix of size d.
    - `degree`: degree up to which polynomials are averaged exactly. Up to degree 3 the rule has 2d
      points; for higher degrees it is a product of Gauss–Hermite rules.
    - `nodes`: number of nodes per dimension of a product rule, for functions that are not
      polynomials; `nodes` replaces `degree`.

    **Returns:**

    Points `(point, d)` and weights `(point,)` that sum to one.

    **Example:**

    >>> import numpy as np
    >>> from festina.tasks import gaussian_cubature_points
    >>> points, weights = gaussian_cubature_points(np.diag([1.0, 4.0]), degree=4)
    >>> (weights @ points**2).round(3), (weights @ points**4).round(3)
    (array([1., 4.]), array([ 3., 48.]))
    """
    root, degree = square_root(covariance), whole_number("degree", degree, least=0)
    d = len(root)
    if nodes is None and degree <= 3:
        points = np.sqrt(d) * np.concatenate((np.eye(d), -np.eye(d)))
        return points @ root, np.full(2 * d, 0.5 / d)
    per_axis = degree // 2 + 1 if nodes is None else whole_number("nodes", nodes, least=2)
    if per_axis**d > _MOST_POINTS:
        raise ValueError(
            f"A rule with {per_axis} nodes in each of {d} dimensions has {per_axis**d:.2g} points, "
            "which is too many. Use fewer nodes, or a data set (`samples=…, key=…`)."
        )
    x, w = np.polynomial.hermite_e.hermegauss(per_axis)
    grids = np.meshgrid(*[x] * d, indexing="ij")
    weights = np.meshgrid(*[w / math.sqrt(2 * math.pi)] * d, indexing="ij")
    points = np.stack([grid.ravel() for grid in grids], axis=1)
    return points @ root, np.prod([weight.ravel() for weight in weights], axis=0)
