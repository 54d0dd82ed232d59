"""Figure 1D: a ReLU network on two orthogonal points learns one ray of weights, then two."""

from ....networks import Layer, fully_connected
from ....networks._seeds import Keys
from ...claims import Ledger
from ..panels._claims import count, level, widths
from ..panels._panel import Panel
from ..panels._parameters import PanelParameters
from ..panels._reading import Reading
from ..panels._structure import one_ray_then_two
from ..panels._tables import staircase
from ..panels._two_points import ray_angles, two_points


class Parameters(PanelParameters):
    """Section I, Eq. (67). The data are two points: there is no population."""


def _network(parameters: Parameters, keys: Keys) -> Layer:
    return fully_connected(2, parameters.width, activation="relu", scale=parameters.scale, key=keys)


def _asserts(reading: Reading, say: Ledger) -> None:
    count(reading, say)
    level(reading, say, near=0.4)
    one_ray_then_two(reading, say)
    widths(reading, say)


PANEL = Panel(
    name="saddles/figure-1d",
    title="ReLU fully-connected",
    parameters=Parameters,
    task=two_points,
    network=_network,
    tables=staircase(ray_angles),
    asserts=_asserts,
)
run, claims, draw, animate = PANEL.run, PANEL.claims, PANEL.draw, PANEL.animate
