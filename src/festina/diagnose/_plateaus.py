"""Find plateaus: where a loss curve rests, at which level, and when it drops to the next one."""

from collections.abc import Generator, Sequence
from numbers import Integral, Real
from typing import Literal, TypeAlias

import numpy as np

from .._checks import real_array
from .._drops import MERGE, PROMINENCE, log_rate, split, strength
from .._types import ArrayLike
from ..dynamics import Trajectory
from ._at_rest import at_rest
from ._passage import Passages, passages
from ._pieces import Denoised, denoised
from ._plateaus_loss import Options, from_loss
from ._plateaus_result import AT_SPEED, Plateaus
from ._rises import between_rises, flanks, lasting_rises, runs

Judging: TypeAlias = Generator[Passages, np.ndarray, Plateaus]


def plateaus(
    times: ArrayLike | Trajectory,
    loss: ArrayLike | None = None,
    squared_gradient: ArrayLike | None = None,
    *,
    slope: ArrayLike | None = None,
    prominence: float = PROMINENCE,
    merge: float = MERGE,
    edge: float = 0.05,
    levels: Literal["linear", "log"] = "linear",
    floor: float = 1e-6,
    bins: int = 1000,
    smoothing: float = 1.5,
    median: int = 9,
) -> Plateaus:
    r"""Return the plateaus of one loss curve, and the drops between them.

    **With gradients.** Along gradient flow the loss falls at the rate
    $r = \lVert \partial L/\partial\theta \rVert^2$. A drop is a peak of $\log_{10} r$ that rises
    at least `prominence` decades above the valleys on both sides; the ends of the record count as
    valleys. A plateau is the sample with the smallest $r$ between two drops. Values of $r$ below
    $10^{-24} \max r$ are round-off and count as equal.

    **From the loss alone**, also for mini-batch training. The curve is replaced by the nearest
    monotone curve (in least squares) and cut into small steps $\Delta L$. The time $\Delta t$
    between the first passages of neighbouring steps gives the rate $r = \Delta L/\Delta t$ as a
    function of the *loss*. The rate is smoothed over `smoothing` steps, and drops are peaks of
    $\log_{10} r$, as with gradients. A plateau is the step with the longest stay between two drops.
    The curve is cut into `bins` steps of equal height. Near the final loss a step is at most a
    twentieth of the remaining fall. With `levels="log"`, the `bins` steps are equal in $\log L$.

    **With noise**, for the loss alone. A curve that scatters is first replaced by straight pieces,
    as few as its scatter allows. The scatter is estimated along the record and as a function of the
    loss. The least-squares fit pays a price for each piece. At this price a straight line in white
    noise is broken in at most one record of twenty. The level of a piece has a standard error,
    which widens steps and smoothing; a drop must exceed four standard errors. Correlated noise is
    treated as larger white noise, if the record is at least twenty correlation times long. A loss
    that is rounded to few decimals has an error of one unit of the last decimal.

    Two tests measured the errors in noise. Four levels with 500 samples each are found in nine of
    ten records if each sample scatters by half of its level (χ² with 8 degrees of freedom). A fall
    without a pause (straight, exponential or a power law) shows a plateau in at most one of twenty
    records.

    **Rises.** A lasting rise, as of a test loss during overfitting or a hump during warm-up, is
    skipped; the printed result mentions it. The fall from a hump is a drop only if it ends lower
    than the hump began, by more than `edge` times the height of the hump.

    **Drops, starts and ends.** A drop by less than `merge` times the initial loss does not count,
    and the plateaus on both sides of it are merged. The time of a drop is the passage of the
    midpoint between the two levels. A plateau starts after all but a fraction `edge` of the drop
    before it, and ends after a fraction `edge` of the drop after it. The first plateau starts and
    the last one ends with the record. The last plateau ends earlier if the loss falls on by too
    little to count as a drop. For the loss alone, a plateau also ends earlier if the loss rises for
    good. A later return of the loss to the plateau's level does not count if it lasts less than a
    tenth of the time spent above the level.

    **Curves without a pause.** There is always a first and a last plateau, except that a curve that
    never falls by `merge` (one sample, a constant, a rising loss) has a single plateau of strength
    NaN. A curve that falls without a pause, such as a straight line, has two plateaus of strength
    zero: its first and its last sample. An exponential decay is fastest at its start, so that its
    first plateau has strength zero. The last plateau has strength zero if the loss approaches its
    level no faster than a power law $t^{-a}$ with $a$ up to 3/2, which never comes to rest. In
    noise, the strength of the last plateau is zero in two cases. Either the best-fitting
    exponential would have strength zero without noise, or the loss still falls in the last three
    quarters of the time since the last drop. The printed result mentions a missing drop, and a
    first or last level at which the loss keeps falling.

    **Arguments:**

    - `times`: times of the samples in any unit, at any spacing, never falling. A sample at the same
      time as the one before it (the padding of a lane) is skipped. Instead of `times` and curves,
      `plateaus` also takes the `Trajectory` of one network. The gradient of a trajectory is used,
      but for mini-batches the loss alone.
    - `loss`: $L$ at these times, in any normalisation.
    - `squared_gradient`: $\lVert\partial L/\partial\theta\rVert^2$ at these times, in any unit.
      Leave out `squared_gradient` for mini-batch training, and for ReLU networks that slide along
      kinks (the run's ending reports this). Mini-batches and kinks make the gradient fluctuate, and
      fluctuations would count as drops.
    - `slope`: $dL/dt$ per unit of `times`, if known. The passage of a level is then interpolated by
      the cubic through values and slopes. Without `slope`, or for a noisy loss without gradients, a
      monotone cubic through values alone is used. For gradient flow the slope is
      `-squared_gradient`. Per step of gradient descent with learning rate $\eta$ the slope is
      $-\eta$ times `squared_gradient`, to first order in $\eta$.
    - `prominence`: smallest height of a peak of the rate above its valleys, in decades.
    - `merge`: smallest drop, as a fraction of the initial loss, or with `levels="log"` of the level
      at which the drop starts.
    - `edge`: fraction of a drop that still belongs to the plateau beside it, below one half.
    - `levels`: `"log"` finds plateaus far below the initial loss: steps are equal in $\log L$, and
      drops are measured relative to the level at which they start.
    - `floor`: with `levels="log"`, losses below this fraction of the initial loss count as equal.
    - `bins`, `smoothing`: number of steps on a clean curve, and width of the Gaussian smoothing in
      steps (loss alone).
    - `median`: width in samples of a running median that removes spikes first (loss alone). A
      sample far from the medians around it is replaced by interpolation between its neighbours. A
      falling curve does not change; 1 switches the median off.

    **Returns:** the `Plateaus`.

    **Example:**

    >>> import numpy as np
    >>> from festina.diagnose import plateaus
    >>> t = np.linspace(0, 20, 401)
    >>> loss = 1 / (1 + np.exp(2 * (t - 5))) + 1 / (1 + np.exp(2 * (t - 14)))
    >>> print(plateaus(t, loss))
    3 plateaus, judged by the loss
           level        from          to  strength   then drops at
          1.9997           0     3.53085      3.72   5.00038
        0.999925     6.47313     12.5285      3.00   14.0001
     1.67014e-05     15.4721          20      4.59

    The default options find the three plateaus of Zhang, Saxe & Latham's Figures 1B and 1D in 200
    of 200 random initialisations, by gradients and by the loss alone. The three plateaus of Figure
    1G are found in 194 of 200 initialisations, because two units may grow together.

    !!! note "When to doubt it"

        Stochastic gradients have a noise floor that hides plateaus: leave them out. With large
        initial weights the loss does not rest at the levels in between, so no plateau is found
        there. A plateau of small `strength` passes its saddle at a distance, and its level differs
        from the saddle's.

        For the loss alone, the slowest rate is measured over the shortest fall that exceeds scatter
        or round-off ($10^{-12}$ of the initial loss). On a clean curve the strength then agrees
        with the strength from gradients to a few tenths of a decade, unless the plateau is flat to
        round-off. With scatter $\sigma$, the strength is a lower bound: it compares the speed
        $\sigma$ over the stay with the speed of the slowest straight drop that fits equally well.
        Strengths are comparable only between curves with the same noise. The strength of the final
        plateau grows with the length of the record. The final strength is NaN if noise hides
        whether the loss rests: an exponential approach is then less than twenty times likelier than
        $(1 + T/s)^{-3/2}$.
    """
    options = Options(prominence, merge, edge, levels, floor, bins, smoothing, median)
    return answered([judged(*_curves(times, loss, squared_gradient, slope), options)])[0]


