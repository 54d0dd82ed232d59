"""Figure 4E: an activation of order two, which the text does not name: one unit, then two.

1 − cos z shows what the paper says of the panel, and so does ReLU(z)².
"""

from typing import Any, Literal

import numpy as np
from pydantic import Field

from ....networks import Layer
from ....tasks import AbstractTask
from ....theory.saddles import narrow_minima
from ._claims import unnamed_claims
from ._panel import Levels, OtherPanel
from ._teacher import FewUnitsParameters, fixed_points, teacher_panel


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
    minima = narrow_minima(network.unit, task, loss=parameters.loss, seed=parameters.seed)
    return Levels(
        rest=float(minima.loss[0]),
        tables={
            "width_one_level": ("point", minima.loss),
            "width_one_minimum": ("point", np.ones(len(minima.loss), dtype=bool)),
        },
    )


PANEL = OtherPanel(
    panel=teacher_panel(
        name="saddles/figure-4e",
        title="order two, unnamed",
        parameters=Parameters,
        structure=unnamed_claims,
        level_fraction=0.75,
        count_fraction=0.75,
    ),
    order=2,
    known=_known,
)
run, claims, draw = PANEL.run, PANEL.claims, PANEL.draw
