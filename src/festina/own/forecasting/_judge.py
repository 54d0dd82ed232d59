"""Judge a look-ahead: its verdict, its times and their band."""

import contextlib
import math
from collections.abc import Callable
from dataclasses import replace

import numpy as np

from ._budget import ALWAYS, Exhausted
from ._course import HIDDEN, LEFT, Course, Drop
from ._look import Run, Seen, instability, saddle
from ._problem import Problem
from ._result import REHEARSED, Forecast, Verdict
from ._rules import AbstractKnownRule

_COARSER = 2.0  # factor on tolerance and dilation in the coarser look-ahead
_WIDE = 2.0  # factor from the changes by half the data and a coarser look-ahead to the band
_NARROW, _NARROW_IN_BATCHES = 0.05, 0.1  # share of the time added to the band: runs differ
_LONGEST = 3.0  # with half of the samples, the look-ahead ends after this many times `left`
_SETTLING = 0.05  # the loss settles if it falls by more than this share of the drop before it
_RESTLESS = 0.3  # a loss that falls by more than this share without a pause has no staircase
_NOTICED = 1e-3  # noise that holds up the loss by less than this share is not reported
_SOON = 100.0  # training that turns unstable within this many steps is unstable now
_FAR = 0.5  # training is unstable now if its loss falls by a smaller share before instability
_BLOWN_UP = 10.0  # a look-ahead that ends above this multiple of the loss has diverged
_STEADY = 0.3  # a metric moves steadily if a tenth of its change takes a smaller share of `half`

_SADDLE = (
    "the loss decreases in some directions, along which the gradient is zero: a saddle, not a "
    "minimum"
)

Reached = Callable[[Course], float | None]
"""Return the time at which a course has made a tenth of its drop or of its metric's change."""


def result(run: Run, seen: Seen, since: float | None = None) -> Forecast:
    """Return the forecast for a finished look-ahead; further look-aheads give its band.

    `since` is the step since which the loss has rested, if a `Watch` has recorded the run.
    """
    problem, budget, course = run.problem, run.problem.budget, seen.course
    notes = [*problem.notes, *_why_ended(seen, budget.most)]
    budget.most, budget.insist = 2.0 * budget.most, budget.insist or not seen.dear
    said = Forecast(
        "plateau" if seen.drop is not None else _state(seen),
        loss=problem.loss,
        ahead=course.time[-1],
        course=course,
        after=problem.restore(course.weights),
        end=course.end,
        price=budget.price(problem.samples),
        noise=course.noise,
        batch=problem.batch,
        curvature=_curvature(run, seen),
        rehearsed=tuple(seen.rehearsed),
    )
    if seen.drop is None:
        said = _without_drop(said, run, seen, since)
    if said.verdict == "plateau" and seen.saddle:
        notes.append(_SADDLE)
    if run.judge is not None:
        said = _with_metric(said, run)
    elif seen.drop is not None:
        notes += _behind(run, seen, seen.drop)
        said = _with_drop(said, run, seen.drop)
    if said.verdict == "plateau" and since is not None:
        notes.append(f"the loss has rested since step {since:.0f}")
    held_up = _held_up(run, course, said.verdict)
    level, end = None if said.level is None else said.level + held_up, said.end + held_up
    spent = {"gradients": budget.gradients, "cost": budget.steps}
    return replace(said, level=level, end=end, notes=tuple(notes), **spent)


def _why_ended(seen: Seen, most: float) -> list[str]:
    """Return notes on a look-ahead that has ended early."""
    notes, ahead = [], seen.course.time[-1]
    if seen.spent:
        as_dear = ", which costs as much as training" if ahead < 2.0 * most else ""
        notes.append(
            f"all {most:.0f} allowed gradients were spent in looking {ahead:,.0f} steps "
            f"ahead{as_dear}, and later steps are unknown: `max_gradients` allows more"
        )
    if seen.over:
        notes.append(
            f"the learning rate is almost zero after {ahead:,.0f} steps: the weights hardly move "
            "from then on"
        )
    return notes


def _without_drop(said: Forecast, run: Run, seen: Seen, since: float | None) -> Forecast:
    """Return the forecast for a look-ahead without a drop: its verdict, and perhaps a band."""
    verdict, course, ended = said.verdict, seen.course, seen.spent or seen.over
    if run.judge is None and (ended or seen.saddle or since is not None):
        if verdict == "minimum" and ended:
            seen.saddle, _ = saddle(run, course.weights)
        falls = verdict in ("settling", "no staircase", "plateau") and not seen.over
        rests = verdict == "minimum" and seen.saddle
        bound = course.bound()
        if bound is not None and (rests or falls):
            said = replace(said, verdict="plateau", band=(bound, math.inf))
    # Gradients are noisiest early in training, so a short look-ahead does not show a noise floor.
    early = (seen.dear or seen.spent) and said.ahead < ALWAYS
    short = said.verdict == "noise floor" and early
    if short or (seen.dear and said.verdict != "unstable" and not course.resting()):
        return replace(said, verdict="undecided", band=None)
    return said


