"""A curve that scatters by much of its fall, as averages over blocks of samples."""

import math
from collections.abc import Callable

import numpy as np

# Where a fall by _FINE of the whole cannot be told from scatter, blocks are as long as it takes to
# tell it, but there are at least _BLOCKS of them, or drops would have no times.
_FINE = 0.15
_BLOCKS = 80

Judged = tuple[np.ndarray, np.ndarray, np.ndarray]


def block_length(told: float, height: float, samples: int) -> int:
    """Samples in a block for a curve of which falls by more than `told` are seen."""
    if height <= 0 or told <= _FINE * height:
        return 1
    wanted = math.ceil((told / (_FINE * height)) ** 2)
    return min(wanted, max(samples // _BLOCKS, 1))


def by_blocks(
    t: np.ndarray, loss: np.ndarray, length: int, judge: Callable[[np.ndarray, np.ndarray], Judged]
) -> Judged:
    """What `judge` finds in the averages, told of the samples: their middles and a curve."""
    starts = np.arange(0, t.size - length + 1, length)
    bounds = np.append(starts, t.size)
    middle = (bounds[:-1] + bounds[1:] - 1) // 2
    average = np.add.reduceat(loss, starts) / np.diff(bounds)
    index, strengths, envelope = judge(t[middle], average)
    return middle[index], strengths, np.interp(t, t[middle], envelope)
