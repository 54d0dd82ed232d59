"""Figure 5C: a three-layer ReLU network on two orthogonal points learns one ray, then two."""

from typing import Any

import numpy as np
from jaxtyping import PRNGKeyArray

from ...networks import Stack, stack
from ...networks._seeds import Keys
from ...tasks import AbstractTask, orthogonal_points
from ._figure_5 import DeepPanel, DeepParameters
from ._figure_5_claims import ray_claims
from ._panel import Panel
from ._parameters import refuse_samples


class Parameters(DeepParameters):
    """Three ReLU layers on the two points of Figure 1D: there is no population."""


PRESETS: dict[str, dict[str, Any]] = {}
QUICK: dict[str, Any] = {"seeds": 4}


def _task(parameters: Parameters, key: PRNGKeyArray | None) -> AbstractTask:
    del key
    refuse_samples(parameters, 2, "two")
    return orthogonal_points()


def _network(parameters: Parameters, keys: Keys) -> Stack:
    width = parameters.width
    return stack((2, width, width, 1), activations="relu", scale=parameters.scale, key=keys)


def _predict(parameters: Parameters, task: AbstractTask, network: Stack) -> dict[str, Any]:
    """Orthogonal inputs are learned one by one, the one with the larger |y||x| first."""
    statistics = task.statistics(network.unit)
    drive = np.abs(statistics.y[:, 0]) * np.linalg.norm(statistics.psi, axis=1)
    x = statistics.psi[np.argsort(-drive)]
    return {"ray_angle": ("ray", np.degrees(np.arctan2(x[:, 1], x[:, 0])))}


PANEL = DeepPanel(
    panel=Panel(
        name="saddles/figure-5c",
        title="three-layer ReLU",
        parameters=Parameters,
        task=_task,
        network=_network,
        predict=_predict,
        structure=ray_claims,
        seed_tolerance=2e-3,
        level_fraction=0.9,
    ),
)
run, claims, draw = PANEL.run, PANEL.claims, PANEL.draw
