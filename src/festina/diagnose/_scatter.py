"""How much a noisy curve scatters, as a function of its level."""

import itertools
from collections.abc import Callable

import numpy as np

_PIECES = 20
_SAMPLES = 25  # in a piece, at least


def scatter_by_level(
    envelope: np.ndarray, residual: np.ndarray
) -> Callable[[np.ndarray], np.ndarray]:
    r"""Standard deviation of the noise around a falling curve at a level, blind to spikes.

    Estimated from pieces of equal length and from pieces of equal height: a long quiet end says
    nothing about the noise at a high loss, and on the way down there are too few samples to tell.
    The least concave function above all of them that does not fall with the loss: a fast start,
    where the monotone curve follows the noise, seems cleaner than it is. It is exact where the
    noise is the same at all levels, or proportional to the loss, and errs towards more elsewhere.
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
    level, deviation = np.array(_concave_hull(points)).T
    deviation = np.maximum.accumulate(deviation)
    return lambda at: np.interp(at, level, deviation)


def _concave_hull(points: list[tuple[float, float]]) -> list[tuple[float, float]]:
    """The corners of the least concave function above all points."""
    highest = dict(sorted(points))  # of several at one level
    hull: list[tuple[float, float]] = []
    for x, y in highest.items():
        while len(hull) > 1:
            (x0, y0), (x1, y1) = hull[-2:]
            if (y1 - y0) * (x - x0) > (y - y0) * (x1 - x0):
                break
            hull.pop()
        hull.append((x, y))
    return hull
