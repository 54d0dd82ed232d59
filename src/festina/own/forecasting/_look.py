"""A run ahead of itself, by the cheapest means that its rule allows."""

import itertools
import math
from collections.abc import Iterator
from dataclasses import replace

from ._chebyshev import MOST_STAGES, Ahead, integrate
from ._curvature import FEW_PRODUCTS, Gradient, ritz
from ._dilated import dilate
from ._problem import Problem
from ._rules import SGD, Adam, Schedule, parts
from ._schedules import strides
from ._steps import Steps
from ._vectors import Vector

_TOLERANCE = 0.2  # of a step of the flow, relative to the step
_DILATION = 4.0  # of Adam's clock, and twice that once it has cost as many gradients as this
_PATIENCE = 100
_OF_BEST = 1 / 3  # of the longest step: shorter ones are taken first, and some are given up
_ZERO, _NUDGE = 1e-2, 0.1  # root mean square of weights that are all but zero, and of their nudge
_FACTORS = 3  # a product of fewer that are zero has a slope or a curvature
_NUDGED, _LOWER = 200, 1e-3  # gradients to see what follows, and by how much of it the loss falls
_SHARES, _FEWEST_PRODUCTS = 4, 8  # of samples, and of Lanczos: a rough curvature is enough


def look(
    rule: SGD | Adam, problem: Problem, coarser: float, schedule: Schedule | None
) -> Iterator[Ahead]:
    """The run ahead, in steps of the optimiser: gradient flow for SGD, a dilated clock for Adam.

    `coarser` multiplies the tolerance of the flow, or the dilation.
    """
    if isinstance(rule, Adam):
        return _adam(rule, problem, coarser * _DILATION, schedule)
    return _descent(rule, problem, coarser * _TOLERANCE, schedule)


def load(
    rule: SGD | Adam,
    problem: Problem,
    w: Vector,
    rate: float = 1.0,
    *,
    products: int = FEW_PRODUCTS,
) -> float:
    """Largest curvature over the largest that is stable by this rule, `rate` times as fast.

    Before its first step Adam has no denominators yet, and is not judged.
    """
    if isinstance(rule, Adam) and not (rule.moments and rule.step):
        return 0.0
    gradient = decayed(rule, problem)
    _, g = gradient(w)
    root = rule.rates(g * g).with_(lambda a: a**0.5)
    seen = ritz(gradient, w, problem.random(), root=root, products=products)
    return rate * float(seen.values[-1]) / rule.bound


def reach(rule: SGD | Adam | None, problem: Problem) -> float:
    r"""Steps of the run that a gradient can be expected to look ahead.

    A Chebyshev step of $s$ stages reaches $\tfrac23 s^2$ inverse curvatures at best, and a third of
    that over a look-ahead. Adam's clock is dilated, and an optimiser that runs itself makes one
    step. The curvature is measured on a share of the samples.
    """
    if rule is None:
        return 1.0
    if isinstance(rule, Adam):
        return _DILATION
    some = next(problem.pieces(_SHARES))
    stiff = rule.bound * load(rule, some, problem.start, products=_FEWEST_PRODUCTS)
    return _OF_BEST * 0.65 * MOST_STAGES / stiff if stiff > 0.0 else math.inf


def saddle(rule: SGD | Adam | None, problem: Problem, w: Vector) -> tuple[bool, bool]:
    """Whether weights at rest are at a saddle, and whether the gradient leads away from it.

    Where three layers or more are zero, the gradient vanishes and so does the curvature. Whether
    that is a saddle is seen from weights nearby, from where the loss falls below its level or not.
    Weight decay makes it a minimum.
    """
    seen = ritz(decayed(rule, problem), w, problem.random())
    decay = parts(getattr(rule, "weight_decay", 0.0), len(problem.names))
    zero = lambda part: Vector((part,)).square < _ZERO**2 * math.prod(part.shape)
    free = [zero(part) and not each for part, each in zip(w.parts, decay, strict=True)]
    if seen.saddle or sum(free) < _FACTORS:
        return seen.saddle, seen.leaves
    start = w + problem.random().scaled([_NUDGE * each for each in free])
    before = problem.budget.gradients
    for here in integrate(
        _flow(SGD(1.0, weight_decay=decay), problem), start, tolerance=_TOLERANCE
    ):
        if here.loss < seen.loss - _LOWER * abs(seen.loss):
            return True, False
        if problem.budget.gradients - before > _NUDGED:
            break
    return False, False


