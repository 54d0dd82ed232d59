"""Look ahead of a run until its loss drops, rests, or turns unstable."""

import contextlib
import math
from collections.abc import Iterator
from dataclasses import dataclass, field, replace

import numpy as np

from ...dynamics._worker import Progress
from ._budget import Exhausted
from ._chebyshev import SAFETY, Ahead, integrate
from ._course import LEAST_OF_ALL, Course, Drop, Judge
from ._curvature import ritz
from ._problem import Problem
from ._result import REHEARSED
from ._rules import AbstractKnownRule, AbstractRule, Schedule
from ._schedules import is_over
from ._sgd import SGD
from ._vectors import Vector

_CERTAIN = 200  # gradients at rest before a test of the curvature, which costs 40 gradients
_EDGE = 1.0 / SAFETY  # share of the largest stable curvature: estimates of curvature are too low
_AGAIN = 1.2  # growth of a stable curvature before the next test of stability
_ZERO, _NUDGE = 1e-2, 0.1  # root mean square of weights close to zero, and of their nudge
_FACTORS = 3  # a product with fewer zero factors has a slope or a curvature
_NUDGED, _LOWER = 200, 1e-3  # gradients after a nudge, and the relative fall of the loss to find
_ROUGH = 0.2  # tolerance of the flow after a nudge, of which only the direction counts


@dataclass(frozen=True)
class Run:
    """A training run for a look-ahead.

    - `problem`: loss and gradient of the weights.
    - `rule`: the optimiser's rule that moves the weights.
    - `schedule`: learning rate as a function of the steps from now, in units of the present rate.
    - `judge`: a metric of the weights.
    """

    problem: Problem
    rule: AbstractRule
    schedule: Schedule
    judge: Judge | None = None

    def ahead(self, problem: Problem, coarser: float = 1.0) -> Iterator[Ahead]:
        """Yield the run ahead on the samples of a problem, with steps `coarser` times longer."""
        return self.rule.ahead(problem, self.schedule, coarser)


@dataclass
class Seen:
    """End of a look-ahead, and its reason.

    - `course`: time, loss and speed along the look-ahead.
    - `drop`: the first drop, if there is one.
    - `load`: largest curvature over the largest stable curvature, if training is unstable.
    - `rehearsed`: losses of the optimiser's own steps from the end of the look-ahead.
    - `saddle`: whether the loss rests at a point of negative curvature.
    - `spent`: whether all allowed gradients were spent.
    - `dear`: whether training itself would have been cheaper, and no drop was found.
    - `over`: whether the schedule has reduced the learning rate to zero.
    """

    course: Course
    drop: Drop | None = None
    load: float | None = None
    rehearsed: list[float] = field(default_factory=list)
    saddle: bool = False
    spent: bool = False
    dear: bool = False
    over: bool = False


def look_until_drop(run: Run, progress: Progress | None = None) -> Seen:
    """Look ahead until the first drop, the end of the metric's change, or the rest of the loss.

    The look-ahead also ends if the optimiser turns unstable or the budget is spent.
    """
    problem, budget = run.problem, run.problem.budget
    seen = Seen(Course(problem.scale, noisy=run.rule.noisy))
    course = seen.course
    tell = progress or (lambda words, share: None)
    price = budget.price(problem.samples)
    tell(f"a gradient takes as long as {price:.3g} steps of the run", 0.0)
    with contextlib.suppress(Exhausted):
        if problem.batch is not None and not budget.insist:
            budget.hopeless = run.rule.reach(problem) < price
        course.noise = run.rule.noise_floor(problem, problem.start)
        _follow(run, seen, tell)
    if not course.time:
        course.add(Ahead(0.0, problem.loss, math.nan, 0.0, problem.start), run.judge)
    seen.dear = budget.dear and seen.drop is None
    if seen.dear and not budget.hopeless and run.rule.certain:
        seen.load, seen.rehearsed = instability(run, course)
    seen.spent = budget.gradients >= budget.most
    seen.over = is_over(run.schedule, course.time[-1])
    return seen


