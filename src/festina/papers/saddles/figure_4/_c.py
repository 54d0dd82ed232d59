"""Figure 4C: a sine network grows one direction of weights, which is no saddle's."""

from pydantic import Field

from ._panel import TeacherParameters, other


class Parameters(TeacherParameters):
    """φ(x; u) = sin(u·x)."""

    spacing: float = Field(default=0.6, gt=0, le=1)
    """Distance of the grid points that population averages are taken over."""

    max_steps: int = Field(default=12_000, ge=1)
    """Most steps of training for each seed."""


QUICK = {"seeds": 3, "max_steps": 8_000}

run, claims, draw = other("4C", "sin(u·x)", Parameters, 1, activation="sine")
