"""Judge a look-ahead: when it ends, its verdict, and its band."""

import contextlib
import math
from collections.abc import Callable, Iterator
from dataclasses import dataclass, field, replace
from typing import Any

import numpy as np

from ...dynamics._worker import Progress
from ._budget import ALWAYS, Exhausted
from ._chebyshev import SAFETY, Ahead
from ._course import HIDDEN, LEAST_OF_ALL, LEFT, Course, Drop, Judge
from ._every import run_ahead
from ._look import load, look, reach, rehearse, saddle
from ._noise import noise_floor
from ._problem import Problem
from ._result import REHEARSED, Forecast, Verdict
from ._rules import SGD, Adam, Schedule
from ._schedules import is_over
from ._vectors import Vector

_COARSER = 2.0  # of tolerance and dilation, to see what they do
_WIDE = 2.0  # the band, in what half the data and a coarser look-ahead change
_NARROW, _NARROW_IN_BATCHES = 0.05, 0.1  # of the time, which is added to it
_LONGEST = 3.0  # how much later than with all samples half of them may leave, before it is given up
_CERTAIN = 200  # gradients of rest, before curvature is asked whether it is one
_SETTLING = 0.05  # of the drop: if the loss has more than that to fall before it, it settles
_RESTLESS = 0.3  # of the loss: one that falls by more, without a rest, is on no staircase
_NOTICED = 1e-3  # of the loss: noise that holds it up by less is not spoken of
_SOON = 100.0  # steps: training that turns unstable before is so now,
_FAR = 0.5  # and so is training whose loss falls by less than this share before
_BLOWN_UP = 10.0  # times the loss: a look-ahead that ends so high has diverged
_EDGE = 1.0 / SAFETY  # of the largest stable curvature, from which on training may be unstable
_AGAIN = 1.2  # times the curvature that was not unstable, before it is looked at again
_STEADY = (
    0.3  # of the time to half of the way, to a tenth: .15 to .2 in a fall that never speeds up
)

_SADDLE = (
    "the loss falls from here in some directions, and the gradient has no part in them: a saddle, "
    "not a minimum"
)


@dataclass(frozen=True)
class Run:
    """A run to be looked ahead of.

    - `rule`: by which its weights move; `None` for the optimiser itself.
    - `schedule`: its learning rate so many steps from now, in units of the present one.
    - `scale`: the loss without a network.
    """

    rule: SGD | Adam | None
    model: Any
    optimizer: Any
    problem: Problem
    schedule: Schedule | None
    scale: float

    def ahead(self, coarser: float, problem: Problem) -> Iterator[Ahead]:
        """The run ahead on these samples, by steps that are so much coarser."""
        if self.rule is None:
            return run_ahead(self.model, self.optimizer, problem, self.schedule)
        return look(self.rule, problem, coarser, self.schedule)

    def noise(self, w: Vector) -> float:
        return 0.0 if self.rule is None else noise_floor(self.rule, self.problem, w)


@dataclass
class Seen:
    """Where a look-ahead has ended.

    - `course`: its samples.
    - `drop`: the first drop, if there is one.
    - `load`: largest curvature over the largest stable one, if it ended there.
    - `rehearsed`: losses of the optimiser's own steps from there.
    - `saddle`: whether it rests where the loss curves downwards.
    """

    course: Course
    drop: Drop | None = None
    load: float | None = None
    rehearsed: list[float] = field(default_factory=list)
    saddle: bool = False


