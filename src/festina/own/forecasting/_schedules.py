"""Learning rates that change: stated as functions, or read from a scheduler of PyTorch."""

import copy
import math
import warnings
from collections.abc import Callable
from typing import Any

from ._rules import Schedule

_FARTHEST = 100_000  # steps of a scheduler that are read; the rate stays as it is then
_ALIKE = 1e-6  # relative difference of the rates of two groups

CONSTANT = "the learning rate has a scheduler, which was not given: it is taken to be constant"


def read_schedule(given: Any, optimizer: Any, notes: list[str], epoch: int) -> Schedule | None:
    """Return the learning rate by steps from now, over the present one; `None` if constant."""
    if given is None:
        groups = getattr(optimizer, "param_groups", ())
        if any("initial_lr" in group for group in groups):
            notes.append(CONSTANT)
            warnings.warn(f"{CONSTANT}. Give it as `schedule`.", stacklevel=3)
        return None
    if hasattr(given, "step") and hasattr(given, "optimizer"):
        return _of_scheduler(given, optimizer, notes, epoch)
    if not callable(given):
        raise ValueError(
            f"`schedule` is a {type(given).__name__}, expected a function of the steps from now "
            "or a scheduler of PyTorch."
        )
    return _checked(given)


def _checked(given: Callable[[float], Any]) -> Schedule:
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


def _of_scheduler(given: Any, optimizer: Any, notes: list[str], epoch: int) -> Schedule | None:
    """Step a copy of the scheduler, with an optimiser of one weight in place of the real one."""
    if given.optimizer is not optimizer:
        raise ValueError("`schedule` is the scheduler of another optimiser than `optimizer`.")
    if type(given).__name__ == "ReduceLROnPlateau":
        notes.append("the scheduler waits for the loss: the learning rate is taken to be constant")
        return None
    import torch

    kept = [{k: v for k, v in group.items() if k != "params"} for group in optimizer.param_groups]
    double = torch.optim.SGD([{**group, "params": [torch.zeros(1)]} for group in kept], lr=1.0)
    twin = copy.deepcopy(given, {id(optimizer): double})
    rates = lambda: [float(group["lr"]) for group in double.param_groups]
    first, known = rates(), [1.0]
    if not all(first):
        raise ValueError("The learning rate is 0: the scheduler has not begun, take a step first.")

    def schedule(step: float) -> float:
        wanted = int(min(step // epoch, _FARTHEST))
        while len(known) <= wanted:
            with warnings.catch_warnings():
                warnings.simplefilter("ignore")  # that no optimiser has stepped in between
                twin.step()
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
