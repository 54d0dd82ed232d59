"""Points and weights that average polynomials, and smooth functions, exactly over a Gaussian."""

import math

import numpy as np
from jaxtyping import Float

from .._checks import real_array, whole_number
from .._types import ArrayLike

_MOST_POINTS = 1_000_000


def square_root(covariance: ArrayLike, *, name: str = "covariance") -> Float[np.ndarray, "d d"]:
    """Return the symmetric root of a covariance; raises, with its `name`, if it is not one."""
    covariance = real_array(name, covariance)
    if covariance.ndim != 2 or covariance.shape[0] != covariance.shape[1]:
        raise ValueError(f"`{name}` must be a square matrix, got shape {covariance.shape}.")
    if not np.isfinite(covariance).all():
        raise ValueError(f"`{name}` holds values that are not finite.")
    if not np.allclose(covariance, covariance.T, rtol=1e-10, atol=1e-12 * np.abs(covariance).max()):
        raise ValueError(
            f"`{name}` must be symmetric, the largest asymmetry is "
            f"{np.abs(covariance - covariance.T).max():.3g}."
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
    """Return points and weights whose averages are those of N(0, covariance).

    Exact for polynomials up to `degree`: with 2d points up to degree 3, with a product of
    Gauss–Hermite rules beyond. `nodes` asks for a product rule with that many nodes a dimension,
    for functions that are no polynomials.
    """
    root, degree = square_root(covariance), whole_number("degree", degree, least=0)
    d = len(root)
    if nodes is None and degree <= 3:
        points = np.sqrt(d) * np.concatenate((np.eye(d), -np.eye(d)))
        return points @ root, np.full(2 * d, 0.5 / d)
    per_axis = degree // 2 + 1 if nodes is None else whole_number("nodes", nodes, least=2)
    if per_axis**d > _MOST_POINTS:
        raise ValueError(
            f"A rule with {per_axis} nodes in each of {d} dimensions has {per_axis**d:.2g} points. "
            "Use a finite task (`samples=…, key=…`) in so many dimensions."
        )
    x, w = np.polynomial.hermite_e.hermegauss(per_axis)
    grids = np.meshgrid(*[x] * d, indexing="ij")
    weights = np.meshgrid(*[w / math.sqrt(2 * math.pi)] * d, indexing="ij")
    points = np.stack([grid.ravel() for grid in grids], axis=1)
    return points @ root, np.prod([weight.ravel() for weight in weights], axis=0)
