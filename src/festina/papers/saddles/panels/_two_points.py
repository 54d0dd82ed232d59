"""The data of Figures 1D and 5C, two orthogonal points, and which of them is learned first."""

from typing import Any

import numpy as np

from ....experiments._keys import Key
from ....networks import DeepNetwork, Layer
from ....tasks import AbstractTask, two_orthogonal_points
from ._parameters import PanelParameters, refuse_samples


def two_points(parameters: PanelParameters, key: Key) -> AbstractTask:
    """Nothing of them is random."""
    del key
    refuse_samples(parameters, 2, "two")
    return two_orthogonal_points()


def ray_angles(
    parameters: PanelParameters, task: AbstractTask, network: Layer | DeepNetwork
) -> dict[str, Any]:
    """Orthogonal inputs are learned one by one, the one with the larger |y||x| first."""
    statistics = task.statistics(network.unit)
    drive = np.abs(statistics.y[:, 0]) * np.linalg.norm(statistics.psi, axis=1)
    x = statistics.psi[np.argsort(-drive)]
    return {"ray_angle": ("ray", np.degrees(np.arctan2(x[:, 1], x[:, 0])))}
