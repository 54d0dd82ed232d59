"""Plateaus of a loss curve alone: how long it stays at each level, as finely as it can be told."""

import functools
import itertools
from collections.abc import Callable

import numpy as np

from .._drops import RATE_FLOOR, log_rate, split, strength
from ._blocks import block_length, by_blocks
from ._scatter import grain, last_digit, scatter_by_level

# What scatter does. Stays are counted at a resolution of _RESOLUTION standard deviations, in steps
# of at least _STEP of them, and of a whole one as long as that is below _COARSE of the height; a
# drop is at least _SIGNIFICANT of them. Found on Zhang, Saxe & Latham's Figures 1B, 1D and 1G with
# white, proportional, correlated and spiky noise.
_RESOLUTION = 0.7
_STEP = 1 / 6
_COARSE = 1 / 200
_SIGNIFICANT = 3.0

# Without scatter: a step is at most _GRADE of what is left to fall, and none is finer than _FINEST
# of the widest. A plateau far below the initial loss is as many steps away from the final one.
_GRADE = 0.05
_FINEST = 0.02

# A fall by less than this fraction of the initial loss is round-off.
_ROUND_OFF = 1e-12

# A curve that scatters by less than this fraction of its height is clean.
_CLEAN = 1e-6

Scatter = Callable[[np.ndarray], np.ndarray]
"""Standard deviation of the noise at a level."""


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
    known: Scatter | None = None,
) -> tuple[np.ndarray, np.ndarray, np.ndarray]:
    """Samples on the plateaus, their strengths, and the monotone curve they were read from.

    The nearest monotone curve in the sense of least squares, not the running minimum: that one
    follows the extremes of the noise, and sinks along a plateau. No plateau is stronger than what
    is `known` of the scatter at its level allows.
    """
    from scipy.ndimage import gaussian_filter1d, median_filter
    from scipy.optimize import isotonic_regression

    filtered = median_filter(loss, median, mode="nearest")
    envelope = np.asarray(isotonic_regression(filtered, increasing=False).x)
    seen, unit = scatter_by_level(envelope, loss - envelope), grain(loss)
    scatter = lambda at: np.maximum(seen(at), unit)
    hidden = lambda at: np.maximum(scatter(at), known(at) if known else 0.0)
    scale = loss[0] if loss[0] > 0 else np.ptp(loss)

    height = envelope[0] - envelope[-1]
    worst = float(np.abs(loss - envelope).max())
    length = block_length(_SIGNIFICANT * float(scatter(envelope[0])), height, t.size)
    if length > 1:
        again = functools.partial(
            from_loss,
            prominence=prominence,
            merge=merge,
            relative=relative,
            bins=bins,
            smoothing=smoothing,
            median=median,
            known=lambda at: hidden(at) / np.sqrt(length),
        )
        return by_blocks(t, loss, length, again)

    def smallest(level: np.ndarray) -> np.ndarray:
        whole = level if relative else np.full_like(level, height)
        # Where samples are few the monotone curve passes through most of them: that they scatter
        # little does not say that a small drop is one.
        unsure = np.minimum(10.0 * worst, 2 * _COARSE * whole)
        least = np.maximum(merge * (level if relative else scale), unsure)
        return np.maximum(least, _SIGNIFICANT * scatter(level))

    if height <= smallest(envelope[[0, -1]]).max():
        middle = int(np.argmin(np.abs(t - 0.5 * (t[0] + t[-1]))))
        return np.array([middle]), np.array([np.nan]), envelope

    edges = _edges(envelope[0], envelope[-1], scatter, bins=bins, relative=relative)
    passage = _passages(t, envelope, edges, _RESOLUTION * scatter(edges))
    stay, fall = np.diff(passage), -np.diff(edges)
    rate = fall / np.maximum(stay, RATE_FLOOR * stay.max())
    rest = log_rate(rate)
    speed = gaussian_filter1d(rest, smoothing, mode="nearest") if smoothing > 0 else rest

    # The sample in the middle of the stay stands for the step.
    middle = 0.5 * (passage[1:] + passage[:-1])
    sample = np.searchsorted(0.5 * (t[1:] + t[:-1]), middle)
    level = envelope[sample]
    bottoms, drops = split(speed, rest, level, prominence, smallest(level))
    bottoms, drops = _without_brief(
        bottoms, drops, speed, level, envelope, scatter, samples=(median + 1) // 2
    )

    told = np.maximum(_ROUND_OFF * scale, last_digit(loss, envelope))
    slowest = _slowest(t, envelope, hidden(envelope), told, sample[drops])
    slowest /= rate.max()
    valleys = np.log10(np.maximum(slowest, RATE_FLOOR))
    return sample[bottoms], strength(speed[drops], valleys), envelope


