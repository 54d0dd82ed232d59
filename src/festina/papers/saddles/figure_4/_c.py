"""Figure 4C: a sine network grows one direction of weights, which is no saddle's."""

import functools
from typing import Any

from pydantic import Field

from ._panel import TeacherParameters, directions, draw_other, tables, teacher_panel


class Parameters(TeacherParameters):
    """φ(x; u) = sin(u·x)."""

    spacing: float = Field(default=0.6, gt=0, le=1)
    """Distance of the grid points that population averages are taken over."""

    max_steps: int = Field(default=12_000, ge=1)
    """Most steps of training for each seed."""


QUICK: dict[str, Any] = {"seeds": 3, "max_steps": 8_000}

PANEL = teacher_panel("4C", "sin(u·x)", Parameters, tables(), directions, "sine")
run, claims, draw = PANEL.run, PANEL.claims, functools.partial(draw_other, PANEL)
