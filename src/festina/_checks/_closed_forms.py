"""Checks of the arguments of closed-form solutions; JAX tracers are not checked."""

from typing import Any

import numpy as np
from jaxtyping import Float

from .._precision import is_traced
from .._types import ArrayLike
from ._values import check_finite as check_finite
from ._values import number as number
from ._values import real_array


def check_times(times: Any) -> None:
    """Raise `ValueError` unless `times` is a time or a list of times ≥ 0, in any order."""
    if is_traced(times):
        return
    check_finite("times", times)
    times = np.asarray(times, dtype=float)
    if times.ndim > 1 or not times.size:
        raise ValueError(
            f"`times` must be a number or a list of at least one number, got shape {times.shape}."
        )
    if (times < 0).any():
        raise ValueError(
            f"`times` must not be negative, got {times.min():g}: learning starts at time 0, and "
            "the solution may not exist at earlier times."
        )


def check_positive(name: str, value: Any) -> None:
    check_finite(name, value)
    # XLA rounds subnormal numbers to zero.
    if not is_traced(value) and (np.asarray(value, dtype=float) < np.finfo(float).tiny).any():
        raise ValueError(f"`{name}` must be positive, got {np.min(value):g}.")


def finite(name: str, value: ArrayLike) -> Float[np.ndarray, "..."]:
    """Return an array in float64; raise `ValueError` unless all of its values are finite."""
    check_finite(name, value)
    return np.asarray(value, dtype=float)


def check_modes(**values: Any) -> None:
    """Raise `ValueError` unless each value is a number or an array with one entry for each mode."""
    values = {name: value for name, value in values.items() if value is not None}
    shapes = [
        np.shape(value if is_traced(value) else real_array(name, value))
        for name, value in values.items()
    ]
    for name, shape in zip(values, shapes, strict=True):
        if 0 in shape:
            raise ValueError(f"`{name}` must hold at least one value, got shape {shape}.")
    try:
        np.broadcast_shapes(*shapes)
    except ValueError:
        *names, last = (f"`{name}`" for name in values)
        raise ValueError(
            f"{', '.join(names)} and {last} must be numbers or have one value for each mode, got "
            f"shapes {', '.join(map(str, shapes))}."
        ) from None
