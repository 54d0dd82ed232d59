"""Plateaus: where a loss curve rests, at which level, and when it drops to the next one."""

import itertools
import math
from dataclasses import dataclass
from typing import TYPE_CHECKING, Literal

import numpy as np
from jaxtyping import Float, Int
from numpy.typing import ArrayLike

if TYPE_CHECKING:
    import xarray as xr

# Round-off makes |∂L/∂θ|² at a converged fixed point a lottery: below this fraction of its maximum
# all values count as equal.
_RATE_FLOOR = 1e-24

# What scatter does to the method without gradients. Stays are counted at a resolution of
# _RESOLUTION standard deviations, and a drop is at least _SIGNIFICANT of them. Found on Zhang, Saxe
# & Latham's Figures 1B, 1D and 1G with white, proportional, correlated and spiky noise.
_RESOLUTION = 0.7
_SIGNIFICANT = 3.0


@dataclass(frozen=True, eq=False)
class Plateaus:
    """The plateaus of one trajectory, the initial and the final one included.

    There are $K$ plateaus and $K - 1$ drops between them, in the order of time, with strictly
    falling levels. Times are in the units of the `time` that was given.

    - `level`: loss at each plateau.
    - `index`: the sample that stands for it, counted in the arrays that were given.
    - `time`: the time of that sample.
    - `start`, `end`: the trajectory is on the plateau between these; see `plateaus`.
    - `strength`: decades by which it moves more slowly there than at the slower of the two
      neighbouring drops (the only one, for the first and the last plateau). Zero says that the
      record begins or ends within a drop; NaN that there is no drop to compare with.
    - `drop_time`: when the loss passes the middle between two adjacent levels.
    - `method`: what slowness was judged by, `"gradient"` or `"loss"`.
    """

    level: Float[np.ndarray, " plateau"]
    index: Int[np.ndarray, " plateau"]
    time: Float[np.ndarray, " plateau"]
    start: Float[np.ndarray, " plateau"]
    end: Float[np.ndarray, " plateau"]
    strength: Float[np.ndarray, " plateau"]
    drop_time: Float[np.ndarray, " drop"]
    method: Literal["gradient", "loss"]

    def __len__(self) -> int:
        return len(self.level)

    @property
    def duration(self) -> Float[np.ndarray, " plateau"]:
        """How long the trajectory stays on each plateau."""
        return self.end - self.start

    def __str__(self) -> str:
        count = f"{len(self)} plateau{'s' if len(self) != 1 else ''}, judged by the {self.method}"
        rows = [f"{'level':>12} {'from':>11} {'to':>11} {'strength':>9}   then drops at"]
        drops = [f"{drop:.6g}" for drop in self.drop_time] + [""]
        for k, drop in enumerate(drops):
            rows.append(
                f"{self.level[k]:12.6g} {self.start[k]:11.6g} {self.end[k]:11.6g} "
                f"{self.strength[k]:9.2f}   {drop}".rstrip()
            )
        return "\n".join([count, *rows])

    def to_dataset(self) -> "xr.Dataset":
        """The same numbers as an `xarray.Dataset` with the dimensions `plateau` and `drop`."""
        import xarray as xr

        names = ("level", "index", "time", "start", "end", "strength")
        return xr.Dataset(
            {name: ("plateau", getattr(self, name)) for name in names}
            | {"drop_time": ("drop", self.drop_time)},
            coords={
                "plateau": np.arange(len(self)),
                "drop": np.arange(len(self) - 1),
            },
            attrs={"method": self.method},
        )


