"""Figure 1D: a ReLU network on two orthogonal points learns one ray of weights, then two."""

from typing import Any

import numpy as np
from jaxtyping import PRNGKeyArray

from ...networks import Layer, fully_connected
from ...networks._seeds import Keys
from ...tasks import AbstractTask, orthogonal_points
from ._panel import Panel
from ._parameters import PanelParameters, refuse_samples
from ._reference import Reference
from ._structure_claims import ray_claims


class Parameters(PanelParameters):
    """Section I, Eq. (67). The data are two points: there is no population."""


PRESETS: dict[str, dict[str, Any]] = {}


def _task(parameters: Parameters, key: PRNGKeyArray | None) -> AbstractTask:
    del key
    refuse_samples(parameters, 2, "two")
    return orthogonal_points()


def _network(parameters: Parameters, keys: Keys) -> Layer:
    return fully_connected(2, parameters.width, activation="relu", scale=parameters.scale, key=keys)


def _predict(parameters: Parameters, task: AbstractTask, network: Layer) -> dict[str, Any]:
    """Orthogonal inputs are learned one by one, the one with the larger |y||x| first."""
    statistics = task.statistics(network.unit)
    drive = np.abs(statistics.y[:, 0]) * np.linalg.norm(statistics.psi, axis=1)
    x = statistics.psi[np.argsort(-drive)]
    return {"ray_angle": ("ray", np.degrees(np.arctan2(x[:, 1], x[:, 0])))}


PANEL = Panel(
    name="saddles/figure-1d",
    title="ReLU fully-connected",
    parameters=Parameters,
    task=_task,
    network=_network,
    predict=_predict,
    structure=ray_claims,
    level_tolerance=5e-4,
    references=(Reference(Parameters(), (532.0, 1110.0), drop_tolerance=(0.03, 0.03)),),
)
run, claims, draw, animate = PANEL.run, PANEL.claims, PANEL.draw, PANEL.animate
