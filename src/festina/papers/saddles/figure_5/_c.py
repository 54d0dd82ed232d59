"""Figure 5C: a three-layer ReLU network on two orthogonal points learns one ray, then two."""

from typing import Any

from ...._types import Keys
from ....experiments.claims import ClaimCollector
from ....networks import DeepNetwork, deep_network
from .. import panels
from ..panels import Panel, Reading
from ..panels._two_points import ray_angles, two_points
from ._deep import DeepParameters, deep, drawing, one_ray_then_two


class Parameters(DeepParameters):
    """Parameters of Figure 5C: three ReLU layers on the two points of Figure 1D."""


QUICK: dict[str, Any] = {"seeds": 4}


def _network(parameters: Parameters, keys: Keys) -> DeepNetwork:
    width = parameters.width
    return deep_network((2, width, width, 1), activations="relu", scale=parameters.scale, key=keys)


def _asserts(reading: Reading, claim: ClaimCollector) -> None:
    panels.count(reading, claim)
    panels.level(reading, claim, order=2)
    one_ray_then_two(reading, claim)


_TABLES = deep(_network, ray_angles)
PANEL = Panel("5C", "three-layer ReLU", Parameters, two_points, _network, _TABLES, _asserts)
run, claims, draw = PANEL.run, PANEL.claims, drawing(PANEL)
