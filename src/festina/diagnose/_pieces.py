"""Fit a noisy curve by straight pieces, as few as its scatter allows, with standard errors."""

from typing import NamedTuple

import numpy as np
from jaxtyping import Float, Int

from ._scatter import scatter_by_level

ALARM = 20  # a straight line in white noise is broken in at most one of this many records
CERTAIN = 4.0  # standard errors that a drop or a rise must exceed
_SPIKE = 4.0  # standard deviations from the running median beyond which a sample is a spike
_FEW = 3.0  # largest total climb of a smooth curve, in units of its highest rise
_CLEAN = 1e-5  # a curve that scatters by less than this fraction of its height is clean
_CELLS = 400  # cells over the record, and over its height; pieces can only break between cells
_ENOUGH = 20  # smallest number of averages from which their scatter is estimated
_NEAR = 9  # samples in the shortest stretch of constant noise
_STRETCH = 25  # samples in the running median of log |noise|
_FAR = 1.5  # deviation of log |noise| from its running median at which it is clipped
# Mean of the clipped log |z| for Gaussian z, and the standard deviation of long averages of it for
# second differences, which are correlated.
_LOG_MEAN, _LOG_SPREAD = -0.52, 1.2


class Denoised(NamedTuple):
    """Curve without its noise, the standard error of the curve, and the scatter of each sample.

    - `curve`: the curve.
    - `error`: its standard error.
    - `scatter`: standard deviation of a single sample, as if the noise were white.
    """

    curve: Float[np.ndarray, " sample"]
    error: Float[np.ndarray, " sample"]
    scatter: Float[np.ndarray, " sample"]


class _Fit(NamedTuple):
    """Straight lines fitted to stretches of a curve, and the remaining sum of squares of each."""

    weight: np.ndarray
    middle: np.ndarray
    mean: np.ndarray
    spread: np.ndarray
    slope: np.ndarray
    misfit: np.ndarray


def denoised(t: np.ndarray, loss: np.ndarray, median: int) -> Denoised:
    """Return the curve without spikes, and without noise if it scatters."""
    from scipy.optimize import isotonic_regression

    filtered = _running_median(loss, median)
    fall = np.asarray(isotonic_regression(filtered, increasing=False).x)
    height = np.ptp(filtered)
    scatter = 0 * fall
    if t.size > 2:
        off = _off_neighbours(t, loss)
        scatter = np.maximum(_scatter(off, _CLEAN * height / 2), scatter_by_level(fall, off)(fall))
    if median > 1:
        loss = _off_spikes(t, loss, filtered, _SPIKE * scatter)
    climbs = np.maximum(np.diff(loss), 0.0).sum()
    rise = (loss - np.minimum.accumulate(loss)).max()
    noise = scatter[1:][np.diff(loss) > 0].max(initial=0.0)  # on a fall, curvature looks like noise
    if climbs <= _FEW * rise or noise <= _CLEAN * height:
        return Denoised(_running_median(loss, median), 0 * fall, 0 * fall)

    even = np.arange(t.size) / t.size + (fall[0] - fall) / max(fall[0] - fall[-1], height)
    starts = np.flatnonzero(np.diff(np.floor(_CELLS * even), prepend=-1.0))
    return _straight_pieces(t, loss, np.maximum(scatter, _CLEAN * height), starts)


def _running_median(values: np.ndarray, width: int) -> np.ndarray:
    """Return the median around each value; the ends are repeated beyond the ends."""
    from scipy.ndimage import median_filter

    # SciPy before 1.16.3 returns zeros for longer windows.
    return median_filter(values, min(width, 2 * len(values) + 1), mode="nearest")


def _off_spikes(
    t: np.ndarray, loss: np.ndarray, filtered: np.ndarray, far: np.ndarray
) -> np.ndarray:
    """Return the curve, interpolated wherever it is further than `far` from the medians around it.

    The medians repeat a value beside each spike. On a drop such a repetition would look like a
    plateau, so that interpolation is used instead.
    """
    from scipy.ndimage import maximum_filter1d, minimum_filter1d

    high, low = maximum_filter1d(filtered, 3), minimum_filter1d(filtered, 3)
    high[-1] = np.median(loss[-3:])  # the running median at the end is the last sample itself
    near = (loss <= high + far) & (loss >= low - far)
    return np.interp(t, t[near], loss[near])


