"""When the plateau that somebody's network sits on will be left."""

import contextlib
import math
from collections.abc import Callable, Iterator
from dataclasses import replace
from typing import Any

import numpy as np

from ._chebyshev import Ahead, integrate
from ._course import LEAST_DROP, LEAST_OF_ALL, LEFT, Course, Drop
from ._curvature import negative_curvature
from ._dilated import dilate
from ._every import run_ahead
from ._problem import Exhausted, Problem, is_torch, torch_problem, tree_problem
from ._result import Forecast, Verdict
from ._rules import SGD, Adam, parts, read, stated
from ._vectors import Vector

_TOLERANCE = 0.2  # of a step of the flow, relative to the step
_SHORTEST = 8  # steps of the optimiser that a step of the flow stands for, or it were dearer
_DILATION = 4.0  # of Adam's clock, and twice that once it has cost as many gradients as this
_PATIENCE = 100
_OVER = 1.2  # of the gradients allowed, to end the step that is under way
_COARSER = 2.0  # of tolerance and dilation, to see what they do
_WIDE = 2.0  # the band, in what half the data and a coarser look-ahead change
_NARROW, _NARROW_IN_BATCHES = 0.05, 0.1  # of the time, which is added to it
_LONGEST = 3.0  # how much later than with all samples half of them may leave, before it is given up
_CERTAIN = 200  # gradients of rest, before curvature is asked whether it is one
_CHANGE, _RESTS = 0.1, 0.02  # of a metric: less is none; and of its way, when it has made it
_SETTLING = 0.05  # of the drop: if the loss has more than that to fall before it, it settles
_RESTLESS = 0.3  # of the loss: one that falls by more, without a rest, is on no staircase

Schedule = Callable[[float], float]


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

    **Returns:**

    The `Forecast`.

    !!! note "When to doubt it"

        Just after a drop, while the verdict is 'settling'. Which level comes next is less certain
        than when this one is left: weak plateaus lie between. Learning rates beyond the edge of
        stability are no flow. Rectifiers that slide along their kinks cost many gradients.
    """
    _check(max_gradients, samples, batch)
    problem, rule = _set_up(model, loss, optimizer, data, samples, batch, every_gradient)
    now = problem.check()
    _mind_schedule(optimizer, schedule, problem.notes)
    if every_gradient:
        start = lambda _, problem: run_ahead(model, optimizer, problem, schedule)
    else:
        start = lambda coarser, problem: _look(rule, problem, coarser, schedule)
    judge = metric and (lambda w: float(metric(problem.restore(w))))

    look = _affordable(start(1.0, replace(problem, most=_OVER * max_gradients)))
    course, drop = _first_drop(look, problem, float(max_gradients), judge)
    verdict: Verdict
    left = half = band = level = None
    if judge:
        left, half = _metric_passage(course, LEFT), _metric_passage(course, 0.5)
        verdict = _without_drop(course) if drop is None else "plateau"
    elif drop is not None:
        left = course.passage(drop.flattest, LEFT * drop.height)
        half = course.passage(drop.flattest, 0.5 * drop.height)
        level = drop.below
        before = course.loss[0] - drop.above
        verdict = "settling" if before > _SETTLING * drop.height else "plateau"
    else:
        verdict = _without_drop(course)
    if left is not None:
        again = replace(problem, most=2.0 * _OVER * max_gradients)
        spread = _changes(
            start, again, course, drop, left, judge, not every_gradient, 2.0 * max_gradients
        )
        spread += (_NARROW if problem.batch is None else _NARROW_IN_BATCHES) * left
        band = max(left - spread, 0.0), left + spread
    if verdict == "plateau" and watch is not None:
        since = watch.plateaus().start[-1]
        problem.notes.append(f"it rests since step {since:.0f}")
    return Forecast(
        verdict,
        left,
        half,
        band,
        now,
        level,
        (course.metric[0], course.metric[-1]) if judge else None,
        course.time[-1],
        problem.spent[0],
        tuple(problem.notes),
        course,
    )


def _check(max_gradients: int, samples: int, batch: int | None) -> None:
    for name, value, least in (
        ("max_gradients", max_gradients, 20),
        ("samples", samples, 1),
        ("batch", 1 if batch is None else batch, 1),
    ):
        if not isinstance(value, (int, np.integer)) or value < least:
            raise ValueError(f"`{name}` is {value!r}, expected a whole number of at least {least}.")


def _set_up(
    model: Any,
    loss: Callable,
    optimizer: Any,
    data: Any,
    samples: int,
    batch: int | None,
    every_gradient: bool,
) -> tuple[Problem, SGD | Adam]:
    if not is_torch(model):
        if every_gradient:
            raise ValueError(
                "`every_gradient` runs an optimiser of PyTorch; state SGD or Adam here."
            )
        problem = tree_problem(model, loss, data, most=samples, batch=batch)
        return problem, stated(optimizer, problem.start)
    plain = isinstance(optimizer, (SGD, Adam))
    if not plain and not hasattr(optimizer, "param_groups"):
        stated(optimizer, Vector(()))  # which says what is known
    trained = (
        {id(p) for p in model.parameters()}
        if plain
        else {id(p) for group in optimizer.param_groups for p in group["params"]}
    )
    problem = torch_problem(model, loss, data, trained, most=samples, batch=batch)
    if plain:
        return problem, stated(optimizer, problem.start)
    return problem, SGD(1.0) if every_gradient else read(optimizer, model, problem.names)


def _mind_schedule(optimizer: Any, schedule: Schedule | None, notes: list[str]) -> None:
    groups = getattr(optimizer, "param_groups", ())
    if schedule is None and any("initial_lr" in group for group in groups):
        import warnings

        word = "the learning rate has a schedule, which is not known: it is taken to stay as it is"
        notes.append(word)
        warnings.warn(
            word
            + ". Give `schedule`, the rate so many steps from now in units of the present one.",
            stacklevel=3,
        )


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
    count = len(problem.start.parts)
    lr, decay = parts(rule.lr, count), parts(rule.weight_decay, count)
    relative = [-each / max(lr) for each in lr]

    def field(w: Vector) -> tuple[float, Vector]:
        loss, g = problem(w)
        if any(decay):
            g = g + w.scaled(decay)
        return loss, g.scaled(relative)

    before, steps = 0.0, 0.0
    per_step = 1.0 / rule.steps(0.0)
    shortest = _SHORTEST * per_step
    for here in integrate(field, problem.start, tolerance=tolerance, shortest=shortest):
        ahead = here.time - before
        if schedule is None:
            steps += ahead * rule.steps(here.growth)
        else:
            steps = _scheduled(rule, schedule, steps, ahead, here.growth)
        before = here.time
        yield Ahead(steps, here.loss, here.speed * per_step, here.growth, here.weights)


def _scheduled(rule: SGD, schedule: Schedule, steps: float, ahead: float, growth: float) -> float:
    """Steps after that much more flow time, at rates that change; as many again where it ends."""
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
    look: Iterator[Ahead], problem: Problem, most: float, judge: Callable[[Vector], float] | None
) -> tuple[Course, Drop | None]:
    """The look-ahead until the first drop or the metric's way is made, or all is at rest."""
    course, rested = Course(problem.scale()), None
    for here in look:
        course.add(here, None if judge is None else judge(here.weights))
        drop = course.drop()
        if judge is None:
            if drop is not None:
                return course, drop
        elif _metric_done(course):
            return course, drop
        spent = problem.spent[0]
        if spent > most or not math.isfinite(here.time):
            break
        if judge is not None:
            continue
        if 0.0 <= here.loss < LEAST_OF_ALL * course.scale:  # no drop is left that would count
            break
        rested = None if not course.resting() else spent if rested is None else rested
        if rested is not None and spent - rested > _CERTAIN:
            if not negative_curvature(problem, here.weights):
                break
            rested = math.inf
    return course, None


