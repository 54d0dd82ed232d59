"""Figure 4D: a tanh network grows one direction of weights, which is no saddle's."""

from typing import Any

from pydantic import Field

from ._claims import direction_claims
from ._panel import OtherPanel
from ._teacher import TeacherParameters, fixed_points, teacher_panel


class Parameters(TeacherParameters):
    """φ(x; u) = tanh(u·x)."""

    max_steps: int = Field(default=10_000, ge=1)
    """Most steps of training for each seed."""


PRESETS: dict[str, dict[str, Any]] = {}
QUICK: dict[str, Any] = {"seeds": 3, "max_steps": 6_000}

PANEL = OtherPanel(
    panel=teacher_panel(
        name="saddles/figure-4d",
        title="tanh(u·x)",
        parameters=Parameters,
        activation="tanh",
        structure=direction_claims,
    ),
    order=1,
    known=fixed_points,
)
run, claims, draw = PANEL.run, PANEL.claims, PANEL.draw
