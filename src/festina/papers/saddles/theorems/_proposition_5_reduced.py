r"""Eq. (55), which follows a unit by one number, along ways that are integrated in full.

With $a_k = r_k^\top u/\sqrt2$ and $\pi_m = a_m/a_m(0)$ the paper has

$$\dot\pi_m = v s_m\pi_m = \operatorname{sign}(v(0))\, s_m\pi_m
  \sqrt{v(0)^2 + \sum_k a_k(0)^2\big(\pi_m^{2s_k/s_m} - 1\big)}.$$

The first equality holds. The second one keeps the sign of $v(0)$, and v changes its sign where the
radicand reaches zero.
"""

import numpy as np
import xarray as xr
from jaxtyping import Float

from .._units_flow import Field

_PART = 0.95  # of the way to infinity, by the clock
_MOMENTS = 400


def reduced_speeds(
    field: Field,
    weights: Float[np.ndarray, "unit weight"],
    s: Float[np.ndarray, " mode"],
    ends: Float[np.ndarray, " unit"],
) -> xr.Dataset:
    """How far v = π̇_m/(s_m π_m) of Eq. (55) is from v, over the largest |v| of the way.

    `field` is θ̇ of units θ = (u, v) in the eigenbasis of Σ_yZ, `ends` when they reach infinity.
    `printed` has the sign of v(0), `corrected` that of v.
    """
    from scipy.integrate import solve_ivp

    units, size = weights.shape
    # Every unit on the clock on which it reaches infinity at one.
    way = solve_ivp(
        lambda _, state: (ends[:, None] * field(state.reshape(units, size))).ravel(),
        (0.0, _PART),
        weights.ravel(),
        method="DOP853",
        t_eval=np.linspace(0.0, _PART, _MOMENTS),
        rtol=1e-13,
        atol=1e-20,
    ).y.reshape(units, size, _MOMENTS)
    u, v = way[:, :-1], way[:, -1]
    m = np.argmax(np.sign(v[:, :1]) * s, axis=1)
    unit = np.arange(units)
    log_pi = np.log(u[unit, m] / u[unit, m, :1])
    powers = 2 * s / s[m, None]
    radicand = v[:, :1] ** 2 + np.einsum(
        "uk,ukt->ut", u[:, :, 0] ** 2 / 2, np.expm1(powers[:, :, None] * log_pi[:, None])
    )
    root = np.sqrt(np.maximum(radicand, 0.0))
    apart = lambda sign: np.max(np.abs(sign * root - v), axis=1) / np.max(np.abs(v), axis=1)
    return xr.Dataset(
        {
            "printed": ("unit", apart(np.sign(v[:, :1]))),
            "corrected": ("unit", apart(np.sign(v))),
        }
    )