def _state(seen: Seen) -> Verdict:
    """Return the verdict on a course without a drop, whatever ended the course."""
    course = seen.course
    first, fallen = course.loss[0], course.loss[0] - course.end
    unstable = seen.load is not None or course.oscillates
    if unstable and course.time[-1] < _SOON:
        return "unstable"
    if course.loss[-1] > _BLOWN_UP * max(abs(first), course.scale) > 0.0:
        return "unstable"
    if course.noise > _NOTICED * abs(first) and fallen < HIDDEN * course.noise:
        return "noise floor"
    if unstable and fallen < _FAR * abs(first):
        return "unstable"
    if fallen <= course.seen(first):
        return "plateau" if seen.saddle else "minimum"
    steep = fallen > max(_RESTLESS * abs(first), course.least(first))
    return "no staircase" if steep else "settling"


def _with_metric(said: Forecast, run: Run) -> Forecast:
    """Add the times of the metric to a forecast, if the metric moves."""
    course = said.course
    before, after = course.metric[0], course.metric[-1]
    said = replace(said, metric=(before, after))
    if not course.metric_moved:
        return said
    reached = lambda seen: seen.metric_passage(before, after, LEFT)
    left, half = reached(course), course.metric_passage(before, after, 0.5)
    steady = left is not None and half is not None and left < _STEADY * half
    band = None if left is None else _band(run, reached, left)
    verdict = "no staircase" if steady else "plateau"
    return replace(said, verdict=verdict, left=left, half=half, band=band)


def _with_drop(said: Forecast, run: Run, drop: Drop) -> Forecast:
    """Add the times of a drop to a forecast; the verdict is "settling" if the loss still falls."""
    course = said.course
    reached = lambda seen: seen.passage(int(np.argmin(seen.speed)), LEFT * drop.height)
    left, half = (course.passage(drop.flattest, share * drop.height) for share in (LEFT, 0.5))
    band = None if left is None else _band(run, reached, left)
    if course.loss[0] - drop.above > _SETTLING * drop.height:
        said = replace(said, verdict="settling")
        if band is not None and band[0] <= 0.0:
            return replace(said, end=drop.above)
    times = {"left": left, "half": half, "band": band}
    return replace(said, **times, plateau=drop.above, level=drop.below)


def _behind(run: Run, seen: Seen, drop: Drop) -> list[str]:
    """Return a note if the optimiser is unstable after the drop and loses half of it again."""
    if seen.load is not None or not run.rule.certain:
        return []
    found, losses = instability(run, seen.course)
    half = drop.above - 0.5 * drop.height
    if found is None or (len(losses) == REHEARSED and max(losses) < half):
        return []
    return [
        "after the drop the learning rate is too large for the curvature: the loss rises to "
        f"{max(losses):.4g} in {len(losses)} steps"
    ]


def _held_up(run: Run, course: Course, verdict: Verdict) -> float:
    """Return the height above its level at rest at which noise of mini-batches holds the loss.

    For a run at its noise floor, the noise of the gradients is assumed to stay constant.
    """
    if course.noisy or not course.noise:
        return 0.0
    if verdict == "noise floor":
        return course.noise
    with run.problem.budget.unlimited():
        return min(run.rule.noise_floor(run.problem, course.weights), course.noise)


def _curvature(run: Run, seen: Seen) -> tuple[float, float] | None:
    """Return the largest and the largest stable curvature, if instability ended the look-ahead."""
    rule = run.rule
    if seen.load is None or not isinstance(rule, AbstractKnownRule):
        return None
    limit = rule.bound / rule.pace / run.schedule(seen.course.time[-1])
    return seen.load * limit, limit


def _band(run: Run, reached: Reached, left: float) -> tuple[float, float]:
    """Return the band: twice the change of the time with half the samples and with coarser steps.

    Half of the samples are used for the loss only: with fewer samples, a metric such as test
    accuracy would belong to another run.
    """
    problem, halves = run.problem, [left]
    if run.judge is None and problem.samples > 1:
        halves = [_until(run, half, reached, left) for half in problem.pieces(2)]
    spread = 0.5 * (max(halves) - min(halves))
    if isinstance(run.rule, AbstractKnownRule):
        spread += abs(_until(run, problem, reached, left) - left)
    narrow = (_NARROW if problem.batch is None else _NARROW_IN_BATCHES) * left
    width = _WIDE * spread + narrow
    return max(left - width, 0.0), left + width


def _until(run: Run, problem: Problem, reached: Reached, left: float) -> float:
    """Return when a coarser look-ahead on these samples reaches the point reached at `left`."""
    seen = Course()
    with contextlib.suppress(Exhausted):
        for here in run.ahead(problem, _COARSER):
            seen.add(here, run.judge)
            when = reached(seen)
            if when is not None:
                return when
            if here.time > _LONGEST * left:
                break
    return max([left, *seen.time])