def rehearse(rule: SGD | Adam, problem: Problem, steps: int, rate: float) -> list[float]:
    """Losses of the optimiser's own steps on all samples, until one is not finite."""
    whole = replace(problem, batch=None)
    if isinstance(rule, Adam):
        course = dilate(rule, whole, lambda _: 1.0, lambda _: rate)
        return [here.loss for here in itertools.islice(course, steps)]
    field, w, losses = _flow(rule, whole), whole.start, []
    own = Steps(rule, field, None, lambda: rate)
    loss, f = field(w)
    while math.isfinite(loss) and len(losses) < steps:
        losses.append(loss)
        _, w, loss, f = own(w, f)
    return losses


def decayed(rule: SGD | Adam | None, problem: Problem) -> Gradient:
    """Loss and gradient with the weight decay that a rule adds to it."""
    if rule is None:
        return problem
    decay = parts(rule.weight_decay, len(problem.names))
    if not any(decay) or (isinstance(rule, Adam) and rule.decoupled):
        return problem

    def gradient(w: Vector) -> tuple[float, Vector]:
        loss, g = problem(w)
        return loss, g + w.scaled(decay)

    return gradient


def _flow(rule: SGD, problem: Problem) -> Gradient:
    """Loss, and the direction in which the weights move, at the rate 1 where it is largest."""
    lr, gradient = parts(rule.lr, len(problem.names)), decayed(rule, problem)
    relative = [-each / max(lr) for each in lr]

    def field(w: Vector) -> tuple[float, Vector]:
        loss, g = gradient(w)
        return loss, g.scaled(relative)

    return field


def _adam(
    rule: Adam, problem: Problem, dilation: float, schedule: Schedule | None
) -> Iterator[Ahead]:
    stiff = load(rule, problem, problem.start)
    # A clock that is dilated beyond the edge of stability would oscillate by itself.
    fastest = 1.0 / stiff if stiff > 0.0 else math.inf
    slower = lambda taken: min(dilation * (1.0 if taken < _PATIENCE else 2.0), fastest)
    course = dilate(rule, problem, slower, schedule)
    yield from (replace(here, sharpness=stiff) for here in itertools.islice(course, 1))
    yield from course


def _descent(
    rule: SGD, problem: Problem, tolerance: float, schedule: Schedule | None
) -> Iterator[Ahead]:
    before, steps, per_step = 0.0, 0.0, 1.0 / rule.steps(0.0)
    field, rate = _flow(rule, problem), lambda: schedule(steps) if schedule else 1.0
    # Mini-batches have kicked the velocity, which a steady gradient has on average.
    start = problem.start if problem.batch is None else None
    own = Steps(rule, field, start, rate)
    left = None if schedule is None else lambda most: _left(rule, schedule, steps, most)
    for here in integrate(field, problem.start, tolerance=tolerance, own=own, left=left):
        ahead, before = here.time - before, here.time
        if schedule is None:
            steps += ahead * rule.steps(here.growth)
        else:
            # Own steps end on whole ones, where a schedule may jump.
            steps = round(_scheduled(rule, schedule, steps, ahead, here.growth), 6)
        sharpness = here.sharpness * rule.pace / rule.bound
        speed = here.speed * per_step
        yield Ahead(steps, here.loss, speed, here.growth, here.weights, sharpness)


def _left(rule: SGD, schedule: Schedule, steps: float, most: float) -> float:
    """Return the flow time that the schedule leaves after so many steps, at most `most`."""
    time = 0.0
    for _, stride, rate in strides(schedule, steps):
        time += stride / rule.steps(0.0, rate)
        if time >= most:
            return most
    return time


def _scheduled(rule: SGD, schedule: Schedule, steps: float, ahead: float, growth: float) -> float:
    """Return the steps after that much more flow time, or those at which the schedule ends."""
    for at, stride, rate in strides(schedule, steps):
        taken = stride / rule.steps(growth, rate)
        if taken >= ahead:
            return at + ahead * rule.steps(growth, rate)
        steps, ahead = at + stride, ahead - taken
    return steps
