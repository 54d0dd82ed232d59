"""Time gradient flow of linear networks from ten to a hundred thousand units (population loss).

The tasks are those of Figure 1B and larger ones. Times are those of a call to convergence, at a
tolerance of 1e-10 and at the default tolerance, for a network that has been trained before and for
a `new` one. Only work on every unit grows with the width: drawing the initial weights (`drawn`) and
computing the trained weights on first access (`final`).
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
REPEATS = 40


def measure() -> list[dict]:
    results = [row for each in COVARIANCES for rtol in RTOLS for row in _measure(each, rtol)]
    table(
        [
            *("inputs–outputs", "rtol", "units", "ms", "÷ ten units"),
            *("new, ms", "÷ ten", "drawn, ms", "final, ms"),
        ],
        [
            [
                f"{r['size']}–{r['size']}",
                r["rtol"] or "default",
                r["width"],
                f"{1e3 * r['seconds']:.2f}",
                f"{r['ratio']:.2f}",
                f"{1e3 * r['new']:.2f}",
                f"{r['new ratio']:.2f}",
                f"{1e3 * r['drawn']:.2f}",
                f"{1e3 * r['final']:.2f}",
            ]
            for r in results
        ],
    )
    return results


def _measure(covariance: np.ndarray, rtol: float | None) -> list[dict]:
    size = len(covariance)
    task = linear_teacher(np.eye(size), covariance)

    def draw(width: int) -> Layer:
        return fully_connected(size, width, size, scale=1e-6, key=jax.random.key(0))

    def flow(network: Layer) -> Trajectory:
        return festina.gradient_flow(network, task, rtol=rtol)

    networks = [draw(width) for width in WIDTHS]
    runs = [flow(network) for network in networks]
    again = [lambda network=network: flow(network) for network in networks]
    never_trained = [iter([draw(width) for _ in range(REPEATS + 1)]) for width in WIDTHS]
    new = [lambda networks=networks: flow(next(networks)) for networks in never_trained]
    seconds = best(*again, *new, repeats=REPEATS)
    warm, first = seconds[: len(WIDTHS)], seconds[len(WIDTHS) :]
    drawn = best(*(lambda width=width: draw(width) for width in WIDTHS), repeats=5)
    looks = best(*(lambda run=run: run.final for run in runs), repeats=5)
    return [
        {
            "size": size,
            "rtol": rtol,
            "width": width,
            "seconds": warm[i],
            "ratio": warm[i] / warm[0],
            "new": first[i],
            "new ratio": first[i] / first[0],
            "drawn": drawn[i],
            "final": looks[i],
        }
        for i, width in enumerate(WIDTHS)
    ]