def plateaus(
    time: ArrayLike,
    loss: ArrayLike,
    squared_gradient: ArrayLike | None = None,
    *,
    slope: ArrayLike | None = None,
    prominence: float = 0.5,
    merge: float = 1e-3,
    edge: float = 0.05,
    levels: Literal["linear", "log"] = "linear",
    floor: float = 1e-6,
    bins: int = 200,
    smoothing: float = 1.5,
    median: int = 9,
) -> Plateaus:
    r"""Plateaus of one loss curve, and the drops between them.

    **With gradients.** Along gradient flow the loss falls at the rate
    $r = \lVert \partial L/\partial\theta \rVert^2$. A drop is a peak of $\log_{10} r$ that rises
    at least `prominence` decades above the valleys beside it, where the ends of the record count
    as valleys; a plateau is the sample with the smallest $r$ between two drops. Values of $r$
    below $10^{-24} \max r$ are round-off and count as equal.

    **From the loss alone**, mini-batch curves included. The curve is replaced by the monotone one
    nearest to it and cut into `bins` steps $\Delta L$; the time $\Delta t$ from the first passage
    of one step to that of the next gives the rate $r = \Delta L/\Delta t$ as a function of the
    *loss*. Smoothed over `smoothing` bins it is judged as above; a plateau is the step with the
    longest stay between two drops. Its level is known to one step, or to the scatter of the curve
    where that is larger: scatter widens the smoothing, and drops within it do not count.

    In both, a drop that takes off less than `merge` of the initial loss is none, and joins the
    plateaus on both sides of it. The time of a drop is when the loss passes the middle between
    the two levels. A trajectory is on a plateau from when it has made all but a fraction `edge`
    of the drop before until it has made that fraction of the drop after; the first plateau starts
    and the last one ends with the record.

    There is always a first and a last plateau: an exponential decay is fastest at its very start,
    so it has two, the first of strength zero. A curve that never falls by `merge` (one sample, a
    constant, a rising loss) has one.

    **Arguments:**

    - `time`: when the samples were taken, in any unit and at any spacing, never falling. Samples
      that repeat the time before them (the padding of a lane) are passed over.
    - `loss`: $L$ at these times, in any normalisation.
    - `squared_gradient`: $\lVert\partial L/\partial\theta\rVert^2$ at these times, in any unit.
    - `slope`: $dL/dt$ per unit of `time`, if known; with it the passage of a level is read off the
      cubic through values and slopes, without it (or on a curve with noise, when judged by the
      loss) off a monotone one through values alone. On the
      clock of the flow it is `-squared_gradient`; per step of descent at the rate $\eta$ it is
      $-\eta$ times that, to first order in $\eta$.
    - `prominence`: how many decades a drop stands out.
    - `merge`: smallest drop, as a fraction of the initial loss, or for `levels="log"` of the level
      it starts from.
    - `edge`: fraction of a drop that still belongs to the plateau beside it, below one half.
    - `levels`: `"log"` looks for plateaus far below the initial loss: steps are equal in
      $\log L$, and drops are measured against the level they start from.
    - `floor`: with `levels="log"`, losses below this fraction of the initial one count as equal.
    - `bins`, `smoothing`: number of steps, and the width of the Gaussian in steps (loss alone).
    - `median`: samples in a running median taken first, against spikes (loss alone). It leaves a
      monotone curve as it is; 1 switches it off.

    **Returns:**

    The `Plateaus`.

    The defaults find the three plateaus of Zhang, Saxe & Latham's Figures 1B and 1D in 200 of 200
    initial draws and those of 1G in 194 (two units may grow together); 200, 200 and 192 by the loss
    alone.

    !!! note "When to doubt it"

        Stochastic gradients have a floor that hides plateaus: leave them out. With large initial
        weights the levels in between exist and the plateaus do not, so none is found. A plateau of
        small `strength` passes its saddle at a distance: its level is not that of the saddle.
        The final plateau is as strong as the record is long when judged by the loss.
    """
    _check_options(prominence, merge, edge, levels, floor, bins, smoothing, median)
    t, l, r, dl = _check_curve(time, loss, squared_gradient, slope)  # noqa: E741
    kept = np.flatnonzero(np.diff(t, prepend=-np.inf) > 0)
    t, l = t[kept], l[kept]  # noqa: E741
    dl = None if dl is None else dl[kept]

    # A level is a place on the axis x: the loss itself, or its logarithm above the floor.
    scale = l[0] if l[0] > 0 else np.ptp(l)
    if levels == "linear":
        x, smallest = l, merge * scale
    elif l[0] > 0:
        x, smallest = np.log(np.maximum(l, floor * scale)), -math.log1p(-merge)
    else:
        raise ValueError(
            f"`levels` is 'log' and the loss starts at {l[0]:.3g}, expected a positive loss. "
            "Use `levels='linear'`, or subtract the smallest value the loss can take."
        )

    if r is not None:
        speed = _log_rate(r[kept])
        index, drops = _split(speed, speed, x, prominence, smallest)
        strength, curve = _strength(speed, index, drops), l
    else:
        index, strength, curve = _from_loss(
            t, x, prominence, smallest, bins=bins, smoothing=smoothing, median=median
        )
        if levels == "log":
            curve = np.exp(curve)
        if not np.allclose(curve, l, rtol=0.0, atol=1e-12 * scale):
            dl = None

    level = curve[index]
    if levels == "log":  # levels end at the floor, the final state does not
        level[-1] = min(level[-1], l[-1]) if l[-1] > 0 else level[-1]
    start, end = np.full(len(level), t[0]), np.full(len(level), t[-1])
    drop_time = np.empty(len(level) - 1)
    for k, (i, j) in enumerate(itertools.pairwise(index.tolist())):
        after, middle, before = level[k + 1] + np.array([1 - edge, 0.5, edge]) * (
            level[k] - level[k + 1]
        )
        end[k] = _passage(t, curve, dl, after, i, j)
        drop_time[k] = _passage(t, curve, dl, middle, i, j)
        start[k + 1] = _passage(t, curve, dl, before, i, j, latest=True)
    return Plateaus(
        level=level,
        index=kept[index],
        time=t[index],
        start=start,
        end=end,
        strength=strength,
        drop_time=drop_time,
        method="loss" if r is None else "gradient",
    )


