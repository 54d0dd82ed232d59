"""Products of small arrays, as the compiler likes them best.

Figure 1's networks have a few hundred weights. For such sizes a multiply and a sum that fuse with
what surrounds them run several times faster than a call of a matrix product, which is the better
choice for anything larger. Arrays carry their units and, in a batch, their networks ("lanes") in
the trailing axes, which is what lets a processor work on several of them at a time.
"""

import jax
import jax.numpy as jnp
from jaxtyping import Float

from .._types import Array

_SMALL = 4096  # products that are not left to the library
_FEW = 64  # sums, or products of a matrix, that are written out one by one
_LARGE = 2**14  # products of two matrices from which on the library is best, a lane at a time


def mix(matrix: Float[Array, "k n"], x: Float[Array, "n *rest"]) -> Float[Array, "k *rest"]:
    """Return Σ_n matrix_kn x_n."""
    if 0 < matrix.size <= _FEW and x.ndim > 1:
        rows = jnp.split(x, len(x))
        return jnp.concatenate(
            [sum(c * row for c, row in zip(k, rows, strict=True)) for k in matrix]
        )
    if len(matrix) * x.size <= _SMALL:
        return jnp.sum(matrix.reshape(*matrix.shape, *(1,) * (x.ndim - 1)) * x, axis=1)
    # As two matrices, because the gradient then is a product with the lanes last as well.
    return (matrix @ x.reshape(len(x), -1)).reshape(len(matrix), *x.shape[1:])


def pair(
    a: Float[Array, "m shared *lane"], b: Float[Array, "n shared *lane"]
) -> Float[Array, "m n *lane"]:
    """Return Σ_i a_mi b_ni over the shared axis, in every lane."""
    if a.ndim > 2 and len(a) <= _FEW:
        # Split and not indexed, because the gradient by an index is an array padded with zeros.
        return jnp.stack([jnp.sum(row * b, axis=1) for row in jnp.split(a, len(a))])
    if len(a) * b.size <= _SMALL:
        return jnp.sum(outer(a, b), axis=2)
    return jnp.einsum("mi...,ni...->mn...", a, b)


def chain(
    a: Float[Array, "m shared *lane"], b: Float[Array, "n shared *lane"]
) -> Float[Array, "m n *lane"]:
    """Return what `pair` computes, for matrices of any size."""
    if a.ndim == 3 and len(a) * a.shape[1] * len(b) > _LARGE:
        lanes = tuple(jnp.moveaxis(matrix, -1, 0) for matrix in (a, b))
        return jnp.moveaxis(jax.lax.map(lambda each: each[0] @ each[1].T, lanes), 0, -1)
    return pair(a, b)


def outer(a: Float[Array, "m *rest"], b: Float[Array, "n *rest"]) -> Float[Array, "m n *rest"]:
    """Return a_m b_n, elementwise in all other axes."""
    return a[:, None] * b[None]