def answered(asking: Sequence[Judging]) -> list[Plateaus]:
    """Return the plateaus of many curves; the passages of all curves are computed together."""
    found = dict[int, Plateaus]()
    asks = {k: next(each) for k, each in enumerate(asking)}
    while asks:
        answers = zip(list(asks), passages(list(asks.values())), strict=True)
        for k, answer in answers:
            try:
                asks[k] = asking[k].send(answer)
            except StopIteration as end:
                found[k] = end.value
                del asks[k]
    return [found[k] for k in range(len(asking))]


def judged(
    times: ArrayLike,
    loss: ArrayLike,
    squared_gradient: ArrayLike | None,
    slope: ArrayLike | None,
    options: Options,
) -> Judging:
    """Find the plateaus of one curve; yield requests for the times of passages of levels."""
    _check_options(options)
    prominence, merge, edge, levels, floor, _, _, median = options
    t, l, r, dl = _check_curve(times, loss, squared_gradient, slope)  # noqa: E741
    kept = np.flatnonzero(np.diff(t, prepend=-np.inf) > 0)
    t, l = t[kept], l[kept]  # noqa: E741
    dl = None if dl is None else dl[kept]

    scale = l[0] if l[0] > 0 else np.ptp(l)
    relative = levels == "log"
    if relative and l[0] <= 0:
        raise ValueError(
            f"`levels` is 'log' and the loss starts at {l[0]:.3g}, expected a positive loss. "
            "Use `levels='linear'`, or subtract the smallest possible loss."
        )
    curve = np.maximum(l, floor * scale) if relative else l

    risen, scatter = np.zeros(t.size, dtype=bool), np.zeros(t.size)
    if r is not None:
        speed = log_rate(r[kept])
        smallest = merge * (curve if relative else np.full_like(curve, scale))
        index, drops = split(speed, speed, curve, prominence, smallest)
        strengths = strength(speed[drops], speed[index])
    else:
        seen = denoised(t, curve, median)
        scatter = seen.scatter
        least = merge * (seen.curve if relative else np.full_like(curve, scale))
        risen = lasting_rises(curve, seen.curve, least, seen.error)
        flank = flanks(seen.curve, risen, edge)
        least, seen = np.maximum(least, flank), seen._replace(scatter=seen.scatter + flank)
        clock = np.cumsum(np.diff(t, prepend=t[0])[~risen])  # time without the rises
        index, strengths, falling = from_loss(
            clock,
            curve[~risen],
            Denoised(*(each[~risen] for each in seen)),
            least[~risen],
            options,
        )
        index, curve = np.flatnonzero(~risen)[index], falling[np.cumsum(~risen) - 1]
        smooth = np.allclose(curve[~risen], l[~risen], rtol=0.0, atol=1e-12 * scale)
        dl = np.where(risen, 0.0, dl) if smooth and dl is not None else None

    level = curve[index]
    if relative and 0 < l[-1] < floor * scale:  # the final level may lie below the floor
        level[-1] = l[-1]
    last = int(np.flatnonzero(~risen)[-1])
    start, end = np.full(len(level), t[0]), np.full(len(level), t[last])
    fallen = lambda part: level[1:] + part * (level[:-1] - level[1:])
    within = index[:-1], index[1:]
    end[:-1] = yield Passages(t, curve, dl, fallen(1 - edge), *within)
    drop_time = yield Passages(t, curve, dl, fallen(0.5), *within)
    start[1:] = yield Passages(t, curve, dl, fallen(edge), *within, latest=True)
    if len(level) > 1 and strengths[-1] >= AT_SPEED:
        here = np.flatnonzero(~risen & (np.append(t[1:], np.inf) >= drop_time[-1]))
        strengths[-1] *= at_rest(t[here], curve[here], l[here], scatter[here])
    left = level[-1] - curve[last]
    if left > edge * max(level[-1], merge * scale):  # the loss falls on, by too little for a drop
        lower = level[-1:] - edge * left
        end[-1:] = yield Passages(t, curve, dl, lower, index[-1:], np.array([last]))
    start, end = between_rises(t, risen, start, t[index], end)
    return Plateaus(
        level=level,
        index=kept[index],
        time=t[index],
        start=start,
        end=end,
        strength=strengths,
        drop_time=drop_time,
        rises=t[runs(risen) - np.array([0, 1])],
        method="loss" if r is None else "gradient",
    )


