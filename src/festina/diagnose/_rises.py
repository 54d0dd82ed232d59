"""Where a loss lastingly rises: what overfits, or diverges, is no part of a staircase."""

import numpy as np
from jaxtyping import Bool, Int

from ._scatter import scatter_by_level

_FEW = 3.0  # rises of a curve that is smooth
_MINOR = 0.01  # of the largest
_AVERAGE = 50  # a running mean covers this part of a record on both sides

# A noisy curve rises by this many standard deviations of a sample, and this part of its fall: what
# noise that is slow may do as well is left to the regression.
_CERTAIN = 4.0
_PART = 0.1


def lasting_rises(loss: np.ndarray, median: int, negligible: float) -> Bool[np.ndarray, " sample"]:
    """The samples at which the loss, having fallen, lies above its lowest so far, and lastingly so.

    A smooth curve climbs, in all, no more than a few times its highest rise: every rise counts
    that is not `negligible`. Noise climbs at every other sample. There a rise can be told if its
    running mean is well above the scatter: around the nearest curve that falls and then rises, or
    that falls all the way, where it is a hump.
    Spikes are first taken out by a running median.
    """
    from scipy.ndimage import median_filter

    filtered = median_filter(loss, median, mode="nearest")
    lowest = np.minimum.accumulate(filtered)
    above = filtered - lowest
    climbs = float(np.maximum(np.diff(loss), 0.0).sum())
    if climbs <= _FEW * above.max():
        risen = above > max(negligible, _MINOR * above.max())
        # One from the start to the end hides nothing.
        return risen & ((filtered[0] - lowest > negligible) | _comes_back(risen))
    average = _running_mean(filtered, loss.size // _AVERAGE)
    return _at_the_end(loss, average, negligible) | _in_between(loss, average, negligible)


def runs(marked: np.ndarray) -> Int[np.ndarray, "run 2"]:
    """Where samples that are marked begin, and where they no longer are."""
    return np.flatnonzero(np.diff(marked, prepend=False, append=False)).reshape(-1, 2)


def _comes_back(risen: np.ndarray) -> Bool[np.ndarray, " sample"]:
    """Before the last sample that is not risen."""
    return np.arange(risen.size) < np.max(np.flatnonzero(~risen), initial=-1)


def _in_between(
    loss: np.ndarray, average: np.ndarray, negligible: float
) -> Bool[np.ndarray, " sample"]:
    """Humps of a noisy curve that comes down again."""
    from scipy.optimize import isotonic_regression

    fall = np.asarray(isotonic_regression(average, increasing=False).x)
    # From sample to sample, to which a hump adds nothing, at each level; slow noise all over.
    jitter = scatter_by_level(fall, np.diff(loss, append=loss[-1]) / np.sqrt(2.0))(fall)
    scatter = np.maximum(jitter, max(_deviation(loss - fall), negligible / _CERTAIN))
    above = average - np.minimum.accumulate(average)
    risen = above > scatter
    risen &= _comes_back(risen)
    certain = np.maximum(_CERTAIN * scatter, _PART * (fall[0] - fall[-1]))
    for first, end in runs(risen).tolist():
        risen[first:end] &= (above > certain)[first:end].any()
    return risen


def _deviation(residual: np.ndarray) -> float:
    return 1.4826 * float(np.median(np.abs(residual)))


def _at_the_end(
    loss: np.ndarray, average: np.ndarray, negligible: float
) -> Bool[np.ndarray, " sample"]:
    from scipy.optimize import isotonic_regression

    turn = int(np.argmin(average))
    fall = np.asarray(isotonic_regression(average[: turn + 1], increasing=False).x)
    rise = np.asarray(isotonic_regression(average[turn:], increasing=True).x)
    level = rise[0]
    beside = slice(max(2 * turn - loss.size, 0), None)  # as much before the turn as after it
    off = (loss - np.append(fall[:-1], rise))[beside]
    scatter = max(_deviation(off), negligible / _CERTAIN)
    depth, climb = fall[0] - level, rise[-1] - level
    if min(depth, climb) <= _CERTAIN * scatter or climb <= _PART * depth:
        return np.zeros(loss.size, dtype=bool)
    return np.arange(loss.size) >= turn + int(np.argmax(rise > level + scatter))


def _running_mean(values: np.ndarray, half: int) -> np.ndarray:
    """Over as many samples on both sides, fewer towards the ends: monotone where the values are."""
    total = np.append(0.0, np.cumsum(values))
    at = np.arange(values.size)
    reach = np.minimum(half, np.minimum(at, values.size - 1 - at))
    return (total[at + reach + 1] - total[at - reach]) / (2 * reach + 1)
