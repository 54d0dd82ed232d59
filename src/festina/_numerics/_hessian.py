"""The Hessian of the loss, as a matrix and as a product with vectors."""

import functools

import jax
import jax.numpy as jnp
from jaxtyping import Float

from .._objective import Data, excess_loss
from .._types import Array
from ..networks._structure import AbstractStructure

_AT_ONCE = 4e6  # largest count of intermediate numbers for Hessian columns computed together


def between(weights: Float[Array, " weight"], data: Data) -> int:
    """Return roughly how many intermediate numbers one evaluation of the loss holds in memory."""
    return max(data.psi.size, len(data.psi) * weights.size)


@functools.partial(jax.jit, static_argnames="structure")
def hessian(
    structure: AbstractStructure, weights: Float[Array, " weight"], data: Data
) -> Float[Array, "weight weight"]:
    """Return the Hessian of the loss; memory limits how many columns are computed together."""
    gradient = lambda w: jax.grad(excess_loss, argnums=1)(structure, w, data)
    column = lambda direction: jax.jvp(gradient, (weights,), (direction,))[1]
    together = max(1, min(weights.size, int(_AT_ONCE // between(weights, data))))
    identity = jnp.eye(weights.size, dtype=weights.dtype)
    return jax.lax.map(column, identity, batch_size=together)


@functools.partial(jax.jit, static_argnames="structure")
def hessian_product(
    structure: AbstractStructure,
    weights: Float[Array, " weight"],
    direction: Float[Array, " weight"],
    data: Data,
) -> Float[Array, " weight"]:
    """Return the product of the Hessian of the loss with a vector."""
    gradient = jax.grad(excess_loss, argnums=1)
    return jax.jvp(lambda w: gradient(structure, w, data), (weights,), (jnp.asarray(direction),))[1]
