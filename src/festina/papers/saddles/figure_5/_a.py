"""Figure 5A: a three-layer linear network learns rank one in every layer, then rank two."""

from typing import Any

import numpy as np

from ...._types import Keys
from ....experiments._keys import Key
from ....experiments.claims import ClaimCollector, agree
from ....networks import DeepNetwork, deep_network
from ....tasks import AbstractTask, linear_teacher
from .. import panels
from ..panels import Panel, Reading
from ._deep import DeepParameters, deep, directions, drawing, layers


class Parameters(DeepParameters):
    """Parameters of Figure 5A: three linear layers on the data of Figure 1B, teacher W* = I."""


QUICK: dict[str, Any] = {"seeds": 4}


def _task(parameters: Parameters, key: Key) -> AbstractTask:
    sigma = np.array([[1.0, 1.0], [1.0, 4.0]])
    return linear_teacher(np.eye(2), sigma, samples=parameters.samples, key=key)


def _network(parameters: Parameters, keys: Keys) -> DeepNetwork:
    width = parameters.width
    return deep_network((2, width, width, 2), scale=parameters.scale, key=keys)


def _predict(parameters: Parameters, task: AbstractTask, network: DeepNetwork) -> dict[str, Any]:
    """Predict the final singular values of each layer: s^(1/3) for singular values s of the target.

    Balanced layers contribute equally to each singular value.
    """
    statistics = task.statistics(network.unit)
    sigma_yx, sigma_xx = statistics.correlation, statistics.covariance
    best = sigma_yx @ np.linalg.pinv(sigma_xx, hermitian=True)
    return {"final_singular_values": ("mode", np.cbrt(np.linalg.svd(best, compute_uv=False)))}


def _asserts(reading: Reading, claim: ClaimCollector) -> None:
    panels.count(reading, claim)
    panels.level(reading, claim, order=2)
    directions(reading, claim)
    p, s = reading.parameters, reading.run["layers"].ds["singular_value"].values
    if p.scale**2 * p.width <= 0.005:  # the imbalance of squared singular values is of this size
        last = s[np.arange(p.seeds), reading.counts - 1, 0, :2].mean(axis=0)
        shared = reading.theory["final_singular_values"].values
        words = (
            "at the end each singular value of the first layer is the cube root of a singular "
            "value of the target, because the three layers are balanced (mean over seeds)"
        )
        equal = agree(last, shared, within=0.02, relative=True)
        claim("balanced-layers", words, equal, at="Figure 5A; balanced layers")


_TABLES = deep(_network, _predict, also=layers)
PANEL = Panel("5A", "three-layer linear", Parameters, _task, _network, _TABLES, _asserts)
run, claims, draw = PANEL.run, PANEL.claims, drawing(PANEL)
