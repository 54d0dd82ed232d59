"""How fast a pathway starts to learn, measured in trained networks."""

from dataclasses import replace

import numpy as np
from jaxtyping import Bool, Float

from .._types import Keys
from ..dynamics import gradient_flow
from ..networks import fully_connected
from ..tasks import Task

_SCALE, _HIDDEN = 1e-5, 8
_WINDOW = (4.0, 7.0)
"""In units of 1/S: the fastest direction has won by then, and hardly anything is learned."""


def growth_rate(
    task: Task,
    gate: Float[np.ndarray, " sample"] | Bool[np.ndarray, " sample"],
    keys: Keys,
    *,
    slowest: float = 1e-6,
) -> float:
    """Train pathways from small random weights and return the rate S at which they start to learn.

    A pathway that is open for some examples is a linear network that is trained on these. Its map
    W₂W₁ grows as e^{2St/τ} until it has learned something. S is read off its largest singular
    value at two times, and averaged over `keys`. `slowest` is the rate that sets these
    times if the examples have nothing to learn.
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