def look_until_drop(run: Run, now: float, judge: Judge | None, progress: Progress | None) -> Seen:
    """Look ahead until the first drop or the metric's way is made, or the loss, `now`, is at rest.

    The look-ahead also ends where the optimiser turns unstable, and where the budget does.
    """
    problem, budget = run.problem, run.problem.budget
    course = Course(run.scale, noisy=isinstance(run.rule, Adam))
    seen, rested, steady = Seen(course), None, _EDGE
    tell = progress or (lambda words, share: None)
    price = budget.price(problem.samples)
    tell(f"a gradient takes as long as {price:.3g} steps of the run", 0.0)
    with contextlib.suppress(Exhausted):
        if problem.batch is not None and not budget.insist:
            budget.hopeless = reach(run.rule, problem) < price
        course.noise = run.noise(problem.start)
        for here in run.ahead(1.0, problem):
            course.add(here, judge)
            budget.ahead, budget.begun = here.time, min(budget.begun, budget.steps)
            tell(f"{here.time:,.0f} steps ahead", min(budget.gradients / budget.most, 1.0))
            if is_over(run.schedule, here.time):
                break
            faster = 1.0 if run.schedule is None else run.schedule(here.time)
            if faster * here.sharpness > steady:
                with budget.unlimited():
                    seen.load, seen.rehearsed = _instability(run, here.weights, faster, course)
                if seen.load is not None:
                    seen.drop = course.drop(ended=True)
                    break
                steady = _AGAIN * max(steady, faster * here.sharpness)
            seen.drop = course.drop()
            if course.metric_rests if judge else seen.drop is not None:
                break
            if judge is not None:
                continue
            least = LEAST_OF_ALL * course.scale
            if here.loss >= 0.0 and here.loss + here.speed <= least:  # no drop is left that counts
                break
            spent = budget.gradients
            rested = None if not course.resting() else spent if rested is None else rested
            if here.speed == 0.0 or (rested is not None and spent - rested > _CERTAIN):
                with budget.unlimited():
                    seen.saddle, leaves = saddle(run.rule, problem, here.weights)
                if not leaves:
                    break
                rested = math.inf
    if not course.time:
        course.add(Ahead(0.0, now, math.nan, 0.0, problem.start), judge)
    if budget.dear and not budget.hopeless and seen.drop is None and isinstance(run.rule, SGD):
        with budget.unlimited():
            faster = 1.0 if run.schedule is None else run.schedule(course.time[-1])
            seen.load, seen.rehearsed = _instability(run, course.weights, faster, course)
    return seen


def _instability(
    run: Run, w: Vector, faster: float, course: Course
) -> tuple[float | None, list[float]]:
    """Curvature over the largest stable one, and the losses of some steps, if it is unstable.

    At the edge of stability the curvature fluctuates about the stable one, and the denominators of
    Adam grow with its gradients: there instability counts if the loss rises. Below the limit it
    must rise higher in the second half of the steps, because oscillations of momentum die out.
    """
    assert run.rule is not None
    found = load(run.rule, run.problem, w, faster)
    if not found > _EDGE:
        return None, []
    losses = rehearse(run.rule, replace(run.problem, start=w), REHEARSED, faster)
    rises = len(losses) < REHEARSED or max(losses) > losses[0] + course.least(losses[0])
    if found <= 1.0 and len(losses) == REHEARSED:
        rises = rises and int(np.argmax(losses)) >= REHEARSED // 2
    certain = found > 1.0 and isinstance(run.rule, SGD)
    return (found, losses) if rises or certain else (None, [])


def _without_drop(seen: Seen) -> Verdict:
    """The verdict where no drop was seen ahead."""
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


