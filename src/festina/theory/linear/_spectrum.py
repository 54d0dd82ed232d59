r"""The matrix that drives a two-layer linear network of balance λ, in its own basis.

$$F = \begin{pmatrix}-\frac\lambda2 I & \Sigma^\top\\ \Sigma & \frac\lambda2 I\end{pmatrix}$$

acts on $Q = (W_1^\top; W_2)$, inputs above outputs. Each singular triple $(s, u, v)$ of Σ gives a
pair of eigenvalues $\pm S_\lambda$, $S_\lambda = \sqrt{s^2 + \lambda^2/4}$; the directions that the
larger side has beyond give $\lambda_\perp = \mathrm{sgn}(N_o - N_i)\lambda/2$.
"""

from typing import Any, NamedTuple

import jax
import jax.numpy as jnp
from jaxtyping import Float, Int

from ..._types import Array


class Spectrum(NamedTuple):
    r"""Eigenvalues of F, growing ones first, and their vectors.

    `excess` is $|f| - |\lambda|/2$ with the sign of $f$. Between growing directions only
    differences of rates matter, and for large $|\lambda|$ those would be lost in rounding:
    $S_\lambda - |\lambda|/2 \approx s^2/|\lambda|$.
    """

    rates: Float[Array, " n"]
    excess: Float[Array, " n"]
    basis: Float[Array, "n n"]


def spectrum(correlation: Float[Array, "output input"], balance: Float[Array, ""]) -> Spectrum:
    """Eigenvalues and eigenvectors of F, in closed form from the singular vectors of Σ."""
    u, s, v = full_svd(correlation)
    s = _without_rounding(s, max(correlation.shape))
    outputs, inputs, k = *correlation.shape, len(s)
    low, high = _below(s, balance), _below(s, -balance)  # S ∓ λ/2, whose product is s²
    root = _root(s, balance)

    # (S − λ/2 + s, S + λ/2 + s) is the growing eigenvector of a pair in the plane of (v, u).
    norm = jnp.hypot(*_or_ones(low + s, high + s))
    along_v, along_u = (part / norm for part in _or_ones(low + s, high + s))
    pairs_v, pairs_u = v[:, :k], u[:, :k]
    growing = jnp.concatenate([pairs_v * along_v, pairs_u * along_u])
    decaying = jnp.concatenate([pairs_v * along_u, -pairs_u * along_v])
    rest_v = jnp.concatenate([v[:, k:], jnp.zeros((outputs, inputs - k))])
    rest_u = jnp.concatenate([jnp.zeros((inputs, outputs - k)), u[:, k:]])
    rest = jnp.concatenate([jnp.full(inputs - k, -balance / 2), jnp.full(outputs - k, balance / 2)])

    rates = jnp.concatenate([root, -root, rest])
    excess = jnp.minimum(low, high)
    excess = jnp.concatenate([excess, -excess, jnp.zeros_like(rest)])
    basis = jnp.concatenate([growing, decaying, rest_v, rest_u], axis=1)
    order = jnp.lexsort((-excess, -jnp.sign(rates)))
    return Spectrum(rates[order], excess[order], basis[:, order])


def _root(s: Float[Array, " k"], balance: Float[Array, ""]) -> Float[Array, " k"]:
    square = s**2 + balance**2 / 4
    return jnp.where(square > 0, jnp.sqrt(jnp.where(square > 0, square, 1.0)), 0.0)


def _below(s: Float[Array, " k"], balance: Float[Array, ""]) -> Float[Array, " k"]:
    """S − λ/2 without cancellation where λ > 0."""
    root = _root(s, balance)
    positive = balance > 0
    return jnp.where(
        positive, s**2 / jnp.where(positive, root + balance / 2, 1.0), root - balance / 2
    )


def _or_ones(a: Float[Array, " k"], b: Float[Array, " k"]) -> tuple[Array, Array]:
    """Any basis will do where both eigenvalues are zero."""
    nothing = (a == 0) & (b == 0)
    return jnp.where(nothing, 1.0, a), jnp.where(nothing, 1.0, b)


