r"""A linear network of any width as six units, integrated by SciPy: when it drops, from any start.

Units of a linear network can be rotated into each other without changing what they learn. With the
singular value decomposition $\Theta = U S R^\top$ of all weights θ_i = [v_i, u_i], the rows of
$S R^\top$ are a network that learns the same. It has as many units as a unit has weights, and

$$\dot V = U(\Sigma - W)^\top,\qquad \dot U = V(\Sigma - W),\qquad W = V^\top U$$

for white inputs and the loss ½‖Σ − W‖². Unlike Theorem 4 this needs no small weights.
"""

import numpy as np
from jaxtyping import Float

from ....networks import Layer

_SAMPLES = 4000
_RTOL = 1e-9


def reduced_losses(
    network: Layer, s: Float[np.ndarray, " mode"], end: float
) -> tuple[Float[np.ndarray, " sample"], Float[np.ndarray, "seed sample"]]:
    """Times up to `end`, and ‖diag(s) − W‖² of every seed at them."""
    from scipy.integrate import solve_ivp

    theta = np.concatenate((network.v, network.u), axis=-1)
    _, sizes, rows = np.linalg.svd(theta, full_matrices=False)
    start = sizes[..., None] * rows
    target = np.diag(s)

    def flow(_: float, state: np.ndarray) -> np.ndarray:
        v, u = np.split(state.reshape(start.shape), 2, axis=-1)
        left = target - v.transpose(0, 2, 1) @ u
        return np.concatenate((u @ left.transpose(0, 2, 1), v @ left), axis=-1).ravel()

    # Early times are close together: large weights drop at once.
    times = end * np.linspace(0.0, 1.0, _SAMPLES) ** 2
    # The smallest weights decide when later drops come, and are to be known as well as any.
    atol = _RTOL * float(sizes.min())
    solution = solve_ivp(
        flow, (0.0, end), start.ravel(), "DOP853", t_eval=times, rtol=_RTOL, atol=atol
    )
    v, u = np.split(solution.y.T.reshape(len(times), *start.shape), 2, axis=-1)
    left = target - v.swapaxes(-1, -2) @ u
    return times, np.sum(left**2, axis=(-1, -2)).T
