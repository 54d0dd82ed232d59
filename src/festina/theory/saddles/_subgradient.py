"""Minima on a kink: where no gradient is zero, but zero lies between gradients."""

import numpy as np

from ._bfgs import Function, Point
from ._loss_function import relative_slope

_RADIUS = 1e-9  # of the weights: across every kink that they lie on, and no further
_SAMPLES = 16  # gradients for each weight: of eight units on ten kinks four are too few


def slope_at_rest(
    function: Function, point: Point, gradient: Point, *, enough: float, kinked: bool
) -> float:
    """Gradient times weights; on a kink, if that is not small enough, the smallest subgradient."""
    slope = relative_slope(point, gradient)
    if not kinked or not enough < slope < np.inf:
        return slope
    return relative_slope(point, smallest_subgradient(function, point))


def smallest_subgradient(function: Function, point: Point, *, radius: float = _RADIUS) -> Point:
    """The shortest vector in the convex hull of gradients around a point.

    It is zero at a minimum, smooth or not (gradient sampling: Burke, Lewis & Overton 2005), and at
    other kinks at which a descent may stop.
    """
    from scipy.optimize import nnls

    rng = np.random.default_rng(0)
    around = rng.normal(size=(_SAMPLES * (len(point) + 1), len(point)))
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
