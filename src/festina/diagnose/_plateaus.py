"""Plateaus: where a loss curve rests, at which level, and when it drops to the next one."""

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
    at least `prominence` decades above the valleys beside it, where the ends of the record count
    as valleys; a plateau is the sample with the smallest $r$ between two drops. Values of $r$
    below $10^{-24} \max r$ are round-off and count as equal.

    **From the loss alone**, mini-batch curves included. The curve is replaced by the monotone one
    nearest to it and cut into small steps $\Delta L$; the time $\Delta t$ from the first passage
    of one step to that of the next gives the same rate $r = \Delta L/\Delta t$ as a function of
    the *loss*. Smoothed over `smoothing` steps it is judged as above; a plateau is the step with
    the longest stay between two drops. There are `bins` steps of equal height, but towards the
    final loss a step is at most a twentieth of what is left to fall (with `levels="log"`, `bins`
    equal steps in $\log L$).

    A curve that scatters is first replaced by the fewest straight pieces that its scatter allows.
    The scatter is estimated along the record and as a function of the loss. The pieces are fitted
    by least squares, with a price for each at which a straight line in white noise is broken in no
    more than one record of twenty. A level is then known to the standard error of its piece, which
    widens steps and smoothing, and a drop by less than four of them does not count. Noise that goes
    the same way for some time counts as more of it, if there are twenty such times. Four levels
    with 500 samples each are found in nine records of ten if each sample scatters by half of its
    level (χ² of 8). A fall without a rest, be it straight, exponential or by a power, shows one in
    no more than one record of twenty. Losses written with few decimals are known to a unit of the
    last one.

    A lasting rise, of a test loss that overfits, or the hump of a warm-up, is no part of the
    staircase: its samples are passed over, and the text says so. The fall from a hump is no drop
    if it ends less than `edge` of the hump's height below where that began.

    In both, a drop that takes off less than `merge` of the initial loss is none, and joins the
    plateaus on both sides of it. The time of a drop is when the loss passes the middle between
    the two levels. A trajectory is on a plateau from when it has made all but a fraction `edge`
    of the drop before until it has made that fraction of the drop after; the first plateau starts
    and the last one ends with the record. It ends earlier where the loss falls on, by too little
    to count as a drop, and by the loss alone where that rises for good, or only passes the level
    again, in less than a tenth of the time that it was above it.

    There is always a first and a last plateau. A curve that never falls by `merge` (one sample, a
    constant, a rising loss) has one, of strength NaN. A curve that falls without resting, two
    samples or a straight line, has two of strength zero: where it begins and where it ends. An
    exponential decay is fastest at its very start, so its first plateau alone has strength zero.
    A power law $t^{-a}$ with $a$ up to 3/2 has no time at which it comes to rest: its last plateau
    has strength zero too, as has any that is approached no faster than that after the last drop.
    In noise that is so if the exponential that fits best would have strength zero without noise, or
    if the loss is seen to fall in the last three quarters of the time. Printed, each of them says
    so in words.

    **Arguments:**

    - `times`: when the samples were taken, in any unit and at any spacing, never falling. Samples
      that repeat the time before them (the padding of a lane) are passed over. Or the `Trajectory`
      of one network, which has all the rest: judged by its gradient, along mini-batches by its
      loss alone.
    - `loss`: $L$ at these times, in any normalisation.
    - `squared_gradient`: $\lVert\partial L/\partial\theta\rVert^2$ at these times, in any unit.
      Leave it out along mini-batch descent, and for rectifiers that slide along kinks (their ending
      says so): what shakes the weights shakes their gradient by more than drops do, and every shake
      would count as one.
    - `slope`: $dL/dt$ per unit of `times`, if known; with it the passage of a level is read off the
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
    - `bins`, `smoothing`: number of steps on a clean curve, and the width of the Gaussian in steps
      (loss alone).
    - `median`: samples in a running median taken first, against spikes (loss alone). A sample far
      from the medians around it is replaced by the line between its neighbours. It leaves a
      falling curve as it is; 1 switches it off.

    **Returns:**

    The `Plateaus`.

    The defaults find the three plateaus of Zhang, Saxe & Latham's Figures 1B and 1D in 200 of 200
    initial draws and those of 1G in 194 (two units may grow together), by gradients and by the loss
    alone.

    !!! note "When to doubt it"

        Stochastic gradients have a floor that hides plateaus: leave them out. With large initial
        weights the levels in between exist and the plateaus do not, so none is found. A plateau of
        small `strength` passes its saddle at a distance: its level is not that of the saddle.

        By the loss alone the slowest rate is taken over the shortest fall that can be told from
        scatter, or from round-off ($10^{-12}$ of the initial loss). On a clean curve the strength
        is then that by gradients to some tenths of a decade, unless the plateau is flat to
        round-off. With scatter $\sigma$ it is a lower bound, the decades from $\sigma$ over the
        stay to the speed of the longest straight drop that fits as well: compare strengths of
        curves with the same noise only. The final plateau is as strong as the record is long. If
        noise hides whether the loss rests there, an exponential approach being less than twenty
        times likelier than $(1 + T/s)^{-3/2}$, its strength is NaN.
    """
    options = Options(prominence, merge, edge, levels, floor, bins, smoothing, median)
    return answered([judged(*_curves(times, loss, squared_gradient, slope), options)])[0]


def answered(asking: Sequence[Judging]) -> list[Plateaus]:
    """Return the plateaus of many curves. Their passages are computed together."""
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
    """Find the plateaus of one curve, and ask for the times at which it passes levels."""
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
            "Use `levels='linear'`, or subtract the smallest value the loss can take."
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
        clock = np.cumsum(np.diff(t, prepend=t[0])[~risen])  # it stands still on a rise
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
    if relative and 0 < l[-1] < floor * scale:  # levels end at the floor, the final state does not
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
    if left > edge * max(level[-1], merge * scale):  # it falls on, by too little to count
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
    """dL/dt on the trajectory's clock, to first order in the rate; mini-batches do not tell it."""
    return None if "batch_size" in lane.settings else lane.slope


