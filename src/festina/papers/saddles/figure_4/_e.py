"""Figure 4E: an activation of order two, which the text does not name: one unit, then two.

1 − cos z shows what the paper says of the panel, and so does ReLU(z)².
"""

from typing import Any, Literal

import jax
import numpy as np
from pydantic import Field

from ....networks import Layer
from ....tasks import AbstractTask
from ....theory.saddles import narrow_minima
from ._panel import FewUnitsParameters, Levels, fixed_points, other


class Parameters(FewUnitsParameters):
    """An activation of order two; the text names none for this panel."""

    activation: Literal["1-cos", "squared-relu"] = "1-cos"
    """The activation function: 1 − cos z or ReLU(z)²."""

    spacing: float = Field(default=0.5, gt=0, le=1)
    """Distance of the grid points that population averages are taken over."""

    max_steps: int = Field(default=30_000, ge=1)
    """Most steps of training for each seed."""


PRESETS: dict[str, dict[str, Any]] = {"squared-relu": {"activation": "squared-relu"}}
QUICK: dict[str, Any] = {"seeds": 4}


def _known(parameters: Parameters, task: AbstractTask, network: Layer) -> Levels:
    """Fixed points of one unit; for ReLU(z)², of which they are whole rays, its minima alone."""
    if parameters.activation == "1-cos":
        return fixed_points(parameters, task, network)
    key = jax.random.key(parameters.seed)
    minima = narrow_minima(network.unit, task, loss=parameters.loss, key=key).loss
    points = {"fixed_point": minima, "minimum": np.ones(len(minima), bool)}
    return float(minima[0]), {name: ("point", values) for name, values in points.items()}


run, claims, draw = other("4E", "order two, unnamed", Parameters, 2, known=_known, share=0.75)
