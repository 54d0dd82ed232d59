"""Run any PyTorch optimiser ahead on a copy of the model, with one gradient a step."""

import copy
import inspect
import itertools
import math
from collections.abc import Iterator
from typing import TYPE_CHECKING

from ..._narrowing._pytorch import torch
from ._chebyshev import Ahead
from ._problem import Problem
from ._rules import AbstractRule, Schedule, constant
from ._vectors import Vector

if TYPE_CHECKING:
    from torch.nn import Module
    from torch.optim import Optimizer


class OwnSteps(AbstractRule):
    """The user's optimiser itself, known only by its steps."""

    def __init__(self, model: "Module", optimizer: "Optimizer") -> None:
        closure = inspect.signature(optimizer.step).parameters.get("closure")
        if closure is not None and closure.default is inspect.Parameter.empty:
            raise ValueError(
                f"`optimizer` is {type(optimizer).__name__}, whose steps need a closure: it cannot "
                "be run ahead. Give an optimiser that steps without a closure."
            )
        self._model, self._optimizer = model, optimizer

    def reach(self, problem: Problem) -> float:
        return 1.0

    def ahead(self, problem: Problem, schedule: Schedule, coarser: float) -> Iterator[Ahead]:
        """Yield the optimiser's steps on all samples of the problem, without end."""
        twin, own = copy.deepcopy((self._model, self._optimizer))  # in one copy: both share weights
        named = dict(twin.named_parameters())
        pairs = [(named[n], w) for n, w in zip(problem.names, problem.start.parts, strict=True)]
        rates = [group["lr"] for group in own.param_groups]
        here = lambda: Vector(tuple(problem.array(p.detach().clone(), w) for p, w in pairs))
        for step in itertools.count():
            w = here()
            loss, g = problem(w)
            if not math.isfinite(loss):
                return
            for (parameter, _), slope in zip(pairs, g.parts, strict=True):
                parameter.grad = torch().as_tensor(slope).to(parameter, copy=True)
            if schedule is not constant:
                for group, rate in zip(own.param_groups, rates, strict=True):
                    group["lr"] = rate * schedule(step)
            own.step()
            yield Ahead(float(step), loss, abs(g.dot(here() - w)), 0.0, w)
