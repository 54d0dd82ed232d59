"""CPU time of `festina run` in a new process, beside importing JAX, xarray and Matplotlib alone.

The first run finds no compiled programs, and the second run finds those of the first one.
"""

import os
import resource
import subprocess
import sys
import tempfile
from pathlib import Path

from .timing import table

EXPERIMENTS = ("saddles/figure-1b", "race/xor", "linear/regimes")
_IMPORTS = ["-c", "import jax, xarray, matplotlib.pyplot"]
_REPEATS = 3  # of fast processes


def _seconds(tokens: list[str], folder: str) -> float:
    """Return the CPU time of a Python process, which other processes hardly change."""
    cache = {"JAX_COMPILATION_CACHE_DIR": str(Path(folder, "xla")), "OMP_NUM_THREADS": "1"}
    before = resource.getrusage(resource.RUSAGE_CHILDREN)
    where = {"cwd": folder, "env": os.environ | cache, "capture_output": True}
    subprocess.run([sys.executable, *tokens], check=True, **where)
    after = resource.getrusage(resource.RUSAGE_CHILDREN)
    return after.ru_utime + after.ru_stime - before.ru_utime - before.ru_stime


def measure() -> dict[str, list[float]]:
    """Return for each experiment the CPU seconds of imports, of the first and of a later run."""
    found = {}
    for name in EXPERIMENTS:
        with tempfile.TemporaryDirectory() as folder:
            run = ["-m", "festina", "run", name, "--quiet"]
            first = _seconds(run, folder)
            later, imports = (
                min(_seconds(tokens, folder) for _ in range(_REPEATS)) for tokens in (run, _IMPORTS)
            )
        found[name] = [imports, first, later]
    rows = [
        [name, f"{imports:.1f} s", *(f"{each:.1f} s ({each / imports:.1f}×)" for each in runs)]
        for name, (imports, *runs) in found.items()
    ]
    table(["experiment", "imports", "first run", "later run"], rows)
    return found
