"""Parameters that every panel of Figures 1, 4 and 5 has, with the defaults that most of them share.

Convention of the paper: loss ⟨‖y − f‖²⟩ without ½ (Eq. 64), so that n steps of size η are time 2ηn
of the half loss in which Sections 5, G and H are written.
"""

from typing import Literal

from pydantic import Field

from ....experiments._parameters import Parameters


class PanelParameters(Parameters):
    """Parameters that every panel of Figures 1, 4 and 5 has."""

    width: int = Field(default=50, ge=2)
    """Number of units H: neurons, kernels or heads."""

    scale: float = Field(default=1e-6, gt=0)
    """Standard deviation ε of the initial weights."""

    learning_rate: float = Field(default=0.01, gt=0)
    """Learning rate η of gradient descent on the loss."""

    samples: int | None = Field(default=None, ge=1)
    """Size of a finite data set (the paper: 8192); 'none' for exact population averages."""

    loss: Literal["mean-square", "mean-over-outputs", "half"] = "mean-square"
    """Loss convention: as Eq. 64 is printed, averaged over outputs as well, or half the first."""

    method: Literal["descent", "flow"] = "descent"
    """Gradient descent at the learning rate, or gradient flow on the same axis of steps, t/η."""

    max_steps: int = Field(default=100_000, ge=1)
    """Most steps of training for each seed."""


class FewUnitsParameters(PanelParameters):
    """Where units separate: few of them, from larger weights."""

    width: int = Field(default=10, ge=2)
    """Number of units or heads H."""

    scale: float = Field(default=5e-3, gt=0)
    """Standard deviation ε of the initial weights."""


def refuse_samples(parameters: PanelParameters, points: int, number: str) -> None:
    """Raise if a panel whose data are these few points is asked for a sample of them."""
    if parameters.samples not in (None, points):
        raise ValueError(
            f"`samples` must be none: the task is {number} points, got {parameters.samples}."
        )
