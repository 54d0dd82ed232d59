"""Numbers and arrays that were given, checked and made our own."""

import numpy as np
from jaxtyping import Float

from .._types import ArrayLike


def whole_number(name: str, value: float | int, least: int = 1) -> int:
    """A number of things; raises unless it is whole and large enough."""
    if isinstance(value, str):
        raise ValueError(f"`{name}` must be a whole number, got the text {value!r}.")
    if not value >= least or value % 1 != 0:  # infinity has no remainder either
        raise ValueError(f"`{name}` must be a whole number from {least} up, got {value}.")
    return int(value)


def real_number(name: str, value: object) -> float:
    """A number, which may be infinite; raises at what is none."""
    found = np.asarray(value)
    if found.ndim or found.dtype.kind not in "iuf" or np.isnan(found):
        raise ValueError(f"`{name}` must be a number, got {value!r}.")
    return float(found)


def real_array(name: str, given: ArrayLike) -> Float[np.ndarray, "..."]:
    """A copy, which later changes of the caller's do not reach; raises at what is not real."""
    if np.iscomplexobj(given):
        raise ValueError(f"`{name}` must be real, got complex numbers.")
    if np.asarray(given).dtype.kind in "US":
        raise ValueError(f"`{name}` must be a number or an array of them, got the text {given!r}.")
    return np.array(given, dtype=float)


def check_alone(batch: tuple[int, ...], what: str = "network", *, use: str = "") -> None:
    """Raises at a batch where one network, or one trajectory, is needed."""
    if batch:
        zeros = ", ".join("0" * len(batch))
        raise ValueError(
            f"One {what} at a time, got a batch {batch}. {use}Take one of them: "
            f"{what}.lane({zeros})."
        )


def check_lane(index: tuple[int, ...], batch: tuple[int, ...], *, alone: str) -> None:
    """Raises unless there is one such network in a batch; without any batch it is `alone`."""
    if len(index) != len(batch):
        raise ValueError(
            f"`lane` needs one index for each of the axes {batch}, got {index}."
            + ("" if batch else f" This is one {alone} already.")
        )
    for axis, (i, length) in enumerate(zip(index, batch, strict=True)):
        if not -length <= i < length:
            which = f" along axis {axis}" if len(index) > 1 else ""
            raise ValueError(f"Index {i} of `lane` is out of range for {length} networks{which}.")
