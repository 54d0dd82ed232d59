"""Find drops and plateaus: maxima of the rate of loss decrease, and minima between them."""

import itertools

import numpy as np

# Below this fraction of the largest |∂L/∂θ|², values near a converged fixed point are round-off
# noise, so all of them are treated as equal.
RATE_FLOOR = 1e-24

PROMINENCE = 0.5  # decades by which a drop must rise above the minima of the rate on both sides
MERGE = 1e-3  # smallest loss decrease that counts as a drop, as a fraction of the initial loss


def resting(loss: np.ndarray, rate: np.ndarray, prominence: float = PROMINENCE) -> np.ndarray:
    """Return the samples at plateaus of the loss, including plateaus that differ little in loss."""
    speed = log_rate(rate)
    return split(speed, speed, loss, prominence, np.zeros_like(loss))[0]


def log_rate(r: np.ndarray) -> np.ndarray:
    """Return log₁₀ of the rate relative to its maximum, clipped at the level of round-off."""
    fastest = r.max()
    return np.log10(np.maximum(r / fastest, RATE_FLOOR)) if fastest > 0 else np.zeros_like(r)


def split(
    speed: np.ndarray, rest: np.ndarray, level: np.ndarray, prominence: float, smallest: np.ndarray
) -> tuple[np.ndarray, np.ndarray]:
    """Return the positions of the plateaus and of the drops between them.

    Drops are peaks of `speed`. Between two drops, the plateau is the minimum of `rest`. The size
    of a drop is the difference of `level` between its two plateaus. A drop is removed and its two
    plateaus are merged unless its size exceeds `smallest` on each plateau. The smallest drops are
    removed first.
    """
    tops = _tops(speed, prominence)

    rest = np.round(rest, 9)  # so that round-off does not order the samples of a constant rate
    bounds = [0, *tops, len(speed) - 1]
    lowest = [i + int(np.argmin(rest[i : j + 1])) for i, j in itertools.pairwise(bounds)]
    # If several samples share the last minimum, the final state is the last of them.
    lowest[-1] = int(np.flatnonzero(rest == rest[lowest[-1]])[-1])

    drops, bottoms = np.array(tops), np.array(lowest)
    while drops.size:
        needed = np.maximum(smallest[bottoms[:-1]], smallest[bottoms[1:]])
        excess = -np.diff(level[bottoms]) - needed
        k = int(np.argmin(excess))
        if excess[k] > 0:
            break
        i, j = bottoms[k : k + 2]
        keep_later = rest[j] < rest[i] or (rest[j] == rest[i] and j == bottoms[-1])
        bottoms = np.delete(bottoms, k if keep_later else k + 1)
        drops = np.delete(drops, k)
    return bottoms, drops


def _tops(values: np.ndarray, prominence: float) -> list[int]:
    """Return the peaks whose valleys on both sides are at least `prominence` deep.

    Values beyond both edges count as minus infinity. One pass with hysteresis finds the peaks.
    SciPy's `find_peaks` would keep both of two equal peaks however shallow the valley between them,
    and importing SciPy takes longer than most runs.
    """
    tops: list[int] = []
    top, bottom, rising = 0, 0, True
    way = np.sign(np.diff(values))
    turns = np.flatnonzero(way[1:] * way[:-1] <= 0) + 1  # only turning points can be peaks
    for i in (0, *turns.tolist(), len(values) - 1):
        value = values[i]
        if rising:
            if value > values[top]:
                top = i
            elif values[top] - value >= prominence:
                tops.append(top)
                bottom, rising = i, False
        elif value < values[bottom]:
            bottom = i
        elif value - values[bottom] >= prominence:
            top, rising = i, True
    return [*tops, top] if rising else tops


def strength(peaks: np.ndarray, valleys: np.ndarray) -> np.ndarray:
    """Return the depth of each valley in decades below the lower of its two neighbouring peaks."""
    if not peaks.size:
        return np.array([np.nan])
    beside = np.minimum(np.append(peaks, np.inf), np.insert(peaks, 0, np.inf))
    return np.maximum(beside - valleys, 0.0)
