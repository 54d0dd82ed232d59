"""Products of small arrays, as the compiler likes them best.

Figure 1's networks have a few hundred weights. For one such network a multiply and a sum that fuse
with what surrounds them are about ten times faster than calls of a matrix product; for a batch of
networks, or a large one, it is the other way round. Who traces a program knows which it is.
"""

import contextlib
import contextvars
from collections.abc import Iterator

import jax.numpy as jnp
from jaxtyping import Float

from .._types import Array

_FUSED = contextvars.ContextVar("fused", default=False)


@contextlib.contextmanager
def fused(small: bool) -> Iterator[None]:
    """While tracing: write products as sums of products."""
    token = _FUSED.set(small)
    try:
        yield
    finally:
        _FUSED.reset(token)


def project(z: Float[Array, "... n"], u: Float[Array, " n"]) -> Float[Array, "..."]:
    """z·u over the last axis of z."""
    return jnp.sum(z * u, axis=-1) if _FUSED.get() else z @ u


def read_out(
    responses: Float[Array, "unit ..."], v: Float[Array, "unit output ..."]
) -> Float[Array, " output"]:
    """Σ_i r_i v_i over units and over what each of them responds."""
    read = range(1, responses.ndim)
    if _FUSED.get():
        return jnp.sum(responses[:, None] * v, axis=(0, *(axis + 1 for axis in read)))
    return jnp.tensordot(responses, v, ([0, *read], [0, *(axis + 1 for axis in read)]))