def slope_of(lane: Trajectory) -> np.ndarray | None:
    """Return dL/dt on the trajectory's clock, to first order in the learning rate.

    Return None for a mini-batch trajectory, whose slope is not known.
    """
    return None if "batch_size" in lane.settings else lane.slope


def _curves(
    times: ArrayLike | Trajectory,
    loss: ArrayLike | None,
    squared_gradient: ArrayLike | None,
    slope: ArrayLike | None,
) -> tuple[ArrayLike, ArrayLike, ArrayLike | None, ArrayLike | None]:
    """Return times, loss, squared gradient and slope, as given or from the trajectory."""
    if not isinstance(times, Trajectory):
        if loss is None:
            raise ValueError(
                "`plateaus` takes times and losses, plateaus(steps, loss), or the trajectory of "
                "one network. `loss` is missing."
            )
        return times, loss, squared_gradient, slope
    if any(each is not None for each in (loss, squared_gradient, slope)):
        raise ValueError(
            "`loss`, `squared_gradient` and `slope` go with plain times; a trajectory has its own. "
            "To use the loss of a trajectory alone, give plateaus(run.time, run.loss)."
        )
    if times.batch_shape:
        raise ValueError(
            f"`plateaus` takes the trajectory of one network, got {times.batch_shape} of them. "
            "Use `run.lane(0)` for one, or `festina.diagnose.plateaus_of_batch(run)` for all."
        )
    lane = times.lane()
    if lane.endings[0].reason == "diverged":
        raise ValueError(
            f"This run diverged, so its loss shows no plateaus. {lane.endings[0].message}"
        )
    slope = slope_of(lane)
    return lane.time, lane.loss, None if slope is None else lane.squared_gradient, slope


