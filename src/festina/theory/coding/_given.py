"""Check arguments of the coding theory."""

import numpy as np
from jaxtyping import Float

from ..._checks import finite_array, number, whole_numbers
from ..._types import ArrayLike
from ...tasks import targets_per_class


def temperature_of(value: object) -> float:
    found = number("temperature", value)
    if found < 0:
        raise ValueError(
            f"`temperature` must not be negative, got {found:g}. Use temperature 0 for a network "
            "that fits every target exactly."
        )
    return found


def sizes_of(sizes: ArrayLike) -> Float[np.ndarray, " group"]:
    """Return the number of examples of each class; raise unless all are whole numbers ≥ 1."""
    found = np.array(whole_numbers("sizes", sizes, 0), float)
    if not found.size or not found.all():
        raise ValueError(
            f"`sizes` must be one whole number from 1 up for each class, got {found.tolist()}. "
            "Leave out classes without examples, and their rows of `targets`."
        )
    return found


def targets_of(targets: ArrayLike | None, groups: int) -> Float[np.ndarray, "group output"]:
    if targets is None:
        return targets_per_class(groups)
    found = finite_array("targets", targets)
    if found.ndim == 1:
        found = found[:, None]
    if found.ndim != 2 or len(found) != groups:
        raise ValueError(
            f"`targets` must have shape (class, output) and one row for each of {groups} classes, "
            f"got {found.shape}. Use `targets_per_class({groups}, other=…)` to make `targets`."
        )
    if not found.any():
        raise ValueError("`targets` are all zero, so there is nothing to learn.")
    return found


def kernel_of(kernel: ArrayLike, y: ArrayLike) -> tuple[np.ndarray, np.ndarray]:
    """Return $K_0$ and Y as arrays; raise unless $K_0$ is symmetric and positive semidefinite."""
    k0, y = finite_array("kernel", kernel), finite_array("y", y)
    y = y[:, None] if y.ndim == 1 else y
    if k0.ndim != 2 or k0.shape[0] != k0.shape[1] or y.ndim != 2 or len(y) != len(k0):
        raise ValueError(
            "`kernel` must have shape (sample, sample) and `y` shape (sample, output), got "
            f"{k0.shape} and {y.shape}."
        )
    size = np.abs(k0).max()
    if np.abs(k0 - k0.T).max() > 1e-9 * size:
        raise ValueError(
            f"`kernel` must be symmetric, but its largest asymmetry is "
            f"{np.abs(k0 - k0.T).max():.3g}. Use `(kernel + kernel.T) / 2`."
        )
    if (lowest := np.linalg.eigvalsh(k0)[0]) < -1e-9 * size:
        raise ValueError(
            f"`kernel` must not have negative eigenvalues, but the smallest is {lowest:.3g}. "
            "Use the kernel x @ x.T / D of inputs x with D entries."
        )
    return k0, y
