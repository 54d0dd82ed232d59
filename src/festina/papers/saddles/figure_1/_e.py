"""Figure 1E: a ReLU convolutional network on four points learns one kernel ray, then two."""

from typing import Any

import numpy as np

from ...._types import Keys
from ....experiments._keys import Key
from ....networks import Layer, convolutional_1d
from ....tasks import AbstractTask, figure_1e_points
from ..panels import Panel, PanelParameters, rays, refuse_samples, staircase


class Parameters(PanelParameters):
    """Parameters of Figure 1E (paper: Section I, Eq. 68). The data set has exactly four points."""


def _task(parameters: Parameters, key: Key) -> AbstractTask:
    del key
    refuse_samples(parameters, 4, "four")
    return figure_1e_points()


def _network(parameters: Parameters, keys: Keys) -> Layer:
    return convolutional_1d(
        4, parameters.width, kernel=2, stride=2, activation="relu", scale=parameters.scale, key=keys
    )


def _predict(parameters: Parameters, task: AbstractTask, network: Layer) -> dict[str, Any]:
    """Predict the angles of the two kernel rays.

    Every input excites one tap of the kernel. The tap with the larger drive is learned first.
    """
    statistics = task.statistics(network.unit)
    taps = np.abs(statistics.psi).sum(axis=1)
    drive = (statistics.y**2 * taps**2).sum(axis=0)
    axes = np.eye(2)[np.argsort(-drive)]
    return {"ray_angle": ("ray", np.degrees(np.arctan2(axes[:, 1], axes[:, 0])))}


PANEL = Panel("1E", "ReLU convolutional", Parameters, _task, _network, staircase(_predict), rays)
run, claims, draw, animate = PANEL.run, PANEL.claims, PANEL.draw, PANEL.animate
