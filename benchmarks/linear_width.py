"""A linear network (Figure 1B and larger, population) of ten units and of a hundred thousand.

The whole call to convergence, at a tolerance of 1e-10 and at the default one: it reads the initial
weights once, and leaves the trained ones of all units for when they are looked at. `final` is how
long that takes. What grows with the width is that one reading, of H times inputs and outputs, which
is seen most where training is shortest.
"""

import jax
import numpy as np

import festina
from festina.networks import fully_connected
from festina.tasks import linear_teacher

from .timing import best, table

WIDTHS = (10, 1000, 100_000)
COVARIANCES = (
    np.array([[1.0, 1.0], [1.0, 4.0]]),
    np.diag(np.linspace(1.0, 4.0, 3)),
    np.diag(np.linspace(1.0, 4.0, 5)),
)
RTOLS = (1e-10, None)


def measure() -> list[dict]:
    results = [row for each in COVARIANCES for rtol in RTOLS for row in _measure(each, rtol)]
    table(
        ["inputs–outputs", "rtol", "units", "ms", "÷ ten units", "final, ms"],
        [
            [
                f"{r['size']}–{r['size']}",
                r["rtol"] or "default",
                r["width"],
                f"{1e3 * r['seconds']:.2f}",
                f"{r['ratio']:.2f}",
                f"{1e3 * r['final']:.2f}",
            ]
            for r in results
        ],
    )
    return results


def _measure(covariance: np.ndarray, rtol: float | None) -> list[dict]:
    size = len(covariance)
    task = linear_teacher(np.eye(size), covariance)
    flows = [
        lambda network=network: festina.gradient_flow(network, task, rtol=rtol)
        for network in (
            fully_connected(size, width, size, scale=1e-6, key=jax.random.key(0))
            for width in WIDTHS
        )
    ]
    runs = [flow() for flow in flows]
    seconds = best(*flows, repeats=40)
    looks = best(*(lambda run=run: run.final for run in runs), repeats=5)
    return [
        {
            "size": size,
            "rtol": rtol,
            "width": width,
            "seconds": spent,
            "ratio": spent / seconds[0],
            "final": look,
        }
        for width, spent, look in zip(WIDTHS, seconds, looks, strict=True)
    ]
