"""What a network sees of its inputs: all that statistics of a task are made of."""

import abc

import numpy as np
from jaxtyping import Float

from .._types import Array

Shape = tuple[int, ...]


class AbstractView(abc.ABC):
    """Features ψ(x) without any weights, and what the network does with them.

    Hashable: a task computes its statistics once for each view.
    """

    @property
    @abc.abstractmethod
    def fixed_features(self) -> bool:
        """Whether the response is linear in the features, so that their moments suffice."""

    @property
    @abc.abstractmethod
    def degree(self) -> int | None:
        """Degree of the response as a polynomial in the input, None if it is not one."""

    @property
    def gates(self) -> int:
        """How many numbers at the end of the features are gates: linear is what has the same."""
        return 0

    @property
    def output_gates(self) -> tuple[int, ...]:
        """Which of the features, from the end, are the gates of outputs, if all of these have."""
        return ()

    @abc.abstractmethod
    def features(self, x: Float[Array, "..."]) -> Float[Array, "..."]:
        """ψ(x)."""

    @abc.abstractmethod
    def check_input(self, input_shape: Shape) -> None:
        """Raises if there is no such view of inputs of this shape."""

    def skip(self, x: Float[Array, "..."], outputs: int) -> Float[Array, " {outputs}"] | float:
        """What a residual connection adds to the output."""
        del x, outputs
        return 0.0

    def wanted(
        self, psi: Float[np.ndarray, "sample *features"], y: Float[np.ndarray, "sample output"]
    ) -> Float[np.ndarray, "sample output"]:
        """What of the targets counts."""
        del psi
        return y
