"""The first process that runs `saddles/figure-1b`, and the second, which finds programs compiled.

Whole processes, from start to exit. Each round begins without programs and without Matplotlib's
list of fonts, as on a new machine. What the second has left to do is importing JAX, xarray and
Matplotlib, and drawing.
"""

import os
import statistics
import subprocess
import sys
import tempfile
import time
from pathlib import Path

from .timing import table

ROUNDS = 7


def measure() -> list[dict]:
    rounds = [_round() for _ in range(ROUNDS)]
    results = [
        {"of": of, "first": first, "second": second, "ratio": first / second}
        for of in ("wall", "processor")
        for first, second in (pair[of] for pair in rounds)
    ]
    table(
        ["seconds of", "first", "second", "first ÷ second, median", "from", "to"],
        [_row(of, [r for r in results if r["of"] == of]) for of in ("wall", "processor")],
    )
    return results


def _row(of: str, rounds: list[dict]) -> list[object]:
    middle = {name: statistics.median(r[name] for r in rounds) for name in ("first", "second")}
    ratios = [r["ratio"] for r in rounds]
    return [
        of,
        *(f"{seconds:.2f}" for seconds in middle.values()),
        *(f"{ratio:.2f}" for ratio in (statistics.median(ratios), min(ratios), max(ratios))),
    ]


def _round() -> dict[str, tuple[float, float]]:
    with tempfile.TemporaryDirectory() as folder:
        first, second = (_seconds(Path(folder), number) for number in (1, 2))
    return {"wall": (first[0], second[0]), "processor": (first[1], second[1])}


def _seconds(folder: Path, number: int) -> tuple[float, float]:
    caches = {"FESTINA_CACHE": str(folder / "programs"), "MPLCONFIGDIR": str(folder / "fonts")}
    command = ["-m", "festina", "run", "saddles/figure-1b", "--quiet", "--out"]
    started, used = time.perf_counter(), _processor_time()
    subprocess.run(
        [sys.executable, *command, str(folder / f"run-{number}")],
        env=os.environ | caches,
        stdout=subprocess.DEVNULL,
        check=True,
    )
    return time.perf_counter() - started, _processor_time() - used


def _processor_time() -> float:
    """Of all processes that have ended."""
    times = os.times()
    return times.children_user + times.children_system
