"""Figure 4E: an activation of order two has one active unit on the plateau, then two.

The paper's text does not name the activation. Networks with φ(z) = 1 − cos z or ReLU(z)² behave as
the paper says.
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
    """Parameters of Figure 4E; the paper's text names no activation for this panel."""

    activation: Literal["1-cos", "squared-relu"] = "1-cos"
    """Activation φ(z): 1 − cos z or ReLU(z)²."""

    spacing: float = Field(default=0.5, gt=0, le=1)
    """Spacing of the grid points over which population averages are taken."""

    max_steps: int = Field(default=30_000, ge=1)
    """Maximal number of training steps per seed."""


PRESETS: dict[str, dict[str, Any]] = {"squared-relu": {"activation": "squared-relu"}}
QUICK: dict[str, Any] = {"seeds": 4}


def _known(parameters: Parameters, task: AbstractTask, network: Layer) -> Levels:
    """Return the fixed points of one unit; for ReLU(z)², whose fixed points form rays, minima."""
    if parameters.activation == "1-cos":
        return fixed_points(parameters, task, network)
    key = jax.random.key(parameters.seed)
    minima = narrow_minima(network.unit, task, loss=parameters.loss, key=key).loss
    points = {"fixed_point": minima, "minimum": np.ones(len(minima), bool)}
    return float(minima[0]), {name: ("point", values) for name, values in points.items()}


run, claims, draw = other("4E", "of order two", Parameters, 2, known=_known, share=0.75)
