"""What a trained network remembers of its training, so that it can be trained on as in one go."""

from typing import NamedTuple

import numpy as np
from jaxtyping import Bool, Float


class Past(NamedTuple):
    """Of every network of a batch: how its training stood at the end, and what led there.

    By the loss and the gradient at the end a task is known again; of any other one, or of other
    weights, a past says nothing.
    """

    loss: Float[np.ndarray, "*batch"]  # above the lowest possible one
    squared_gradient: Float[np.ndarray, "*batch"]
    elapsed: Float[np.ndarray, "*batch"]  # time of the flow since the first weights
    peak: Float[np.ndarray, "*batch"]  # the largest squared gradient since
    initial_loss: Float[np.ndarray, "*batch"]  # of the first weights, above the lowest possible one
    initial_size: Float[np.ndarray, "*batch"]  # size of a typical one of the first weights
    step_size: Float[np.ndarray, "*batch"]  # that would come next
    solver: str

    def of(self, index: tuple[int, ...]) -> "Past":
        """That of one network of a batch."""
        return Past(*(np.asarray(part[index]) for part in self[:-1]), solver=self.solver)

    def flat(self) -> "Past":
        """With all networks along one axis."""
        return Past(*(np.ravel(part) for part in self[:-1]), solver=self.solver)

    def over(self, batch: tuple[int, ...]) -> "Past":
        """Along the axes of a batch again."""
        return Past(*(np.reshape(part, batch) for part in self[:-1]), solver=self.solver)

    def ends_at(
        self, loss: Float[np.ndarray, " lane"], squared_gradient: Float[np.ndarray, " lane"]
    ) -> Bool[np.ndarray, " lane"]:
        """Where this is the past of networks with such a loss and gradient, but for rounding."""
        gradients = np.sqrt(squared_gradient) - np.sqrt(self.squared_gradient)
        same_slope = np.abs(gradients) <= 1e-12 * np.sqrt(self.peak) + 1e-4 * np.sqrt(
            self.squared_gradient
        )
        difference = np.abs(loss - self.loss)
        return same_slope & (difference <= 1e-12 * self.initial_loss + 1e-6 * self.loss)


MEMORY = {
    "elapsed": "time of the flow since the first weights",
    "peak": "largest squared gradient since the first weights",
    "initial_loss": "loss of the first weights, above the lowest possible one",
    "initial_size": "size of a typical one of the first weights",
    "step_size": "step that would come next",
}
"""What a run on disk holds of it beside the samples, and in words."""

FINAL = "final_"
"""Before the names of parts, where a run on disk holds them at its end alone."""
