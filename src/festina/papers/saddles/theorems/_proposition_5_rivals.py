"""How large the second-largest unit is when the first one has grown up."""

import numpy as np
import xarray as xr
from jaxtyping import Float

_SCALES = np.logspace(-2, -5, 7)
_LONGEST = 200.0


def rivals(
    weights: Float[np.ndarray, "draw unit weight"], eigenvalues: Float[np.ndarray, " mode"]
) -> xr.Dataset:
    """Eq. (14) for networks of units (u, v) of size one, all on one clock in each network.

    Homogeneity makes every scale of one: weights ε θ at time t/ε are ε times weights θ at time t.
    So when the largest unit of size one has grown to 1/ε, that of size ε has grown to one. The
    clock dσ = |θ| dt keeps the largest unit from reaching infinity.
    """
    from scipy.integrate import RK45

    draws, units, size = weights.shape
    s = eigenvalues
    shape = (draws, units, size)

    def flow(_: float, state: np.ndarray) -> np.ndarray:
        theta = state.reshape(shape)
        u, v = theta[..., :-1], theta[..., -1:]
        speed = np.concatenate((2 * v * s * u, np.sum(s * u**2, axis=-1, keepdims=True)), axis=-1)
        total = np.linalg.norm(theta, axis=(1, 2), keepdims=True)
        # Who is beyond every scale of interest waits for the others.
        grown = total > 4 / _SCALES.min()
        return np.where(grown, 0.0, speed / total).ravel()

    solver = RK45(flow, 0.0, weights.ravel(), _LONGEST / np.abs(s).max(), rtol=1e-6, atol=1e-9)
    largest = [_two_largest(weights)]
    while solver.status == "running":
        solver.step()
        largest.append(_two_largest(solver.y.reshape(shape)))
        if (largest[-1][:, 1] > 2 / _SCALES.min()).all():
            break
    second, first = np.log(largest).transpose(2, 1, 0)
    ratio = np.full((draws, _SCALES.size), np.nan)
    for draw in range(draws):
        # The largest one may shrink before it grows.
        start = int(np.argmin(first[draw]))
        rising = first[draw, start:]
        if rising.max() >= np.log(1 / _SCALES.min()):
            ratio[draw] = np.exp(np.interp(np.log(1 / _SCALES), rising, second[draw, start:]))
    # In units of ε: the second unit of weights of size ε, when the first one has norm one.
    return xr.Dataset(
        {"second": (("draw", "scale"), ratio)}, {"scale": _SCALES, "draw": np.arange(draws)}
    )


def _two_largest(theta: np.ndarray) -> Float[np.ndarray, "draw 2"]:
    """Norms of the second-largest and of the largest unit of every network."""
    return np.partition(np.linalg.norm(theta, axis=2), -2, axis=1)[:, -2:]