def result(run: Run, seen: Seen, now: float, judge: Judge | None, since: float | None) -> Forecast:
    """The verdict on what was seen, and the band, for which the run is looked ahead of again."""
    problem, budget, course, drop = run.problem, run.problem.budget, seen.course, seen.drop
    notes, most, end = problem.notes, budget.most, course.end
    gave_up, over = budget.gradients >= most, is_over(run.schedule, course.time[-1])
    dear = budget.dear and drop is None
    verdict: Verdict = "plateau" if drop is not None else _without_drop(seen)
    left = half = band = reached = ends = None
    if gave_up:
        as_dear = ", which is as dear as training on" if course.time[-1] < 2.0 * most else ""
        notes.append(
            f"all {most:.0f} gradients allowed were spent in looking {course.time[-1]:,.0f} steps "
            f"ahead{as_dear}, and what comes behind is not known: `max_gradients` allows more"
        )
    if over:
        notes.append(
            f"the learning rate has all but ended after {course.time[-1]:,.0f} steps: the weights "
            "stay as they are then"
        )
    budget.most, budget.insist = 2.0 * most, budget.insist or not dear
    falls = verdict in ("settling", "no staircase", "plateau")
    if drop is None and judge is None and (gave_up or over or seen.saddle or since is not None):
        bound = course.bound()
        if verdict == "minimum" and (gave_up or over):
            with budget.unlimited():
                seen.saddle, _ = saddle(run.rule, problem, course.weights)
        rests = verdict == "minimum" and seen.saddle
        if bound is not None and (rests or (falls and not over)):
            verdict, band = "plateau", (bound, math.inf)
    # Gradients are noisiest where there is most to learn: some steps ahead show no floor.
    short = verdict == "noise floor" and (dear or gave_up) and course.time[-1] < ALWAYS
    if short or (dear and verdict != "unstable" and not course.resting()):
        verdict, band = "undecided", None
    if verdict == "plateau" and seen.saddle:
        notes.append(_SADDLE)
    if judge is not None:
        drop, ends = None, (course.metric[0], course.metric[-1])
        if course.metric_moved:
            reached = lambda seen: seen.metric_passage(*ends, LEFT)
            left, half = reached(course), course.metric_passage(*ends, 0.5)
            steady = left is not None and half is not None and left < _STEADY * half
            verdict = "no staircase" if steady else "plateau"
    elif drop is not None:
        fall = LEFT * drop.height
        reached = lambda seen: seen.passage(int(np.argmin(seen.speed)), fall)
        left, half = (course.passage(drop.flattest, share * drop.height) for share in (LEFT, 0.5))
        if course.loss[0] - drop.above > _SETTLING * drop.height:
            verdict = "settling"
        notes += _behind(run, seen, drop.above - 0.5 * drop.height)
    if left is not None and reached is not None:
        spread = _spread(run, judge, reached, left)
        spread += (_NARROW if problem.batch is None else _NARROW_IN_BATCHES) * left
        band = max(left - spread, 0.0), left + spread
        if verdict == "settling" and band[0] <= 0.0:  # too far behind the fall to be known
            end = drop.above if drop is not None else end
            drop = left = half = band = None
    if verdict == "plateau" and since is not None:
        notes.append(f"it rests since step {since:.0f}")
    held_up = 0.0
    if course.noise and not course.noisy:
        # A run at its noise floor stays where its gradients are as noisy as now.
        with budget.unlimited():
            there = course.noise if verdict == "noise floor" else run.noise(course.weights)
            held_up = min(there, course.noise)
    return Forecast(
        verdict,
        left,
        half,
        band,
        now,
        drop and drop.above,
        drop and drop.below + held_up,
        ends,
        course.time[-1],
        budget.gradients,
        tuple(notes),
        course,
        problem.restore(course.weights),
        end=end + held_up,
        cost=budget.steps,
        price=budget.price(problem.samples),
        noise=course.noise,
        batch=problem.batch,
        curvature=_curvature(run, seen),
        rehearsed=tuple(seen.rehearsed),
    )


def _behind(run: Run, seen: Seen, half: float) -> list[str]:
    """Return a note if the optimiser is unstable behind the drop, half of which it loses again."""
    course = seen.course
    if seen.load is not None or not isinstance(run.rule, SGD):
        return []
    with run.problem.budget.unlimited():
        faster = 1.0 if run.schedule is None else run.schedule(course.time[-1])
        found, losses = _instability(run, course.weights, faster, course)
    if found is None or (len(losses) == REHEARSED and max(losses) < half):
        return []
    return [
        "behind the drop the learning rate is too large for the curvature: the loss rises to "
        f"{max(losses):.4g} in {len(losses)} steps"
    ]


def _curvature(run: Run, seen: Seen) -> tuple[float, float] | None:
    """Largest curvature and the largest that is stable, where that has ended the look-ahead."""
    if seen.load is None or run.rule is None:
        return None
    faster = 1.0 if run.schedule is None else run.schedule(seen.course.time[-1])
    limit = run.rule.bound / run.rule.pace / faster
    return seen.load * limit, limit


def _spread(
    run: Run, judge: Judge | None, reached: Callable[[Course], float | None], left: float
) -> float:
    """Half the width of the band: twice what half of the samples, and coarser steps, change.

    Half of the samples are asked for the loss alone: a metric, as in grokking, is of another run.
    """

    def until(problem: Problem) -> float:
        seen = Course()
        with contextlib.suppress(Exhausted):
            for here in run.ahead(_COARSER, problem):
                seen.add(here, judge)
                when = reached(seen)
                if when is not None:
                    return when
                if here.time > _LONGEST * left:
                    break
        return max([left, *seen.time])

    problem, halves = run.problem, [left]
    if judge is None and problem.samples > 1:
        halves = [until(half) for half in problem.pieces(2)]
    spread = 0.5 * (max(halves) - min(halves))
    return _WIDE * (spread + (abs(until(problem) - left) if run.rule is not None else 0.0))
