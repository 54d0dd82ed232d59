"""`forecast`: from a problem and its rule, by a look-ahead, to a verdict."""

from ..._checks import whole_number
from ..._narrowing._pytorch import Function
from ...dynamics._worker import Progress
from ..watching._stairs import AbstractRun
from ._budget import Budget
from ._course import judge_of
from ._judge import result
from ._look import Run, look_until_drop
from ._problem import problem_of
from ._reading import rule_of
from ._result import Forecast
from ._schedules import schedule_of


def forecast(
    model: object,
    loss: object,
    optimizer: object,
    data: object,
    *,
    watch: AbstractRun | None = None,
    metric: Function | None = None,
    max_gradients: int = 2000,
    samples: int | None = None,
    batch: int | None = None,
    schedule: object = None,
    epoch: int = 1,
    every_gradient: bool = False,
    insist: bool = False,
    progress: Progress | None = None,
) -> Forecast:
    r"""Predict when the plateau that a network sits on will be *left*, in steps of its optimiser.

    The forecast integrates the training dynamics ahead of the run, using gradients on all `samples`
    at once. For descent it integrates gradient flow by Runge–Kutta–Chebyshev steps, on a clock that
    knows momentum: a mode that grows as $e^{at}$ along the flow grows by the larger root of
    $\zeta^2 - (1+\mu+\eta a)\zeta + \mu = 0$ a step. Where descent does not follow the flow, since
    it settles within a few steps or has another velocity, the forecast takes its own steps. Adam
    and AdamW run themselves on a dilated clock, from the state that they are in. Linearising once
    at the plateau is not enough, because units turn while the loss rests.

    A plateau is left when a tenth of the coming drop is made, where the drop is from the loss where
    it is flattest from now on to where it rests next. The band is twice what half of the samples
    (half of the difference between the halves) and a coarser look-ahead change, and a twentieth of
    the time (a tenth in mini-batches, which differ from run to run). Losses are measured against
    that of a network whose weights are all zero: a fall by less than a thousandth of that loss does
    not count as a drop.

    Two limits end the look-ahead. Where the largest curvature exceeds $2(1+\mu)/\eta$, or the
    preconditioned one $2(1+\beta_1)/((1-\beta_1)\eta)$ for Adam, training oscillates or diverges
    and no longer follows the flow: the verdict is 'unstable'. In mini-batches the loss stays about
    $\tfrac14\sum_i\eta_i C_{ii}$ above a minimum, where $C$ is the covariance of the gradient: a
    fall of less than three times that is hidden by the noise, and the verdict is 'noise floor'.

    The look-ahead stops where it has cost more than training that far would have. The price of a
    gradient is measured in steps of the run before it starts.

    **Arguments:**

    - `model`: a module of PyTorch, or any tree of arrays (a dict, an Equinox module, …). It is
      not changed.
    - `loss`: `loss(model(x), y)` for PyTorch, `loss(model, x, y)` for a tree; a mean over samples.
      `None` for a module whose output has the loss as `.loss`, as those of Hugging Face.
    - `optimizer`: the optimiser of PyTorch that trains the model, with its state, or a statement of
      it: `festina.own.SGD(lr=…)`, `Adam(lr=…)`, `AdamW(lr=…)`.
    - `data`: inputs and targets `(x, y)`, or a Dataset or DataLoader of PyTorch. Inputs in a tuple
      or a dict are separate arguments of the module. In a dict the targets are called `labels`,
      `targets` or `y`, and the module gets them too if its `forward` has an argument of that name.
    - `watch`: what `festina.watch` has recorded of the run; the forecast then says since when the
      loss rests.
    - `metric`: a number of the model, such as accuracy on a test set. Times and verdict are then of
      the metric: when it has made a tenth, and half, of its way to where it rests, as in grokking.
      A metric between 0 and 1 is taken for a share, and a change below a tenth is none.
    - `max_gradients`: largest number of gradients; the band may take as many again.
    - `samples`: how many samples stand for all: by default 4,096, or 1,024 for mini-batches. Fewer
      than a thousand are a rough guide.
    - `batch`: size of mini-batches (a DataLoader knows it); `None` for all samples at once.
    - `schedule`: the learning rate as a function of the steps from now, in units of the present
      one, or a scheduler of PyTorch. Without it the learning rate is taken to be constant.
    - `epoch`: optimiser steps between two steps of that scheduler.
    - `every_gradient`: run the optimiser itself ahead, with one gradient a step. This works for any
      optimiser of PyTorch.
    - `insist`: go on where training on would be cheaper.
    - `progress`: called with words and the fraction of `max_gradients` that is spent.

    **Returns:**

    The `Forecast`.

    !!! note "When to doubt it"

        Just after a drop, while the verdict is 'settling'. The level of the next plateau is less
        certain than the end of this one, because weak plateaus may lie in between.
        `Forecast.next_level` trains the network of so few units instead, which is nearer.
        Rectifiers that slide along their kinks cost many gradients.
    """
    budget = Budget(float(whole_number("max_gradients", max_gradients, 20)), insist)
    problem = problem_of(model, loss, optimizer, data, samples=samples, batch=batch, budget=budget)
    rule = rule_of(optimizer, problem, every_gradient=every_gradient)
    followed = schedule_of(schedule, optimizer, problem.notes, whole_number("epoch", epoch))
    judge = None if metric is None else judge_of(metric, problem.restore)
    run = Run(problem, rule, followed, judge)
    return result(run, look_until_drop(run, progress), None if watch is None else watch.rests_since)
