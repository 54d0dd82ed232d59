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

_COARSER = 2.0  # of tolerance and dilation, to see what they do
_WIDE = 2.0  # the band, in what half the data and a coarser look-ahead change
_NARROW, _NARROW_IN_BATCHES = 0.05, 0.1  # of the time, which is added: batches differ in each run
_LONGEST = 3.0  # how much later than with all samples half of them may leave, before it is given up
_SETTLING = 0.05  # of the drop: if the loss has more than that to fall before it, it settles
_RESTLESS = 0.3  # of the loss: one that falls by more, without a rest, is on no staircase
_NOTICED = 1e-3  # of the loss: noise that holds it up by less is not spoken of
_SOON = 100.0  # steps: training that turns unstable before is so now,
_FAR = 0.5  # and so is training whose loss falls by less than this share before
_BLOWN_UP = 10.0  # times the loss: a look-ahead that ends so high has diverged
_STEADY = 0.3  # of the time to half of the way, to a tenth: .15 to .2 in a fall that only slows

_SADDLE = (
    "the loss falls from here in some directions, and the gradient has no part in them: a saddle, "
    "not a minimum"
)

Reached = Callable[[Course], float | None]
"""When a course reaches what the forecast is about."""


def result(run: Run, seen: Seen, since: float | None = None) -> Forecast:
    """Return the forecast from what was seen; for its band the run is looked ahead of again.

    `since` is the step since when the loss rests, if a `Watch` has recorded that.
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
        as_dear = ", which is as dear as training on" if ahead < 2.0 * most else ""
        notes.append(
            f"all {most:.0f} gradients allowed were spent in looking {ahead:,.0f} steps "
            f"ahead{as_dear}, and what comes behind is not known: `max_gradients` allows more"
        )
    if seen.over:
        notes.append(
            f"the learning rate has all but ended after {ahead:,.0f} steps: the weights "
            "stay as they are then"
        )
    return notes


def _without_drop(said: Forecast, run: Run, seen: Seen, since: float | None) -> Forecast:
    """Judge a look-ahead that has shown no drop: it rests, falls on, or ended too early to say."""
    verdict, course, ended = said.verdict, seen.course, seen.spent or seen.over
    if run.judge is None and (ended or seen.saddle or since is not None):
        if verdict == "minimum" and ended:
            seen.saddle, _ = saddle(run, course.weights)
        falls = verdict in ("settling", "no staircase", "plateau") and not seen.over
        rests = verdict == "minimum" and seen.saddle
        bound = course.bound()
        if bound is not None and (rests or falls):
            said = replace(said, verdict="plateau", band=(bound, math.inf))
    # Gradients are noisiest where there is most to learn: some steps ahead show no floor.
    early = (seen.dear or seen.spent) and said.ahead < ALWAYS
    short = said.verdict == "noise floor" and early
    if short or (seen.dear and said.verdict != "unstable" and not course.resting()):
        return replace(said, verdict="undecided", band=None)
    return said


def _state(seen: Seen) -> Verdict:
    """Return the verdict on a course without a drop, however it has ended."""
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
    """Say when the metric leaves, if it does."""
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
    """Say when the loss drops, or that it still settles too far before the drop to know."""
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
    """Return a note if the optimiser is unstable behind the drop, half of which it loses again."""
    if seen.load is not None or not run.rule.certain:
        return []
    found, losses = instability(run, seen.course)
    half = drop.above - 0.5 * drop.height
    if found is None or (len(losses) == REHEARSED and max(losses) < half):
        return []
    return [
        "behind the drop the learning rate is too large for the curvature: the loss rises to "
        f"{max(losses):.4g} in {len(losses)} steps"
    ]


def _held_up(run: Run, course: Course, verdict: Verdict) -> float:
    """Return by how much the noise of mini-batches holds the loss above where it would rest.

    A run at its noise floor stays where its gradients are as noisy as now.
    """
    if course.noisy or not course.noise:
        return 0.0
    if verdict == "noise floor":
        return course.noise
    with run.problem.budget.unlimited():
        return min(run.rule.noise_floor(run.problem, course.weights), course.noise)


def _curvature(run: Run, seen: Seen) -> tuple[float, float] | None:
    """Largest curvature and the largest that is stable, where that has ended the look-ahead."""
    rule = run.rule
    if seen.load is None or not isinstance(rule, AbstractKnownRule):
        return None
    limit = rule.bound / rule.pace / run.schedule(seen.course.time[-1])
    return seen.load * limit, limit


def _band(run: Run, reached: Reached, left: float) -> tuple[float, float]:
    """Return the band: twice what half of the samples, and coarser steps, change.

    Half of the samples are asked for the loss alone: a metric, as in grokking, is of another run.
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
    """Return when a coarser look-ahead on these samples reaches what was reached at `left`."""
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
