"""Timing of functions (best of several calls after compilation), and plain tables."""

import time
from collections.abc import Callable


def best(*functions: Callable[[], object], repeats: int = 15) -> list[float]:
    """Return the seconds of the fastest of `repeats` warm calls, for each function.

    Calls of different functions alternate, because the speed of a shared machine varies from second
    to second.
    """
    for function in functions:
        function()
    seconds = [float("inf")] * len(functions)
    for _ in range(repeats):
        for index, function in enumerate(functions):
            started = time.perf_counter()
            function()
            seconds[index] = min(seconds[index], time.perf_counter() - started)
    return seconds


def table(headings: list[str], rows: list[list[object]]) -> None:
    widths = [
        max(len(str(cell)) for cell in column) for column in zip(headings, *rows, strict=True)
    ]
    for row in (headings, *rows):
        print("  ".join(str(cell).rjust(width) for cell, width in zip(row, widths, strict=True)))
