"""Plateaus of a loss curve alone: how long it stays at each level, at the resolution it has."""

import itertools

import numpy as np

from ._drops import log_rate, split, strength

# What scatter does. Steps are no finer than _STEP standard deviations, stays are counted at a
# resolution of _RESOLUTION of them, and a drop is at least _SIGNIFICANT. Found on Zhang, Saxe &
# Latham's Figures 1B, 1D and 1G with white, proportional, correlated and spiky noise.
_STEP = 0.5
_RESOLUTION = 0.7
_SIGNIFICANT = 3.0

# Without scatter: steps become finer towards the final loss, down to this fraction of the coarse
# ones, each at most _GRADE of what is left to fall.
_FINEST = 0.02
_GRADE = 0.05

# A fall by less than this fraction of the initial loss is round-off.
_ROUND_OFF = 1e-12


def from_loss(
    t: np.ndarray,
    loss: np.ndarray,
    prominence: float,
    merge: float,
    *,
    relative: bool,
    bins: int,
    smoothing: float,
    median: int,
) -> tuple[np.ndarray, np.ndarray, np.ndarray]:
    """Samples on the plateaus, their strengths, and the monotone curve they were read from.

    The nearest monotone curve in the sense of least squares, not the running minimum: that one
    follows the extremes of the noise, and sinks along a plateau.
    """
    from scipy.ndimage import gaussian_filter1d, median_filter
    from scipy.optimize import isotonic_regression

    filtered = median_filter(loss, median, mode="nearest")
    envelope = np.asarray(isotonic_regression(filtered, increasing=False).x)
    scatter = _scatter(envelope, loss - envelope)
    scale = loss[0] if loss[0] > 0 else np.ptp(loss)

    def smallest(level: np.ndarray) -> np.ndarray:
        of = level if relative else np.full_like(level, scale)
        return np.maximum(merge * of, _SIGNIFICANT * scatter(level))

    if envelope[0] - envelope[-1] <= smallest(envelope[[0, -1]]).max():
        middle = int(np.argmin(np.abs(t - 0.5 * (t[0] + t[-1]))))
        return np.array([middle]), np.array([np.nan]), envelope

    edges = _edges(envelope[0], envelope[-1], scatter, bins=bins, relative=relative)
    passage = np.interp(-edges, -envelope, t)
    passage[0], passage[-1] = t[0], t[-1]
    stay, fall = np.diff(passage), -np.diff(edges)
    width = float(np.max(_RESOLUTION * scatter(edges[1:]) / fall))
    if width > 0.1:
        stay = gaussian_filter1d(stay, width, mode="reflect")
    with np.errstate(divide="ignore"):
        rate = fall/np.maximum(stay, 1e-24*stay.max())
    rest = log_rate(rate)
    speed = gaussian_filter1d(rest, smoothing, mode="nearest") if smoothing > 0 else rest

    # The sample in the middle of the stay stands for the step.
    middle = 0.5 * (passage[1:] + passage[:-1])
    sample = np.searchsorted(0.5 * (t[1:] + t[:-1]), middle)
    level = envelope[sample]
    bottoms, drops = split(speed, rest, level, prominence, smallest(level))
    slowest = _slowest(t, envelope, sample[drops], np.maximum(scatter(envelope), _ROUND_OFF*scale))
    valleys = np.log10(np.maximum(slowest/rate.max(), 1e-24))
    return sample[bottoms], strength(speed[drops], valleys), envelope


def _scatter(envelope, residual):
    n = residual.size
    count = min(max(n // 25, 1), 20)
    by_time = np.linspace(0, n, count + 1)[1:-1].astype(int)
    by_level = np.searchsorted(-envelope, -np.linspace(envelope[0], envelope[-1], 21)[1:-1])
    points = []
    for cuts in (by_time, by_level):
        edges = [0]
        for c in cuts:
            if c - edges[-1] >= 25 and n - c >= 25: edges.append(int(c))
        edges.append(n)
        for i, j in itertools.pairwise(edges):
            points.append((envelope[i:j].mean(), 1.4826*np.median(np.abs(residual[i:j]))))
    points.sort()
    hull = []
    for p in points:
        while hull and hull[-1][0] == p[0] and hull[-1][1] <= p[1]: hull.pop()
        if hull and hull[-1][0] == p[0]: continue
        while len(hull) >= 2 and (hull[-1][1]-hull[-2][1])*(p[0]-hull[-2][0]) <= (p[1]-hull[-2][1])*(hull[-1][0]-hull[-2][0]): hull.pop()
        hull.append(p)
    x, y = np.array(hull).T
    return lambda level: np.interp(level, x, y)


def _edges(top, end, scatter, *, bins, relative):
    height = top - end
    left = np.append(0.0, np.geomspace(1e-3 * _FINEST / bins, 1.0, 2000))
    if relative:
        fine = np.log(top / end) / bins * (end / height + left)
    else:
        fine = np.clip(_GRADE * left, _FINEST / bins, 1.0 / bins)
    step = np.maximum(fine, _STEP * scatter(end + height * left) / height)
    z = np.append(0.0, np.cumsum(np.diff(left) * 0.5 * (1 / step[1:] + 1 / step[:-1])))
    n = max(int(np.ceil(z[-1])), 2)
    return end + height * np.interp(np.linspace(z[-1], 0.0, n + 1), z, left)


def _slowest(t, envelope, drops, fall):
    n = len(t)
    target = envelope - fall
    j = np.searchsorted(-envelope, -target)
    found = j < n
    j = np.minimum(j, n-1)
    with np.errstate(divide="ignore", invalid="ignore"):
        r = np.where(found, envelope - envelope[j], fall) / (t[j]-t)
    r[-1] = r[-1] if np.isfinite(r[-1]) else np.inf
    bounds = [0, *drops.tolist(), n - 1]
    return np.array([r[i:j+1].min() for i, j in itertools.pairwise(bounds)])
