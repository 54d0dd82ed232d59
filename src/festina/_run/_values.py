"""The values of a variable: numbers, booleans or text, whole and in one file."""

from typing import Any

import numpy as np

from ._error import RunError

_INTEGERS = ("int8", "int16", "int32", "int64", "uint8", "uint16", "uint32", "uint64")
NUMBERS = frozenset(
    ("bool", *_INTEGERS, "float16", "float32", "float64", "complex64", "complex128")
)


def encode_values(values: np.ndarray, where: str) -> np.ndarray:
    """As a run holds them: numbers in this machine's byte order, text of any length."""
    kind = values.dtype.kind
    if kind in "UT" or (kind == "O" and all(isinstance(value, str) for value in values.flat)):
        # Zarr has no specified type for text of fixed length.
        return values.astype(np.dtypes.StringDType())
    if values.dtype.name not in NUMBERS:
        raise RunError(
            f"Variable {where} has type {values.dtype}, "
            "and a run holds numbers, booleans and text. Convert it, or leave it out."
        )
    return values.astype(values.dtype.newbyteorder("="), copy=False)


def decode_values(values: np.ndarray) -> np.ndarray:
    """As a user has them: text of the width that the longest one needs."""
    # By way of objects, because they know the width that the longest string needs.
    return values.astype(object).astype(str) if values.dtype.kind in "OT" else values


def layout(values: np.ndarray) -> dict[str, Any]:
    """How an array is stored, in the words of the specification of Zarr 3: whole, in one file."""
    kind = values.dtype.kind
    codec: dict[str, Any] = {"name": "bytes"}
    if kind == "T":
        codec = {"name": "vlen-utf8", "configuration": {}}
    elif values.dtype.itemsize > 1:
        codec["configuration"] = {"endian": "little"}
    return {
        "shape": values.shape,
        "data_type": "string" if kind == "T" else values.dtype.name,
        "chunk_grid": {
            "name": "regular",
            "configuration": {"chunk_shape": [max(1, n) for n in values.shape]},
        },
        "chunk_key_encoding": {"name": "default", "configuration": {"separator": "/"}},
        "fill_value": {"T": "", "b": False, "f": 0.0, "c": [0.0, 0.0]}.get(kind, 0),
        "codecs": [codec],
    }


def as_bytes(values: np.ndarray) -> memoryview:
    """The content of that file."""
    if values.dtype.kind == "T":  # the number of strings, then each with its length in front
        encoded = [text.encode() for text in values.flat]
        lengths = [len(text).to_bytes(4, "little") for text in encoded]
        pairs = zip(lengths, encoded, strict=True)
        return memoryview(len(encoded).to_bytes(4, "little") + b"".join(map(b"".join, pairs)))
    little = np.ascontiguousarray(values, values.dtype.newbyteorder("<"))
    return little.reshape(-1).view(np.uint8).data
