"""Return learning rates that change: functions of the step, or read from a PyTorch scheduler."""

import copy
import math
import warnings
from collections.abc import Iterator
from typing import TYPE_CHECKING, TypeGuard

from ..._narrowing._pytorch import Function, is_optimizer
from ._rules import Schedule, constant

if TYPE_CHECKING:
    import torch

_FARTHEST = 100_000  # most steps read from a scheduler; the rate is constant afterwards
_HORIZON = 10_000  # a schedule at rate zero for this many steps has ended
_OVER = 1e-6  # share of the present rate that no longer moves the weights
_LONGER = 0.02  # length of a stride as a share of the steps so far
_ALIKE = 1e-6  # largest relative difference between the rates of groups

CONSTANT = "the optimiser has a scheduler, which was not given: its rate is assumed constant"


def schedule_of(given: object, optimizer: object, notes: list[str], epoch: int) -> Schedule:
    """Return the learning rate as a function of steps from now, in units of the present rate."""
    if given is None:
        groups = optimizer.param_groups if is_optimizer(optimizer) else ()
        if any("initial_lr" in group for group in groups):
            notes.append(CONSTANT)
            warnings.warn(f"{CONSTANT}. Give the scheduler as `schedule`.", stacklevel=3)
        return constant
    if _is_scheduler(given):
        if given.optimizer is not optimizer:
            raise ValueError(
                "`schedule` is the scheduler of another optimiser than `optimizer`: give the "
                "scheduler of `optimizer`."
            )
        return _of_scheduler(given, notes, epoch)
    if not callable(given):
        raise ValueError(
            f"`schedule` is a {type(given).__name__}, expected a function of the steps from now "
            "or a scheduler of PyTorch."
        )
    return _checked(given)


def strides(schedule: Schedule, steps: float) -> Iterator[tuple[float, float, float]]:
    """Yield begin, length and rate of strides of a schedule from `steps` on; strides get longer.

    Strides with a negligible rate are left out.
    """
    at, end = steps, steps + _HORIZON
    while at < end:
        stride = math.floor(at) + 1.0 - at if at == steps else max(1.0, _LONGER * (at - steps))
        rate = schedule(at)
        if rate > _OVER:
            yield at, stride, rate
        at += stride


def is_over(schedule: Schedule, steps: float) -> bool:
    """Return whether the rate stays negligible after so many steps."""
    return not any(strides(schedule, steps))


def _is_scheduler(given: object) -> TypeGuard["torch.optim.lr_scheduler.LRScheduler"]:
    return hasattr(given, "step") and hasattr(given, "optimizer")


def _checked(given: Function) -> Schedule:
    def schedule(step: float) -> float:
        try:
            rate = float(given(step))
        except (TypeError, ValueError) as error:
            raise ValueError(
                f"`schedule` must give one number at {step:.0f} steps: {error}"
            ) from error
        if not 0.0 <= rate < math.inf:
            raise ValueError(f"`schedule` gives {rate} at {step:.0f} steps, expected a number ≥ 0.")
        return rate

    return schedule


def _of_scheduler(
    given: "torch.optim.lr_scheduler.LRScheduler", notes: list[str], epoch: int
) -> Schedule:
    """Return the schedule of a PyTorch scheduler: step a copy with a one-weight optimiser."""
    if type(given).__name__ == "ReduceLROnPlateau":
        notes.append("the scheduler reacts to the loss: the learning rate is assumed constant")
        return constant
    if getattr(given, "cycle_momentum", False):
        notes.append("the scheduler also changes the momentum, which is assumed constant")
    import torch

    groups = given.optimizer.param_groups
    kept = [{k: v for k, v in group.items() if k != "params"} for group in groups]
    double = torch.optim.SGD([{**group, "params": [torch.zeros(1)]} for group in kept], lr=1.0)
    twin = copy.deepcopy(given, {id(given.optimizer): double})
    rates = lambda: [float(group["lr"]) for group in double.param_groups]
    first, known = rates(), [1.0]
    if not all(first):
        raise ValueError(
            "The learning rate is 0, expected a positive rate: the scheduler has not begun. Take a "
            "step first."
        )

    def schedule(step: float) -> float:
        wanted = int(min(step // epoch, _FARTHEST))
        while len(known) <= wanted:
            with warnings.catch_warnings():
                warnings.simplefilter("ignore")  # PyTorch warns if only the scheduler steps
                try:
                    twin.step()
                except ValueError:  # OneCycleLR raises after its last step, where training ends
                    known.append(0.0)
                    continue
            relative = [now / before for now, before in zip(rates(), first, strict=True)]
            if max(relative) - min(relative) > _ALIKE * max(relative):
                raise ValueError(
                    "`schedule` changes the rates of the groups by different factors. Give a "
                    "function, or run the optimiser itself with every_gradient=True."
                )
            known.append(relative[0])
        return known[wanted]

    notes.append(
        f"the scheduler is stepped every {epoch} steps"
        if epoch > 1
        else "the scheduler is stepped every step"
    )
    return schedule
