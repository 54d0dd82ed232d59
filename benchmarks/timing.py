"""Timing: the best of several, after a call that compiles."""

import time
from collections.abc import Callable


def best(function: Callable[[], object], repeats: int = 15) -> float:
    """Seconds of the fastest of `repeats` warm calls."""
    function()
    seconds = []
    for _ in range(repeats):
        started = time.perf_counter()
        function()
        seconds.append(time.perf_counter() - started)
    return min(seconds)


def table(headings: list[str], rows: list[list[object]]) -> None:
    widths = [
        max(len(str(cell)) for cell in column) for column in zip(headings, *rows, strict=True)
    ]
    for row in (headings, *rows):
        print("  ".join(str(cell).rjust(width) for cell, width in zip(row, widths, strict=True)))
