"""Figure 4E: an activation of order two, which the text does not name: one unit, then two.

1 − cos z shows what the paper says of the panel, and so does ReLU(z)².
"""

from typing import Any, Literal

import numpy as np
from jaxtyping import PRNGKeyArray
from pydantic import Field

from ...networks import Layer
from ...networks._seeds import Keys
from ...tasks import AbstractTask
from ...theory.saddles import narrow_minima
from .._claim import Claim
from ._figure_4 import Levels, OtherPanel, TeacherParameters, fixed_points, student, teacher_task
from ._figure_4_activations import formula, named
from ._figure_4_claims import unit_claims
from ._panel import Panel
from ._reading import Reading


class Parameters(TeacherParameters):
    """An activation of order two; the text names none for this panel."""

    activation: Literal["1-cos", "squared-relu"] = "1-cos"
    """The activation function: 1 − cos z or ReLU(z)²."""

    width: int = Field(default=10, ge=2)
    """Number of units H."""

    scale: float = Field(default=5e-3, gt=0)
    """Standard deviation ε of the initial weights."""

    spacing: float = Field(default=0.5, gt=0, le=1)
    """Distance of the grid points that population averages are taken over."""

    max_steps: int = Field(default=30_000, ge=1)
    """Most steps of training for each seed."""


PRESETS: dict[str, dict[str, Any]] = {"squared-relu": {"activation": "squared-relu"}}
QUICK: dict[str, Any] = {"seeds": 4}


def _task(parameters: Parameters, key: PRNGKeyArray | None) -> AbstractTask:
    return teacher_task(named(parameters.activation), parameters, key)


def _network(parameters: Parameters, keys: Keys) -> Layer:
    return student(named(parameters.activation), parameters, keys)


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


def _structure(reading: Reading) -> list[Claim]:
    parameters = reading.parameters
    assert isinstance(parameters, Parameters)
    chosen = formula(parameters.activation)
    return unit_claims(reading, note=f"the text names no activation; here φ = {chosen}")


PANEL = OtherPanel(
    panel=Panel(
        name="saddles/figure-4e",
        title="order two, unnamed",
        parameters=Parameters,
        task=_task,
        network=_network,
        predict=lambda *_: {},
        structure=_structure,
        level_fraction=0.75,
        count_fraction=0.75,
    ),
    order=2,
    known=_known,
)
run, claims, draw = PANEL.run, PANEL.claims, PANEL.draw
