"""Reversal learning: after a task has been learned, its correlation Σ changes sign."""

import numpy as np
from jaxtyping import Float

from ..._checks import check_finite, check_modes, check_positive
from ..._types import ArrayLike


def reversal_time(
    singular_values: ArrayLike, balance: ArrayLike, *, tau: float = 1.0
) -> Float[np.ndarray, "*modes"]:
    r"""Return the time at which a mode crosses zero after the reversal of a learned task.

    A network of balance λ has converged on the input-output correlation Σ, and then learns −Σ. The
    strength of a mode with singular value $s$ crosses zero after

    $$t_\times = \frac{\tau}{2S_\lambda}\ln\frac{(1+Y)^2}{2Y},\qquad
      Y = \frac{2(s + S_\lambda)}{|\lambda|},\qquad S_\lambda = \sqrt{s^2 + \lambda^2/4}.$$

    The limits of this time are $\frac{\tau}{2s}\ln\frac{2s}{|\lambda|}$ for $\lambda\to0$ and
    $\tau\ln 2/|\lambda|$ for $|\lambda|\to\infty$. The time is infinite at $\lambda = 0$, because
    the converged network is a saddle of the new task: its weights have no component along the
    directions that would grow (`reversal_initial_amplitude`). For comparison, a shallow network
    always crosses zero at $\tau\ln2$. The formula follows for one mode from
    $\tau\dot W = \sqrt{WW^\top + \lambda^2/4}\,E + E\sqrt{W^\top W + \lambda^2/4}$ with the map
    $W = W_2W_1$ and $E = -\Sigma - W$ (Dominé et al., 2025).

    **Arguments:**

    - `singular_values`: $s$, positive.
    - `balance`: λ, which is the same before and after the reversal.
    - `tau`: time constant of a layer.

    **Example:**

    >>> from festina.theory import linear
    >>> linear.reversal_time([3.0, 1.0], balance=0.1).round(3)
    array([0.685, 1.521])
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
    r"""Return the component of converged weights along each growing direction at a task reversal.

    The component of a mode with singular value $s$ is $-\lambda/\sqrt{S_\lambda}$ with
    $S_\lambda = \sqrt{s^2 + \lambda^2/4}$. The absolute value of the component is the length of a
    row of $B$ in Eq. (15) of the slides (Dominé et al., 2025). At $\lambda = 0$ the component is
    zero and the network never leaves the saddle. The component grows with $|\lambda|$.

    **Example:**

    >>> from festina.theory import linear
    >>> linear.reversal_initial_amplitude(3.0, balance=[0.01, 0.1, 1.0]).round(3)
    array([-0.006, -0.058, -0.573])
    """
    check_finite("singular_values", singular_values)
    check_finite("balance", balance)
    check_modes(singular_values=singular_values, balance=balance)
    lam = np.asarray(balance, dtype=float)
    root = np.hypot(np.asarray(singular_values, dtype=float), lam / 2)
    return np.asarray(-lam / np.sqrt(np.where(root > 0, root, 1.0)))
