"""Kinks of a scalar function, the points where its slope jumps."""

from collections.abc import Callable

import numpy as np
from jaxtyping import Float

REACH = 8.0
"""Largest |a| at which kinks are searched for."""

POINTS = 2025
"""Length of all arrays that the function is called with; JAX compiles it for each new length."""

_SAMPLES = 25  # number of points in a window
_CENTRE = _SAMPLES // 2
_WINDOWS = POINTS // _SAMPLES
_LEVELS = 8  # number of zoom levels; each quarters the width of the windows
_FINE = 1e-5  # spacing h at which a jump is measured, ten times the error of a kink's position
_STAYS = 0.6  # least ratio of the jumps over h and over 6h: 1 at a kink, 1/6 where φ is smooth
_LEAST = 1e-5  # least jump, relative to the values around it, that cannot be a rounding error

Samples = Float[np.ndarray, "sample window"]


def kinks(
    function: Callable[[Float[np.ndarray, " point"]], Float[np.ndarray, " point"]],
) -> Float[np.ndarray, " kink"]:
    r"""Return the points where the slope of a function jumps, with an error of about $10^{-6}$.

    Fourth differences over a spacing $h$ are about $Jh$ at a jump $J$ of the slope, and
    $f^{(4)}h^4$ where the function is smooth. Each window is replaced repeatedly by a window of a
    quarter of its width, around the largest fourth difference. The jump is then measured by second
    differences over $h$ and $6h$. The ratio of second difference to spacing is the same for $h$ and
    $6h$ at a kink, and six times larger for $6h$ where the function is smooth. If several kinks lie
    within 0.2, only the sharpest is returned. A bend narrower than $10^{-5}$ counts as a kink.
    """
    spread = np.linspace(-1.0, 1.0, _SAMPLES)[:, None]
    middle = np.linspace(-REACH, REACH, _WINDOWS)
    reach = 1.5 * REACH / (_WINDOWS - 1)  # windows overlap: every kink is well inside one of them

    def sample(reach: float) -> tuple[Samples, Samples]:
        points = middle + reach * spread
        values = np.asarray(function(points.ravel()), dtype=float).reshape(points.shape)
        return points, np.where(np.isfinite(values), values, np.nan)

    returned = np.asarray(function(middle)).dtype
    rounding = np.finfo(returned).eps if np.issubdtype(returned, np.floating) else 0.0
    least = max(_LEAST, 10.0 * rounding / _FINE)  # float32 finds the sharpest kinks only
    size = _outward(np.nan_to_num(np.abs(sample(reach)[1])).max(axis=0))
    for level in range(_LEVELS):
        points, values = sample(reach / 4**level)
        sharpest = 2 + np.nan_to_num(np.abs(np.diff(values, 4, axis=0))).argmax(axis=0)
        middle = np.take_along_axis(points, sharpest[None], axis=0)[0]
    _, values = sample(_CENTRE * _FINE)
    # Where the function is not finite, the jumps are NaN and no kink is reported.
    narrow, wide = _jump(values, 1), _jump(values, 6)
    return middle[(narrow > _STAYS * wide) & (narrow > least * size)]


def _jump(values: Samples, apart: int) -> Float[np.ndarray, " window"]:
    """Return the largest jump of the slope near a window's centre, over `apart` samples."""
    at = _CENTRE + np.arange(-apart, apart + 1)
    second = values[at + apart] - 2.0 * values[at] + values[at - apart]
    return np.abs(second).max(axis=0) / (apart * _FINE)


def _outward(size: Float[np.ndarray, " window"]) -> Float[np.ndarray, " window"]:
    """Return the largest |value| at points up to |a|, which sets the size of rounding errors.

    In the tail of GELU, for example, large terms cancel, and the rounding errors remain.
    """
    side = np.maximum.accumulate(np.maximum(size, size[::-1])[_WINDOWS // 2 :])
    return np.concatenate([side[:0:-1], side])
