"""Figure 1D: a ReLU network on two orthogonal points learns one ray of weights, then two."""

from ...._types import Keys
from ....networks import Layer, fully_connected
from ..panels import Panel, PanelParameters, rays, staircase
from ..panels._two_points import ray_angles, two_points


class Parameters(PanelParameters):
    """Parameters of Figure 1D (paper: Section I, Eq. 67). The data set has exactly two points."""


def _network(parameters: Parameters, keys: Keys) -> Layer:
    return fully_connected(2, parameters.width, activation="relu", scale=parameters.scale, key=keys)


PANEL = Panel(
    "1D", "ReLU fully-connected", Parameters, two_points, _network, staircase(ray_angles), rays
)
run, claims, draw, animate = PANEL.run, PANEL.claims, PANEL.draw, PANEL.animate