def _without_rounding(s: Float[Array, " k"], size: int) -> Float[Array, " k"]:
    """Singular values that differ by rounding are equal, and below rounding they are zero.

    Otherwise a long enough time would tell them apart.
    """
    tolerance = 8 * size * jnp.finfo(s.dtype).eps * s[0]
    near = s[None, :] - s[:, None] <= tolerance
    leader = jnp.max(jnp.where(near, s[None, :], 0.0), axis=1)
    leader = jnp.where(s <= tolerance, 0.0, leader)
    return s + jax.lax.stop_gradient(leader - s)


@jax.custom_jvp
def full_svd(
    matrix: Float[Array, "m n"],
) -> tuple[Float[Array, "m m"], Float[Array, " k"], Float[Array, "n n"]]:
    """Complete bases U, V and the singular values. Derivatives are NaN where values coincide."""
    u, s, vt = jnp.linalg.svd(matrix, full_matrices=True)
    return u, s, vt.T


@full_svd.defjvp
def _(primals: Any, tangents: Any) -> Any:
    (matrix,), (tangent,) = primals, tangents
    u, s, v = full_svd(matrix)
    rows, columns, k = *matrix.shape, len(s)
    size = max(rows, columns)
    g = u.T @ tangent @ v
    change = jnp.diagonal(g)
    g = jnp.zeros((size, size), g.dtype).at[:rows, :columns].set(g)
    s_all = jnp.zeros(size, s.dtype).at[:k].set(s)
    # Turning a vector towards itself, or the rest of a basis within itself, changes nothing.
    index = jnp.arange(size)
    fixed = (index[:, None] == index) | ((index[:, None] >= k) & (index >= k))
    difference = jnp.where(fixed, jnp.inf, s_all**2 - s_all[:, None] ** 2)
    turn_u = (g * s_all + g.T * s_all[:, None]) / difference
    turn_v = (g * s_all[:, None] + g.T * s_all) / difference
    return (u, s, v), (u @ turn_u[:rows, :rows], change, v @ turn_v[:columns, :columns])


def echelon(
    rows: Float[Array, "n h"],
) -> tuple[Float[Array, "n h"], Float[Array, "h h"], Int[Array, " h"]]:
    r"""Reduce by column operations: $RC = K$, each column of which starts at a row of its own.

    Rows are taken from the fastest growing one on, the pivot is the largest entry that is left in
    the row, and a row with none (to rounding) is passed over: the weights do not reach that
    direction, and the flow never will.

    **Returns:**

    K, C, and for each column the row that it starts at, −1 for a column of zeros.
    """
    n, h = rows.shape
    tolerance = 500 * jnp.finfo(rows.dtype).eps
    # One factor for all columns: pivots must come from large ones, or rounding in columns that
    # should be zero would be carried into the others.
    size = jax.lax.stop_gradient(jnp.max(jnp.abs(rows)))
    size = jnp.where(size > 0, size, 1.0)
    columns = jnp.arange(h)

    def take(i: Array, state: tuple[Array, Array, Array]) -> tuple[Array, Array, Array]:
        k, c, start = state
        row = k[i]
        free = start < 0
        left = jnp.where(free, jnp.abs(row), -1.0)
        here = columns == jnp.argmax(left)
        found = jnp.max(left) > tolerance
        others = free & ~here & found
        ratio = jnp.where(others, row / jnp.where(found, jnp.sum(row * here), 1.0), 0.0)
        # What is passed over is zero; its derivative is that of the row.
        nothing = jnp.where(free & ~found, row - jax.lax.stop_gradient(row), row)
        k = k - (k @ here)[:, None] * ratio
        k = jnp.asarray(k).at[i].set(jnp.where(others, 0.0, nothing))
        c = c - (c @ here)[:, None] * ratio
        return k, c, jnp.where(here & found, i, start)

    state = rows / size, jnp.eye(h) / size, jnp.full(h, -1)
    return jax.lax.fori_loop(0, n, take, state)
