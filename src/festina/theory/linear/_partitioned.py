"""The balanced solution as the source writes it, for showing what is printed there."""

import numpy as np
from jaxtyping import Float

from ..._types import ArrayLike
from .._checks import check_finite, check_positive, check_times


def balanced_blocks(
    times: ArrayLike,
    first: ArrayLike,
    second: ArrayLike,
    correlation: ArrayLike,
    *,
    balance: float,
    tau: float = 1.0,
    as_printed: bool = False,
) -> Float[np.ndarray, "time both both"]:
    r"""$M(t) = QQ^\top$ by Eqs. (13)–(15) of the slides (Dominé et al., 2025), literally.

    With $\Sigma = \tilde U\tilde S\tilde V^\top$, $\tilde S_\lambda = \sqrt{\tilde S^2 +
    \lambda^2/4}$, $\tilde H = \frac{\lambda/2}{\tilde S_\lambda + \tilde S}$, $\tilde G = (I +
    \tilde H^2)^{-1/2}/\sqrt2$ (doubled below), $M = ZA^{-1}Z^\top$ and

    $$A = I + B\frac{e^{2\tilde S_\lambda t/\tau} - I}{4\tilde S_\lambda}B^\top
        - C\frac{e^{-2\tilde S_\lambda t/\tau} - I}{4\tilde S_\lambda}C^\top
        + D\,\frac{e^{2\lambda_\perp t/\tau} - I}{2\lambda_\perp}D^\top.$$

    The last term is printed with $\lambda_\perp$ in place of $2\lambda_\perp$, which `as_printed`
    gives: wrong by orders of magnitude wherever the numbers of inputs and outputs differ and
    $\lambda \ne 0$. Exponentials grow without bound in here, $A$ becomes singular to rounding, and
    every time needs an inverse of its own: for anything but a comparison use `balanced_flow`.

    **Arguments:**

    - `times`, `first`, `second`, `correlation`, `balance`, `tau`: as in `balanced_flow`.
    - `as_printed`: the last term of Eq. (15) as it stands in the source.

    **Returns:**

    $M$ with inputs before outputs: the map is `M[:, inputs:, :inputs]`.
    """
    check_times(times)
    for name, value in (("first", first), ("second", second), ("correlation", correlation)):
        check_finite(name, value)
    check_finite("balance", balance)
    check_positive("tau", tau)
    w1, w2, sigma = (np.asarray(a, dtype=float) for a in (first, second, correlation))
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
    rest = np.sign(outputs - inputs) * balance / 2

    result = []
    for r in np.asarray(times, dtype=float) / tau:
        up, down, aside = np.exp(s_lam * r), np.exp(-s_lam * r), np.exp(rest * r)
        z1 = v * (g - h * g) @ (up[:, None] * b.T) - v * (g + h * g) @ (down[:, None] * c.T)
        z2 = u * (g + h * g) @ (up[:, None] * b.T) + u * (g - h * g) @ (down[:, None] * c.T)
        z1, z2 = z1 / 2, z2 / 2
        if outputs > inputs:
            z2 = z2 + aside * u_rest @ d.T
        else:
            z1 = z1 + aside * v_rest @ d.T
        power = 1 if as_printed else 2
        a = np.eye(len(w1)) + (b * _integral(2 * s_lam, r) / 2) @ b.T
        a += (c * _integral(-2 * s_lam, r) / 2) @ c.T + d @ d.T * _integral(power * rest, r)
        z = np.concatenate([z1, z2])
        result.append(z @ np.linalg.solve(a, z.T))
    return np.array(result)


def _integral(rate: ArrayLike, r: float) -> np.ndarray:
    """(e^{xr} − 1)/x, and r for x = 0."""
    x = np.asarray(rate, dtype=float)
    return np.where(x == 0, r, np.expm1(x * r) / np.where(x == 0, 1.0, x))
