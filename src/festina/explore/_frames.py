"""Messages from the server to a page: a line of JSON, followed by arrays in single precision."""

import json
from typing import Any

import numpy as np

from ._scene import Numbers


def message(head: dict[str, Any], numbers: Numbers | None = None) -> bytes:
    """Return a message: length of the JSON in four bytes, JSON, arrays.

    The entry `arrays` of the JSON lists source, column and shape of every array. Arrays with two
    axes have time as their first axis.
    """
    arrays: list[tuple[str, str, np.ndarray]] = []
    if numbers is not None:
        arrays = [
            (source, column, np.ascontiguousarray(values, "<f4"))
            for group in (numbers.columns, numbers.frames)
            for source, columns in group.items()
            for column, values in columns.items()
        ]
        if numbers.times is not None:
            arrays.append(("times", "", np.ascontiguousarray(numbers.times, "<f4")))
    listed = [(source, column, values.shape) for source, column, values in arrays]
    text = json.dumps({**head, "arrays": listed}, allow_nan=False).encode()
    text += b" " * (-len(text) % 4)  # arrays of floats start at a multiple of four bytes
    parts = (values.tobytes() for _, _, values in arrays)
    return b"".join((len(text).to_bytes(4, "little"), text, *parts))
