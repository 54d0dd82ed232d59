"""Find the plateaus of a loss curve without gradients, from the time it stays at each level."""

import itertools
from collections.abc import Callable
from typing import Literal, NamedTuple

import numpy as np

from .._drops import MERGE, PROMINENCE, RATE_FLOOR, log_rate, split, strength
from ._pieces import CERTAIN, Denoised
from ._scatter import grain, last_digit

# Resolution of noisy curves, with the standard error s of the curve at each level. Passages are
# averaged over _RESOLUTION · s. A step is at least _STEP · s, and at least s as long as s is below
# _COARSE of the height.
_RESOLUTION = 2.0
_STEP = 1 / 6
_COARSE = 1 / 200

# Resolution of clean curves. A step is at most _GRADE of what is left to fall, and at least _FINEST
# of the widest step. This resolves plateaus far below the initial loss.
_GRADE = 0.05
_FINEST = 0.02

_WIDTHS = 40  # number of durations that are tried for a drop
_SURE = 2.0  # standard errors by which noise may hide slow motion or the speed of a drop

# A fall by less than this fraction of the initial loss is round-off.
_ROUND_OFF = 1e-12

Error = Callable[[np.ndarray], np.ndarray]
"""Standard error of the curve at a level."""


class Options(NamedTuple):
    """Options of `plateaus` and their defaults."""

    prominence: float = PROMINENCE
    merge: float = MERGE
    edge: float = 0.05
    levels: Literal["linear", "log"] = "linear"
    floor: float = 1e-6
    bins: int = 1000
    smoothing: float = 1.5
    median: int = 9


def from_loss(
    t: np.ndarray,
    loss: np.ndarray,
    seen: Denoised,
    least: np.ndarray,
    options: Options,
) -> tuple[np.ndarray, np.ndarray, np.ndarray]:
    """Return a sample on each plateau, each plateau's strength, and the monotone fit of the loss.

    The monotone fit is the non-increasing curve with the least squared distance from the loss. The
    running minimum would instead follow the extremes of the noise and sink along a plateau.
    """
    from scipy.ndimage import gaussian_filter1d
    from scipy.optimize import isotonic_regression

    envelope = np.asarray(isotonic_regression(seen.curve, increasing=False).x)
    unit = grain(loss)
    error = lambda at: np.maximum(np.interp(-at, -envelope, seen.error), unit)
    scale = loss[0] if loss[0] > 0 else np.ptp(loss)
    height = envelope[0] - envelope[-1]
    smallest = np.maximum(least, CERTAIN * error(envelope))

    if height <= smallest[[0, -1]].max():
        middle = int(np.argmin(np.abs(t - 0.5 * (t[0] + t[-1]))))
        return np.array([middle]), np.array([np.nan]), envelope

    edges = _edges(envelope[0], envelope[-1], error, options)
    passage = _passages(t, envelope, edges, _RESOLUTION * error(edges))
    stay, fall = np.diff(passage), -np.diff(edges)
    rate = fall / np.maximum(stay, RATE_FLOOR * stay.max())
    rest = log_rate(rate)
    width = options.smoothing
    speed = gaussian_filter1d(rest, width, mode="nearest") if width > 0 else rest

    # The sample in the middle of the stay represents the step.
    middle = 0.5 * (passage[1:] + passage[:-1])
    sample = np.searchsorted(0.5 * (t[1:] + t[:-1]), middle)
    level = envelope[sample]
    bottoms, drops = split(speed, rest, level, options.prominence, smallest[sample])

    told = np.maximum(_ROUND_OFF * scale, last_digit(loss, envelope))
    told = np.maximum(np.maximum(told, unit), seen.scatter)
    # A straight piece that seems level may still fall by this much within its error.
    told = np.maximum(told, np.sqrt(12) * _SURE * seen.error)
    slowest = _slowest(t, envelope, told, sample[drops]) / rate.max()
    peaks, valleys = speed[drops], np.log10(np.maximum(slowest, RATE_FLOOR))
    if seen.error.any():
        noisy = np.clip(loss, envelope - CERTAIN * seen.scatter, envelope + CERTAIN * seen.scatter)
        fastest = _fastest(t, noisy, seen.scatter, envelope, sample[bottoms]) / rate.max()
        peaks = np.minimum(peaks, np.log10(np.maximum(fastest, RATE_FLOOR)))
    return sample[bottoms], strength(peaks, valleys), envelope


