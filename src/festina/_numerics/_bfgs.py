"""Quasi-Newton descent to a local minimum. SciPy has it too, and takes 0.4 s to import."""

from collections.abc import Callable

import numpy as np
from jaxtyping import Float

_EPS = float(np.finfo(float).eps)
_PATIENCE = 50  # steps that gain nothing beyond rounding: on a kink there is no end of them

Point = Float[np.ndarray, " n"]
Function = Callable[[Point], tuple[float, Point]]
"""A point to the value and the gradient there."""


def bfgs(
    function: Function,
    start: Point,
    finished: Callable[[Point, float, Point], bool],
    *,
    max_steps: int,
) -> tuple[Point, float, Point]:
    """Descend from `start` until `finished(point, value, gradient)`, or until no step leads down.

    The last point with value and gradient: whether it is a minimum is for the caller to judge.
    """
    x, (value, gradient) = start, function(start)
    identity = np.eye(len(x))
    inverse = identity  # of the Hessian, as far as it is known
    lowest, in_vain = value, 0
    for _ in range(max_steps):
        if finished(x, value, gradient) or in_vain > _PATIENCE:
            break
        direction = -inverse @ gradient
        if not gradient @ direction < 0:  # rounding has eaten the inverse
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
        if curvature <= 0:  # below rounding: the line search asks for more
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
    """Return a step that gains enough and after which it falls less steeply (weak Wolfe
    conditions).

    By bisection, which also gets past the kinks of rectifiers (Lewis & Overton 2013).
    """
    low, high, length = 0.0, np.inf, 1.0
    for _ in range(60):
        there = x + length * direction
        new, gradient = function(there)
        # At a minimum the value is rounding and only the gradient still tells where to go.
        if not new <= value + 1e-4 * length * slope + 4 * _EPS * abs(value):
            high = length
        elif gradient @ direction < 0.9 * slope:
            low = length
        else:
            return there, new, gradient
        length = 2 * length if high == np.inf else (low + high) / 2
    return None
