"""Figure 4C: a sine network grows one direction of weights, which is no saddle's."""

from typing import Any

import numpy as np
from pydantic import Field

from ...claims import Claim
from ..panels._reading import PLATEAU, Reading
from ._claims import FIGURE, direction_claims
from ._panel import OtherPanel
from ._teacher import TeacherParameters, fixed_points, teacher_panel

# Where plain gradient descent rests, one after the other.
_LEVELS = (0.487, 0.425)
_TASK = {"teacher", "samples", "scale", "width"}  # that they belong to


class Parameters(TeacherParameters):
    """φ(x; u) = sin(u·x)."""

    spacing: float = Field(default=0.6, gt=0, le=1)
    """Distance of the grid points that population averages are taken over."""

    max_steps: int = Field(default=12_000, ge=1)
    """Most steps of training for each seed."""


PRESETS: dict[str, dict[str, Any]] = {}
QUICK: dict[str, Any] = {"seeds": 3, "max_steps": 8_000}


def _structure(reading: Reading) -> list[Claim]:
    return [*direction_claims(reading), *_level_claims(reading)]


def _level_claims(reading: Reading) -> list[Claim]:
    seeds = np.flatnonzero(reading.counts >= 4)
    same = reading.parameters.model_dump(include=_TASK) == Parameters().model_dump(include=_TASK)
    if not len(seeds) or not same:
        return []
    levels = reading.plateaus["level"].values[seeds, PLATEAU : PLATEAU + 2]
    return [
        reading.compare(
            "median levels at which the loss stops for the first and for the second time, neither "
            "of them a width-1 fixed point's",
            list(_LEVELS),
            np.median(levels, axis=0),
            tolerance=0.01,
            relative=True,
            source=f"{FIGURE}C; plain gradient descent, population averages",
            note=f"{len(seeds)} of {reading.seeds} seeds stop twice",
        )
    ]


PANEL = OtherPanel(
    panel=teacher_panel(
        name="saddles/figure-4c",
        title="sin(u·x)",
        parameters=Parameters,
        activation="sine",
        structure=_structure,
    ),
    order=1,
    known=fixed_points,
)
run, claims, draw = PANEL.run, PANEL.claims, PANEL.draw