def _edges(
    top: float,
    end: float,
    scatter: Scatter,
    *,
    bins: int,
    relative: bool,
) -> np.ndarray:
    """Levels from `top` to `end`, as close as the curve can tell them apart.

    With steps of the size $δ(L)$ there are $∫dL/δ$ of them.
    """
    height = top - end
    left = np.append(0.0, np.geomspace(1e-3 * _FINEST / bins, 1.0, 2000))  # to fall, of the height
    if relative:
        step = np.log(top / end) / bins * (end / height + left)
    else:
        step = np.clip(_GRADE * left, _FINEST / bins, 1.0 / bins)
    s = scatter(end + height * left) / height
    step = np.maximum(step, np.maximum(_STEP * s, np.minimum(s, _COARSE)))
    count = np.append(0.0, np.cumsum(0.5 * np.diff(left) * (1 / step[1:] + 1 / step[:-1])))
    steps = max(int(np.ceil(count[-1])), 2)
    return end + height * np.interp(np.linspace(count[-1], 0.0, steps + 1), count, left)


def _passages(
    t: np.ndarray, envelope: np.ndarray, edges: np.ndarray, width: np.ndarray
) -> np.ndarray:
    """First passage of each of the levels `edges`, averaged over a Gaussian of that width in loss.

    Beyond its ends the curve goes on as its image in a point, so that no stay leaks out of it.
    """
    top, end = envelope[0], envelope[-1]
    x = np.linspace(-3.0, 3.0, 31) if np.any(width > 0) else np.zeros(1)
    weight = np.exp(-0.5 * x**2)
    level = edges[:, None] + width[:, None] * x
    inside = np.where(level > top, 2 * top - level, np.where(level < end, 2 * end - level, level))
    time = np.interp(-inside, -envelope, t)
    time = np.where(level > top, 2 * t[0] - time, np.where(level < end, 2 * t[-1] - time, time))
    passage = time @ weight / weight.sum()
    passage[0], passage[-1] = t[0], t[-1]
    return passage


def _without_brief(
    bottoms: np.ndarray,
    drops: np.ndarray,
    speed: np.ndarray,
    level: np.ndarray,
    envelope: np.ndarray,
    scatter: Scatter,
    *,
    samples: int,
) -> tuple[np.ndarray, np.ndarray]:
    """Without plateaus between drops that no more than a few scattered samples speak for.

    On the way down a few of them in the wrong order are enough to look like a stay. The drops on
    both sides become one, the faster.
    """
    height = envelope[0] - envelope[-1]
    for bottom in bottoms[1:-1]:
        deviation = float(scatter(level[bottom]))
        within = max(deviation, _COARSE * height)
        near = np.count_nonzero(np.abs(envelope - level[bottom]) <= within)
        if deviation > _CLEAN * height and near <= samples:
            k = int(np.searchsorted(bottoms, bottom))
            slower = k - 1 + int(np.argmin(speed[drops[k - 1 : k + 1]]))
            bottoms, drops = np.delete(bottoms, k), np.delete(drops, slower)
    return bottoms, drops


def _slowest(
    t: np.ndarray,
    envelope: np.ndarray,
    scatter: np.ndarray,
    round_off: np.ndarray,
    drops: np.ndarray,
) -> np.ndarray:
    """The lowest rate between drops, over the shortest fall that can be told from none.

    A step would be too long for this: at its slowest the curve may fall by far less. Where it
    never falls that far again, the rate is at most that of falling right after the record.
    """
    told = np.maximum(scatter, round_off)
    later = np.searchsorted(-envelope, told - envelope)
    seen = later < t.size
    later = np.minimum(later, t.size - 1)
    # A jump after a rest is no part of it; noise is, of which the monotone curve is made of jumps.
    short = (scatter <= round_off) & (later > np.arange(t.size) + 1)
    end = np.where(short, np.interp(told - envelope, -envelope, t), t[later])
    fall = np.where(short | ~seen, told, envelope - envelope[later])
    rate = np.divide(fall, end - t, out=np.full_like(fall, np.inf), where=end > t)
    # What stands for a drop may rest already, on the plateau after it.
    bounds = [0, *drops.tolist(), t.size]
    return np.array([rate[i : max(j, i + 1)].min() for i, j in itertools.pairwise(bounds)])
