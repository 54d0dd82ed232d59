"""Figure 4D: a tanh network grows one direction of weights, which is no saddle's."""

import functools
from typing import Any

from pydantic import Field

from ._panel import TeacherParameters, directions, draw_other, tables, teacher_panel


class Parameters(TeacherParameters):
    """φ(x; u) = tanh(u·x)."""

    max_steps: int = Field(default=10_000, ge=1)
    """Most steps of training for each seed."""


QUICK: dict[str, Any] = {"seeds": 3, "max_steps": 6_000}

PANEL = teacher_panel("4D", "tanh(u·x)", Parameters, tables(), directions, "tanh")
run, claims, draw = PANEL.run, PANEL.claims, functools.partial(draw_other, PANEL)
