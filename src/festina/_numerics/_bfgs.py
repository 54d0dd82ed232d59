"""Quasi-Newton minimisation (BFGS), because importing SciPy's version would take 0.4 s."""

from collections.abc import Callable

import numpy as np
from jaxtyping import Float

_EPS = float(np.finfo(float).eps)
_PATIENCE = 50  # stop after so many steps that gain no more than rounding, for example on a kink

Point = Float[np.ndarray, " n"]
Function = Callable[[Point], tuple[float, Point]]
"""Function that maps a point to its value and its gradient."""


def bfgs(
    function: Function,
    start: Point,
    finished: Callable[[Point, float, Point], bool],
    *,
    max_steps: int,
) -> tuple[Point, float, Point]:
    """Minimise a function from `start`; return the last point, its value and its gradient.

    The descent stops when `finished(point, value, gradient)` is true, if no step lowers the value,
    or after `max_steps`. The caller must check whether the last point is a minimum.
    """
    x, (value, gradient) = start, function(start)
    identity = np.eye(len(x))
    inverse = identity  # estimate of the inverse Hessian
    lowest, in_vain = value, 0
    for _ in range(max_steps):
        if finished(x, value, gradient) or in_vain > _PATIENCE:
            break
        direction = -inverse @ gradient
        if not gradient @ direction < 0:  # rounding has ruined the inverse Hessian
            inverse, direction = identity, -gradient
        found = _line_search(function, x, value, float(gradient @ direction), direction)
        if found is None:
            if inverse is identity:
                break
            inverse = identity
            continue
        s, y = found[0] - x, found[2] - gradient
        x, value, gradient = found
        in_vain += 1
        if value < lowest - 4 * _EPS * abs(lowest):
            lowest, in_vain = value, 0
        curvature = s @ y
        if curvature <= 0:  # the line search excludes this case except for rounding
            continue
        if inverse is identity:
            inverse = identity * (curvature / (y @ y))
        hy = inverse @ y
        mixed = np.outer(hy, s)
        inverse = (
            inverse
            + (1 + y @ hy / curvature) / curvature * np.outer(s, s)
            - (mixed + mixed.T) / curvature
        )
    return x, value, gradient


def _line_search(
    function: Function, x: Point, value: float, slope: float, direction: Point
) -> tuple[Point, float, Point] | None:
    """Return a step that satisfies the weak Wolfe conditions, or None.

    The value must fall enough, and the slope at the new point must be less steep. Bisection finds
    such a step even across the kinks of rectifiers (Lewis & Overton 2013).
    """
    low, high, length = 0.0, np.inf, 1.0
    for _ in range(60):
        there = x + length * direction
        new, gradient = function(there)
        # At a minimum, changes of the value are rounding errors, but the gradient is still exact.
        if not new <= value + 1e-4 * length * slope + 4 * _EPS * abs(value):
            high = length
        elif gradient @ direction < 0.9 * slope:
            low = length
        else:
            return there, new, gradient
        length = 2 * length if high == np.inf else (low + high) / 2
    return None
