"""When the plateau that somebody's network sits on will be left."""

import contextlib
import math
import warnings
from collections.abc import Callable, Iterator
from dataclasses import replace
from typing import Any

import numpy as np

from ...dynamics._worker import Progress
from ...networks._given import whole_number
from .._pytorch import is_module, unwrapped
from ._chebyshev import Ahead, integrate
from ._course import LEAST_DROP, LEAST_OF_ALL, LEFT, Course, Drop, Judge
from ._curvature import negative_curvature
from ._dilated import dilate
from ._every import run_ahead
from ._problem import Exhausted, Problem, torch_problem, tree_problem
from ._result import Forecast, Verdict
from ._rules import SGD, Adam, Schedule, parts, read, stated
from ._vectors import Vector

_TOLERANCE = 0.2  # of a step of the flow, relative to the step
_SHORTEST = 8  # steps of the optimiser that a step of the flow stands for, or it were dearer
_DILATION = 4.0  # of Adam's clock, and twice that once it has cost as many gradients as this
_PATIENCE = 100
_COARSER = 2.0  # of tolerance and dilation, to see what they do
_WIDE = 2.0  # the band, in what half the data and a coarser look-ahead change
_NARROW, _NARROW_IN_BATCHES = 0.05, 0.1  # of the time, which is added to it
_LONGEST = 3.0  # how much later than with all samples half of them may leave, before it is given up
_CERTAIN = 200  # gradients of rest, before curvature is asked whether it is one
_SETTLING = 0.05  # of the drop: if the loss has more than that to fall before it, it settles
_RESTLESS = 0.3  # of the loss: one that falls by more, without a rest, is on no staircase
_SCHEDULED = "the learning rate has a schedule, which is not known: it is taken to stay as it is"
_GIVE_ONE = "Give `schedule`, the rate so many steps from now in units of the present one."

Start = Callable[[float, Problem], Iterator[Ahead]]
"""The run ahead by steps that are so much coarser, on these samples."""


