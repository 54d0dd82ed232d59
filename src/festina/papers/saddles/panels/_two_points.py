"""The data of Figures 1D and 5C, two orthogonal points, and the order in which they are learned."""

from typing import Any

import numpy as np

from ....experiments._keys import Key
from ....networks import DeepNetwork, Layer
from ....tasks import AbstractTask, two_orthogonal_points
from ._parameters import PanelParameters, refuse_samples


def two_points(parameters: PanelParameters, key: Key) -> AbstractTask:
    """Return the task with two orthogonal points; nothing in it is random."""
    del key
    refuse_samples(parameters, 2, "two")
    return two_orthogonal_points()


def ray_angles(
    parameters: PanelParameters, task: AbstractTask, network: Layer | DeepNetwork
) -> dict[str, Any]:
    """Return the angles of both inputs; the input with the larger |y||x| is learned first."""
    statistics = task.statistics(network.unit)
    drive = np.abs(statistics.y[:, 0]) * np.linalg.norm(statistics.psi, axis=1)
    x = statistics.psi[np.argsort(-drive)]
    return {"ray_angle": ("ray", np.degrees(np.arctan2(x[:, 1], x[:, 0])))}
