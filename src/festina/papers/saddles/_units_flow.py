r"""Integrate units near zero until they reach infinity.

Near zero, a unit whose lowest order is two evolves independently of all other units:
$\dot\theta = f(\theta)$ with f homogeneous of degree two. The unit reaches infinity in finite time.
With $\theta = \rho n$, $|n| = 1$, and the clock $d\sigma = \rho\,dt$ all variables stay finite:

$$\frac{dn}{d\sigma} = f(n) - n\,(n\cdot f(n)),\qquad \frac{d\ln\rho}{d\sigma} = n\cdot f(n),\qquad
  \frac{dt}{d\sigma} = \frac1\rho.$$
"""

from collections.abc import Callable
from typing import Any

import numpy as np
from jaxtyping import Float

Field = Callable[[np.ndarray], np.ndarray]
"""Function f(θ) of units along the first axis."""

_GROWTH = 30.0  # ln of the growth at which a unit counts as infinite; the remaining time is e⁻³⁰
_CHUNK = 20.0


def blow_up(
    field: Field,
    weights: Float[np.ndarray, "unit weight"],
    *,
    rtol: float = 1e-10,
    longest: float = 600.0,
) -> tuple[Float[np.ndarray, " unit"], Float[np.ndarray, "unit sample weight"]]:
    """Return the time at which each unit reaches infinity, and its directions n on the way.

    A unit that has not grown by a factor of e³⁰ when σ is `longest` counts as never escaping, with
    an infinite time.
    """
    from scipy.integrate import solve_ivp

    units, size = weights.shape
    rho = np.linalg.norm(weights, axis=1, keepdims=True)

    def flow(_: float, state: np.ndarray) -> np.ndarray:
        n, log_rho, _time = np.split(state.reshape(units, -1), (size, size + 1), axis=1)
        f = field(n)
        growth = np.sum(n * f, axis=1, keepdims=True)
        return np.hstack((f - growth * n, growth, np.exp(np.minimum(-log_rho, 700.0)))).ravel()

    # f is homogeneous: integrate every unit from size one, then divide its time by its true size.
    state, passed, sigma = np.hstack((weights / rho, np.zeros((units, 2)))).ravel(), [], 0.0
    how: dict[str, Any] = {"method": "DOP853", "rtol": rtol, "atol": 1e-3 * rtol}
    while sigma < longest and not (passed and (passed[-1][:, -2, -1] > _GROWTH).all()):
        solution = solve_ivp(flow, (0.0, _CHUNK), state, **how)
        passed.append(solution.y.reshape(units, size + 2, -1))
        state, sigma = solution.y[:, -1], sigma + _CHUNK
    log_rho, time = passed[-1][:, -2:, -1].T
    directions = np.concatenate(passed, axis=2)[:, :size].transpose(0, 2, 1)
    return np.where(log_rho > _GROWTH, time / rho[:, 0], np.inf), directions
