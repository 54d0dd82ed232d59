"""Predictions of a posterior for new inputs, and their bias and variance."""

from dataclasses import dataclass

import numpy as np
from jaxtyping import Float

from ..._checks import finite_array
from ..._result import Result
from ..._types import ArrayLike


@dataclass(frozen=True, repr=False)
class BiasVariance(Result):
    r"""Bias and variance of a posterior: the two parts of the mean test error of a sampled network.

    The test error is $\langle|y - f|^2\rangle$, averaged over sampled networks f.

    - `bias`: squared error $|y - \langle f\rangle|^2$ of the mean prediction, summed over outputs
      and averaged over inputs.
    - `variance`: variance of f, summed over outputs and averaged over inputs.
    - `accuracy`: fraction of inputs for which the output with the largest mean has the largest
      target.

    **Example:**

    >>> import numpy as np
    >>> from festina.theory.coding import Predictor
    >>> predicted = Predictor(np.array([[0.9, 0.1]]), np.array([[0.01, 0.02]]), "by hand")
    >>> print(predicted.split([[1, 0]]))
    bias 0.0200, variance 0.03, accuracy 1.000
    """

    bias: float
    variance: float
    accuracy: float

    def __str__(self) -> str:
        return f"bias {self.bias:.4f}, variance {self.variance:.4g}, accuracy {self.accuracy:.3f}"


@dataclass(frozen=True, eq=False, repr=False)
class Predictor(Result):
    """Mean and variance of the predictions of a posterior, for every input and output.

    - `mean`, `variance`: posterior mean and variance of f.
    - `kind`: name of the posterior, for printing.

    **Example:**

    >>> from festina.tasks import from_arrays
    >>> from festina.theory.coding import linear_code
    >>> task = from_arrays([[2, 0, 0, 0], [0, 2, 0, 0]], [1, -1])
    >>> predicted = linear_code(task).predictor([[2, 1, 1, 0]], width=100)
    >>> predicted.mean.round(3), predicted.variance.round(4)
    (array([[0.5]]), array([[0.0032]]))
    """

    mean: Float[np.ndarray, "sample output"]
    variance: Float[np.ndarray, "sample output"]
    kind: str

    def split(self, y: ArrayLike) -> BiasVariance:
        """Return bias, variance and accuracy of the predictions, given the targets `y`."""
        y = finite_array("y", y)
        y = y[:, None] if y.ndim == 1 else y
        if y.shape != self.mean.shape:
            raise ValueError(
                f"`y` must have the shape {self.mean.shape} of the predictions, got {y.shape}."
            )
        right = self.mean.argmax(axis=1) == y.argmax(axis=1)
        return BiasVariance(
            float(((y - self.mean) ** 2).sum(axis=1).mean()),
            float(self.variance.sum(axis=1).mean()),
            float(right.mean()),
        )
