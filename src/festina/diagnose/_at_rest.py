"""Whether a curve comes to rest after its last drop, or falls on without a time of its own."""

import numpy as np
from jaxtyping import Float

from ._pieces import ALARM, CERTAIN

_STEEPEST = 1.5  # exponent of a power of time that does not come to rest
_FACTORS = (1.5, 2.0)  # by which time grows between falls to compare
_FEWEST = 8  # samples of a noisy curve that are compared with powers
_LATE = 0.75  # of the time since the drop, in which a curve that does not rest falls
_CELLS = 200  # of equal ratios of time, over which a noisy curve is averaged
_SCALES = 100  # times that are tried, of powers and exponentials


def at_rest(
    t: Float[np.ndarray, " sample"],
    curve: Float[np.ndarray, " sample"],
    loss: Float[np.ndarray, " sample"],
    scatter: Float[np.ndarray, " sample"],
) -> float:
    """Return 1 if a curve comes to rest after the drop that it begins with, else 0.

    NaN if the `scatter` of the `loss` around the curve hides whether it does.
    """
    if not scatter.any():
        return float(_clean(t, curve))
    reach = CERTAIN * scatter  # beyond which a sample is a spike
    return _in_noise(t, np.clip(loss, curve - reach, curve + reach), scatter**-2.0)


def _clean(t: Float[np.ndarray, " sample"], curve: Float[np.ndarray, " sample"]) -> bool:
    """Whether a curve without noise comes to rest.

    A power $T^{-a}$ of the time $T$ since the drop falls by $q^{-a}$ of the fall before whenever
    $T$ grows by a factor $q$. A curve that rests falls by less, for `_STEEPEST` as $a$, somewhere.
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
    r"""Compare the likelihoods of $e^{-T/s}$ and $(1 + T/s)^{-a}$, with `_STEEPEST` as $a$.

    Each at its best level, height and $s$. If an exponential is `ALARM` times likelier from some
    time on, the curve rests if this exponential would rest without noise. It does not rest if it is
    seen to fall in the last `_LATE` of the time.
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
    """Return the weighted squares around the mean that each of some falling shapes explains."""
    off = loss - np.average(loss, weights=weight)
    shapes = shapes - np.average(shapes, axis=-1, weights=weight)[:, None]
    shared, spread = shapes @ (weight * off), shapes**2 @ weight
    return np.maximum(shared, 0.0) ** 2 / np.maximum(spread, 1e-300)
