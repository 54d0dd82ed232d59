"""Figure 4H: an activation of order three, which the text does not name: one unit, then two.

z² sin z shows what the paper says of the panel, and so does z³/(1 + z²). z² tanh z, by analogy with
panel F, does as well, but its plateau is no fixed point: one unit does best with infinite weights,
as z|z|. All of them rest for several times as long as they need to leave zero.
"""

from typing import Any, Literal

import numpy as np
from jaxtyping import PRNGKeyArray
from pydantic import Field, PositiveFloat

from ...networks import Layer
from ...networks._seeds import Keys
from ...tasks import AbstractTask
from .._claim import Claim
from ._figure_4 import Levels, OtherPanel, TeacherParameters, fixed_points, student, teacher_task
from ._figure_4_activations import formula, named
from ._figure_4_claims import unit_claims
from ._panel import Panel
from ._reading import Reading


class Parameters(TeacherParameters):
    """An activation of order three; the text names none for this panel."""

    activation: Literal["z2-sin", "z2-tanh", "z3-rational"] = "z2-sin"
    """The activation function: z² sin z, z² tanh z or z³/(1 + z²)."""

    teacher: tuple[PositiveFloat, PositiveFloat] = (1.0, 1.0)
    """Lengths of the teacher's two weight vectors u₁* and u₂*, which lie along the two axes."""

    width: int = Field(default=10, ge=2)
    """Number of units H."""

    scale: float = Field(default=5e-3, gt=0)
    """Standard deviation ε of the initial weights."""

    max_steps: int = Field(default=600_000, ge=1)
    """Most steps of training for each seed."""


PRESETS: dict[str, dict[str, Any]] = {
    "z2-tanh": {"activation": "z2-tanh"},
    "z3-rational": {"activation": "z3-rational"},
}
QUICK: dict[str, Any] = {"seeds": 4}


def _task(parameters: Parameters, key: PRNGKeyArray | None) -> AbstractTask:
    return teacher_task(named(parameters.activation), parameters, key)


def _network(parameters: Parameters, keys: Keys) -> Layer:
    return student(named(parameters.activation), parameters, keys)


def _known(parameters: Parameters, task: AbstractTask, network: Layer) -> Levels:
    """Fixed points of one unit; where it has none, the infimum, which is that of φ = z|z|."""
    if parameters.activation != "z2-tanh":
        return fixed_points(parameters, task, network)
    x, y, weight, _ = task.statistics(network.unit)
    angle = np.linspace(0, 2 * np.pi, 1440, endpoint=False)
    z = x @ np.stack((np.cos(angle), np.sin(angle)))
    explained = (weight * y[:, 0]) @ (z * np.abs(z))
    left = weight @ y[:, 0] ** 2 - explained**2 / (weight @ z**4)
    return Levels(rest=float(left.min()), tables={})


def _structure(reading: Reading) -> list[Claim]:
    parameters = reading.parameters
    assert isinstance(parameters, Parameters)
    chosen = formula(parameters.activation)
    note = f"the text names no activation; here φ = {chosen}"
    return unit_claims(reading, visited="width_one_level" in reading.theory, note=note)


PANEL = OtherPanel(
    panel=Panel(
        name="saddles/figure-4h",
        title="order three, unnamed",
        parameters=Parameters,
        task=_task,
        network=_network,
        predict=lambda *_: {},
        structure=_structure,
        level_fraction=0.75,
        count_fraction=0.75,
    ),
    order=3,
    known=_known,
)
run, claims, draw = PANEL.run, PANEL.claims, PANEL.draw
