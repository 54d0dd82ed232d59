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
    """The moments that drive a linear network: Σ_yx, Σ_xx, and the least-squares loss."""

    correlation: Float[Array, "output input"]
    covariance: Float[np.ndarray, "input input"]
    floor: float


def moments(task: AbstractTask, loss: LossConvention = "half") -> Moments:
    """Return the moments of a task, times the factor of the loss convention relative to "half".

    With the scaled moments, ½⟨‖y − Wx‖²⟩ is the loss in the given convention.
    """
    check_type("task", task, AbstractTask)
    factor = loss_factor(loss, task)
    given = task if isinstance(task, MomentTask) and task.degree == 1 else None
    seen = given or task.statistics(NeuronUnit())  # given moments may be JAX tracers
    return Moments(factor * seen.correlation, factor * seen.covariance, factor * seen.floor)
