"""Good numbers to begin with, and other ways to a result: integrators, quadrature, comparisons."""

from typing import Any

import numpy as np
import scipy.integrate
from hypothesis import strategies as st

from .outcomes import Fault

SEEDS = st.integers(0, 2**20)


def normal(*shape: int, scale: float = 1.0) -> st.SearchStrategy[np.ndarray]:
    return SEEDS.map(lambda seed: scale * np.random.default_rng(seed).standard_normal(shape))


def positive(*shape: int) -> st.SearchStrategy[np.ndarray]:
    return normal(*shape).map(np.exp)


def one_of(*values: Any) -> st.SearchStrategy[Any]:
    return st.sampled_from(values)


def drawn(function: Any) -> st.SearchStrategy[Any]:
    """What a function makes of a generator of random numbers."""
    return SEEDS.map(lambda seed: function(np.random.default_rng(seed)))


def near(found: Any, right: Any, rtol: float = 1e-8, scale: Any = 0.0) -> str:
    """Raises unless both are the same to a fraction of the right one, or of a scale."""
    found, right = np.asarray(found), np.asarray(right)
    if found.dtype.kind not in "biuf" or (np.isnan(found).any() and not np.isnan(right).any()):
        raise Fault(f"is {found}, not {right}")
    if np.isnan(right).any():  # the other route leaves what numbers can hold
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


def moderate(*values: Any, size: float = 1e4) -> bool:
    """Whether an integrator can be asked."""
    whole = np.abs(np.concatenate([np.ravel(np.asarray(v, dtype=float)) for v in values]))
    return bool(np.all((whole == 0) | ((whole > 1 / size) & (whole < size))))


def flow(slope: Any, start: np.ndarray, times: Any, rtol: float = 1e-10) -> np.ndarray:
    """A differential equation by SciPy, at times in any order; time is the first axis."""
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
