"""Convert attributes between Python and JSON."""

import math
from collections.abc import Mapping
from typing import Any

import numpy as np

from ._error import RunError


def encode_attribute(value: Any, where: str) -> Any:
    """Return an attribute as JSON; NaN and infinity become `{"__float__": "nan"}` and so on."""
    if value is None or isinstance(value, str | bool | int):
        return value
    if isinstance(value, np.bool | np.integer):
        return value.item()
    if isinstance(value, float | np.floating):
        number = float(value)
        return number if math.isfinite(number) else {"__float__": str(number)}
    if isinstance(value, Mapping):
        if odd := [key for key in value if not isinstance(key, str)]:
            raise RunError(
                f"The attributes of {where} have the key {odd[0]!r}, but keys must be strings."
            )
        return {key: encode_attribute(entry, f"'{key}' of {where}") for key, entry in value.items()}
    if isinstance(value, np.ndarray) and value.ndim == 0:
        return encode_attribute(value[()], where)
    if isinstance(value, list | tuple | range | np.ndarray):
        return [encode_attribute(entry, where) for entry in value]
    if hasattr(value, "__array__") and not isinstance(value, np.generic):  # JAX's arrays
        return encode_attribute(np.asarray(value), where)
    raise RunError(
        f"The attribute {where} has type {type(value).__name__}, but attributes must be numbers, "
        "strings, None, or lists and dictionaries of these. Convert the attribute, or store it as "
        "a variable."
    )


def decode_attribute(value: Any) -> Any:
    """Return an attribute from JSON, the inverse of `encode_attribute`."""
    match value:
        case {"__float__": "nan" | "inf" | "-inf" as number} if len(value) == 1:
            return float(number)
        case dict():
            return {key: decode_attribute(entry) for key, entry in value.items()}
        case list():
            return [decode_attribute(entry) for entry in value]
        case _:
            return value
