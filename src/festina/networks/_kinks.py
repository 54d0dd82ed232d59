"""Kinks of a scalar function: where its slope jumps."""

from collections.abc import Callable

import numpy as np
from jaxtyping import Float

REACH = 8.0
"""Largest |a| up to which kinks are looked for."""

POINTS = 2025
"""Of the arrays that the function is given: compiled once, where each other shape is anew."""

_SAMPLES = 25  # of a window
_CENTRE = _SAMPLES // 2
_WINDOWS = POINTS // _SAMPLES
_LEVELS = 8  # of windows, each a quarter as wide as the one before
_FINE = 1e-5  # spacing at which a jump is measured, some ten times what the last level leaves open
_STAYS = 0.6  # part of the jump over 6h that is seen over h: all of it at a kink, else a sixth
_LEAST = 1e-5  # jump that is not taken for rounding, relative to the values around it

Samples = Float[np.ndarray, "sample window"]


def kinks(
    function: Callable[[Float[np.ndarray, " point"]], Float[np.ndarray, " point"]],
) -> Float[np.ndarray, " kink"]:
    r"""Return where the slope of a function jumps, to about $10^{-6}$; of several within 0.2 the
    sharpest.

    Fourth differences over a spacing $h$ are about $Jh$ at a jump $J$ of the slope and
    $f^{(4)}h^4$ where the function is smooth. Each window looks for the largest, and a window a
    quarter as wide around it takes its place. At the end the jump is measured, by second
    differences over $h$ and $6h$: divided by the spacing they are the same at a kink, and differ by
    six where a function only bends. One that bends within $10^{-5}$ counts as kinked.
    """
    spread = np.linspace(-1.0, 1.0, _SAMPLES)[:, None]
    middle = np.linspace(-REACH, REACH, _WINDOWS)
    reach = 1.5 * REACH / (_WINDOWS - 1)  # windows overlap, so that no kink lies at the edge of all

    def sample(reach: float) -> tuple[Samples, Samples]:
        points = middle + reach * spread
        values = np.asarray(function(points.ravel()), dtype=float).reshape(points.shape)
        return points, np.where(np.isfinite(values), values, np.nan)

    returned = np.asarray(function(middle)).dtype
    rounding = np.finfo(returned).eps if np.issubdtype(returned, np.floating) else 0.0
    least = max(_LEAST, 10.0 * rounding / _FINE)  # single precision sees the sharpest alone
    size = _outward(np.nan_to_num(np.abs(sample(reach)[1])).max(axis=0))
    for level in range(_LEVELS):
        points, values = sample(reach / 4**level)
        sharpest = 2 + np.nan_to_num(np.abs(np.diff(values, 4, axis=0))).argmax(axis=0)
        middle = np.take_along_axis(points, sharpest[None], axis=0)[0]
    _, values = sample(_CENTRE * _FINE)
    narrow, wide = _jump(values, 1), _jump(values, 6)  # NaN, hence none, where the function ends
    return middle[(narrow > _STAYS * wide) & (narrow > least * size)]


def _jump(values: Samples, apart: int) -> Float[np.ndarray, " window"]:
    """Return the jump of the slope over so many samples, the largest near the centre."""
    at = _CENTRE + np.arange(-apart, apart + 1)
    second = values[at + apart] - 2.0 * values[at] + values[at - apart]
    return np.abs(second).max(axis=0) / (apart * _FINE)


def _outward(size: Float[np.ndarray, " window"]) -> Float[np.ndarray, " window"]:
    """Return the largest value up to |a|: it sets rounding where terms cancel (GELU's tail)."""
    side = np.maximum.accumulate(np.maximum(size, size[::-1])[_WINDOWS // 2 :])
    return np.concatenate([side[:0:-1], side])