def forecast(
    model: Any,
    loss: Callable,
    optimizer: Any,
    data: Any,
    *,
    watch: Any = None,
    metric: Callable[[Any], float] | None = None,
    max_gradients: int = 2000,
    samples: int = 4096,
    batch: int | None = None,
    schedule: Schedule | None = None,
    every_gradient: bool = False,
    progress: Progress | None = None,
) -> Forecast:
    r"""When the plateau that a network sits on will be *left*, in steps of its optimiser.

    The run is looked ahead of with gradients alone, on all `samples` at once. For descent that is
    gradient flow by Runge–Kutta–Chebyshev steps, on a clock that knows momentum: what grows as
    $e^{at}$ along the flow grows by the larger root of $\zeta^2 - (1+\mu+\eta a)\zeta + \mu = 0$ a
    step. Adam and AdamW are run themselves on a dilated clock, from the state that they are in.
    Linearising once at the plateau is not enough: units turn while they wait.

    Left is when a tenth of the coming drop is made, where the drop is from the loss where it is
    flattest from now on to where it rests next. The band is twice what half of the samples (half of
    the difference between the halves) and a coarser look-ahead change, and a twentieth of the time
    (a tenth in mini-batches, which differ from run to run). Losses are measured against that of a
    network whose weights are all zero: what is below a thousandth of that is no drop.

    **Arguments:**

    - `model`: a module of PyTorch, or any tree of arrays (a dict, an Equinox module, …). It is
      left as it is.
    - `loss`: of PyTorch, `loss(model(x), y)`; of a tree, `loss(model, x, y)`; a mean over samples.
    - `optimizer`: the optimiser of PyTorch that trains it, whose state is read, or what it is:
      `festina.own.SGD(lr=…)`, `Adam(lr=…)`, `AdamW(lr=…)`.
    - `data`: inputs and targets `(x, y)`, or a Dataset or DataLoader of PyTorch. Inputs in a tuple
      or a dict are given to the module one by one.
    - `watch`: what `festina.watch` has seen of the run; since when it rests is said then.
    - `metric`: of the model, accuracy on a test set say. Times are then of the metric: when it has
      made a tenth, and half, of its way to where it rests, as in grokking. Between 0 and 1 it is
      taken for a share, of which a tenth is no change.
    - `max_gradients`: at which it is given up; the band may take as many again.
    - `samples`: how many stand for all. Fewer than a thousand are a rough guide.
    - `batch`: size of mini-batches, of which Adam must know (a DataLoader says it); `None` for all
      samples.
    - `schedule`: the learning rate so many steps from now, in units of the present one.
    - `every_gradient`: run the optimiser itself ahead, whichever of PyTorch's it is, with one
      gradient a step.
    - `progress`: called with words and the fraction of `max_gradients` that is spent.

    **Returns:**

    The `Forecast`.

    !!! note "When to doubt it"

        Just after a drop, while the verdict is 'settling'. Which level comes next is less certain
        than when this one is left: weak plateaus lie between. `Forecast.next_level` asks the
        network of so few units, which is nearer. Learning rates beyond the edge of
        stability are no flow. Rectifiers that slide along their kinks cost many gradients.
    """
    most = float(whole_number("max_gradients", max_gradients, 20))
    samples = whole_number("samples", samples)
    batch = None if batch is None else whole_number("batch", batch)
    model = unwrapped(model)
    problem, rule = _set_up(model, loss, optimizer, data, samples, batch, every_gradient)
    now, scale = problem.check()
    if schedule is None and any("initial_lr" in g for g in getattr(optimizer, "param_groups", ())):
        problem.notes.append(_SCHEDULED)
        warnings.warn(f"{_SCHEDULED}. {_GIVE_ONE}", stacklevel=2)
    start: Start = lambda coarser, problem: _look(rule, problem, coarser, schedule)
    if every_gradient:
        start = lambda _, problem: run_ahead(model, optimizer, problem, schedule)
    judge = metric and (lambda w: _number(metric(problem.restore(w))))
    course, drop = _first_drop(start, replace(problem, most=most), scale, judge, progress)

    since = None if watch is None else watch.rests_since
    gave_up = problem.spent[0] >= most
    verdict: Verdict = "plateau" if drop is not None else _without_drop(course)
    left = half = band = reached = ends = None
    if gave_up:
        dear = ", which is as dear as training on" if course.time[-1] < 2.0 * most else ""
        problem.notes.append(
            f"all {most:.0f} gradients allowed were spent in looking {course.time[-1]:,.0f} steps "
            f"ahead{dear}, and what comes behind is not known: `max_gradients` allows more"
        )
    if drop is None and judge is None and (gave_up or since is not None):
        bound = course.bound()
        if bound is not None and (
            verdict != "minimum" or (gave_up and negative_curvature(problem, course.weights))
        ):
            verdict, band = "plateau", (bound, math.inf)
    if judge is not None:
        drop, ends = None, (course.metric[0], course.metric[-1])
        if course.metric_moved:
            reached = lambda seen: seen.metric_passage(*ends, LEFT)
            left, half = reached(course), course.metric_passage(*ends, 0.5)
    elif drop is not None:
        fall = LEFT * drop.height
        reached = lambda seen: seen.passage(int(np.argmin(seen.speed)), fall)
        left, half = (course.passage(drop.flattest, share * drop.height) for share in (LEFT, 0.5))
        if course.loss[0] - drop.above > _SETTLING * drop.height:
            verdict = "settling"
    if left is not None and reached is not None:
        again = replace(problem, most=2.0 * most)
        spread = _spread(start, again, judge, reached, left, coarser=not every_gradient)
        spread += (_NARROW if problem.batch is None else _NARROW_IN_BATCHES) * left
        band = max(left - spread, 0.0), left + spread
    if verdict == "plateau" and since is not None:
        problem.notes.append(f"it rests since step {since:.0f}")
    return Forecast(
        verdict,
        left,
        half,
        band,
        now,
        drop and drop.above,
        drop and drop.below,
        ends,
        course.time[-1],
        problem.spent[0],
        tuple(problem.notes),
        course,
        problem.restore(course.weights),
    )


def _number(value: Any) -> float:
    try:
        return float(value)
    except (TypeError, ValueError, RuntimeError) as error:
        raise ValueError(f"`metric` must give one number, got {value!r}.") from error


def _set_up(
    model: Any,
    loss: Callable,
    optimizer: Any,
    data: Any,
    samples: int,
    batch: int | None,
    every_gradient: bool,
) -> tuple[Problem, SGD | Adam]:
    groups = getattr(optimizer, "param_groups", None) if is_module(model) else None
    if every_gradient and groups is None:
        raise ValueError("`every_gradient` runs an optimiser of PyTorch on a module: give both.")
    if not is_module(model):
        problem = tree_problem(model, loss, data, most=samples, batch=batch)
    else:
        them = model.parameters() if groups is None else (p for g in groups for p in g["params"])
        trained = {id(p) for p in them}
        problem = torch_problem(model, loss, data, trained, most=samples, batch=batch)
    if every_gradient:
        return problem, SGD(1.0)
    if groups is None:
        return problem, stated(optimizer, problem)
    return problem, read(optimizer, model, problem)


