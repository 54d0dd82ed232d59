"""Extreme curvatures of the loss: is a stationary point a saddle, and how sharp is it."""

from collections.abc import Callable

import jax
import jax.numpy as jnp
import numpy as np
from jaxtyping import Float

from .._objective import Data, excess_loss
from .._programs import kept
from .._types import Array
from ..networks import AbstractStructure

_DENSE = 600


def extreme_curvatures(
    structure: AbstractStructure, weights: Float[Array, " weight"], data: Data
) -> tuple[float, float]:
    """Smallest and largest eigenvalue of the Hessian, by Lanczos where it is too large to form."""
    n = weights.size
    if n <= _DENSE:
        eigenvalues = np.linalg.eigvalsh(np.asarray(hessian(structure, weights, data)))
        return float(eigenvalues[0]), float(eigenvalues[-1])

    def product(direction: np.ndarray) -> np.ndarray:
        return np.asarray(hessian_product(structure, weights, direction.ravel(), data))

    largest = _top(product, n)
    # The smallest relative to the largest: near zero it has no digits of its own.
    smallest = largest - _top(lambda direction: largest * direction - product(direction), n)
    return smallest, largest


def _top(product: Callable[[np.ndarray], np.ndarray], n: int) -> float:
    """The largest eigenvalue by Lanczos; where it does not converge, the best bound it has."""
    from scipy.sparse.linalg import ArpackNoConvergence, LinearOperator, eigsh

    operator = LinearOperator((n, n), matvec=product, dtype=float)  # pyright: ignore
    start = np.random.default_rng(0).normal(size=n)
    if not product(start).any():  # flat everywhere, where Lanczos cannot start
        return 0.0
    try:
        ends = eigsh(operator, k=1, which="LA", tol=1e-6, v0=start, return_eigenvectors=False)  # pyright: ignore
    except ArpackNoConvergence as failure:
        ends = (
            failure.eigenvalues
            if len(failure.eigenvalues)
            else [start @ product(start) / (start @ start)]
        )
    return float(np.max(np.asarray(ends)))


@kept("structure")
def hessian(
    structure: AbstractStructure, weights: Float[Array, " weight"], data: Data
) -> Float[Array, "weight weight"]:
    return jax.hessian(excess_loss, argnums=1)(structure, weights, data)


@kept("structure")
def hessian_product(
    structure: AbstractStructure,
    weights: Float[Array, " weight"],
    direction: Float[Array, " weight"],
    data: Data,
) -> Float[Array, " weight"]:
    gradient = jax.grad(excess_loss, argnums=1)
    return jax.jvp(lambda w: gradient(structure, w, data), (weights,), (jnp.asarray(direction),))[1]
