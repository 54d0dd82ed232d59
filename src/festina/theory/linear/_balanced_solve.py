r"""Evaluate the exact flow of a λ-balanced network, for any list of times.

Let $F = O f O^\top$ be the eigendecomposition of the matrix that drives the stacked weights $Q =
(W_1^\top; W_2)$, $R = O^\top Q_0$ the initial weights in that basis, and $r = t/\tau$. Then

$$M = QQ^\top = O\,e^{fr} R\,\left[I + R^\top \phi R\right]^{-1} R^\top e^{fr} O^\top,\qquad
  \phi = \frac{e^{2fr} - 1}{2f}.$$

The exponentials $e^{fr}$ overflow, and the inverse becomes singular to rounding once one mode has
outgrown the next. Two steps avoid overflow and the singular inverse. Column operations $K = RC$
make each column start at a different row (`echelon`). Dividing column $j$ by the growth $e^{g_j r}$
of its first row leaves only negative exponents. Then

$$M = BB^\top,\qquad B = O\,e^{fr} K e^{-gr}\,\rho^{-1},\qquad
  q\rho = \begin{pmatrix}\phi^{1/2} K e^{-gr}\\ C e^{-gr}\end{pmatrix},$$

where $q$ has orthonormal columns and only the triangular matrix ρ is needed. Modified Gram–Schmidt
computes ρ as accurately as Householder reflections. Time is the last axis of all arrays, which
allows vectorised arithmetic.
"""

import jax
import jax.numpy as jnp
from jaxtyping import Bool, Float, Int

from ..._types import Array
from ._spectrum import Spectrum, echelon, spectrum

_CHUNK = 64  # number of times that are solved together, to fit into the cache
_LARGEST = 300.0  # larger exponents multiply only zeros; the clip keeps derivatives finite


def factor(
    times: Float[Array, " time"],
    first: Float[Array, "hidden input"],
    second: Float[Array, "output hidden"],
    correlation: Float[Array, "output input"],
    tau: Float[Array, ""],
    balance: Float[Array, ""],
) -> tuple[Float[Array, "n unit time"], Bool[Array, ""]]:
    """Return B(t), and whether the weights reach the task.

    B(t) are the stacked weights Q = (W₁ᵀ; W₂) up to a rotation of the hidden units, B Bᵀ = Q Qᵀ.
    """
    system = spectrum(correlation, balance)
    k, c, start = _reduced(first, second, system)

    def solve(r: Float[Array, " _"]) -> Float[Array, "n unit _"]:
        return jnp.tensordot(system.basis, _columns(r, system, k, c, start), axes=1)

    r, count = times / tau, len(times)
    reached = _reached(system, start)
    if count <= _CHUNK:
        return solve(r), reached
    r = jnp.pad(r, (0, -count % _CHUNK)).reshape(-1, _CHUNK)
    chunks = jnp.moveaxis(jax.lax.map(solve, r), 0, -2)
    return chunks.reshape(*chunks.shape[:-2], -1)[..., :count], reached


def _reached(system: Spectrum, start: Int[Array, " unit"]) -> Bool[Array, ""]:
    """Return whether the columns of K start at the fastest growing directions, one per unit."""
    excess = jnp.where(system.rates > 0, system.excess, -1.0)  # falling; ≥ 0 for growing directions
    found = jnp.sort(jnp.where(start >= 0, excess[start], -1.0), descending=True)
    return jnp.all(found >= excess[: len(found)])


def _reduced(
    first: Float[Array, "hidden input"], second: Float[Array, "output hidden"], system: Spectrum
) -> tuple[Array, Array, Array]:
    """Return the initial weights in the eigenbasis of F, in echelon form."""
    weights = jnp.concatenate([first.T, second])
    if weights.shape[1] > weights.shape[0]:  # a rotation makes all units beyond shape[0] zero
        weights = jnp.linalg.qr(weights.T, mode="r").T
    return echelon(system.basis.T @ weights)


def _columns(r: Array, system: Spectrum, k: Array, c: Array, start: Array) -> Array:
    f, excess = system.rates, system.excess
    begun = start >= 0
    growth = jnp.where(begun, jnp.maximum(f[start], 0.0), 0.0)
    both = (f > 0)[:, None] & (begun & (f[start] > 0))
    exponent = jnp.where(
        both, excess[:, None] - excess[start], jnp.maximum(f, 0.0)[:, None] - growth
    )
    # ψ is the integral φ = ∫e^{2fr}dr without its growth: φ = ψ e^{2 max(f, 0) r}.
    speed = 2 * jnp.abs(f)[:, None]
    still = speed == 0
    psi = jnp.where(still, r, -jnp.expm1(-speed * r) / jnp.where(still, 1.0, speed))
    decay = jnp.exp(-growth[:, None] * r)
    # The result does not depend on factors of columns; this factor avoids overflow.
    size = jnp.max(jnp.abs(c), axis=0)[:, None]
    scale = jax.lax.stop_gradient(1 / (1 + size * decay))
    top = k[:, :, None] * (scale * jnp.exp(jnp.minimum(exponent[:, :, None] * r, _LARGEST)))
    bottom = c[:, :, None] * (scale * decay)
    columns = _orthonormal(top, bottom, psi)
    return jnp.exp(jnp.minimum(f, 0.0)[:, None] * r)[:, None, :] * columns


def _orthonormal(
    top: Float[Array, "n h time"], bottom: Float[Array, "m h time"], psi: Float[Array, "n time"]
) -> Float[Array, "n h time"]:
    """Orthonormalise the columns of (top; bottom) in the metric diag(ψ, 1); return the top rows.

    The method is modified Gram–Schmidt along the axis h.
    """
    h = top.shape[1]

    def take(j: jax.Array, state: tuple[jax.Array, jax.Array]) -> tuple[jax.Array, jax.Array]:
        top, bottom = state
        a, b = top[:, j], bottom[:, j]
        norm = jnp.sqrt(jnp.sum(psi * a**2, axis=0) + jnp.sum(b**2, axis=0))
        a, b = a / norm, b / norm
        overlap = jnp.sum((psi * a)[:, None] * top, axis=0) + jnp.sum(b[:, None] * bottom, axis=0)
        overlap = jnp.where((jnp.arange(h) > j)[:, None], overlap, 0.0)
        top = jnp.asarray(top - a[:, None] * overlap).at[:, j].set(a)
        return top, jnp.asarray(bottom - b[:, None] * overlap).at[:, j].set(b)

    return jax.lax.fori_loop(0, h, take, (top, bottom))[0]
