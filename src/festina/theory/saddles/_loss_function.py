"""The loss of a network and its gradient, as functions of one vector of weights."""

import functools

import jax
import numpy as np
from jaxtyping import Float

from ..._numerics._bfgs import Function, Point
from ..._objective import Data, descent, excess_loss
from ..._types import Array
from ...networks._structure import AbstractStructure

_ROUNDING = 1e-20


def loss_function(structure: AbstractStructure, data: Data) -> Function:
    """Return a function that maps weights to the loss above least squares and its gradient."""
    held = jax.device_put(data)

    def function(weights: Point) -> tuple[float, Point]:
        value, gradient = value_and_gradient(structure, weights, held)
        return float(value), np.asarray(gradient)

    return function


def relative_slope(weights: Point, gradient: Point, least: float = 0.0) -> float:
    """Return |gradient| · |weights|, which bounds the relative sensitivity of the loss.

    To first order, changing all weights by a relative amount δ changes the loss by at most δ times
    the result. A norm |weights| below `least` is replaced by `least`.
    """
    return float(np.linalg.norm(gradient) * max(np.linalg.norm(weights), least))


def natural_size(loss: float, slope: float) -> float:
    """Return the size of weights that would remove all of the loss at zero weights, to first order.

    Return zero if the gradient vanishes at zero weights, as for units with φ(z; 0) = 0: the
    gradient then defines no size.
    """
    return loss / slope if slope**2 > _ROUNDING * loss else 0.0


@functools.partial(jax.jit, static_argnames="structure")
def velocity(
    structure: AbstractStructure, weights: Float[Array, " weight"], data: Data
) -> Float[Array, " weight"]:
    """Return −∂L/∂θ."""
    return descent(structure, weights, data)[1]


@functools.partial(jax.jit, static_argnames="structure")
def value_and_gradient(
    structure: AbstractStructure, weights: Float[Array, " weight"], data: Data
) -> tuple[Float[Array, ""], Float[Array, " weight"]]:
    """Return the loss above least squares and its gradient (compiled once per shape)."""
    return jax.value_and_grad(excess_loss, argnums=1)(structure, weights, data)