def passage_time(
    time: ArrayLike, loss: ArrayLike, level: float, *, slope: ArrayLike | None = None
) -> float:
    """When the loss first passes `level` on its way down, between samples by a monotone cubic.

    `slope` is dL/dt in the units of `time`, which raises the order of the interpolation by one. NaN
    where the loss starts below the level or never gets there.
    """
    t, values = np.asarray(time, dtype=float), np.asarray(loss, dtype=float)
    below = np.flatnonzero(values <= level)
    if not below.size or below[0] == 0:
        return math.nan
    slopes = None if slope is None else np.asarray(slope, dtype=float)
    return _passage(t, values, slopes, level, int(below[0]) - 1, int(below[0]))


def _log_rate(r: np.ndarray) -> np.ndarray:
    """log₁₀ of the rate relative to the fastest, cut off where it is round-off."""
    fastest = r.max()
    return np.log10(np.maximum(r / fastest, _RATE_FLOOR)) if fastest > 0 else np.zeros_like(r)


def _split(
    speed: np.ndarray, rest: np.ndarray, x: np.ndarray, prominence: float, smallest: float
) -> tuple[np.ndarray, np.ndarray]:
    """Positions of the plateaus and of the drops between them.

    Drops are judged by `speed`, plateaus are where `rest` is smallest between them, and a drop
    that does not lower `x` by more than `smallest` is undone, the least one first.
    """
    tops = _tops(speed, prominence)

    rest = np.round(rest, 9)  # a constant rate is constant up to round-off
    bounds = [0, *tops, len(speed) - 1]
    lowest = [i + int(np.argmin(rest[i : j + 1])) for i, j in itertools.pairwise(bounds)]
    # Of many samples at rest the last one is the final state.
    lowest[-1] = int(np.flatnonzero(rest == rest[lowest[-1]])[-1])

    drops, bottoms = np.array(tops), np.array(lowest)
    while drops.size:
        removed = -np.diff(x[bottoms])
        k = int(np.argmin(removed))
        if removed[k] > smallest:
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
    for i, value in enumerate(values.tolist()):
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


def _strength(speed: np.ndarray, bottoms: np.ndarray, drops: np.ndarray) -> np.ndarray:
    """Decades from each valley to the lower of the peaks beside it."""
    if not drops.size:
        return np.array([np.nan])
    peaks = speed[drops]
    beside = np.minimum(np.append(peaks, np.inf), np.insert(peaks, 0, np.inf))
    return np.maximum(beside - speed[bottoms], 0.0)


def _from_loss(
    t: np.ndarray,
    x: np.ndarray,
    prominence: float,
    smallest: float,
    *,
    bins: int,
    smoothing: float,
    median: int,
) -> tuple[np.ndarray, np.ndarray, np.ndarray]:
    """Samples on the plateaus, their strengths, and the monotone curve they were read from.

    The nearest monotone curve in the sense of least squares, not the running minimum: that one
    follows the extremes of the noise, and sinks along a plateau.
    """
    from scipy.ndimage import gaussian_filter1d, median_filter
    from scipy.optimize import isotonic_regression

    filtered = median_filter(x, median, mode="nearest")
    envelope = np.asarray(isotonic_regression(filtered, increasing=False).x)
    scatter = _scatter(x - envelope)
    smallest = max(smallest, _SIGNIFICANT * scatter)

    height = envelope[0] - envelope[-1]
    if height <= smallest:
        middle = int(np.argmin(np.abs(t - 0.5 * (t[0] + t[-1]))))
        return np.array([middle]), np.array([np.nan]), envelope
    edges = np.linspace(envelope[0], envelope[-1], bins + 1)
    passage = np.interp(-edges, -envelope, t)
    passage[0], passage[-1] = t[0], t[-1]
    stay = np.diff(passage)
    width = _RESOLUTION * scatter * bins / height
    if width > 0.1:
        stay = gaussian_filter1d(stay, width, mode="reflect")
    rest = _log_rate(1.0 / np.maximum(stay, _RATE_FLOOR * stay.max()))
    speed = gaussian_filter1d(rest, smoothing, mode="nearest") if smoothing > 0 else rest

    # The sample in the middle of the stay stands for the step.
    middle = 0.5 * (passage[1:] + passage[:-1])
    sample = np.searchsorted(0.5 * (t[1:] + t[:-1]), middle)
    bottoms, drops = _split(speed, rest, envelope[sample], prominence, smallest)
    return sample[bottoms], _strength(speed, bottoms, drops), envelope