def _curves(
    times: ArrayLike | Trajectory,
    loss: ArrayLike | None,
    squared_gradient: ArrayLike | None,
    slope: ArrayLike | None,
) -> tuple[ArrayLike, ArrayLike, ArrayLike | None, ArrayLike | None]:
    """What was given, or what a trajectory knows."""
    if not isinstance(times, Trajectory):
        if loss is None:
            raise ValueError(
                "`plateaus` takes times and losses, plateaus(steps, loss), or the trajectory of "
                "one network."
            )
        return times, loss, squared_gradient, slope
    if any(each is not None for each in (loss, squared_gradient, slope)):
        raise ValueError(
            "`loss`, `squared_gradient` and `slope` go with plain times; a trajectory has its own. "
            "To judge it by the loss alone: plateaus(run.time, run.loss)."
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
        levels=(str, lambda x: x in ("linear", "log"), 'either "linear" or "log"'),
        floor=(Real, lambda x: 0 < x < 1, "a fraction of the initial loss, as 1e-6"),
        bins=(Integral, lambda x: x >= 2, "at least two steps, as 1000"),
        smoothing=(Real, lambda x: 0 <= x < np.inf, "a width in bins, 0 for none"),
        median=(Integral, lambda x: x > 0 and x % 2, "an odd whole number, 1 for none"),
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
                "Were the two saved at different intervals?"
            )
        bad = np.flatnonzero(~np.isfinite(values))
        if bad.size:
            raise ValueError(
                f"`{name}` is {values[bad[0]]} at sample {bad[0]}, expected finite numbers. "
                + (
                    f"A run that diverged or a padded record: pass the first {bad[0]} samples."
                    if bad[0]
                    else "Nothing before it can be used."
                )
            )
    if t.size == 0:
        raise ValueError("`times` and `loss` are empty, expected at least one sample.")
    back = np.flatnonzero(np.diff(t) < 0)
    if back.size:
        i = back[0]
        raise ValueError(
            f"`times` fall from {t[i]:.6g} to {t[i + 1]:.6g} at sample {i + 1}, expected the order "
            "of time. Sort the samples with `np.argsort(times)`, or split runs that were joined."
        )
    r = curves.get("squared_gradient")
    if r is not None and r.min() < 0:
        raise ValueError(
            f"`squared_gradient` is {r.min():.3g} at sample {r.argmin()}, expected a squared norm. "
            "If this is dL/dt, pass it as `slope` and its negative here."
        )
    return t, curves["loss"], r, curves.get("slope")
