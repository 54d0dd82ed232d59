"""A linear network (Figure 1B and larger, population) of ten units and of a hundred thousand.

The whole call to convergence, at a tolerance of 1e-10 and at the default one. What grows with the
width is that the initial weights of all units are read: once for each network, however often it is
trained. `new` is the time of the call that reads them. The trained weights of all units are left
for when they are looked at, and `final` is how long that takes.
"""

import jax
import numpy as np

import festina
from festina.dynamics import Trajectory
from festina.networks import Layer, fully_connected
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
        ["inputs–outputs", "rtol", "units", "ms", "÷ ten units", "new, ms", "÷ ten", "final, ms"],
        [
            [
                f"{r['size']}–{r['size']}",
                r["rtol"] or "default",
                r["width"],
                f"{1e3 * r['seconds']:.2f}",
                f"{r['ratio']:.2f}",
                f"{1e3 * r['new']:.2f}",
                f"{r['new ratio']:.2f}",
                f"{1e3 * r['final']:.2f}",
            ]
            for r in results
        ],
    )
    return results


def _measure(covariance: np.ndarray, rtol: float | None) -> list[dict]:
    size = len(covariance)
    task = linear_teacher(np.eye(size), covariance)
    networks = [
        fully_connected(size, width, size, scale=1e-6, key=jax.random.key(0)) for width in WIDTHS
    ]

    def flow(network: Layer) -> Trajectory:
        return festina.gradient_flow(network, task, rtol=rtol)

    def unread(network: Layer) -> Layer:
        return Layer.from_rows(network.rows.array, network.unit, (size,), (size,))

    runs = [flow(network) for network in networks]
    again = [lambda network=network: flow(network) for network in networks]
    new = [lambda network=network: flow(unread(network)) for network in networks]
    seconds = best(*again, *new, repeats=40)
    warm, first = seconds[: len(WIDTHS)], seconds[len(WIDTHS) :]
    looks = best(*(lambda run=run: run.final for run in runs), repeats=5)
    return [
        {
            "size": size,
            "rtol": rtol,
            "width": width,
            "seconds": spent,
            "ratio": spent / warm[0],
            "new": reading,
            "new ratio": reading / first[0],
            "final": look,
        }
        for width, spent, reading, look in zip(WIDTHS, warm, first, looks, strict=True)
    ]
