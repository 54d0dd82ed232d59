"""Views: the features of the inputs on which a network's outputs depend."""

import abc

import numpy as np
from jaxtyping import Float

from .._types import Array

Shape = tuple[int, ...]


class AbstractView(abc.ABC):
    """Abstract class of the features ψ(x) that a network computes without any weights.

    Views are hashable, because a task caches its statistics for each view.
    """

    @property
    @abc.abstractmethod
    def fixed_features(self) -> bool:
        """Whether the response is linear in the features, so that their moments suffice."""

    @property
    @abc.abstractmethod
    def degree(self) -> int | None:
        """Degree of the response as a polynomial in the input; None if it is not a polynomial."""

    @property
    def gates(self) -> int:
        """Number of gates, the last entries of the features.

        For samples with equal gates the network is linear in the other features.
        """
        return 0

    @property
    def output_gates(self) -> tuple[int, ...]:
        """Indices, counted from the end, of the features that are the gates of the outputs.

        The tuple is empty unless every output has a gate.
        """
        return ()

    @abc.abstractmethod
    def features(self, x: Float[Array, "..."]) -> Float[Array, "..."]:
        """Return the features ψ(x) of one input."""

    @abc.abstractmethod
    def check_input(self, input_shape: Shape) -> None:
        """Raise `ValueError` if the network does not take inputs of this shape."""

    def skip(self, x: Float[Array, "..."], outputs: int) -> Float[Array, " {outputs}"] | float:
        """Return the part of the output that a residual connection adds."""
        del x, outputs
        return 0.0

    def wanted(
        self, psi: Float[np.ndarray, "sample *features"], y: Float[np.ndarray, "sample output"]
    ) -> Float[np.ndarray, "sample output"]:
        """Return the targets that enter the loss; a gated network sets some of them to zero."""
        del psi
        return y
