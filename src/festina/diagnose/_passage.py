"""When a curve passes a level, between samples."""

import math

import numpy as np

from .._types import ArrayLike
from ..networks._given import real_array, real_number


def passage_time(
    time: ArrayLike, loss: ArrayLike, level: float, *, slope: ArrayLike | None = None
) -> float:
    """When the loss first passes `level` on its way down, between samples by a monotone cubic.

    `slope` is dL/dt in the units of `time`, which raises the order of the interpolation by one. NaN
    where the loss starts below the level or never gets there.
    """
    t, values = real_array("time", time), real_array("loss", loss)
    slopes = None if slope is None else real_array("slope", slope)
    given = {"loss": values, "slope": t if slopes is None else slopes}
    for name, curve in given.items():
        if t.ndim != 1 or curve.shape != t.shape:
            raise ValueError(
                f"`time` and `{name}` must be curves of one length, got shapes {t.shape} and "
                f"{curve.shape}."
            )
    if not (np.isfinite(t).all() and (np.diff(t) >= 0).all()):
        raise ValueError("`time` must be finite, and must not fall from sample to sample.")
    level = real_number("level", level)
    below = np.flatnonzero(values <= level)
    if not below.size or below[0] == 0:
        return math.nan
    return passage(t, values, slopes, level, int(below[0]) - 1, int(below[0]))


def passage(
    t: np.ndarray,
    loss: np.ndarray,
    slope: np.ndarray | None,
    level: float,
    first: int,
    last: int,
    *,
    latest: bool = False,
) -> float:
    """When the loss passes `level` on its way down between two samples, first or for good.

    Between neighbouring samples the loss is the cubic through values and slopes. Slopes are kept
    within three times the secant, where the cubic is monotone (de Boor & Swartz, 1977): the
    passage is unique, and the order of convergence is not touched.
    """
    above = loss[first : last + 1] > level
    above[0], above[-1] = True, False  # also where levels differ by round-off only
    j = first + (int(np.flatnonzero(above)[-1]) + 1 if latest else int(np.argmin(above)))
    i = j - 1
    h = t[j] - t[i]
    fall = loss[j] - loss[i]
    with np.errstate(over="ignore", invalid="ignore"):  # times may be as close as floats get
        slopes = [np.nan_to_num(h * _slope_at(t, loss, slope, k)) for k in (i, j)]
    d0, d1 = np.clip(slopes, 3.0 * fall, 0.0).tolist()
    start, end = float(loss[i]), float(loss[j])

    low, high = 0.0, 1.0
    for _ in range(60):
        s = 0.5 * (low + high)
        value = (
            start * (1 + 2 * s) * (1 - s) ** 2
            + d0 * s * (1 - s) ** 2
            + end * s**2 * (3 - 2 * s)
            + d1 * s**2 * (s - 1)
        )
        low, high = (s, high) if value > level else (low, s)
    return float(t[i] + 0.5 * (low + high) * h)


def _slope_at(t: np.ndarray, loss: np.ndarray, slope: np.ndarray | None, k: int) -> float:
    """dL/dt at a sample: as given, or that of the parabola through it and its neighbours."""
    if slope is not None:
        return slope[k]
    if len(t) < 3:
        return (loss[-1] - loss[0]) / (t[-1] - t[0])
    a = min(max(k - 1, 0), len(t) - 3)
    left, right = np.diff(loss[a : a + 3]) / np.diff(t[a : a + 3])
    bend = (right - left) / (t[a + 2] - t[a])
    return left + bend * (2 * t[k] - t[a] - t[a + 1])
