"""Whether a network rests: how steep its loss is where it stands, against what is left of it."""

import math
from typing import NamedTuple

import numpy as np

from .._objective import LossConvention, objective
from .._precision import float64
from ..networks import Layer
from ..tasks import AbstractTask
from ..theory.saddles._loss_function import loss_function, relative_slope
from ..theory.saddles._subgradient import gradients_around, smallest_subgradient

# Where it rests, the squared slope lies a decade below that which takes away, to first order, all
# that is left. (Clean plateaus of linear, quadratic, rectified and tanh units come to 0.22 at most,
# their drops to 0.3 and more, mostly above one.)
_REST = 10**-0.5

_NEAR = 1e-3  # of each unit: descent with finite steps goes to and fro across a kink by as much
_GRADIENTS = 2e7  # numbers in the gradients around a point that are looked at


class Motion(NamedTuple):
    """How steep the loss is at a network.

    - `loss`: above that of least squares, `floor`; `empty`: the same at zero outputs.
    - `slope`: gradient times weights, as a fraction of `empty`; on kinks that of the smallest
      subgradient, unit by unit.
    - `limit`: the largest slope at rest.
    """

    loss: float
    empty: float
    floor: float
    slope: float
    limit: float

    @property
    def rests(self) -> bool:
        return self.slope <= self.limit


@float64
def motion_of(
    network: Layer, task: AbstractTask, loss: LossConvention = "half", *, resolution: float
) -> Motion:
    """The motion of one network; less than `resolution` of the loss at zero outputs is nothing."""
    structure, data, floor = objective(network, task, loss)
    function = loss_function(structure, data)
    weights = structure.columns(*network.parts)[:, 0]
    here, gradient = function(weights)
    empty = 0.5 * float(data.weight @ np.sum(np.asarray(data.y) ** 2, axis=1))
    scale = empty or 1.0
    slope = relative_slope(weights, gradient) / scale
    limit = _REST * max(here / scale, resolution)
    unit = np.arange(len(weights)) % network.width  # units stand last in u and in v
    few = gradients_around(unit) * len(weights) <= _GRADIENTS
    if network.kinked and limit < slope < math.inf and few:
        least = smallest_subgradient(function, weights, radius=_NEAR, block=unit)
        slope = relative_slope(weights, least) / scale
    return Motion(here, empty, floor, slope, limit)
