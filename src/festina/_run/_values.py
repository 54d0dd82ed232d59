"""Convert the values of a variable, which are numbers, booleans or text in one file."""

from typing import Any

import numpy as np

from ._error import RunError

_INTEGERS = ("int8", "int16", "int32", "int64", "uint8", "uint16", "uint32", "uint64")
NUMBERS = frozenset(
    ("bool", *_INTEGERS, "float16", "float32", "float64", "complex64", "complex128")
)


def encode_values(values: np.ndarray, where: str) -> np.ndarray:
    """Return values as a run stores them: native byte order, and text of any length."""
    kind = values.dtype.kind
    if kind in "UT" or (kind == "O" and all(isinstance(value, str) for value in values.flat)):
        # Zarr specifies no type for text of fixed length.
        return values.astype(np.dtypes.StringDType())
    if values.dtype.name not in NUMBERS:
        raise RunError(
            f"The variable {where} has type {values.dtype}, but a run holds numbers, booleans and "
            "text. Convert the variable, or leave it out."
        )
    return values.astype(values.dtype.newbyteorder("="), copy=False)


def decode_values(values: np.ndarray) -> np.ndarray:
    """Return values for the user: text gets the width of its longest string."""
    # NumPy finds the width of the longest string when it converts an array of objects.
    return values.astype(object).astype(str) if values.dtype.kind in "OT" else values


def layout(values: np.ndarray) -> dict[str, Any]:
    """Return the Zarr 3 description of an array in one uncompressed file."""
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
    """Return the content of an array's file."""
    if values.dtype.kind == "T":  # number of strings, then each string after its length
        encoded = [text.encode() for text in values.flat]
        lengths = [len(text).to_bytes(4, "little") for text in encoded]
        pairs = zip(lengths, encoded, strict=True)
        return memoryview(len(encoded).to_bytes(4, "little") + b"".join(map(b"".join, pairs)))
    little = np.ascontiguousarray(values, values.dtype.newbyteorder("<"))
    return little.reshape(-1).view(np.uint8).data
