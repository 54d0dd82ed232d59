"""Where a rate of change peaks and where it rests: drops, and the plateaus between them."""

import itertools

import numpy as np

# Round-off makes |∂L/∂θ|² at a converged fixed point a lottery: below this fraction of its maximum
# all values count as equal.
RATE_FLOOR = 1e-24

PROMINENCE = 0.5  # decades by which a drop stands out above the valleys beside it
MERGE = 1e-3  # smallest drop that counts in training, as a fraction of the initial loss


def resting(loss: np.ndarray, rate: np.ndarray, prominence: float = PROMINENCE) -> np.ndarray:
    """Samples at which a loss that falls at this rate rests, however little it falls in between."""
    speed = log_rate(rate)
    return split(speed, speed, loss, prominence, np.zeros_like(loss))[0]


def log_rate(r: np.ndarray) -> np.ndarray:
    """log₁₀ of the rate relative to the fastest, cut off where it is round-off."""
    fastest = r.max()
    return np.log10(np.maximum(r / fastest, RATE_FLOOR)) if fastest > 0 else np.zeros_like(r)


def split(
    speed: np.ndarray, rest: np.ndarray, level: np.ndarray, prominence: float, smallest: np.ndarray
) -> tuple[np.ndarray, np.ndarray]:
    """Positions of the plateaus and of the drops between them.

    Drops are judged by `speed`, plateaus are where `rest` is smallest between them, and a drop
    that lowers `level` by no more than the `smallest` at either end is undone, the least first.
    """
    tops = _tops(speed, prominence)

    rest = np.round(rest, 9)  # a constant rate is constant up to round-off
    bounds = [0, *tops, len(speed) - 1]
    lowest = [i + int(np.argmin(rest[i : j + 1])) for i, j in itertools.pairwise(bounds)]
    # Of many samples at rest the last one is the final state.
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
    """Peaks with valleys at least `prominence` deep on both sides; beyond the edges all is low.

    One pass with hysteresis. SciPy's `find_peaks` calls each of two equal peaks prominent however
    shallow the valley between them, and importing it takes longer than most runs.
    """
    tops: list[int] = []
    top, bottom, rising = 0, 0, True
    way = np.sign(np.diff(values))
    turns = np.flatnonzero(way[1:] * way[:-1] <= 0) + 1  # between them nothing is decided
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
    """Decades from each valley to the lower of the peaks beside it."""
    if not peaks.size:
        return np.array([np.nan])
    beside = np.minimum(np.append(peaks, np.inf), np.insert(peaks, 0, np.inf))
    return np.maximum(beside - valleys, 0.0)
