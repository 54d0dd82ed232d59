"""Estimate how much a noisy curve scatters, as a function of its level."""

import itertools
from collections.abc import Callable

import numpy as np
from jaxtyping import Float

_PIECES = 20  # largest number of pieces in which scatter is estimated
_SAMPLES = 100  # smallest number of samples in a piece
_ROUGH = 1e-4  # smallest unit of a last decimal that matters, as a fraction of the height
_DECIMALS = 6  # largest number of decimals of rounded losses
_DIGITS = 8  # largest number of significant digits of rounded losses
_MANTISSAS = (8, 11, 24)  # bits of bfloat16, half and single precision
_VALUES, _NEIGHBOURS = 8, 5  # distinct values, and neighbouring values, of a rounded smooth curve


def grain(loss: np.ndarray) -> float:
    """Return one unit of the last decimal of losses that are rounded to few decimals, else zero.

    A staircase of a few round numbers does not count as rounded, because it skips the values
    between its levels.
    """
    values = np.unique(loss)
    if values.size < _VALUES:
        return 0.0
    for decimals in range(_DECIMALS + 1):
        unit = 10.0**-decimals
        counts = values / unit
        if np.abs(counts - np.round(counts)).max() < 1e-3:  # also in single precision
            neighbours = np.count_nonzero(np.round(np.diff(counts)) == 1)
            rough = unit >= _ROUGH * np.ptp(loss)
            return unit if rough and neighbours >= _NEIGHBOURS else 0.0
    return 0.0


def last_digit(
    loss: Float[np.ndarray, " sample"], at: Float[np.ndarray, " sample"]
) -> Float[np.ndarray, " sample"]:
    """Return one unit of the last digit of rounded or coarsely stored losses, at each level.

    The unit is zero for double precision, and for a staircase of a few round numbers.
    """
    values, size = np.unique(loss), np.maximum(np.abs(at), np.finfo(float).tiny)
    if values.size < _VALUES:
        return np.zeros_like(size)
    bits = np.frexp(values)[0]
    single = bool((bits * 2.0**24 % 1 == 0).all())
    off = 2.0**-23 if single else 2.0**-50  # relative error of a decimal number in this precision
    power = lambda of: np.floor(np.log10(np.maximum(np.abs(of), 1e-300)))
    unit = np.zeros_like(size)
    # Rounding means fewer digits than the precision has: every number has the digits of the
    # precision.
    most = int(-np.log10(100 * off * np.abs(values).max()))
    for decimals in range(min(_DIGITS, most) + 1):
        if np.abs(values - np.round(values, decimals)).max() <= off * np.abs(values).max():
            unit = np.maximum(unit, 10.0**-decimals)
            break
    for digits in range(2, min(_DIGITS, int(-np.log10(100 * off))) + 1):
        counts = values / 10.0 ** (power(values) - digits + 1)
        if (np.abs(counts - np.round(counts)) <= off * np.abs(counts)).all():
            unit = np.maximum(unit, 10.0 ** (power(size) - digits + 1))
            break
    kept = next((kept for kept in _MANTISSAS if (bits * 2.0**kept % 1 == 0).all()), None)
    return unit if kept is None else np.maximum(unit, 2.0 ** (1 - kept) * size)


def scatter_by_level(
    envelope: np.ndarray, residual: np.ndarray
) -> Callable[[np.ndarray], np.ndarray]:
    """Return a function from level to standard deviation of the noise, robust to spikes.

    The estimate uses pieces of equal length and pieces of equal height. A long quiet end carries no
    information about the noise at a high loss, and a fast drop has too few samples. The result is
    the least concave function above all estimates. The function is exact if the noise is the same
    at all levels or proportional to the loss, and otherwise overestimates. The function is zero if
    the record is too short for two estimates.
    """
    n = residual.size
    pieces = min(max(n // _SAMPLES, 1), _PIECES)
    by_time = np.linspace(0, n, pieces + 1)[1:-1].astype(int)
    heights = np.linspace(envelope[0], envelope[-1], _PIECES + 1)[1:-1]
    by_level = np.searchsorted(-envelope, -heights)

    points = []
    for cuts in (by_time, by_level):
        bounds = [0]
        for cut in cuts.tolist():
            if min(cut - bounds[-1], n - cut) >= _SAMPLES:
                bounds.append(cut)
        for i, j in itertools.pairwise([*bounds, n]):
            deviation = 1.4826 * np.median(np.abs(residual[i:j]))
            points.append((float(np.mean(envelope[i:j])), float(deviation)))
    if len(points) <= 2:  # the whole record, twice
        return np.zeros_like
    level, deviation = np.array(_concave_hull(points)).T
    return lambda at: np.interp(at, level, deviation)


def _concave_hull(points: list[tuple[float, float]]) -> list[tuple[float, float]]:
    """Return the corners of the least concave function above all points."""
    highest = dict(sorted(points))  # the highest of several points at one level
    hull: list[tuple[float, float]] = []
    for x, y in highest.items():
        while len(hull) > 1:
            (x0, y0), (x1, y1) = hull[-2:]
            if (y1 - y0) * (x - x0) > (y - y0) * (x1 - x0):
                break
            hull.pop()
        hull.append((x, y))
    return hull
