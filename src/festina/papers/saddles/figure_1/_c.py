"""Figure 1C: a linear convolutional network learns one direction of kernels, then two."""

from typing import Any

import numpy as np
from jaxtyping import PRNGKeyArray

from ....networks import Layer, convolutional
from ....networks._seeds import Keys
from ....tasks import AbstractTask, convolutional_teacher
from .._moments import correlation, covariance
from ..panels._panel import Panel
from ..panels._parameters import PanelParameters
from ..panels._reference import Reference
from ..panels._structure_claims import rank_claims


class Parameters(PanelParameters):
    """Section I, Eq. (66)."""


PRESETS: dict[str, dict[str, Any]] = {}


def _task(parameters: Parameters, key: PRNGKeyArray | None) -> AbstractTask:
    return convolutional_teacher(samples=parameters.samples, key=key)


def _network(parameters: Parameters, keys: Keys) -> Layer:
    return convolutional(4, parameters.width, kernel=2, stride=2, scale=parameters.scale, key=keys)


def _predict(parameters: Parameters, task: AbstractTask, network: Layer) -> dict[str, Any]:
    """The map learned, Σ v_i u_iᵀ over (position, tap), is the teacher; balanced, Θ has √(2s).

    Saddles are those of a matrix sensing problem, not of Lemma 6: the width-1 minimum is numerical.
    """
    sigma_yx, sigma_xx = correlation(task, network.unit), covariance(task, network.unit)
    best = np.linalg.lstsq(sigma_xx, sigma_yx.ravel(), rcond=None)[0].reshape(2, 2)
    return {"final_singular_values": ("mode", np.sqrt(2 * np.linalg.svd(best, compute_uv=False)))}


PANEL = Panel(
    name="saddles/figure-1c",
    title="linear convolutional",
    parameters=Parameters,
    task=_task,
    network=_network,
    predict=_predict,
    structure=rank_claims,
    # The saddle is passed at a distance that falls only as ε^(1 − s₂/s₁).
    level_tolerance=6e-3,
    references=(Reference(Parameters(), (563.0, 967.0), plateau=0.4042),),
)
run, claims, draw, animate = PANEL.run, PANEL.claims, PANEL.draw, PANEL.animate
