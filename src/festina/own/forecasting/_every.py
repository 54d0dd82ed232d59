"""Any optimiser of PyTorch, run ahead on a copy of the model: one gradient a step."""

import copy
import math
from collections.abc import Callable, Iterator
from typing import Any

from ._chebyshev import Ahead
from ._problem import Problem
from ._vectors import Vector


def run_ahead(
    model: Any, optimizer: Any, problem: Problem, schedule: Callable[[float], float] | None
) -> Iterator[Ahead]:
    """Its steps on all samples of the problem, without end."""
    twin, own = copy.deepcopy((model, optimizer))  # together, so that one still holds the other's
    named = dict(twin.named_parameters())
    moving = [named[name] for name in problem.names]
    rates = [group["lr"] for group in own.param_groups]
    step = 0
    while True:
        w = Vector(tuple(p.detach().clone() for p in moving))
        loss, g = problem(w)
        if not math.isfinite(loss):
            return
        for parameter, slope in zip(moving, g.parts, strict=True):
            parameter.grad = slope.clone()
        if schedule is not None:
            for group, rate in zip(own.param_groups, rates, strict=True):
                group["lr"] = rate * schedule(step)
        own.step()
        moved = Vector(tuple(p.detach().clone() for p in moving)) - w
        yield Ahead(float(step), loss, max(-g.dot(moved), 0.0), 0.0, w)
        step += 1
