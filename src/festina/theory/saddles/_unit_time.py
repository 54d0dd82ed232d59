"""Escape times of quadratic units by Gauss–Legendre quadrature with adaptive panels."""

import warnings

import numpy as np

from ._unit_hill import rise
from ._unit_ways import Way

_POINTS = 16  # Gauss–Legendre points per panel
_FIRST_PANELS = 4
_MOST_HALVINGS = 60
_CHUNK = 100_000  # quadrature nodes in one temporary array


def travel_time(way: Way, tolerance: float) -> np.ndarray:
    """Return the time ∫ dw/|v| of each unit on its way to infinity, to a relative `tolerance`."""
    n = way.unit.size
    row = np.repeat(np.arange(n), _FIRST_PANELS)
    low = np.tile(np.arange(_FIRST_PANELS) / _FIRST_PANELS, n)
    width = np.full(row.size, 1.0 / _FIRST_PANELS)
    coarse = panel_time(way, row, low, width)
    whole = np.bincount(row, coarse, minlength=n)
    time = np.zeros(n)
    for _ in range(_MOST_HALVINGS):
        half = 0.5 * width
        left = panel_time(way, row, low, half)
        right = panel_time(way, row, low + half, half)
        fine = left + right
        open_ = np.abs(fine - coarse) > tolerance * whole[row]
        time += np.bincount(row[~open_], fine[~open_], minlength=n)
        if not open_.any():
            return time
        row = np.repeat(row[open_], 2)
        low = np.stack([low[open_], (low + half)[open_]], axis=-1).ravel()
        width = np.repeat(half[open_], 2)
        coarse = np.stack([left[open_], right[open_]], axis=-1).ravel()
    warnings.warn(
        f"{np.unique(row).size} escape times did not converge to `tolerance` {tolerance:.1g} after "
        f"{_MOST_HALVINGS} halvings of the quadrature's panels. Their errors are larger than "
        "`tolerance`.",
        RuntimeWarning,
    )
    return time + np.bincount(row, coarse, minlength=n)


def panel_time(way: Way, row: np.ndarray, low: np.ndarray, width: np.ndarray) -> np.ndarray:
    """Return the time that the units with indices `row` take on one panel each.

    `low` and `width` give each panel as a fraction of the unit's way in the coordinate y.
    """
    points, weights = np.polynomial.legendre.leggauss(_POINTS)
    time = np.empty(row.size)
    for first in range(0, row.size, _CHUNK // _POINTS):
        now = slice(first, first + _CHUNK // _POINTS)
        part = way[row[now]]
        length = part.end - part.start
        fraction = low[now, None] + width[now, None] * 0.5 * (points + 1.0)
        pace = _pace(part, part.start[:, None] + length[:, None] * fraction)
        time[now] = (pace @ (0.5 * weights)) * length * width[now]
    return time


def _pace(way: Way, y: np.ndarray) -> np.ndarray:
    """Return dτ/dy, shape (n, node)."""
    y = np.where(y == 0.0, 1e-100, y)  # avoids 0/0 at a turning point
    scale = way.scale[:, None]
    if way.kind == "through":
        d, slope = scale * np.sinh(y), scale * np.cosh(y)
    elif way.kind == "bounce":
        d, slope = 2.0 * scale * np.sinh(0.5 * y) ** 2, scale * np.abs(np.sinh(y))
    elif way.kind == "wall":
        d, slope = y**2, 2.0 * np.abs(y)
    else:
        d, slope = y, np.ones_like(y)
    v2 = np.broadcast_to(way.base[:, None], y.shape).copy()
    for k in range(way.s.shape[1]):
        z = 2.0 * way.s[:, k, None] * d
        v2 += rise(way.log_c[:, k, None], way.b[:, k, None], way.excess[:, k, None], z)
    return slope / np.sqrt(v2)