def _moved(values: np.ndarray) -> bool:
    """Whether a metric has changed: by a tenth, of one if it is a share of something."""
    largest = np.abs(values).max()
    share = values.min() >= 0.0 and largest <= 1.0
    return bool(abs(values[-1] - values[0]) > _CHANGE * (1.0 if share else largest))


def _metric_done(course: Course) -> bool:
    """Whether the metric has changed, and has rested since for a quarter of the time."""
    values = np.array(course.metric)
    late = np.array(course.time) > 0.75 * course.time[-1]
    if not _moved(values) or late.sum() < 3:
        return False
    return bool(np.ptp(values[late]) < _RESTS * abs(values[-1] - values[0]))


def _metric_passage(course: Course, share: float) -> float | None:
    values, time = np.array(course.metric), np.array(course.time)
    if not _moved(values):
        return None
    made = (values - values[0]) / (values[-1] - values[0])
    k = int(np.argmax(made >= share))
    between = (share - made[k - 1]) / (made[k] - made[k - 1])
    return float(time[k - 1] + between * (time[k] - time[k - 1]))


def _without_drop(course: Course) -> Verdict:
    first, last = course.loss[0], course.loss[-1]
    fallen = first - last
    if fallen < max(LEAST_DROP * abs(first), LEAST_OF_ALL * course.scale):
        return "minimum"
    return "no staircase" if fallen > _RESTLESS * abs(first) else "settling"


def _changes(
    start: Callable[[float, Problem], Iterator[Ahead]],
    problem: Problem,
    course: Course,
    drop: Drop | None,
    left: float,
    judge: Callable[[Vector], float] | None,
    coarser: bool,
    most: float,
) -> float:
    """Half the width of the band: twice what half of the samples, and coarser steps, change."""
    if judge is not None:
        if not coarser:
            return 0.0
        values = np.array(course.metric)
        change = LEFT * (values[-1] - values[0])
        again = Course()
        for here in _affordable(start(_COARSER, problem)):
            again.add(here, judge(here.weights))
            if (again.metric[-1] - values[0]) / change >= 1.0:
                break
            if here.time > _LONGEST * left or problem.spent[0] > most:
                break
        return _WIDE * abs(again.time[-1] - left)
    assert drop is not None
    fall = LEFT * drop.height

    def until(look: Iterator[Ahead]) -> float:
        seen = Course()
        for here in _affordable(look):
            seen.add(here)
            if seen.fallen() > fall:
                return seen.passage(int(np.argmin(seen.speed)), fall) or seen.time[-1]
            if here.time > _LONGEST * left or problem.spent[0] > most:
                break
        return max([left, *seen.time])

    halves = (
        [until(start(_COARSER, half)) for half in problem.pieces(2)]
        if problem.samples > 1
        else [left]
    )
    spread = 0.5 * (max(halves) - min(halves))
    if coarser:
        spread += abs(until(start(_COARSER, problem)) - left)
    return _WIDE * spread
