"""The balanced solution as printed in its source, for comparison with `balanced_flow`."""

import warnings
from typing import NamedTuple

import numpy as np
from jaxtyping import Float

from ..._checks import check_positive, check_times, finite, number
from ..._types import ArrayLike
from ._assumptions import residual

_DIGITS = 1e10
"""Condition number of a matrix above which its inverse is not computed."""


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
    r"""Return $M(t) = QQ^\top$ exactly as in Eqs. (13)–(15) of the slides (Dominé et al., 2025).

    $Q = (W_1^\top; W_2)$ are the stacked weights. With the matrices of `balanced_solution_terms`,
    and with $F$ as in `balanced_flow`, $M = ZA^{-1}Z^\top$, $Z = e^{Ft/\tau}Q_0$ and

    $$A = I + B\frac{e^{2\tilde S_\lambda t/\tau} - I}{4\tilde S_\lambda}B^\top
        - C\frac{e^{-2\tilde S_\lambda t/\tau} - I}{4\tilde S_\lambda}C^\top
        + D\,\frac{e^{2\lambda_\perp t/\tau} - I}{2\lambda_\perp}D^\top.$$

    The slides print the exponent $\lambda_\perp$ in place of $2\lambda_\perp$ in the last term;
    `as_printed` evaluates the printed version. The printed version is wrong by orders of magnitude
    if the numbers of inputs and outputs differ and $\lambda \ne 0$.

    **Arguments:**

    - `times`, `first`, `second`, `correlation`, `balance`, `tau`: as in `BalancedFlow`. `balance`
      may also be the negative of the balance of the weights, the sign convention of some sources.
    - `as_printed`: if True, evaluate the last term of Eq. (15) as printed in the source.

    **Returns:**

    $M$ with inputs before outputs: the map is `M[:, inputs:, :inputs]`.

    **Example:**

    >>> from festina.theory import linear
    >>> weights = [[0.1, 0.0], [0.0, 0.1]]
    >>> m = linear.balanced_gram(1.0, weights, weights, [[3.0, 0.0], [0.0, 1.0]], balance=0.0)
    >>> m[2:, :2]
    array([[1.723, 0.    ],
           [0.   , 0.0695]])

    !!! note "When to use `balanced_flow` instead"

        At long times the exponentials overflow and $A$ becomes singular to rounding. Each time also
        needs the inverse of another matrix $A$. Use `balanced_gram` only for comparisons with the
        source.
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
            f"`balance` is {balance:g}, but W₂ᵀW₂ − W₁W₁ᵀ of the weights differs from `balance` "
            f"times the identity by {gap:.3g}: pass the λ of `measured_balance`."
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
            f"$A$ of Eq. (15) is singular to rounding, for example at t = {lost * tau:.3g}, so $M$ "
            "has no correct digits at such times. Use `balanced_flow` for long times.",
            stacklevel=2,
        )
    return np.array(result) if np.ndim(times) else result[0]


class BalancedSolutionTerms(NamedTuple):
    r"""Result of `balanced_solution_terms`: the matrices of Eqs. (13)–(15) of the slides.

    - `b`, `c`, `d`: $B$, $C$ and $D$, the components of the initial weights along directions that
      grow at rate $\tilde S_\lambda$, decay at rate $\tilde S_\lambda$, and grow at rate
      $\lambda_\perp$. $D$ has no columns if there are as many inputs as outputs.
    - `s_lambda`, `lambda_perp`: the diagonal of $\tilde S_\lambda$, and $\lambda_\perp$.
    - `g`, `h`: the diagonals of $\tilde G$ and $\tilde H$.
    - `u`, `v`: singular vectors $\tilde U$, $\tilde V$ of Σ.
    - `u_perp`, `v_perp`: orthonormal complements of `u` and `v`, at least one of them empty.

    **Example:**

    >>> from festina.theory import linear
    >>> weights = [[0.1, 0.0], [0.0, 0.1]]
    >>> terms = linear.balanced_solution_terms(
    ...     weights, weights, [[3.0, 0.0], [0.0, 1.0]], balance=0.0
    ... )
    >>> terms.b, terms.d.shape
    (array([[0.2, 0. ],
           [0. , 0.2]]), (2, 0))
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
    r"""Return $B$, $C$, $D$, $\tilde S_\lambda$, which the slides use in Eqs. (13)–(15) undefined.

    With $\Sigma = \tilde U\tilde S\tilde V^\top$, $\tilde S_\lambda = \sqrt{\tilde S^2 +
    \lambda^2/4}$, $\tilde H = \frac{\lambda/2}{\tilde S_\lambda + \tilde S}$ and $\tilde G = (I +
    \tilde H^2)^{-1/2}$,

    $$\begin{aligned}
      B &= W_2^\top\tilde U(I + \tilde H)\tilde G + W_1\tilde V(I - \tilde H)\tilde G,\\
      C &= W_2^\top\tilde U(I - \tilde H)\tilde G - W_1\tilde V(I + \tilde H)\tilde G,\\
      D &= W_2^\top\tilde U_\perp\ (N_o > N_i)\quad\text{or}\quad W_1\tilde V_\perp\ (N_i > N_o),
    \end{aligned}$$

    and $\lambda_\perp = \mathrm{sgn}(N_o - N_i)\,\lambda/2$ with $N_i$ inputs and $N_o$ outputs
    (Dominé et al., 2025). A network with singular $B$ does not learn the whole task: see
    `BalancedFlow.obstructed`.

    **Arguments:**

    - `first`, `second`, `correlation`, `balance`: as in `BalancedFlow`, for a single network.

    **Example:**

    >>> from festina.theory import linear
    >>> weights = [[0.1, 0.0], [0.0, 0.1]]
    >>> sigma = [[4.0, 0.0], [0.0, 1.0]]
    >>> linear.balanced_solution_terms(weights, weights, sigma, balance=6.0).s_lambda
    array([5.  , 3.16])
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
    """Return (e^{xr} − 1)/x, the integral of e^{xr} from 0 to r; it is r for x = 0."""
    x = np.asarray(rate, dtype=float)
    return np.where(x == 0, r, np.expm1(x * r) / np.where(x == 0, 1.0, x))
