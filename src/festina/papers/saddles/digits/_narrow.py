"""The narrow network that computes what a wide one does, on images."""

from collections.abc import Sequence

import numpy as np
from jaxtyping import Float
from scipy.optimize import minimize

from ...._objective import Data
from ....diagnose import effective_width
from ....networks import Layer
from ....tasks import Task
from ....theory.saddles._loss_function import loss_function

# Units of a ReLU network on images lie in a fan and not on few rays: this wide a part of it, in
# radians, gives a unit to start from.
_FAN = 0.6

_EXACT = 1e-3  # an error in function space that leaves nothing to improve


def narrow_networks(
    wide: Layer, widths: Sequence[int], judged: Task, *, max_steps: int = 100
) -> list[Layer]:
    """Networks of few units that come closest to the outputs of a wide one.

    Quasi-Newton descent of ⟨‖f − f_h‖²⟩ over the images of `judged`, from the leading units of the
    reduction (F.3) of the richest kind that the unit admits: directions for linear units, which
    need no descent where there are as many as the weights have ranks; rays for ReLU.
    """
    reduction = effective_width(wide, judged, angle=_FAN).narrowings[-1]
    data = Data(judged.x, wide.predict(judged.x), 2.0 * judged.weight)
    return [
        start if reduction.error[width] <= _EXACT else _imitating(start, data, max_steps)
        for width in widths
        for start in [reduction.narrow(width)]
    ]


def _imitating(start: Layer, data: Data, max_steps: int) -> Layer:
    structure = start.structure
    loss, weights = loss_function(structure, data), structure.columns(*start.parts)[:, 0]
    found = minimize(loss, weights, jac=True, method="L-BFGS-B", options={"maxiter": max_steps})
    return start.with_parts(*structure.arrays(found.x))


def difference(
    one: Float[np.ndarray, "sample output"], other: Float[np.ndarray, "sample output"]
) -> float:
    """Root mean square of the difference of two networks' outputs; targets have size one."""
    return float(np.sqrt(np.mean(np.sum((one - other) ** 2, axis=1))))


def accuracy(outputs: Float[np.ndarray, "sample output"], task: Task) -> float:
    """Share of images whose larger output is that of their digit."""
    return float(np.mean(outputs.argmax(axis=1) == task.y.argmax(axis=1)))
