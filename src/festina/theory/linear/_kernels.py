r"""The neural tangent kernel of a two-layer linear network, and its change during learning.

Let the columns of $X$ be the examples, and let outputs be the slow index of the kernel. Then

$$K = I_{N_o}\otimes X^\top W_1^\top W_1 X + W_2 W_2^\top\otimes X^\top X$$

(Braun et al., 2022). The inner product of two kernels can be computed without forming them: with
$A = W_1^\top W_1$ and $G = W_2 W_2^\top$, $A'$ and $G'$ for the second kernel, and $P = XX^\top$,

$$\langle K, K'\rangle = N_o\,\mathrm{tr}\,APA'P + \mathrm{tr}\,G'\,\mathrm{tr}\,AP^2
  + \mathrm{tr}\,G\,\mathrm{tr}\,A'P^2 + \mathrm{tr}\,GG'\,\mathrm{tr}\,P^2.$$
"""

import jax.numpy as jnp
from jaxtyping import Float

from ..._precision import compiled
from ..._types import Array


@compiled()
def tangent_kernel(
    input_gram: Float[Array, "*batch input input"],
    output_gram: Float[Array, "*batch output output"],
    inputs: Float[Array, "sample input"],
) -> Float[Array, "*batch output_sample output_sample"]:
    """Return the kernel K from Gram matrices and examples in rows; outputs are the slow index."""
    first = jnp.einsum("pi,...ij,qj->...pq", inputs, input_gram, inputs)
    identity = jnp.eye(output_gram.shape[-1])
    blocks = identity[:, None, :, None] * first[..., None, :, None, :]
    blocks += output_gram[..., :, None, :, None] * (inputs @ inputs.T)[:, None, :]
    size = output_gram.shape[-1] * len(inputs)
    return blocks.reshape(*blocks.shape[:-4], size, size)


@compiled()
def kernel_distance(
    input_gram: Float[Array, "*batch input input"],
    output_gram: Float[Array, "*batch output output"],
    start_input_gram: Float[Array, "*start input input"],
    start_output_gram: Float[Array, "*start output output"],
    second_moment: Float[Array, "input input"],
) -> Float[Array, " *batch"]:
    r"""Return $1 - \cos(K_0, K)$, computed as half the squared distance of normalised kernels.

    In a lazy network this distance may be $10^{-9}$; subtracting a cosine from one would lose its
    digits.
    """
    p = second_moment
    norm, norm_0 = (
        jnp.sqrt(_inner(a, g, p))[..., None, None]
        for a, g in ((input_gram, output_gram), (start_input_gram, start_output_gram))
    )
    moved = input_gram / norm - start_input_gram / norm_0
    return _inner(moved, output_gram / norm - start_output_gram / norm_0, p) / 2


def _inner(a: Array, g: Array, p: Array) -> Array:
    """Return ⟨K, K⟩."""
    ap = a @ p
    trace = lambda matrix: jnp.trace(matrix, axis1=-2, axis2=-1)
    return (
        g.shape[-1] * trace(ap @ ap)
        + 2 * trace(g) * trace(ap @ p)
        + jnp.sum(g**2, axis=(-2, -1)) * jnp.sum(p**2)
    )
