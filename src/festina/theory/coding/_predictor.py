"""What a posterior predicts of new inputs, and how the error splits."""

from dataclasses import dataclass

import numpy as np
from jaxtyping import Float

from ..._checks import finite_array
from ..._result import Result
from ..._types import ArrayLike


@dataclass(frozen=True, repr=False)
class BiasVariance(Result):
    r"""Bias and variance: parts of the test error $\langle|y - f|^2\rangle$ of a drawn network.

    - `bias`: $|y - \langle f\rangle|^2$, summed over outputs, averaged over inputs.
    - `variance`: of f, likewise; the sum is the error of one network.
    - `accuracy`: how often the largest output of the mean is the largest target.
    """

    bias: float
    variance: float
    accuracy: float

    def __str__(self) -> str:
        return f"bias {self.bias:.4f}, variance {self.variance:.4g}, accuracy {self.accuracy:.3f}"


@dataclass(frozen=True, eq=False, repr=False)
class Predictor(Result):
    """Mean and variance over a posterior, for every input and output; `kind` names it."""

    mean: Float[np.ndarray, "sample output"]
    variance: Float[np.ndarray, "sample output"]
    kind: str

    def split(self, y: ArrayLike) -> BiasVariance:
        """Return bias and variance against the targets `y` of these inputs."""
        y = finite_array("y", y)
        y = y[:, None] if y.ndim == 1 else y
        if y.shape != self.mean.shape:
            raise ValueError(
                f"`y` must have the shape {self.mean.shape} of what is predicted, got {y.shape}."
            )
        right = self.mean.argmax(axis=1) == y.argmax(axis=1)
        return BiasVariance(
            float(((y - self.mean) ** 2).sum(axis=1).mean()),
            float(self.variance.sum(axis=1).mean()),
            float(right.mean()),
        )
