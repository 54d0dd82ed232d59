"""Find lasting rises of a loss, such as overfitting or divergence, which `plateaus` leaves out."""

import numpy as np
from jaxtyping import Bool, Float, Int

from ._pieces import CERTAIN

_MINOR = 0.01  # smallest rise, as a fraction of the largest one
_BRIEF = 0.1  # shortest rest beside a rise, as a fraction of the duration of the rise


def lasting_rises(
    loss: np.ndarray, curve: np.ndarray, negligible: np.ndarray, error: np.ndarray
) -> Bool[np.ndarray, " sample"]:
    """Return the samples at which a curve lies above its lowest value so far.

    The curve must exceed that value by more than `negligible` and by more than its standard error,
    and somewhere by `CERTAIN` standard errors. The samples of the `loss` must also rise on average,
    because a curve of few pieces overshoots where a drop ends. A rise from the start to the end of
    the record does not count, because it hides no plateau.
    """
    lowest = np.minimum.accumulate(curve)
    above = curve - lowest
    risen = above > np.maximum(np.maximum(negligible, error), _MINOR * above.max())
    for first, end in runs(risen):
        certain = (above > CERTAIN * error)[first:end].any()
        risen[first:end] = certain and loss[first:end].mean() > loss[:first].min()
    comes_back = np.arange(risen.size) < np.max(np.flatnonzero(~risen), initial=-1)
    return risen & ((curve[0] - lowest > negligible) | comes_back)


def runs(marked: np.ndarray) -> Int[np.ndarray, "run 2"]:
    """Return where runs of marked samples begin, and where they end."""
    return np.flatnonzero(np.diff(marked, prepend=False, append=False)).reshape(-1, 2)


def flanks(curve: np.ndarray, risen: np.ndarray, edge: float) -> Float[np.ndarray, " sample"]:
    """Return how far the flank of a rise continues below the level at which the rise begins.

    As for every drop, a fraction `edge` of the height of the rise counts as part of the flank.
    """
    least = np.zeros_like(curve)
    for first, end in runs(risen):
        level = curve[first - 1]
        flank = edge * (curve[first:end].max() - level)
        least[np.abs(curve - level) <= flank] = flank
    return least


def between_rises(
    t: np.ndarray, risen: np.ndarray, start: np.ndarray, rest: np.ndarray, end: np.ndarray
) -> tuple[Float[np.ndarray, " plateau"], Float[np.ndarray, " plateau"]]:
    """Return starts and ends of plateaus, cut where the loss only passes their level at a rise."""
    passes = lambda stay, rise: (stay >= 0) & (stay < _BRIEF * rise)
    inner = [run for run in runs(risen).tolist() if run[1] < t.size]
    for first, stop in inner:
        cut = (t[stop] <= rest) & passes(t[first] - start, t[stop] - t[first])
        start = np.where(cut, t[stop], start)
    for first, stop in reversed(inner):
        cut = (t[first] > rest) & passes(end - t[stop], t[stop] - t[first])
        end = np.where(cut, t[first - 1], end)
    return start, end