def _look(
    rule: SGD | Adam, problem: Problem, coarser: float, schedule: Schedule | None
) -> Iterator[Ahead]:
    """The run ahead, in steps."""
    if isinstance(rule, Adam):
        dilation = lambda taken: coarser * _DILATION * (1.0 if taken < _PATIENCE else 2.0)
        return dilate(rule, problem, dilation, schedule)
    return _descent(rule, problem, coarser * _TOLERANCE, schedule)


def _descent(
    rule: SGD, problem: Problem, tolerance: float, schedule: Schedule | None
) -> Iterator[Ahead]:
    lr, decay = parts(rule.lr), parts(rule.weight_decay)
    relative = [-each / max(lr) for each in lr]

    def field(w: Vector) -> tuple[float, Vector]:
        loss, g = problem(w)
        if any(decay):
            g = g + w.scaled(decay)
        return loss, g.scaled(relative)

    before, steps, per_step = 0.0, 0.0, 1.0 / rule.steps(0.0)
    shortest = _SHORTEST * per_step
    for here in integrate(field, problem.start, tolerance=tolerance, shortest=shortest):
        ahead, before = here.time - before, here.time
        if schedule is None:
            steps += ahead * rule.steps(here.growth)
        else:
            steps = _scheduled(rule, schedule, steps, ahead, here.growth)
        yield Ahead(steps, here.loss, here.speed * per_step, here.growth, here.weights)


def _scheduled(rule: SGD, schedule: Schedule, steps: float, ahead: float, growth: float) -> float:
    """Steps after that much more flow time, at rates that change; infinite where they end."""
    stride = max(1.0, 0.02 * ahead * rule.steps(growth))
    for _ in range(10_000):
        rate = schedule(steps)
        if not rate > 0:
            return math.inf
        taken = stride / rule.steps(growth, rate)
        if taken >= ahead:
            return steps + ahead * rule.steps(growth, rate)
        steps, ahead = steps + stride, ahead - taken
    return math.inf


def _affordable(look: Iterator[Ahead]) -> Iterator[Ahead]:
    with contextlib.suppress(Exhausted):
        yield from look


def _first_drop(
    start: Start, problem: Problem, scale: float, judge: Judge | None, progress: Progress | None
) -> tuple[Course, Drop | None]:
    """The look-ahead until the first drop or the metric's way is made, or all is at rest."""
    course, rested = Course(scale), None
    for here in _affordable(start(1.0, problem)):
        course.add(here, judge)
        if progress is not None:
            progress(f"{here.time:,.0f} steps ahead", problem.spent[0] / problem.most)
        drop = course.drop()
        if course.metric_rests if judge else drop is not None:
            return course, drop
        if not math.isfinite(here.time):
            break
        if judge is not None:
            continue
        if 0.0 <= here.loss < LEAST_OF_ALL * scale:  # no drop is left that would count
            break
        spent = problem.spent[0]
        rested = None if not course.resting() else spent if rested is None else rested
        if rested is not None and spent - rested > _CERTAIN:
            if not negative_curvature(replace(problem, most=math.inf), here.weights):
                break
            rested = math.inf
    return course, None


def _without_drop(course: Course) -> Verdict:
    first, last = course.loss[0], course.loss[-1]
    fallen = first - last
    if fallen < max(LEAST_DROP * abs(first), LEAST_OF_ALL * course.scale):
        return "minimum"
    return "no staircase" if fallen > _RESTLESS * abs(first) else "settling"


def _spread(
    start: Start,
    problem: Problem,
    judge: Judge | None,
    reached: Callable[[Course], float | None],
    left: float,
    *,
    coarser: bool,
) -> float:
    """Half the width of the band: twice what half of the samples, and coarser steps, change.

    Half of the samples are asked for the loss alone: a metric, as in grokking, is of another run.
    """

    def until(problem: Problem) -> float:
        seen = Course()
        for here in _affordable(start(_COARSER, problem)):
            seen.add(here, judge)
            when = reached(seen)
            if when is not None:
                return when
            if here.time > _LONGEST * left:
                break
        return max([left, *seen.time])

    halves = [left]
    if judge is None and problem.samples > 1:
        halves = [until(half) for half in problem.pieces(2)]
    spread = 0.5 * (max(halves) - min(halves))
    return _WIDE * (spread + (abs(until(problem) - left) if coarser else 0.0))
