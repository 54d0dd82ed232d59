"""Parameters of Figure 3."""

from typing import Annotated

from pydantic import AfterValidator, Field

from ... import _parameters
from ._pairs import Pair, once_each


class Parameters(_parameters.Parameters):
    """Appendix B.1, caption of Figure 3."""

    seeds: int = Field(default=1, ge=1)
    """How many networks of each kind are trained for each pair."""

    pairs: Annotated[tuple[Pair, ...], AfterValidator(once_each)] = ("0/1", "0/8", "5/7", "3/5")
    """Which digits are told apart, such as 3/5."""

    width: int = Field(default=1000, ge=10)
    """Number of hidden units H."""

    scale: float = Field(default=1e-6, gt=0, le=1e-4)
    """Standard deviation ε of the initial weights."""

    learning_rate: float = Field(default=0.01, gt=0)
    """Learning rate η of stochastic gradient descent on ⟨‖y − f‖²⟩."""

    batch_size: int = Field(default=64, ge=1, le=10_000)
    """Images in a mini-batch."""

    steps: int = Field(default=2000, ge=400)
    """How many steps each network is trained for."""

    judged: int = Field(default=2000, ge=100, le=10_000)
    """How many of the training images the loss is taken over."""
