"""Figure 4D: a tanh network grows one direction of weights, which is no saddle's."""

from pydantic import Field

from ._panel import TeacherParameters, other


class Parameters(TeacherParameters):
    """φ(x; u) = tanh(u·x)."""

    max_steps: int = Field(default=10_000, ge=1)
    """Most steps of training for each seed."""


QUICK = {"seeds": 3, "max_steps": 6_000}

run, claims, draw = other("4D", "tanh(u·x)", Parameters, 1, activation="tanh")
