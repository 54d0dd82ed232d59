"""Checks of numbers and arrays; the functions return float64 copies."""

from collections.abc import Iterable

import numpy as np
from jaxtyping import Float

from .._memory import memory
from .._precision import is_traced

# Largest range in which every whole number is exactly a double.
_MOST = 2**53

# Largest allowed size of weights and data: products of a few such numbers do not overflow.
LARGEST = 1e100

# Copies of the weights that exist at the same time while weights are drawn and scaled.
_COPIES = 3


def whole_number(name: str, value: object, least: int = 1) -> int:
    """Return a count or an index as an int; raise unless it is whole and at least `least`."""
    found = np.nan if isinstance(value, bool | np.bool) else _number(value)
    if not least <= found < _MOST or found % 1 != 0:
        raise ValueError(f"`{name}` must be a whole number from {least} up, got {_shown(value)}.")
    return int(found)


def whole_numbers(name: str, values: object, least: int = 1) -> tuple[int, ...]:
    """Return counts or indices as ints; raise unless each is whole and at least `least`."""
    if (
        isinstance(values, str)
        or not isinstance(values, Iterable)
        or getattr(values, "shape", None) == ()
    ):
        raise ValueError(f"`{name}` must be a list of whole numbers, got {_shown(values)}.")
    return tuple(whole_number(f"{name}[{i}]", value, least) for i, value in enumerate(values))


def real_number(name: str, value: object) -> float:
    """Return a number, which may be infinite, as a float; raise for anything else."""
    found = _number(value)
    if np.isnan(found) or isinstance(value, bool | np.bool):
        raise ValueError(f"`{name}` must be a number, got {_shown(value)}.")
    return found


def number(name: str, value: object) -> float:
    """Return a finite number as a float; raise `ValueError` for anything else."""
    try:
        found = real_number(name, value)
    except ValueError:
        found = np.nan
    if not np.isfinite(found):
        raise ValueError(f"`{name}` must be a finite number, got {value!r}.")
    return found


def acute(angle: object) -> float:
    """Return an angle in radians; raise `ValueError` unless it lies between 0 and π/2."""
    found = real_number("angle", angle)
    if not 0 < found < np.pi / 2:
        raise ValueError(f"`angle` must lie between 0 and π/2 radians, got {angle}.")
    return found


def _number(value: object) -> float:
    """Return a number as a float; NaN for anything else."""
    try:
        found = real_array("", value)
    except ValueError:
        return np.nan
    return np.nan if found.ndim else float(found)


def real_array(name: str, given: object) -> Float[np.ndarray, "..."]:
    """Return a float64 copy of an array; raise `ValueError` if its values are not real numbers."""
    if given is np.ma.masked or np.ma.is_masked(given):
        raise ValueError(
            f"`{name}` must be an array without masked values, but {np.ma.count_masked(given)} of "
            "its values are masked. Remove the masked values with `.compressed()`, or replace them "
            "with `.filled(value)`."
        )
    kind = ""
    try:
        found = np.asarray(given)
        kind = found.dtype.kind
        if given is not None and kind not in "cSUMm":  # NumPy would convert text and dates silently
            return np.array(found, dtype=float)
    except (ValueError, TypeError):  # ragged lists, and objects that are not numbers
        pass
    if kind == "c":
        raise ValueError(f"`{name}` must be real, got complex numbers.")
    text = "the text " if isinstance(given, str | bytes) else ""
    raise ValueError(
        f"`{name}` must be a number or an array of numbers, got {text}{_shown(given)}."
    )


def check_finite(name: str, value: object) -> None:
    """Raise `ValueError` unless all values are finite; JAX tracers are not checked."""
    if is_traced(value):
        return
    array = real_array(name, value)
    if bad := int(np.sum(~np.isfinite(array))):
        raise ValueError(
            f"`{name}` must be finite, but {bad} of its {array.size} values are infinite or NaN."
        )


def check_size(name: str, value: object) -> None:
    """Raise `ValueError` unless all values are finite and small enough to be multiplied."""
    check_finite(name, value)
    if is_traced(value):
        return
    if (largest := np.abs(real_array(name, value)).max(initial=0.0)) > LARGEST:
        raise ValueError(f"`{name}` must be below {LARGEST:g} in size, got {largest:g}.")


