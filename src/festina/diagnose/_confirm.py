"""Is the narrow network of a plateau a minimum of its own? Optimise it, and compare losses."""

from dataclasses import dataclass

import numpy as np

from .._objective import Convention, objective
from .._precision import float64
from ..networks import Layer
from ..tasks import AbstractTask
from ..theory.saddles._bfgs import bfgs
from ..theory.saddles._narrow import value_and_gradient
from ._width import EffectiveWidth


@dataclass(frozen=True)
class Confirmation:
    """Losses of a wide network, of its narrow one, and of the minimum next to that.

    - `loss`: of the network itself.
    - `reduced_loss`: of the narrow network as it was built.
    - `optimised_loss`: where descent from there ends.
    - `slope`: gradient times weights at the end, as a fraction of the loss at zero outputs above
      that of least squares: how well it has converged, and large where the narrow network has no
      minimum at finite weights.
    - `agrees`: whether `loss` and `optimised_loss` are the same within the tolerance.
    - `network`: the optimised narrow network; None where it has no units.
    """

    loss: float
    reduced_loss: float
    optimised_loss: float
    slope: float
    agrees: bool
    network: Layer | None


@float64
def confirm(
    network: Layer,
    task: AbstractTask,
    found: EffectiveWidth,
    *,
    loss: Convention = "half",
    tolerance: float = 0.02,
    max_steps: int = 500,
) -> Confirmation:
    """Optimise the narrow network from the reduced weights, and compare its loss.

    A plateau is a saddle of Theorem 1 of Zhang, Saxe & Latham if the narrow network rests where the
    wide one does. That they compute nearly the same does not say so: the narrow network may be on
    its way to somewhere else. It legitimately fails where a plateau is none of these saddles: units
    that have one direction but are not proportional (tanh, sine), or a narrow network whose
    infimum lies at infinite weights (x tanh x).

    **Arguments:**

    - `network`, `task`: the wide network and its data.
    - `found`: its `effective_width`.
    - `loss`: convention.
    - `tolerance`: largest difference of the losses, as a fraction of the loss at zero outputs.
    - `max_steps`: of a quasi-Newton descent, whose memory grows with the number of weights squared.
    """
    if network.batch_shape:
        raise ValueError(
            f"One network at a time, got a batch {network.batch_shape}: network.lane(0)."
        )
    wide = objective(network, task, loss)
    weights = wide.structure.columns(*network.parts)[:, 0]
    here = float(value_and_gradient(wide.structure, weights, wide.data)[0])
    empty = 0.5 * float(wide.data.weight @ np.sum(np.asarray(wide.data.y) ** 2, axis=1))
    if found.reduced is None:
        reduced = optimised = empty
        slope, end = 0.0, None
    else:
        narrow = objective(found.reduced, task, loss)
        structure, data = narrow.structure, narrow.data

        def function(weights: np.ndarray) -> tuple[float, np.ndarray]:
            value, gradient = value_and_gradient(structure, weights, data)
            return float(value), np.asarray(gradient)

        def still(weights: np.ndarray, gradient: np.ndarray) -> bool:
            return bool(np.linalg.norm(gradient) * np.linalg.norm(weights) <= 1e-9 * empty)

        start = structure.columns(*found.reduced.parts)[:, 0]
        reduced = function(start)[0]
        weights, optimised, gradient = bfgs(function, start, still, max_steps=max_steps)
        slope = float(np.linalg.norm(gradient) * np.linalg.norm(weights)) / (empty or 1.0)
        end = found.reduced.with_parts(*structure.arrays(weights))
    return Confirmation(
        loss=here + wide.floor,
        reduced_loss=reduced + wide.floor,
        optimised_loss=optimised + wide.floor,
        slope=slope,
        agrees=bool(abs(here - optimised) <= tolerance * (empty + wide.floor)),
        network=end,
    )
