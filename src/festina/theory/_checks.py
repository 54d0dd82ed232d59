"""Checks of what the closed forms are given. Values that JAX is tracing pass unseen."""

from typing import Any

import numpy as np
from jaxtyping import Float

from .._precision import is_traced
from .._types import ArrayLike


def check_times(times: Any) -> None:
    """Any order will do: a closed form answers each time by itself."""
    if is_traced(times):
        return
    times = np.asarray(times, dtype=float)
    if times.ndim != 1 or not times.size:
        raise ValueError(
            f"`times` must be a list of at least one time, got shape {times.shape}. For a single "
            "one: np.array([t])."
        )
    check_finite("times", times)
    if (times < 0).any():
        raise ValueError(
            f"`times` must not be negative, got {times.min():g}: learning starts at time 0, and "
            "the solution may not exist before it."
        )


def check_finite(name: str, value: Any) -> None:
    if is_traced(value):
        return
    value = np.asarray(value, dtype=float)
    if not np.isfinite(value).all():
        bad = int(np.sum(~np.isfinite(value)))
        raise ValueError(f"`{name}` must be finite, {bad} of its {value.size} values are not.")


def check_positive(name: str, value: Any) -> None:
    check_finite(name, value)
    if not is_traced(value) and (np.asarray(value, dtype=float) <= 0).any():
        raise ValueError(f"`{name}` must be positive, got {np.min(value):g}.")


def finite(name: str, value: ArrayLike) -> Float[np.ndarray, "..."]:
    """An array in float64; raises unless all of it is finite."""
    array = np.asarray(value, dtype=float)
    check_finite(name, array)
    return array


def number(name: str, value: object) -> float:
    """Raises unless it is a finite number."""
    if not isinstance(value, int | float | np.number) or not np.isfinite(value):
        raise ValueError(f"`{name}` must be a finite number, got {value!r}.")
    return float(value)
