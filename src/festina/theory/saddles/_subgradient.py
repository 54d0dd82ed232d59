"""Minima on a kink, where no gradient vanishes but a convex combination of gradients does."""

import numpy as np
from jaxtyping import Float, Int

from ..._numerics._bfgs import Function, Point
from ._loss_function import relative_slope

_RADIUS = 1e-9  # fraction of the norm of the weights: crosses the kinks at the point only
_SAMPLES = 16  # gradients for each weight; four gradients are too few for eight units on ten kinks


def slope_at_rest(
    function: Function, point: Point, gradient: Point, *, enough: float, kinked: bool
) -> float:
    """Return |gradient| · |weights|; on a kink, the smallest subgradient replaces the gradient.

    The smallest subgradient is computed only if `kinked` is True and the gradient gives more than
    `enough`.
    """
    slope = relative_slope(point, gradient)
    if not kinked or not enough < slope < np.inf:
        return slope
    return relative_slope(point, smallest_subgradient(function, point))


def smallest_subgradient(
    function: Function,
    point: Point,
    *,
    radius: float = _RADIUS,
    block: Int[np.ndarray, " n"] | None = None,
) -> Point:
    """Return the shortest vector in the convex hull of gradients around a point.

    The vector is zero at a minimum, smooth or not (gradient sampling: Burke, Lewis & Overton 2005).
    The vector is also zero at some other kinks at which descent may stop. If the kinks of several
    units are independent of each other, pass as `block` the index of the unit for each weight. The
    units then share one small set of gradients.
    """
    block = np.zeros(len(point), dtype=int) if block is None else block
    parts = [block == number for number in range(block.max() + 1)]
    rng = np.random.default_rng(0)
    around = rng.normal(size=(gradients_around(block), len(point)))
    for part in parts:
        length = np.linalg.norm(around[:, part], axis=1, keepdims=True)
        around[:, part] *= radius * np.linalg.norm(point[part]) / length
    gradients = np.array([function(point + step)[1] for step in around])
    shortest = np.empty(len(point))
    for part in parts:
        shortest[part] = _shortest(gradients[:, part])
    return shortest


def gradients_around(block: Int[np.ndarray, " n"]) -> int:
    """Return the number of gradients that `smallest_subgradient` evaluates."""
    return _SAMPLES * (int(np.bincount(block).max()) + 1)


def _shortest(gradients: Float[np.ndarray, "sample n"]) -> Float[np.ndarray, " n"]:
    from scipy.optimize import nnls

    # Minimising |Gλ|² + (Σλ − 1)² over λ ≥ 0 gives the shares μ = λ/Σλ that minimise |Gμ|: along
    # λ = cμ the smallest value is |Gμ|²/(1 + |Gμ|²).
    size = np.linalg.norm(gradients, axis=1).max()
    if not size > 0:
        return gradients[0]
    rows = np.vstack((gradients.T / size, np.ones(len(gradients))))
    shares = nnls(rows, np.append(np.zeros(gradients.shape[1]), 1.0))[0]
    return (shares / shares.sum()) @ gradients
