r"""Eigenvalues and eigenvectors of the matrix that drives a two-layer network of balance λ.

The matrix

$$F = \begin{pmatrix}-\frac\lambda2 I & \Sigma^\top\\ \Sigma & \frac\lambda2 I\end{pmatrix}$$

acts on the stacked weights $Q = (W_1^\top; W_2)$. Each singular triple $(s, u, v)$ of the
correlation Σ gives a pair of eigenvalues $\pm S_\lambda$ with $S_\lambda = \sqrt{s^2 +
\lambda^2/4}$. If the numbers of inputs $N_i$ and outputs $N_o$ differ, the remaining directions of
the larger side have the eigenvalue $\lambda_\perp = \mathrm{sgn}(N_o - N_i)\lambda/2$.
"""

from typing import Any, NamedTuple

import jax
import jax.numpy as jnp
from jaxtyping import Float, Int

from ..._types import Array


class Spectrum(NamedTuple):
    r"""Eigenvalues `rates` and eigenvectors `basis` of the matrix F, growing directions first.

    `excess` is $|f| - |\lambda|/2$ with the sign of the rate $f$. The flow depends on differences
    between the rates of growing directions. For large $|\lambda|$, differences of `rates` would
    lose their digits, because $S_\lambda - |\lambda|/2 \approx s^2/|\lambda|$.
    """

    rates: Float[Array, " n"]
    excess: Float[Array, " n"]
    basis: Float[Array, "n n"]


def spectrum(correlation: Float[Array, "output input"], balance: Float[Array, ""]) -> Spectrum:
    """Return eigenvalues and eigenvectors of F in closed form from the singular vectors of Σ."""
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
    """Return S_λ − λ/2 without cancellation for λ > 0."""
    root = _root(s, balance)
    positive = balance > 0
    return jnp.where(
        positive, s**2 / jnp.where(positive, root + balance / 2, 1.0), root - balance / 2
    )


def _or_ones(a: Float[Array, " k"], b: Float[Array, " k"]) -> tuple[Array, Array]:
    """Replace a by 1 where a = b = 0: both eigenvalues are zero there, and any basis is valid."""
    nothing = (a == 0) & (b == 0)
    return jnp.where(nothing, 1.0, a), jnp.where(nothing, 1.0, b)


def _without_rounding(s: Float[Array, " k"], size: int) -> Float[Array, " k"]:
    """Make singular values equal that differ only by rounding, and set rounding errors to zero.

    Differences between singular values matter after a sufficiently long time, even if they are
    tiny.
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
    """Return complete bases U and V and singular values; derivatives are NaN if values coincide."""
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
    # Rotations of a vector onto itself, and among the vectors beyond k, have no effect.
    index = jnp.arange(size)
    fixed = (index[:, None] == index) | ((index[:, None] >= k) & (index >= k))
    difference = jnp.where(fixed, jnp.inf, s_all**2 - s_all[:, None] ** 2)
    turn_u = (g * s_all + g.T * s_all[:, None]) / difference
    turn_v = (g * s_all[:, None] + g.T * s_all) / difference
    return (u, s, v), (u @ turn_u[:rows, :rows], change, v @ turn_v[:columns, :columns])


def echelon(
    rows: Float[Array, "n h"],
) -> tuple[Float[Array, "n h"], Float[Array, "h h"], Int[Array, " h"]]:
    r"""Reduce $R$ by column operations to $RC = K$, whose columns start at different rows.

    Rows are processed in order, starting with the fastest growing direction. The pivot is the
    largest remaining entry of the row. A row without an entry above rounding errors is skipped: the
    weights have no component in its direction, and the flow never creates one.

    **Returns:**

    K, C, and the row at which each column starts (−1 for a column of zeros).
    """
    n, h = rows.shape
    tolerance = 500 * jnp.finfo(rows.dtype).eps
    # All columns share one scale factor. Otherwise rounding errors in columns that should be zero
    # could become pivots and spread to other columns.
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
        # Skipped entries become zero but keep their derivatives.
        nothing = jnp.where(free & ~found, row - jax.lax.stop_gradient(row), row)
        k = k - (k @ here)[:, None] * ratio
        k = jnp.asarray(k).at[i].set(jnp.where(others, 0.0, nothing))
        c = c - (c @ here)[:, None] * ratio
        return k, c, jnp.where(here & found, i, start)

    state = rows / size, jnp.eye(h) / size, jnp.full(h, -1)
    return jax.lax.fori_loop(0, n, take, state)
