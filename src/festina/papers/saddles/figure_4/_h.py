"""Figure 4H: an activation of order three has one active unit on the plateau, then two.

The paper's text does not name the activation. Networks with φ(z) = z² sin z or z³/(1 + z²) behave
as the paper says. Networks with φ(z) = z² tanh z, the analogue of panel F, rest at no fixed point:
a single unit does best with infinite weights, where φ becomes z|z|. For all three activations the
plateau lasts several times as long as the escape from zero.
"""

from typing import Any, Literal

import numpy as np
from pydantic import Field, PositiveFloat

from ....networks import Layer
from ....tasks import AbstractTask
from ._panel import FewUnitsParameters, Levels, fixed_points, other


class Parameters(FewUnitsParameters):
    """Parameters of Figure 4H; the paper's text names no activation for this panel."""

    activation: Literal["z2-sin", "z2-tanh", "z3-rational"] = "z2-sin"
    """Activation φ(z): z² sin z, z² tanh z or z³/(1 + z²)."""

    teacher: tuple[PositiveFloat, PositiveFloat] = (1.0, 1.0)
    """Lengths of the teacher's weight vectors u₁* and u₂*, which lie along the two axes."""

    max_steps: int = Field(default=600_000, ge=1)
    """Maximal number of training steps per seed."""


PRESETS: dict[str, dict[str, Any]] = {
    "z2-tanh": {"activation": "z2-tanh"},
    "z3-rational": {"activation": "z3-rational"},
}
QUICK: dict[str, Any] = {"seeds": 4}


def _known(parameters: Parameters, task: AbstractTask, network: Layer) -> Levels:
    """Return the fixed points of one unit; for z² tanh z the infimum, where φ is z|z|."""
    if parameters.activation != "z2-tanh":
        return fixed_points(parameters, task, network)
    x, y, weight, *_ = task.statistics(network.unit)
    angle = np.linspace(0, 2 * np.pi, 1440, endpoint=False)
    z = x @ np.stack((np.cos(angle), np.sin(angle)))
    explained = (weight * y[:, 0]) @ (z * np.abs(z))
    left = weight @ y[:, 0] ** 2 - explained**2 / (weight @ z**4)
    return float(left.min()), {}


run, claims, draw = other("4H", "of order three", Parameters, 3, known=_known, share=0.75)
