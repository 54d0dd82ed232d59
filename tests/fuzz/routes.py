"""Independent routes to a result: comparisons, integrators, properties."""

from collections.abc import Callable
from typing import Any

import numpy as np
import scipy.integrate

from .outcomes import Fault


def normal(*shape: int, scale: float = 1.0) -> Callable[[np.random.Generator], np.ndarray]:
    return lambda rng: scale * rng.standard_normal(shape)


def near(found: Any, right: Any, rtol: float = 1e-8, scale: Any = 0.0) -> str:
    """Raise a `Fault` unless two results agree, relative to the correct one or to a scale."""
    found, right = np.asarray(found), np.asarray(right, dtype=float)
    if found.dtype.kind not in "biuf" or (np.isnan(found).any() and not np.isnan(right).any()):
        raise Fault(f"is {found}, not {right}")
    if np.isnan(right).any():  # the other route overflows
        return "kept"
    if found.shape != right.shape:
        raise Fault(f"has shape {found.shape}, not {right.shape}")
    off = np.abs(found - right) > rtol * np.maximum(np.abs(right), scale) + 1e-300
    if (off & (found != right)).any():
        raise Fault(f"is {found}, not {right}")
    return "right"


def holds(what: str, so: Any) -> str:
    if not np.all(so):
        raise Fault(f"it does not hold that {what}")
    return "kept"


def finite(*values: Any) -> str:
    return holds("all is finite", [np.isfinite(value).all() for value in values])


def moderate(*values: Any, size: float = 1e4) -> bool:
    """Return whether numbers are moderate enough for an integrator."""
    whole = np.abs(np.concatenate([np.ravel(np.asarray(v, dtype=float)) for v in values]))
    return bool(np.all((whole == 0) | ((whole > 1 / size) & (whole < size))))


def flow(slope: Any, start: np.ndarray, times: Any, rtol: float = 1e-10) -> np.ndarray:
    """Integrate a differential equation by SciPy, at times in any order; time is the first axis."""
    start, times = np.asarray(start, dtype=float), np.asarray(times, dtype=float)
    order, back = np.unique(times, return_inverse=True)
    size = rtol * 1e-3 * np.maximum(np.abs(start).max(initial=0.0), 1e-6)
    solution = scipy.integrate.solve_ivp(
        lambda t, y: np.ravel(slope(y.reshape(start.shape))),
        (0.0, max(order[-1], 1e-12)),
        start.ravel(),
        method="LSODA",
        t_eval=order,
        rtol=rtol,
        atol=size,
    )
    values = solution.y.T if solution.success else np.full((len(order), start.size), np.nan)
    return values.reshape(-1, *start.shape)[back.reshape(times.shape)]
