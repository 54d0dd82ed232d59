"""The loss of a network as an optimiser wants it: a column of weights to value and gradient."""

import jax
import numpy as np
from jaxtyping import Float

from ..._objective import Data, excess_loss
from ..._programs import kept
from ..._types import Array
from ...networks import AbstractStructure
from ._bfgs import Function, Point


def loss_function(structure: AbstractStructure, data: Data) -> Function:
    """The loss above that of least squares, and its gradient."""
    held = jax.device_put(data)

    def function(weights: Point) -> tuple[float, Point]:
        value, gradient = value_and_gradient(structure, weights, held)
        return float(value), np.asarray(gradient)

    return function


def relative_slope(weights: Point, gradient: Point) -> float:
    """To first order no relative change of the weights changes the loss by more than that."""
    return float(np.linalg.norm(gradient) * np.linalg.norm(weights))


@kept("structure")
def value_and_gradient(
    structure: AbstractStructure, weights: Float[Array, " weight"], data: Data
) -> tuple[Float[Array, ""], Float[Array, " weight"]]:
    """Compiled once for each structure and shape."""
    return jax.value_and_grad(excess_loss, argnums=1)(structure, weights, data)