def _edges(top: float, end: float, error: Error, options: Options) -> np.ndarray:
    """Return levels from `top` to `end`, as closely spaced as the curve resolves them.

    With steps of size $δ(L)$, the number of steps is $∫dL/δ$.
    """
    height, bins = top - end, options.bins
    # Remaining fall, as a fraction of the height.
    left = np.append(0.0, np.geomspace(1e-3 * _FINEST / bins, 1.0, 2000))
    if options.levels == "log":
        step = np.log(top / end) / bins * (end / height + left)
    else:
        step = np.clip(_GRADE * left, _FINEST / bins, 1.0 / bins)
    s = error(end + height * left) / height
    step = np.maximum(step, np.maximum(_STEP * s, np.minimum(s, _COARSE)))
    count = _steps(left, step)
    steps = max(int(np.ceil(count[-1])), 2)
    return end + height * np.interp(np.linspace(count[-1], 0.0, steps + 1), count, left)


def _steps(at: np.ndarray, size: np.ndarray) -> np.ndarray:
    """Return the integral of 1/`size` from the first point of `at` to each point (trapezoidal)."""
    return np.append(0.0, np.cumsum(0.5 * np.diff(at) * (1 / size[1:] + 1 / size[:-1])))


def _passages(
    t: np.ndarray, envelope: np.ndarray, edges: np.ndarray, width: np.ndarray
) -> np.ndarray:
    """Return the first passage of each level in `edges`, averaged over a Gaussian in the loss.

    `width` is the standard deviation of the Gaussian. Distances between levels are measured in
    widths, so that passages stay in order if the width changes. The curve is continued beyond both
    ends by point reflection, so that no time is lost.
    """
    if not width.all():
        passage = np.interp(-edges, -envelope, t)
        passage[0] = t[0]  # among samples at the first level, interpolation finds the last
        return passage
    u = _steps(-edges, width)
    x = np.linspace(-3.0, 3.0, 31)
    weight = np.exp(-0.5 * x**2)
    at = u[:, None] + x
    above, below = at < 0, at > u[-1]
    inside = np.where(above, -at, np.where(below, 2 * u[-1] - at, at))
    time = np.interp(-np.interp(inside, u, edges), -envelope, t)
    time = np.where(above, 2 * t[0] - time, np.where(below, 2 * t[-1] - time, time))
    passage = time @ weight / weight.sum()
    passage[0], passage[-1] = t[0], t[-1]
    return passage


def _slowest(
    t: np.ndarray, envelope: np.ndarray, told: np.ndarray, drops: np.ndarray
) -> np.ndarray:
    """Return the lowest rate between drops, over the shortest fall that can be detected.

    A step would be too long for this measurement, because at its slowest the curve may fall by much
    less. If the rest of the curve falls by less than the shortest detectable fall, the rate assumes
    that such a fall would follow right after the record.
    """
    stay = np.interp(told - envelope, -envelope, t) - t
    rate = np.divide(told, stay, out=np.full_like(told, np.inf), where=stay > 0)
    # The sample that represents a drop may already belong to the plateau after it.
    bounds = [0, *drops.tolist(), t.size]
    return np.array([rate[i : max(j, i + 1)].min() for i, j in itertools.pairwise(bounds)])


def _fastest(
    t: np.ndarray, loss: np.ndarray, scatter: np.ndarray, envelope: np.ndarray, index: np.ndarray
) -> np.ndarray:
    """Return the rate of each drop between two plateaus, if it lasts as long as the noise allows.

    Straight lines of several durations are fitted to the falling loss of each drop. The
    rate belongs to the longest line whose fit is within `_SURE` standard errors of the best fit. If
    a jump were fitted instead, a drop would seem faster with more noise.
    """
    rates = []
    for first, last in itertools.pairwise(index.tolist()):
        here, top, fall = slice(first, last + 1), envelope[first], envelope[first] - envelope[last]
        middle = np.interp(fall * np.array([0.25, 0.75]) - top, -envelope[here], t[here]).mean()
        after = (t[here] - middle)[:, None]
        lasting = np.geomspace(np.diff(t[here]).min(), 2 * (t[last] - t[first]), _WIDTHS)
        line = top - fall * np.clip(0.5 + after / lasting, 0, 1)
        misfit = np.sum(((loss[here, None] - line) / scatter[here, None]) ** 2, axis=0)
        rates.append(fall / lasting[misfit <= misfit.min() + _SURE**2].max())
    return np.array(rates)
