"""Figure 4H: an activation of order three, which the text does not name: one unit, then two.

z² sin z shows what the paper says of the panel, and so does z³/(1 + z²). z² tanh z, by analogy with
panel F, does as well, but its plateau is no fixed point: one unit does best with infinite weights,
as z|z|. All of them rest for several times as long as they need to leave zero.
"""

from typing import Any, Literal

import numpy as np
from pydantic import Field, PositiveFloat

from ....networks import Layer
from ....tasks import AbstractTask
from ._panel import FewUnitsParameters, Levels, fixed_points, other


class Parameters(FewUnitsParameters):
    """An activation of order three; the text names none for this panel."""

    activation: Literal["z2-sin", "z2-tanh", "z3-rational"] = "z2-sin"
    """The activation function: z² sin z, z² tanh z or z³/(1 + z²)."""

    teacher: tuple[PositiveFloat, PositiveFloat] = (1.0, 1.0)
    """Lengths of the teacher's two weight vectors u₁* and u₂*, which lie along the two axes."""

    max_steps: int = Field(default=600_000, ge=1)
    """Most steps of training for each seed."""


PRESETS: dict[str, dict[str, Any]] = {
    "z2-tanh": {"activation": "z2-tanh"},
    "z3-rational": {"activation": "z3-rational"},
}
QUICK: dict[str, Any] = {"seeds": 4}


def _known(parameters: Parameters, task: AbstractTask, network: Layer) -> Levels:
    """Fixed points of one unit; where it has none, the infimum, which is that of φ = z|z|."""
    if parameters.activation != "z2-tanh":
        return fixed_points(parameters, task, network)
    x, y, weight, *_ = task.statistics(network.unit)
    angle = np.linspace(0, 2 * np.pi, 1440, endpoint=False)
    z = x @ np.stack((np.cos(angle), np.sin(angle)))
    explained = (weight * y[:, 0]) @ (z * np.abs(z))
    left = weight @ y[:, 0] ** 2 - explained**2 / (weight @ z**4)
    return float(left.min()), {}


run, claims, draw = other("4H", "order three, unnamed", Parameters, 3, known=_known, share=0.75)
