"""Moments of a task."""

from typing import NamedTuple

import numpy as np
from jaxtyping import Float

from .._checks import check_type
from .._objective import LossConvention, loss_factor
from .._types import Array
from ..networks import NeuronUnit
from ..tasks import AbstractTask, MomentTask


class Moments(NamedTuple):
    """All that a linear network sees of a task: Σ_yx, Σ_xx and the loss of least squares."""

    correlation: Float[Array, "output input"]
    covariance: Float[np.ndarray, "input input"]
    floor: float


def moments(task: AbstractTask, loss: LossConvention = "half") -> Moments:
    """Return moments times the factor of a loss: ½⟨‖y − Wx‖²⟩ of them is that loss."""
    check_type("task", task, AbstractTask)
    factor = loss_factor(loss, task)
    given = task if isinstance(task, MomentTask) and task.degree == 1 else None
    seen = given or task.statistics(NeuronUnit())  # given moments may be traced
    return Moments(factor * seen.correlation, factor * seen.covariance, factor * seen.floor)
