r"""Units near zero, followed all the way to infinity by direct integration.

Near zero a unit of lowest order two moves by itself, $\dot\theta = f(\theta)$ with f homogeneous of
degree two, and reaches infinity in finite time. With $\theta = \rho n$, |n| = 1, and the clock
$d\sigma = \rho\,dt$ nothing is infinite:

$$\frac{dn}{d\sigma} = f(n) - n\,(n\cdot f(n)),\qquad \frac{d\ln\rho}{d\sigma} = n\cdot f(n),\qquad
  \frac{dt}{d\sigma} = \frac1\rho.$$
"""

from collections.abc import Callable
from typing import Any

import numpy as np
from jaxtyping import Float

Field = Callable[[np.ndarray], np.ndarray]
"""f(θ) for units along the first axis."""

_GROWTH = 30.0  # e⁻³⁰ of a time is nothing
_CHUNK = 20.0


def blow_up(
    field: Field,
    weights: Float[np.ndarray, "unit weight"],
    *,
    rtol: float = 1e-10,
    longest: float = 600.0,
) -> tuple[Float[np.ndarray, " unit"], Float[np.ndarray, "unit sample weight"]]:
    """When each unit reaches infinity, and the directions n through which it goes there.

    A unit that has not grown by e³⁰ when σ is `longest` counts as one that never escapes: its time
    is infinite.
    """
    from scipy.integrate import solve_ivp

    units, size = weights.shape
    rho = np.linalg.norm(weights, axis=1, keepdims=True)

    def flow(_: float, state: np.ndarray) -> np.ndarray:
        n, log_rho, _time = np.split(state.reshape(units, -1), (size, size + 1), axis=1)
        f = field(n)
        growth = np.sum(n * f, axis=1, keepdims=True)
        return np.hstack((f - growth * n, growth, np.exp(np.minimum(-log_rho, 700.0)))).ravel()

    # f is homogeneous: every unit starts at size one, and its time is divided by its true size.
    state, passed, sigma = np.hstack((weights / rho, np.zeros((units, 2)))).ravel(), [], 0.0
    how: dict[str, Any] = {"method": "DOP853", "rtol": rtol, "atol": 1e-3 * rtol}
    while sigma < longest and not (passed and (passed[-1][:, -2, -1] > _GROWTH).all()):
        solution = solve_ivp(flow, (0.0, _CHUNK), state, **how)
        passed.append(solution.y.reshape(units, size + 2, -1))
        state, sigma = solution.y[:, -1], sigma + _CHUNK
    log_rho, time = passed[-1][:, -2:, -1].T
    directions = np.concatenate(passed, axis=2)[:, :size].transpose(0, 2, 1)
    return np.where(log_rho > _GROWTH, time / rho[:, 0], np.inf), directions
