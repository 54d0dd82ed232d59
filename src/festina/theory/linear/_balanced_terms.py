"""The balanced solution in the terms of its source, for showing what is printed there."""

import warnings
from typing import NamedTuple

import numpy as np
from jaxtyping import Float

from ..._checks import check_positive, check_times, finite, number
from ..._types import ArrayLike
from ._assumptions import residual

_DIGITS = 1e10
"""Condition of a matrix, beyond which its inverse is not asked for."""


def balanced_gram(
    times: ArrayLike,
    first: ArrayLike,
    second: ArrayLike,
    correlation: ArrayLike,
    *,
    balance: float,
    tau: float = 1.0,
    as_printed: bool = False,
) -> Float[np.ndarray, "*time both both"]:
    r"""Return $M(t) = QQ^\top$ by Eqs. (13)–(15) of the slides (Dominé et al., 2025), literally.

    With the matrices of `balanced_solution_terms`, $M = ZA^{-1}Z^\top$ and

    $$A = I + B\frac{e^{2\tilde S_\lambda t/\tau} - I}{4\tilde S_\lambda}B^\top
        - C\frac{e^{-2\tilde S_\lambda t/\tau} - I}{4\tilde S_\lambda}C^\top
        + D\,\frac{e^{2\lambda_\perp t/\tau} - I}{2\lambda_\perp}D^\top.$$

    The last term is printed with $\lambda_\perp$ in place of $2\lambda_\perp$, which `as_printed`
    gives: wrong by orders of magnitude wherever the numbers of inputs and outputs differ and
    $\lambda \ne 0$. Exponentials grow without bound in here, $A$ becomes singular to rounding, and
    every time needs an inverse of its own: for anything but a comparison use `balanced_flow`.

    **Arguments:**

    - `times`, `first`, `second`, `correlation`, `balance`, `tau`: as in `BalancedFlow`. The
      negative of the weights' balance is what a source with the opposite sign would have.
    - `as_printed`: the last term of Eq. (15) as it stands in the source.

    **Returns:**

    $M$ with inputs before outputs: the map is `M[:, inputs:, :inputs]`.
    """
    check_times(times)
    check_positive("tau", tau)
    tau = number("tau", tau)
    parts = balanced_solution_terms(first, second, correlation, balance=balance)
    b, c, d, s_lam, rest, g, h, u, v, u_rest, v_rest = parts
    w1, w2 = finite("first", first), finite("second", second)
    gap = min(residual(w1, w2, sign * balance) for sign in (1, -1))
    if gap > 1e-6 * (np.sum(w1**2) + np.sum(w2**2)):
        raise ValueError(
            f"`balance` is {balance:g}, which W₂ᵀW₂ − W₁W₁ᵀ of the weights misses by {gap:.3g}: "
            "give that of `measured_balance`."
        )

    result, lost = [], 0.0
    for r in np.atleast_1d(np.asarray(times, dtype=float)) / tau:
        up, down, aside = np.exp(s_lam * r), np.exp(-s_lam * r), np.exp(rest * r)
        z1 = v * (g - h * g) @ (up[:, None] * b.T) - v * (g + h * g) @ (down[:, None] * c.T)
        z2 = u * (g + h * g) @ (up[:, None] * b.T) + u * (g - h * g) @ (down[:, None] * c.T)
        z1, z2 = z1 / 2, z2 / 2
        if u_rest.size:
            z2 = z2 + aside * u_rest @ d.T
        else:
            z1 = z1 + aside * v_rest @ d.T
        power = 1 if as_printed else 2
        a = np.eye(len(b)) + (b * _integral(2 * s_lam, r) / 2) @ b.T
        a += (c * _integral(-2 * s_lam, r) / 2) @ c.T + d @ d.T * _integral(power * rest, r)
        kept = np.isfinite(a).all() and np.linalg.cond(a) < _DIGITS
        lost = lost if kept else max(lost, r)
        z = np.concatenate([z1, z2])
        result.append(z @ np.linalg.solve(a, z.T))
    if lost:
        warnings.warn(
            f"$A$ of Eq. (15) is singular to rounding, at t = {lost * tau:.3g} for one, and $M$ "
            "has lost its digits there: `balanced_flow` keeps them.",
            stacklevel=2,
        )
    return np.array(result) if np.ndim(times) else result[0]


