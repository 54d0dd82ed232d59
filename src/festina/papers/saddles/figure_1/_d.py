"""Figure 1D: a ReLU network on two orthogonal points learns one ray of weights, then two."""

from typing import Any

from ....networks import Layer, fully_connected
from ....networks._seeds import Keys
from ..panels._panel import Panel
from ..panels._parameters import PanelParameters
from ..panels._reference import Reference
from ..panels._structure_claims import ray_claims
from ..panels._two_points import ray_angles, two_points


class Parameters(PanelParameters):
    """Section I, Eq. (67). The data are two points: there is no population."""


PRESETS: dict[str, dict[str, Any]] = {}


def _network(parameters: Parameters, keys: Keys) -> Layer:
    return fully_connected(2, parameters.width, activation="relu", scale=parameters.scale, key=keys)


PANEL = Panel(
    name="saddles/figure-1d",
    title="ReLU fully-connected",
    parameters=Parameters,
    task=two_points,
    network=_network,
    predict=ray_angles,
    structure=ray_claims,
    level_tolerance=5e-4,
    references=(Reference(Parameters(), (532.0, 1110.0), drop_tolerance=(0.03, 0.03)),),
)
run, claims, draw, animate = PANEL.run, PANEL.claims, PANEL.draw, PANEL.animate