def _follow(run: Run, seen: Seen, tell: Progress) -> None:
    """Add samples to the course until there is a reason to end the look-ahead."""
    problem, budget, course = run.problem, run.problem.budget, seen.course
    rested, steady = None, _EDGE
    for here in run.ahead(problem):
        course.add(here, run.judge)
        budget.ahead, budget.begun = here.time, min(budget.begun, budget.steps)
        tell(f"{here.time:,.0f} steps ahead", min(budget.gradients / budget.most, 1.0))
        if is_over(run.schedule, here.time):
            return
        load = run.schedule(here.time) * here.sharpness
        if load > steady:
            seen.load, seen.rehearsed = instability(run, course)
            if seen.load is not None:
                seen.drop = course.drop(ended=True)
                return
            steady = _AGAIN * max(steady, load)
        seen.drop = course.drop()
        if run.judge is not None:
            if course.metric_rests:
                return
            continue
        no_drop_left = here.loss >= 0.0 and here.loss + here.speed <= LEAST_OF_ALL * course.scale
        if seen.drop is not None or no_drop_left:
            return
        spent = budget.gradients
        rested = None if not course.resting() else spent if rested is None else rested
        if here.speed == 0.0 or (rested is not None and spent - rested > _CERTAIN):
            seen.saddle, leaves = saddle(run, here.weights)
            if not leaves:
                return
            rested = math.inf


def instability(run: Run, course: Course) -> tuple[float | None, list[float]]:
    """Return the curvature over the largest stable one, and losses of steps; None if stable.

    At the edge of stability the curvature fluctuates about the largest stable curvature, and the
    denominators of Adam grow with the gradients. Instability therefore counts only if the loss
    rises. If the curvature is below the limit, instability also requires that the loss is highest
    in the second half of the steps, because oscillations of momentum die out.
    """
    rule, problem = run.rule, run.problem
    if not isinstance(rule, AbstractKnownRule):
        return None, []
    with problem.budget.unlimited():
        faster = run.schedule(course.time[-1])
        found = rule.load(problem, course.weights, faster)
        if not found > _EDGE:
            return None, []
        losses = rule.rehearse(replace(problem, start=course.weights), REHEARSED, faster)
    rises = len(losses) < REHEARSED or max(losses) > losses[0] + course.least(losses[0])
    if found <= 1.0 and len(losses) == REHEARSED:
        rises = rises and int(np.argmax(losses)) >= REHEARSED // 2
    certain = found > 1.0 and rule.certain
    return (found, losses) if rises or certain else (None, [])


def saddle(run: Run, w: Vector) -> tuple[bool, bool]:
    """Return whether weights at rest are at a saddle, and whether the gradient leaves the saddle.

    If three or more layers are zero, both gradient and curvature vanish; the weights then are at a
    saddle if the flow from nearby weights reduces the loss. With weight decay, zero layers are a
    minimum.
    """
    rule, problem = run.rule, run.problem
    with problem.budget.unlimited():
        seen = ritz(rule.decayed(problem), w, problem.random())
        decay = rule.decay(problem)
        zero = lambda part: Vector((part,)).square < _ZERO**2 * math.prod(part.shape)
        free = [zero(part) and not each for part, each in zip(w.parts, decay, strict=True)]
        if seen.saddle or sum(free) < _FACTORS:
            return seen.saddle, seen.leaves
        start = w + problem.random().scaled([_NUDGE * each for each in free])
        before = problem.budget.gradients
        for here in integrate(SGD(1.0, weight_decay=decay).flow(problem), start, tolerance=_ROUGH):
            if here.loss < seen.loss - _LOWER * abs(seen.loss):
                return True, False
            if problem.budget.gradients - before > _NUDGED:
                break
    return False, False
