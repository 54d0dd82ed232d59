"""Measurement of the rate at which a pathway starts to learn in trained networks."""

from dataclasses import replace

import numpy as np
from jaxtyping import Bool, Float

from .._types import Keys
from ..dynamics import gradient_flow
from ..networks import fully_connected
from ..tasks import Task

_SCALE, _HIDDEN = 1e-5, 8
_WINDOW = (4.0, 7.0)
"""Times of the two measurements, in units of 1/S. Between these times the fastest direction
dominates the map, and the loss has hardly fallen."""


def growth_rate(
    task: Task,
    gate: Float[np.ndarray, " sample"] | Bool[np.ndarray, " sample"],
    keys: Keys,
    *,
    slowest: float = 1e-6,
) -> float:
    """Train pathways from small random weights and return the rate S at which they start to learn.

    A pathway that is open for some examples is a linear network trained on these examples. Early
    in training its map W₂W₁ grows as e^{2St/τ}. S follows from the largest singular value of W₂W₁
    at two times, and is averaged over `keys`. The two times are multiples of 1/S, with an
    estimate of S that is never below `slowest`.
    """
    open_ = np.asarray(gate, float)[:, None]
    seen = replace(task, x=open_ * task.x, y=open_ * task.y)
    network = fully_connected(
        seen.x.shape[1], _HIDDEN, seen.outputs, activation="linear", scale=_SCALE, key=keys
    )
    about = float(np.linalg.norm((seen.weight[:, None] * seen.y).T @ seen.x, 2))
    times = np.array([0.0, *_WINDOW]) / max(about, slowest)
    trained = gradient_flow(network, seen, times, rtol=1e-8).network
    maps = np.einsum("...hi,...ho->...oi", np.asarray(trained.u), np.asarray(trained.v))
    size = np.linalg.svd(maps, compute_uv=False)[..., 0]
    grown = np.log(size[:, 2] / size[:, 1])
    return float(np.mean(grown) / (2 * (times[2] - times[1])))