def _scatter(off: Float[np.ndarray, " sample"], least: float) -> Float[np.ndarray, " sample"]:
    """Return the standard deviation of the noise at each sample, robust to spikes.

    The logarithm of the noise is fitted by straight pieces in the same way as the curve.
    """
    from scipy.ndimage import maximum_filter1d, median_filter

    if not off.any():
        return np.zeros_like(off)
    size = np.log(np.maximum(np.abs(off), max(least, 1e-300) * np.exp(_LOG_MEAN)))
    usual = median_filter(size, min(_STRETCH, 2 * size.size + 1))
    size = np.clip(size, usual - _FAR, usual + _FAR)
    cells = int(np.clip(size.size // _NEAR, 1, _CELLS))
    starts = np.linspace(0, size.size, cells, endpoint=False).astype(int)
    index = np.arange(float(size.size))
    found = _straight_pieces(index, size, np.full_like(size, _LOG_SPREAD), starts).curve
    return maximum_filter1d(np.exp(found - _LOG_MEAN), _NEAR, mode="nearest")


def _off_neighbours(t: np.ndarray, loss: np.ndarray) -> np.ndarray:
    """Return each sample's distance from the line between its neighbours, in units of noise.

    The distance is scaled so that for white noise it scatters as much as a single sample.
    """
    part = (t[1:-1] - t[:-2]) / (t[2:] - t[:-2])
    off = loss[1:-1] - (1 - part) * loss[:-2] - part * loss[2:]
    return np.pad(off / np.sqrt(1 + part**2 + (1 - part) ** 2), 1, mode="edge")


def _slowness(t: np.ndarray, noise: np.ndarray) -> float:
    """Return the factor by which averages scatter more than averages of unit white noise.

    An excess of the averages' scatter counts only if it is at least two standard errors.
    """
    scatters = []
    for power in range(max(int(np.log2(t.size / _ENOUGH)), 0) + 1):
        length = 2**power
        off = _off_neighbours(*(_means(each, length) for each in (t, noise)))
        off = np.sqrt(length) * np.abs(off)
        off = np.minimum(off, _SPIKE * max(1.0, 1.4826 * float(np.median(off))))
        scatter = float(np.sqrt(np.mean(off**2)))
        certain = scatter * (1 - np.sqrt(2 * length / t.size)) > 1  # by two standard errors
        scatters.append(scatter if certain else 1.0)
    return max(scatters) / scatters[0]


def _means(values: np.ndarray, length: int) -> np.ndarray:
    return values[: values.size // length * length].reshape(-1, length).mean(axis=1)


def _straight_pieces(
    t: np.ndarray, loss: np.ndarray, scatter: np.ndarray, starts: Int[np.ndarray, " cell"]
) -> Denoised:
    r"""Fit straight pieces by least squares, with a price for each break.

    A break adds two parameters. Without a true break, two more parameters lower the sum of squares
    by more than $x$ variances with probability $e^{-x/2}$. With $x = 2\ln(n\cdot$`ALARM`$)$ a false
    break is found at one of $n$ samples in at most one of `ALARM` records.
    """
    price = 2 * np.log(ALARM * t.size)
    x, weight = (t - t[0]) / (t[-1] - t[0]) - 0.5, scatter**-2.0
    moments = np.stack([weight * a for a in (np.ones_like(x), x, loss, x * x, x * loss, loss**2)])
    total = np.pad(np.cumsum(np.add.reduceat(moments, starts, axis=1), axis=1), ((0, 0), (1, 0)))
    with np.errstate(all="ignore"):  # some entries stand for pieces that end before they begin
        misfit = _fit(total[:, :, None] - total[:, None, :]).misfit

    def found(slowness: float) -> Denoised:
        breaks = _breaks(misfit / slowness**2, price)
        first = starts[breaks[:-1]]
        ends = np.stack([first, np.append(first[1:], t.size) - 1], axis=1)
        fit = _fit(np.diff(total[:, breaks], axis=1) / slowness**2)
        at, value = _ends(fit, x[ends], price)
        curve = np.interp(x, at.ravel(), value.ravel())
        error = np.repeat(fit.weight**-0.5, ends[:, 1] - first + 1)
        return Denoised(curve, error, slowness * scatter)

    slowness, pieces = 1.0, found(1.0)
    # Pieces follow correlated noise; refit with larger noise until the residuals are consistent.
    while (told := _slowness(t, (loss - pieces.curve) / scatter)) > 1.1 * slowness:
        slowness, pieces = told, found(told)
    return pieces


def _breaks(misfit: Float[np.ndarray, "cell cell"], price: float) -> list[int]:
    """Return where the pieces of the cheapest fit begin, and where the last one ends."""
    best, before = np.zeros(len(misfit)), [0] * len(misfit)
    for end in range(1, len(misfit)):
        cost = best[:end] + misfit[end, :end]
        before[end] = int(np.argmin(cost))
        best[end] = cost[before[end]] + price
    breaks = [len(misfit) - 1]
    while breaks[-1]:
        breaks.append(before[breaks[-1]])
    return breaks[::-1]


def _ends(
    fit: _Fit, ends: Float[np.ndarray, "piece 2"], price: float
) -> tuple[Float[np.ndarray, "piece 2"], Float[np.ndarray, "piece 2"]]:
    """Return the values of pieces at both ends, with a slope of zero if the slope may be chance.

    A piece keeps its slope if it would otherwise come apart from its neighbour.
    """
    slope = np.where(fit.slope**2 * fit.spread > price / 2, fit.slope, 0.0)
    torn = _joined(fit, ends, slope, price)[2] & ~_joined(fit, ends, fit.slope, price)[2]
    for k in np.flatnonzero(torn):
        shorter = k + int(np.argmin(fit.weight[k : k + 2]))
        slope[shorter] = fit.slope[shorter]
    return _joined(fit, ends, slope, price)[:2]


def _joined(
    fit: _Fit, ends: np.ndarray, slope: np.ndarray, price: float
) -> tuple[Float[np.ndarray, "piece 2"], Float[np.ndarray, "piece 2"], np.ndarray]:
    """Return where pieces end, their values there, and which pieces come apart.

    Pieces come apart if the jump between them exceeds the price of a break and has the sign of the
    difference of their means. (A line through a bend overshoots at both ends.) All other pieces
    meet halfway between two samples.
    """
    middle = (ends[:-1, 1] + ends[1:, 0]) / 2
    at = np.stack([np.append(ends[0, 0], middle), np.append(middle, ends[-1, 1])], axis=1)

    def values(at: np.ndarray) -> tuple[np.ndarray, np.ndarray]:
        reach = at - fit.middle[:, None]
        spread = np.where(slope != 0, fit.spread, np.inf)
        return (
            fit.mean[:, None] + slope[:, None] * reach,
            1 / fit.weight[:, None] + reach**2 / spread[:, None],
        )

    value, variance = values(at)
    (left, right), (before, after) = ((a[:-1, 1], a[1:, 0]) for a in (value, variance))
    jump = right - left
    apart = (jump**2 > price * (before + after)) & (jump * np.diff(fit.mean) > 0)
    meet = (left * after + right * before) / (before + after)
    for joined, torn, shared in ((value, values(ends)[0], meet), (at, ends, middle)):
        joined[:-1, 1] = np.where(apart, torn[:-1, 1], shared)
        joined[1:, 0] = np.where(apart, torn[1:, 0], shared)
    return at, value, apart


def _fit(moments: np.ndarray) -> _Fit:
    """Fit a line by the weighted sums of 1, x, y, x², xy and y²."""
    w, wx, wy, wxx, wxy, wyy = moments
    middle, mean = wx / w, wy / w
    spread = np.maximum(wxx - wx * middle, 1e-12 * w)
    shared = wxy - wx * mean
    slope = shared / spread
    return _Fit(w, middle, mean, spread, slope, np.maximum(wyy - wy * mean - shared * slope, 0.0))
