"""A linear network (Figure 1B, population) of ten units and of a hundred thousand.

The whole call to convergence at a tolerance of 1e-10: it reads the initial weights once, and leaves
the trained ones of all units for when they are looked at. `final` is how long that takes.
"""

import jax
import numpy as np

import festina
from festina.networks import fully_connected
from festina.tasks import linear_teacher

from .timing import best, table

WIDTHS = (10, 1000, 100_000)
TASK = linear_teacher(np.eye(2), np.array([[1.0, 1.0], [1.0, 4.0]]))
RTOL = 1e-10


def measure() -> list[dict]:
    networks = [fully_connected(2, h, 2, scale=1e-6, key=jax.random.key(0)) for h in WIDTHS]
    flows = [
        lambda network=network: festina.gradient_flow(network, TASK, rtol=RTOL)
        for network in networks
    ]
    runs = [flow() for flow in flows]
    seconds = best(*flows, repeats=40)
    looks = best(*(lambda run=run: run.final for run in runs), repeats=5)
    results = [
        {"width": width, "seconds": spent, "ratio": spent / seconds[0], "final": look}
        for width, spent, look in zip(WIDTHS, seconds, looks, strict=True)
    ]
    table(
        ["units", "ms", "÷ ten units", "final, ms"],
        [
            [
                r["width"],
                f"{1e3 * r['seconds']:.2f}",
                f"{r['ratio']:.2f}",
                f"{1e3 * r['final']:.2f}",
            ]
            for r in results
        ],
    )
    return results