def _scatter(residual: np.ndarray) -> float:
    """Standard deviation of the noise where it is largest, blind to spikes."""
    pieces = np.array_split(np.abs(residual), min(max(residual.size // 25, 1), 20))
    return 1.4826 * max(float(np.median(piece)) for piece in pieces)


def _passage(
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
    d0, d1 = np.clip(slopes, 3.0 * fall, 0.0)

    low, high = 0.0, 1.0
    for _ in range(60):
        s = 0.5 * (low + high)
        value = (
            loss[i] * (1 + 2 * s) * (1 - s) ** 2
            + d0 * s * (1 - s) ** 2
            + loss[j] * s**2 * (3 - 2 * s)
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


def _check_options(
    prominence: float,
    merge: float,
    edge: float,
    levels: str,
    floor: float,
    bins: int,
    smoothing: float,
    median: int,
) -> None:
    for name, value, good, wanted in (
        ("prominence", prominence, prominence > 0, "a positive number of decades, such as 0.5"),
        ("merge", merge, 0 <= merge < 1, "a fraction of the initial loss, such as 1e-3"),
        ("edge", edge, 0 < edge < 0.5, "a fraction between 0 and one half, such as 0.05"),
        ("levels", levels, levels in ("linear", "log"), 'either "linear" or "log"'),
        ("floor", floor, 0 < floor < 1, "a fraction of the initial loss, such as 1e-6"),
        ("bins", bins, bins >= 2, "at least two steps, such as 200"),
        ("smoothing", smoothing, smoothing >= 0, "a width in bins, such as 1.5, or 0 for none"),
        ("median", median, median >= 1 and median % 2 == 1, "an odd number of samples, 1 for none"),
    ):
        if not good:
            raise ValueError(f"`{name}` is {value!r}, expected {wanted}.")


def _check_curve(
    time: ArrayLike,
    loss: ArrayLike,
    squared_gradient: ArrayLike | None,
    slope: ArrayLike | None,
) -> tuple[np.ndarray, np.ndarray, np.ndarray | None, np.ndarray | None]:
    given = {"time": time, "loss": loss, "squared_gradient": squared_gradient, "slope": slope}
    curves = {name: np.asarray(v, dtype=float) for name, v in given.items() if v is not None}
    t = curves["time"]
    for name, values in curves.items():
        if values.ndim != 1:
            raise ValueError(
                f"`{name}` has shape {values.shape}, expected one number per sample. "
                "`plateaus` takes one trajectory: loop over seeds and sweeps."
            )
        if values.shape != t.shape:
            raise ValueError(
                f"`{name}` has {values.size} samples, expected the {t.size} of `time`. "
                "Were the two saved at different intervals?"
            )
        bad = np.flatnonzero(~np.isfinite(values))
        if bad.size:
            raise ValueError(
                f"`{name}` is {values[bad[0]]} at sample {bad[0]}, expected finite numbers. "
                f"A run that diverged or a padded record: pass the first {bad[0]} samples."
            )
    if t.size == 0:
        raise ValueError("`time` and `loss` are empty, expected at least one sample.")
    back = np.flatnonzero(np.diff(t) < 0)
    if back.size:
        i = back[0]
        raise ValueError(
            f"`time` falls from {t[i]:.6g} to {t[i + 1]:.6g} at sample {i + 1}, expected the order "
            "of time. Sort the samples with `np.argsort(time)`, or split runs that were joined."
        )
    r = curves.get("squared_gradient")
    if r is not None and r.min() < 0:
        raise ValueError(
            f"`squared_gradient` is {r.min():.3g} at sample {r.argmin()}, expected a squared norm. "
            "If this is dL/dt, pass it as `slope` and its negative here."
        )
    return t, curves["loss"], r, curves.get("slope")
