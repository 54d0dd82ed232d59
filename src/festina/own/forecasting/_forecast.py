"""`forecast`: look ahead of a run, and predict when its plateau ends."""

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
    r"""Predict when training will leave its present plateau, in steps of its optimiser.

    The forecast integrates the training dynamics ahead of the run, using gradients on all `samples`
    at once. For gradient descent it integrates gradient flow by Runge–Kutta–Chebyshev steps. Flow
    time is converted to steps with the momentum $\mu$ and the learning rate $\eta$: a mode that
    grows as $e^{at}$ along the flow grows per step by the larger root of
    $\zeta^2 - (1+\mu+\eta a)\zeta + \mu = 0$. Descent departs from the flow if the loss settles
    within a few steps, or if the velocity differs from the flow's; the forecast then takes the
    optimiser's own steps. Adam and AdamW are run from their present state with a dilated clock. One
    linearisation at the plateau would not be enough, because the weight vectors of units turn while
    the loss rests.

    A plateau is left when a tenth of the coming drop is made. The drop goes from the loss at the
    flattest point ahead to the level at which the loss rests next. The band is twice the change
    that results from half of the samples (half of the difference between the halves) and from a
    coarser look-ahead, plus a twentieth of the time (a tenth for mini-batches, which differ from
    run to run). A fall by less than a thousandth of the loss at zero weights does not count as a
    drop.

    Two limits end the look-ahead. If the largest curvature exceeds $2(1+\mu)/\eta$, or for Adam the
    preconditioned curvature exceeds $2(1+\beta_1)/((1-\beta_1)\eta)$, training oscillates or
    diverges and no longer follows the flow: the verdict is 'unstable'. With mini-batches the loss
    stays about $\tfrac14\sum_i\eta_i C_{ii}$ above a minimum, where $C$ is the covariance of the
    gradient and $\eta_i$ the rate of a weight. A fall of less than three times this height is
    hidden by the noise: the verdict is 'noise floor'.

    The look-ahead stops if it has cost more time than training itself would have taken. The price
    of a gradient, in steps of the run, is measured before the look-ahead starts.

    **Arguments:**

    - `model`: a PyTorch module, or any tree of arrays (a dict, an Equinox module, …). The model is
      not changed.
    - `loss`: `loss(model(x), y)` for PyTorch, `loss(model, x, y)` for a tree; a mean over samples.
      `None` for a module whose output has the loss as `.loss`, as in Hugging Face.
    - `optimizer`: the PyTorch optimiser that trains the model, with its state, or a description of
      an optimiser: `festina.own.SGD(lr=…)`, `Adam(lr=…)`, `AdamW(lr=…)`.
    - `data`: inputs and targets `(x, y)`, or a PyTorch Dataset or DataLoader. Inputs in a tuple or
      a dict are separate arguments of the module. In a dict the targets are called `labels`,
      `targets` or `y`, and the module also receives the targets if its `forward` has an argument of
      that name.
    - `watch`: the record of the run by `festina.watch`; the forecast then states the step since
      which the loss has rested. The step is not stated for a network from before this plateau.
    - `metric`: function of the model that returns a number, such as the accuracy on a test set.
      With a metric, the verdict describes the metric instead of the loss, and the forecast times
      are those at which a tenth and half of the metric's change are made. For grokking, use the
      test accuracy. A change of a metric between 0 and 1 counts if it is at least 0.1.
    - `max_gradients`: largest number of gradients; computing the band may take as many again.
    - `samples`: number of samples that represent all data: by default 4,096, or 1,024 for
      mini-batches. Fewer than a thousand samples give a rough forecast.
    - `batch`: size of mini-batches, by default the size of a DataLoader; otherwise `None` for all
      samples at once.
    - `schedule`: the learning rate as a function of the steps from now, in units of the present
      rate, or a PyTorch scheduler. By default the learning rate is assumed to be constant.
    - `epoch`: optimiser steps between two steps of a scheduler.
    - `every_gradient`: run the optimiser itself ahead, with one gradient a step. `every_gradient`
      works for any PyTorch optimiser that needs no closure.
    - `insist`: continue even if training itself would be cheaper.
    - `progress`: function of a message and the spent fraction of `max_gradients`.

    **Returns:**

    The `Forecast`.

    **Example:**

    >>> import torch
    >>> import festina
    >>> layers = torch.nn.Linear(3, 4, bias=False), torch.nn.Linear(4, 1, bias=False)
    >>> for layer in layers:
    ...     _ = torch.nn.init.constant_(layer.weight, 1e-3)
    >>> model, loss = torch.nn.Sequential(*layers), torch.nn.functional.mse_loss
    >>> optimizer = torch.optim.SGD(model.parameters(), lr=0.05)
    >>> data = torch.eye(3), torch.tensor([[3.0], [0.0], [0.0]])
    >>> found = festina.forecast(model, loss, optimizer, data)
    >>> found.verdict, round(found.left)
    ('plateau', 55)

    !!! note "When to doubt it"

        Just after a drop, while the verdict is 'settling', the forecast is uncertain. The level of
        the next plateau is less certain than the end of this plateau, because weak plateaus may lie
        in between. `Forecast.next_level` trains a network of the effective width and is more
        accurate. ReLU units that slide along their kinks cost many gradients.
    """
    budget = Budget(float(whole_number("max_gradients", max_gradients, 20)), insist)
    problem = problem_of(model, loss, optimizer, data, samples=samples, batch=batch, budget=budget)
    rule = rule_of(optimizer, problem, every_gradient=every_gradient)
    followed = schedule_of(schedule, optimizer, problem.notes, whole_number("epoch", epoch))
    judge = None if metric is None else judge_of(metric, problem.restore)
    run = Run(problem, rule, followed, judge)
    since = None if watch is None else watch.rests_since_at(problem.loss)
    return result(run, look_until_drop(run, progress), since)
