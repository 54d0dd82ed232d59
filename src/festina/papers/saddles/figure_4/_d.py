"""Figure 4D: a tanh network grows one direction of weights without resting at a saddle."""

from pydantic import Field

from ._panel import TeacherParameters, other


class Parameters(TeacherParameters):
    """Parameters of Figure 4D, with activation φ(x; u) = tanh(u·x)."""

    max_steps: int = Field(default=10_000, ge=1)
    """Maximal number of training steps per seed."""


QUICK = {"seeds": 3, "max_steps": 6_000}

run, claims, draw = other("4D", "tanh(u·x)", Parameters, 1, activation="tanh")
