"""Parameters of all panels of Figures 1, 4 and 5, with the most common defaults.

The paper's loss is ⟨‖y − f‖²⟩ without ½ (Eq. 64). Sections 5, G and H use half of this loss, for
which n steps of size η are a time of 2ηn.
"""

from typing import Literal

from pydantic import Field

from ....experiments._parameters import Parameters


class PanelParameters(Parameters):
    """Parameters that all panels of Figures 1, 4 and 5 share."""

    width: int = Field(default=50, ge=2)
    """Number H of hidden units: neurons, convolution kernels or attention heads."""

    scale: float = Field(default=1e-6, gt=0)
    """Standard deviation ε of the initial weights."""

    learning_rate: float = Field(default=0.01, gt=0)
    """Learning rate η of gradient descent on the loss."""

    samples: int | None = Field(default=None, ge=1)
    """Number of samples in a finite data set (paper: 8192); 'none' for exact averages."""

    loss: Literal["mean-square", "mean-over-outputs", "half"] = "mean-square"
    """Loss: mean over samples (Eq. 64), mean over samples and outputs, or half of Eq. 64."""

    method: Literal["descent", "flow"] = "descent"
    """Training by gradient descent, or by gradient flow with time t plotted in steps t/η."""

    max_steps: int = Field(default=100_000, ge=1)
    """Maximal number of training steps per seed."""


class FewUnitsParameters(PanelParameters):
    """Panel parameters for networks whose units grow one by one: fewer units, larger weights."""

    width: int = Field(default=10, ge=2)
    """Number H of hidden units or attention heads."""

    scale: float = Field(default=5e-3, gt=0)
    """Standard deviation ε of the initial weights."""


def refuse_samples(parameters: PanelParameters, points: int, number: str) -> None:
    """Raise `ValueError` if `samples` is set for a panel whose data set is a few fixed points."""
    if parameters.samples not in (None, points):
        raise ValueError(
            f"`samples` must be none: the data set is {number} fixed points, got "
            f"{parameters.samples}."
        )
