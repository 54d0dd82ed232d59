"""Reversal learning: the task changes its sign after it has been learned."""

import numpy as np
from jaxtyping import Float

from ..._checks import check_finite, check_modes, check_positive
from ..._types import ArrayLike


def reversal_time(
    singular_values: ArrayLike, balance: ArrayLike, *, tau: float = 1.0
) -> Float[np.ndarray, "*modes"]:
    r"""Return when a mode passes through zero, after a learned task has been reversed.

    A network of balance λ has converged on Σ and is given −Σ. The strength of a mode crosses zero
    after

    $$t_\times = \frac{\tau}{2S_\lambda}\ln\frac{(1+Y)^2}{2Y},\qquad
      Y = \frac{2(s + S_\lambda)}{|\lambda|},\qquad S_\lambda = \sqrt{s^2 + \lambda^2/4},$$

    which is $\frac{\tau}{2s}\ln\frac{2s}{|\lambda|}$ for $\lambda\to0$ and $\tau\ln 2/|\lambda|$
    for $|\lambda|\to\infty$. At $\lambda = 0$ it is infinite: the network sits on a saddle of the
    new task, and holds nothing of what would grow (`reversal_initial_amplitude`). A shallow one
    crosses at $\tau\ln2$ whatever it started from. From $\tau\dot W =
    \sqrt{WW^\top + \lambda^2/4}\,E +
    E\sqrt{W^\top W + \lambda^2/4}$, $E = -\Sigma - W$, for one mode (Dominé et al., 2025).

    **Arguments:**

    - `singular_values`: $s$, positive.
    - `balance`: λ, which is conserved from the first task to the second.
    - `tau`: time constant of a layer.
    """
    check_positive("singular_values", singular_values)
    check_finite("balance", balance)
    check_positive("tau", tau)
    check_modes(singular_values=singular_values, balance=balance, tau=tau)
    s, lam = np.asarray(singular_values, dtype=float), np.abs(np.asarray(balance, dtype=float))
    root = np.hypot(s, lam / 2)
    inverse = lam / (2 * (s + root))  # 1/Y, from 0 (rich) to 1 (lazy)
    with np.errstate(divide="ignore"):
        passed = 2 * np.log1p(inverse) - np.log(2 * inverse)
        return np.asarray(np.asarray(tau, dtype=float) / (2 * root) * passed)


def reversal_initial_amplitude(
    singular_values: ArrayLike, balance: ArrayLike
) -> Float[np.ndarray, "*modes"]:
    r"""Return how much of the growing directions a converged network holds at a task reversal.

    $-\lambda/\sqrt{S_\lambda}$ for each mode, the size of a row of $B$ in Eq. (15) of the slides:
    nothing at $\lambda = 0$, where the saddle is never left, and more the larger the balance.
    """
    check_finite("singular_values", singular_values)
    check_finite("balance", balance)
    check_modes(singular_values=singular_values, balance=balance)
    lam = np.asarray(balance, dtype=float)
    root = np.hypot(np.asarray(singular_values, dtype=float), lam / 2)
    return np.asarray(-lam / np.sqrt(np.where(root > 0, root, 1.0)))
