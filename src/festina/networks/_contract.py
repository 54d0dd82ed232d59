"""Matrix products of small arrays in the form that XLA compiles to the fastest code.

In networks of a few hundred weights a multiplication and a sum, which XLA fuses with neighbouring
operations, run several times faster than a matrix product. Larger arrays use the matrix product.
Units and the networks of a batch ("lanes") are the trailing axes, so that the processor can handle
several lanes in one instruction.
"""

import jax
import jax.numpy as jnp
from jaxtyping import Float

from .._types import Array

_SMALL = 4096  # largest number of multiplications that does not use a matrix product
_FEW = 64  # largest number of matrix entries (`mix`) or rows (`pair`) that are written out singly
_LARGE = 2**14  # number of multiplications above which `chain` uses a matrix product in each lane


def mix(matrix: Float[Array, "k n"], x: Float[Array, "n *rest"]) -> Float[Array, "k *rest"]:
    """Return Σ_n matrix_kn x_n."""
    if 0 < matrix.size <= _FEW and x.ndim > 1:
        rows = jnp.split(x, len(x))
        return jnp.concatenate(
            [sum(c * row for c, row in zip(k, rows, strict=True)) for k in matrix]
        )
    if len(matrix) * x.size <= _SMALL:
        return jnp.sum(matrix.reshape(*matrix.shape, *(1,) * (x.ndim - 1)) * x, axis=1)
    # A product of two matrices, because its gradient then has the lanes last as well.
    return (matrix @ x.reshape(len(x), -1)).reshape(len(matrix), *x.shape[1:])


def pair(
    a: Float[Array, "m shared *lane"], b: Float[Array, "n shared *lane"]
) -> Float[Array, "m n *lane"]:
    """Return Σ_i a_mi b_ni over the shared axis, in every lane."""
    if a.ndim > 2 and len(a) <= _FEW:
        # `split` instead of indexing, whose gradient would be an array padded with zeros.
        return jnp.stack([jnp.sum(row * b, axis=1) for row in jnp.split(a, len(a))])
    if len(a) * b.size <= _SMALL:
        return jnp.sum(outer(a, b), axis=2)
    return jnp.einsum("mi...,ni...->mn...", a, b)


def chain(
    a: Float[Array, "m shared *lane"], b: Float[Array, "n shared *lane"]
) -> Float[Array, "m n *lane"]:
    """Return Σ_i a_mi b_ni over the shared axis, in every lane, for matrices of any size."""
    if a.ndim == 3 and len(a) * a.shape[1] * len(b) > _LARGE:
        lanes = tuple(jnp.moveaxis(matrix, -1, 0) for matrix in (a, b))
        return jnp.moveaxis(jax.lax.map(lambda each: each[0] @ each[1].T, lanes), 0, -1)
    return pair(a, b)


def outer(a: Float[Array, "m *rest"], b: Float[Array, "n *rest"]) -> Float[Array, "m n *rest"]:
    """Return the outer product a_m b_n, elementwise in all other axes."""
    return a[:, None] * b[None]