def _check_options(options: Options) -> None:
    wanted = dict(
        prominence=(Real, lambda x: x > 0, "a positive number of decades, as 0.5"),
        merge=(Real, lambda x: 0 <= x < 1, "a fraction of the initial loss, as 1e-3"),
        edge=(Real, lambda x: 0 < x < 0.5, "a fraction between 0 and one half, as 0.05"),
        levels=(str, lambda x: x in ("linear", "log"), '"linear" or "log"'),
        floor=(Real, lambda x: 0 < x < 1, "a fraction of the initial loss, as 1e-6"),
        bins=(Integral, lambda x: x >= 2, "at least two steps, as 1000"),
        smoothing=(Real, lambda x: 0 <= x < np.inf, "a width in bins, 0 for no smoothing"),
        median=(Integral, lambda x: x > 0 and x % 2, "an odd whole number, 1 for no median"),
    )
    for name, (kind, good, words) in wanted.items():
        value = getattr(options, name)
        if isinstance(value, bool) or not isinstance(value, kind) or not good(value):
            raise ValueError(f"`{name}` is {value!r}, expected {words}.")


def _check_curve(
    times: ArrayLike, loss: ArrayLike, squared_gradient: ArrayLike | None, slope: ArrayLike | None
) -> tuple[np.ndarray, np.ndarray, np.ndarray | None, np.ndarray | None]:
    given = {"times": times, "loss": loss, "squared_gradient": squared_gradient, "slope": slope}
    curves = {name: real_array(name, v) for name, v in given.items() if v is not None}
    t = curves["times"]
    for name, values in curves.items():
        if values.ndim != 1:
            raise ValueError(
                f"`{name}` has shape {values.shape}, expected one number per sample. "
                "`plateaus` takes one trajectory: loop over seeds and sweeps."
            )
        if values.shape != t.shape:
            raise ValueError(
                f"`{name}` has {values.size} samples, expected the {t.size} of `times`. "
                "Were these two arrays saved at different intervals?"
            )
        bad = np.flatnonzero(~np.isfinite(values))
        if bad.size:
            raise ValueError(
                f"`{name}` is {values[bad[0]]} at sample {bad[0]}, expected finite numbers. "
                + (
                    "If the run diverged or the record is padded, pass only the first "
                    f"{bad[0]} samples."
                    if bad[0]
                    else "There are no finite samples before it."
                )
            )
    if t.size == 0:
        raise ValueError("`times` and `loss` are empty, expected at least one sample.")
    back = np.flatnonzero(np.diff(t) < 0)
    if back.size:
        i = back[0]
        raise ValueError(
            f"`times` fall from {t[i]:.6g} to {t[i + 1]:.6g} at sample {i + 1}, expected times in "
            "order. Sort the samples with `np.argsort(times)`, or split runs that were joined."
        )
    r = curves.get("squared_gradient")
    if r is not None and r.min() < 0:
        raise ValueError(
            f"`squared_gradient` is {r.min():.3g} at sample {r.argmin()}, expected a squared norm. "
            "If these numbers are dL/dt, pass them as `slope` and their negative as "
            "`squared_gradient`."
        )
    return t, curves["loss"], r, curves.get("slope")
