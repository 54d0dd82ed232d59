"""Minima on a kink: where no gradient is zero, but zero lies between gradients."""

import numpy as np

from ._bfgs import Function, Point

_RADIUS = 1e-9  # of the weights: across every kink that they lie on, and no further


def smallest_subgradient(function: Function, point: Point, *, radius: float = _RADIUS) -> Point:
    """The shortest vector in the convex hull of gradients around a point.

    Zero is in it at a minimum, smooth or not (gradient sampling: Burke, Lewis & Overton 2005).
    """
    from scipy.optimize import nnls

    rng = np.random.default_rng(0)
    # Enough to surround zero in every direction, if kinks pass on all sides of the point.
    around = rng.normal(size=(4 * len(point) + 8, len(point)))
    around *= radius * np.linalg.norm(point) / np.linalg.norm(around, axis=1, keepdims=True)
    gradients = np.array([function(point + step)[1] for step in around])
    # λ ≥ 0 of min |Gλ|² + (Σλ − 1)², divided by their sum, are the shares μ of min |Gμ|: along
    # λ = cμ the smallest value is |Gμ|²/(1 + |Gμ|²).
    size = np.linalg.norm(gradients, axis=1).max()
    if not size > 0:
        return gradients[0]
    rows = np.vstack((gradients.T / size, np.ones(len(gradients))))
    shares = nnls(rows, np.append(np.zeros(len(point)), 1.0))[0]
    return (shares / shares.sum()) @ gradients
