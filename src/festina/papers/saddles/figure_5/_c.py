"""Figure 5C: a three-layer ReLU network on two orthogonal points learns one ray, then two."""

from typing import Any

from ....networks import Stack, stack
from ....networks._seeds import Keys
from .._comparison import Reported
from ..panels._panel import Panel
from ..panels._two_points import ray_angles, two_points
from ._claims import ray_claims
from ._panel import DeepPanel, DeepParameters
from ._reference import DeepReference


class Parameters(DeepParameters):
    """Three ReLU layers on the two points of Figure 1D: there is no population."""


PRESETS: dict[str, dict[str, Any]] = {}
QUICK: dict[str, Any] = {"seeds": 4}


def _network(parameters: Parameters, keys: Keys) -> Stack:
    width = parameters.width
    return stack((2, width, width, 1), activations="relu", scale=parameters.scale, key=keys)


PANEL = DeepPanel(
    panel=Panel(
        name="saddles/figure-5c",
        title="three-layer ReLU",
        parameters=Parameters,
        task=two_points,
        network=_network,
        predict=ray_angles,
        structure=ray_claims,
        level_tolerance=1e-3,
        level_fraction=0.9,
    ),
    references=(
        DeepReference(
            Parameters(),
            drops=(Reported((1100.0,), 1, 0.133), Reported((2400.0, 3600.0), 4, 0.156)),
        ),
    ),
    plain=True,
)
run, claims, draw = PANEL.run, PANEL.claims, PANEL.draw
