"""Figure 4C: a sine network grows one direction of weights without resting at a saddle."""

from pydantic import Field

from ._panel import TeacherParameters, other


class Parameters(TeacherParameters):
    """Parameters of Figure 4C, with activation φ(x; u) = sin(u·x)."""

    spacing: float = Field(default=0.6, gt=0, le=1)
    """Spacing of the grid points over which population averages are taken."""

    max_steps: int = Field(default=12_000, ge=1)
    """Maximal number of training steps per seed."""


QUICK = {"seeds": 3, "max_steps": 8_000}

run, claims, draw = other("4C", "sin(u·x)", Parameters, 1, activation="sine")
