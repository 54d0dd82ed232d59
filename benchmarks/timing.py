"""Timing: the best of several, after a call that compiles."""

import time
from collections.abc import Callable


def best(*functions: Callable[[], object], repeats: int = 15) -> list[float]:
    """Seconds of the fastest of `repeats` warm calls of each, in turns.

    In turns, because the speed of a shared machine changes from second to second: two things that
    are compared must have had the same chances.
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
