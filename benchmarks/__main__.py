"""Run all benchmarks on this machine and print a table for each: `make bench`."""

import json
import sys
from pathlib import Path

from . import (
    against_torch,
    balanced_curve,
    contexts,
    explorer,
    gated_paths,
    linear_width,
    many_seeds,
    own_watch,
    posterior,
    sample_size,
    scale,
    start_up,
    stiff,
)

PARTS = (
    against_torch,
    sample_size,
    many_seeds,
    scale,
    balanced_curve,
    contexts,
    gated_paths,
    linear_width,
    stiff,
    posterior,
    own_watch,
    start_up,
    explorer,
)


def main() -> None:
    results = {}
    for part in PARTS:
        print(f"\n{part.__doc__.splitlines()[0]}\n", flush=True)
        results[part.__name__.split(".")[-1]] = part.measure()
    if len(sys.argv) > 1:
        Path(sys.argv[1]).write_text(json.dumps(results, indent=2) + "\n", encoding="utf-8")


main()
