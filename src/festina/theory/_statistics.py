"""Averages over inputs: those of a task, or given as arrays and checked."""

from typing import NamedTuple

import numpy as np
from jaxtyping import Float

from .._checks import finite
from .._objective import LossConvention, loss_factor
from .._types import ArrayLike
from ..networks import Neuron
from ..tasks import AbstractTask

_ROUNDING = 1e-9  # of the largest entry
_SINGULAR = 1e-13  # of the largest eigenvalue, for each input
_COARSE = " If that is rounding, average in float64."


class Moments(NamedTuple):
    """All that a linear network sees of a task: Σ_yx, Σ_xx and ⟨‖y‖²⟩."""

    correlation: Float[np.ndarray, "output input"]
    covariance: Float[np.ndarray, "input input"]
    power: float


def moments(task: AbstractTask, loss: LossConvention = "half") -> Moments:
    """Times the factor of a loss: then L = ½⟨‖y − Wx‖²⟩ of them is that loss, and its clock."""
    if not isinstance(task, AbstractTask):
        raise ValueError(
            f"`task` must be one of `festina.tasks`, got {type(task).__name__}. Functions that "
            "take arrays end in `_from`."
        )
    seen, factor = task.statistics(Neuron()), loss_factor(loss, task)
    return Moments(factor * seen.correlation, factor * seen.covariance, factor * seen.power)


def correlation_of(value: ArrayLike) -> Float[np.ndarray, "output input"]:
    """Return Σ_yz, a matrix with at least one output and one input."""
    yz = finite("correlation", value)
    if yz.ndim != 2 or not yz.size:
        raise ValueError(f"`correlation` must be a matrix (output, input), got shape {yz.shape}.")
    return yz


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
