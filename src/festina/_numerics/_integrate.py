"""Integrate differential equations with SciPy, for arrays of any shape."""

from collections.abc import Callable
from typing import Any

import numpy as np
from jaxtyping import Float

from .._types import ArrayLike


def integrate(
    velocity: Callable[[float, np.ndarray], ArrayLike],
    times: ArrayLike,
    start: ArrayLike,
    *,
    method: str = "DOP853",
    rtol: float,
    atol: float,
    **options: Any,
) -> Float[np.ndarray, "..."]:
    """Return the solution of dx/dt = velocity(t, x), x(0) = start, at `times` in any order.

    The axes of `times` come first, then the axes of `start`. `options` are passed to
    `scipy.integrate.solve_ivp`. If the integration fails, a `RuntimeError` is raised.
    """
    from scipy.integrate import solve_ivp

    given, start = np.asarray(times, float), np.asarray(start, float)
    moments, place = np.unique(np.append(0.0, given), return_inverse=True)
    run = solve_ivp(
        lambda t, x: np.ravel(velocity(t, x.reshape(start.shape))),
        (0.0, max(float(moments[-1]), 1e-300)),
        start.ravel(),
        method,
        t_eval=moments,
        rtol=rtol,
        atol=atol,
        **options,
    )
    if not run.success:
        raise RuntimeError(f"{run.message} Try a larger `rtol`.")
    return run.y.T[place.ravel()[1:]].reshape(*given.shape, *start.shape)
