"""Averages over data that were given as arrays, checked."""

import numpy as np
from jaxtyping import Float
from numpy.typing import ArrayLike

_ROUNDING = 1e-9  # of the largest entry
_SINGULAR = 1e-13  # of the largest eigenvalue, for each input
_COARSE = " If that is rounding, average in float64."


def finite(name: str, value: ArrayLike) -> Float[np.ndarray, "..."]:
    """An array in float64; raises unless all of it is finite."""
    array = np.asarray(value, dtype=float)
    if not np.isfinite(array).all():
        raise ValueError(f"`{name}` holds values that are not finite.")
    return array


def number(name: str, value: object) -> float:
    """Raises unless it is a finite number."""
    if not isinstance(value, int | float | np.number) or not np.isfinite(value):
        raise ValueError(f"`{name}` must be a finite number, got {value!r}.")
    return float(value)


def covariance_of(value: ArrayLike, inputs: int) -> Float[np.ndarray, "input input"]:
    """Σ_zz, symmetric and without negative eigenvalues."""
    zz = finite("covariance", value)
    if zz.shape != (inputs, inputs):
        raise ValueError(
            f"`covariance` must have shape {(inputs, inputs)} to go with `correlation`, got "
            f"{zz.shape}."
        )
    size = np.abs(zz).max()
    if (asymmetry := np.abs(zz - zz.T).max()) > _ROUNDING * size:
        raise ValueError(
            f"`covariance` must be symmetric, the largest asymmetry is {asymmetry:.3g}.{_COARSE}"
        )
    if (smallest := np.linalg.eigvalsh(zz)[0]) < -_ROUNDING * size:
        raise ValueError(
            f"`covariance` must not have negative eigenvalues, one is {smallest:.3g}.{_COARSE}"
        )
    return zz


def inverse_on(
    zz: Float[np.ndarray, "input input"], yz: Float[np.ndarray, "output input"]
) -> Float[np.ndarray, "input input"]:
    """Σ_zz⁺; raises where Σ_yz has a part along inputs that do not vary."""
    inverse = np.linalg.pinv(zz, rcond=_SINGULAR * len(zz), hermitian=True)
    outside = np.abs(yz - yz @ inverse @ zz).max()
    if outside > 1e-8 * np.abs(yz).max():
        raise ValueError(
            f"`correlation` has a part of {outside:.3g} along inputs that do not vary "
            "(`covariance` is singular there): nothing can correlate with them. Are the two from "
            "the same data?"
        )
    return inverse