class BalancedSolutionTerms(NamedTuple):
    r"""Result of `balanced_solution_terms`: the matrices of Eqs. (13)–(15).

    - `b`, `c`, `d`: $B$, $C$ and $D$, what the initial weights hold of directions that grow at
      $\tilde S_\lambda$, decay at it, and go at $\lambda_\perp$. $D$ has no columns in a network
      with as many inputs as outputs.
    - `s_lambda`, `lambda_perp`: the diagonal of $\tilde S_\lambda$, and $\lambda_\perp$.
    - `g`, `h`: the diagonals of $\tilde G$ and $\tilde H$.
    - `u`, `v`, `u_perp`, `v_perp`: singular vectors of Σ, and what completes them; one of the
      latter is empty.
    """

    b: Float[np.ndarray, "hidden mode"]
    c: Float[np.ndarray, "hidden mode"]
    d: Float[np.ndarray, "hidden rest"]
    s_lambda: Float[np.ndarray, " mode"]
    lambda_perp: float
    g: Float[np.ndarray, " mode"]
    h: Float[np.ndarray, " mode"]
    u: Float[np.ndarray, "output mode"]
    v: Float[np.ndarray, "input mode"]
    u_perp: Float[np.ndarray, "output _"]
    v_perp: Float[np.ndarray, "input _"]


def balanced_solution_terms(
    first: ArrayLike, second: ArrayLike, correlation: ArrayLike, *, balance: float
) -> BalancedSolutionTerms:
    r"""Return $B$, $C$, $D$ and $\tilde S_\lambda$ of Eqs. (13)–(15), which the slides leave
    undefined.

    With $\Sigma = \tilde U\tilde S\tilde V^\top$, $\tilde S_\lambda = \sqrt{\tilde S^2 +
    \lambda^2/4}$, $\tilde H = \frac{\lambda/2}{\tilde S_\lambda + \tilde S}$ and $\tilde G = (I +
    \tilde H^2)^{-1/2}$,

    $$\begin{aligned}
      B &= W_2^\top\tilde U(I + \tilde H)\tilde G + W_1\tilde V(I - \tilde H)\tilde G,\\
      C &= W_2^\top\tilde U(I - \tilde H)\tilde G - W_1\tilde V(I + \tilde H)\tilde G,\\
      D &= W_2^\top\tilde U_\perp\ (N_o > N_i)\quad\text{or}\quad W_1\tilde V_\perp\ (N_i > N_o),
    \end{aligned}$$

    and $\lambda_\perp = \mathrm{sgn}(N_o - N_i)\,\lambda/2$ (Dominé et al., 2025). A network whose
    $B$ is singular does not learn all of its task: `BalancedFlow.obstructed`.

    **Arguments:**

    - `first`, `second`, `correlation`, `balance`: as in `BalancedFlow`, of one network.
    """
    w1, w2 = finite("first", first), finite("second", second)
    sigma = finite("correlation", correlation)
    balance = number("balance", balance)
    shapes = w1.shape, w2.shape, sigma.shape
    matrices = {len(shape) for shape in shapes} == {2}
    if not matrices or w2.shape[1] != len(w1) or sigma.shape != (len(w2), w1.shape[1]):
        raise ValueError(
            "`first`, `second` and `correlation` must have shapes (hidden, input), (output, "
            f"hidden) and (output, input), got {shapes[0]}, {shapes[1]} and {shapes[2]}."
        )
    outputs, inputs = sigma.shape
    k = min(outputs, inputs)
    u, s, vt = np.linalg.svd(sigma)
    u, u_rest, v, v_rest = u[:, :k], u[:, k:], vt[:k].T, vt[k:].T
    s_lam = np.hypot(s, balance / 2)
    h = balance / 2 / np.where(s_lam + s > 0, s_lam + s, 1.0)
    g = 1 / np.sqrt(1 + h**2)
    b = (w2.T @ u) * (g + h * g) + (w1 @ v) * (g - h * g)
    c = (w2.T @ u) * (g - h * g) - (w1 @ v) * (g + h * g)
    d = w2.T @ u_rest if outputs > inputs else w1 @ v_rest
    rest = float(np.sign(outputs - inputs) * balance / 2)
    return BalancedSolutionTerms(b, c, d, s_lam, rest, g, h, u, v, u_rest, v_rest)


def _integral(rate: ArrayLike, r: float) -> np.ndarray:
    """(e^{xr} − 1)/x, and r for x = 0."""
    x = np.asarray(rate, dtype=float)
    return np.where(x == 0, r, np.expm1(x * r) / np.where(x == 0, 1.0, x))