def finite_array(name: str, given: object) -> Float[np.ndarray, "..."]:
    """Return a copy of a non-empty array; raise unless its entries are finite and below 1e100."""
    array = real_array(name, given)
    if 0 in array.shape:
        raise ValueError(
            f"`{name}` must have at least one entry along every axis, got shape {array.shape}."
        )
    check_size(name, array)
    return array


def finite_matrix(
    name: str, given: object, rows: str, columns: str, count: int | None = None
) -> Float[np.ndarray, "row column"]:
    """Return a copy of a finite matrix; `count` is the required number of columns, if given."""
    array = finite_array(name, given)
    if array.ndim != 2 or count not in (None, array.shape[1]):
        raise ValueError(f"`{name}` must be ({rows}, {count or columns}), got shape {array.shape}.")
    return array


def check_memory(numbers: int) -> None:
    """Raise `ValueError` if this number of weights, with its temporary copies, exceeds memory."""
    needed, there = 8 * _COPIES * numbers, memory()
    if needed > there:
        raise ValueError(
            f"The networks have {numbers:.3g} weights and need {needed / 2**30:.3g} GiB of memory, "
            f"but only {there / 2**30:.3g} GiB are available. Use smaller widths or fewer networks."
        )


def check_type(name: str, value: object, kind: type, hint: str = "") -> None:
    """Raise `ValueError` unless the value is an instance of the class `kind`."""
    if not isinstance(value, kind):
        wanted = kind.__name__.removeprefix("Abstract")
        raise ValueError(f"`{name}` must be a `{wanted}`, got {_shown(value)}.{hint}")


def check_choice(name: str, value: object, choices: tuple[str, ...]) -> None:
    """Raise `ValueError` unless the value is one of the choices."""
    if value not in choices:
        listed = ", ".join(f'"{each}"' for each in choices)
        raise ValueError(
            f"`{name}` must be {'one of ' * (len(choices) > 1)}{listed}, got {value!r}."
        )


def _shown(value: object) -> str:
    """Return the `repr` of a value, shortened to fit on one line."""
    text = repr(value).replace("\n", "")
    return text if len(text) < 60 else f"{type(value).__name__} {text[:50]}…"


def check_alone(batch: tuple[int, ...], what: str = "network", *, use: str = "") -> None:
    """Raise `ValueError` for a batch where a single network or trajectory is needed."""
    if batch:
        zeros = ", ".join("0" * len(batch))
        raise ValueError(
            f"Expected a single {what}, got a batch of shape {batch}. {use}Select one {what} with "
            f"{what}.lane({zeros})."
        )


def misfit(
    takes: tuple[int, ...], gives: int, input_shape: tuple[int, ...], outputs: int
) -> ValueError:
    """Return the error for inputs or targets whose shapes do not fit a network."""
    if (takes, gives) == (input_shape, outputs):
        return ValueError(
            f"The shapes of the network's weights do not fit each other, or its units, for inputs "
            f"of shape {takes}. Create the network again with weights of its own kind of units."
        )
    if gives == outputs:
        return ValueError(
            "Network and inputs do not fit: the network takes inputs of shape "
            f"{takes}, got {input_shape}."
        )
    return ValueError(
        f"Network and task do not fit: the network takes inputs of shape {takes} and has {gives} "
        f"outputs, but the task has inputs of shape {input_shape} and {outputs} outputs."
    )


def check_lane(index: tuple[int, ...], batch: tuple[int, ...], *, alone: str) -> None:
    """Raise `ValueError` unless the index selects one network of a batch with these axes."""
    if len(index) != len(batch):
        raise ValueError(
            f"`lane` needs one index for each of the axes {batch}, got {index}."
            + ("" if batch else f" This {alone} is not a batch.")
        )
    for axis, (i, length) in enumerate(zip(index, batch, strict=True)):
        found = np.asarray(i)
        if found.ndim or found.dtype.kind not in "iu":
            raise ValueError(f"`lane` takes whole numbers as indices, got {_shown(i)}.")
        if not -length <= i < length:
            which = f" along axis {axis}" if len(index) > 1 else ""
            raise ValueError(f"Index {i} of `lane` is out of range for {length} networks{which}.")
