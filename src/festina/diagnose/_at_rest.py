"""Decide whether a curve comes to rest after its last drop, or keeps falling like a power."""

import numpy as np
from jaxtyping import Float

from ._pieces import ALARM, CERTAIN

_STEEPEST = 1.5  # largest exponent of a power of time that does not come to rest
_FACTORS = (1.5, 2.0)  # ratios of times between which falls are compared
_FEWEST = 8  # smallest number of samples of a noisy curve
_LATE = 0.75  # last fraction of the time since the drop in which a restless curve must fall
_CELLS = 200  # cells of equal ratios of time over which a noisy curve is averaged
_SCALES = 100  # number of time scales that are tried for powers and exponentials


def at_rest(
    t: Float[np.ndarray, " sample"],
    curve: Float[np.ndarray, " sample"],
    loss: Float[np.ndarray, " sample"],
    scatter: Float[np.ndarray, " sample"],
) -> float:
    """Return 1 if a curve comes to rest after the drop with which it begins, else 0.

    Return NaN if the `scatter` of the `loss` around the curve is too large to decide.
    """
    if not scatter.any():
        return float(_clean(t, curve))
    reach = CERTAIN * scatter  # samples further from the curve are spikes
    return _in_noise(t, np.clip(loss, curve - reach, curve + reach), scatter**-2.0)


def _clean(t: Float[np.ndarray, " sample"], curve: Float[np.ndarray, " sample"]) -> bool:
    """Return whether a curve without noise comes to rest.

    Let $T$ be the time since the drop. Whenever $T$ grows by a factor $q$, a power $T^{-a}$ falls
    by $q^{-a}$ times its previous fall. A curve comes to rest if its fall is somewhere less than
    $q^{-a}$ times its previous fall, with $a$ equal to `_STEEPEST`.
    """
    if t.size < 3:
        return t.size == 2 and bool(curve[0] == curve[1])
    elapsed = t - t[0] + (t[1] - t[0])
    for factor in _FACTORS:
        near = lambda times: np.searchsorted(elapsed, times * (1 - 1e-9))
        before, after = near(elapsed / factor), near(elapsed * factor)
        seen = after < elapsed.size
        now, before, after = np.flatnonzero(seen), before[seen], after[seen]
        fallen, then = curve[before] - curve[now], curve[now] - curve[after]
        if (then < factor**-_STEEPEST * fallen).any():
            return True
    return False


def _in_noise(
    t: Float[np.ndarray, " sample"],
    loss: Float[np.ndarray, " sample"],
    weight: Float[np.ndarray, " sample"],
) -> float:
    """Return whether a noisy curve rests, by comparing fits of $e^{-T/s}$ and $(1 + T/s)^{-a}$.

    Each function is fitted with its best level, height and $s$; $a$ is `_STEEPEST`. Suppose that an
    exponential is `ALARM` times likelier from some time on. The curve then rests if this
    exponential would rest without noise. The curve does not rest if it falls in the last `_LATE` of
    the time. If neither test is passed, the result is NaN.
    """
    if t.size < _FEWEST:
        return np.nan
    elapsed = since = t - t[0]
    cells = np.geomspace(elapsed[1], elapsed[-1], _CELLS)
    starts = np.unique(np.append(0, np.searchsorted(elapsed, cells * (1 - 1e-9))))
    total = lambda values: np.add.reduceat(weight * values, starts)
    weight, elapsed, loss = total(1.0), total(elapsed), total(loss)
    elapsed, loss = elapsed / weight, loss / weight

    scale = np.geomspace(elapsed[1], 10 * elapsed[-1], _SCALES)[:, None]
    powers = np.vstack([(1 + elapsed / scale) ** -_STEEPEST, -elapsed])
    doublings = np.log2(elapsed[max(elapsed.size - _FEWEST, 1)] / elapsed[1])
    doubled = elapsed[1] * 2.0 ** np.arange(doublings)
    explained = lambda shapes, first: _explained(shapes, loss[first:], weight[first:])
    better = [
        explained(np.exp((elapsed[first] - elapsed[first:]) / scale), first)
        - explained(powers[:, first:], first).max()
        for first in [0, *np.searchsorted(elapsed, doubled).tolist()]
    ]
    certain, late = 2 * np.log(ALARM), int(np.searchsorted(elapsed, (1 - _LATE) * elapsed[-1]))
    if np.max(better) > certain:
        best = scale[np.argmax(np.max(better, axis=0))]
        return float(_clean(t, np.exp(-since / best)))
    return 0.0 if explained(powers[:, late:], late).max() > certain else np.nan


def _explained(
    shapes: Float[np.ndarray, "shape sample"],
    loss: Float[np.ndarray, " sample"],
    weight: Float[np.ndarray, " sample"],
) -> Float[np.ndarray, " shape"]:
    """Return the weighted sum of squares around the mean that each falling shape explains."""
    off = loss - np.average(loss, weights=weight)
    shapes = shapes - np.average(shapes, axis=-1, weights=weight)[:, None]
    shared, spread = shapes @ (weight * off), shapes**2 @ weight
    return np.maximum(shared, 0.0) ** 2 / np.maximum(spread, 1e-300)
