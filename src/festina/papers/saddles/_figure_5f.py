"""Figure 5F: a quadratic layer with a linear one behind it learns with one unit, then two.

The paper's initial scale, 0.05, is large: in some seeds the plateau is passed at a distance or not
seen at all. A smaller one is cleaner.
"""

import dataclasses
from typing import Any

import numpy as np
from jaxtyping import PRNGKeyArray
from pydantic import Field

from ...networks import Stack, stack
from ...networks._seeds import Keys
from ...tasks import AbstractTask, quadratic_teacher
from ._figure_5 import DeepPanel, DeepParameters
from ._figure_5_claims import unit_claims
from ._panel import Panel


class Parameters(DeepParameters):
    """A quadratic and a linear layer on the inputs of Figure 1G, its two terms as two outputs."""

    width: int = Field(default=10, ge=2)
    """Number of units H of each hidden layer."""

    scale: float = Field(default=0.05, gt=0)
    """Standard deviation ε of the initial weights."""

    cleaner: float | None = Field(default=0.01, gt=0)
    """Initial scale of a second run, for a cleaner plateau; 'none' for no such run."""


PRESETS: dict[str, dict[str, Any]] = {}
QUICK: dict[str, Any] = {}


def _task(parameters: Parameters, key: PRNGKeyArray | None) -> AbstractTask:
    whole = quadratic_teacher(np.eye(2), samples=parameters.samples, key=key)
    return dataclasses.replace(whole, y=whole.x**2)


def _network(parameters: Parameters, keys: Keys) -> Stack:
    width = parameters.width
    activations = ("quadratic", "linear")
    return stack((2, width, width, 2), activations=activations, scale=parameters.scale, key=keys)


PANEL = DeepPanel(
    panel=Panel(
        name="saddles/figure-5f",
        title="quadratic, then linear",
        parameters=Parameters,
        task=_task,
        network=_network,
        structure=unit_claims,
        level_tolerance=0.05,
    ),
    sometimes=True,
    cleaner=lambda parameters: parameters.cleaner,
    cleaner_median=1e-3,
)
run, claims, draw = PANEL.run, PANEL.claims, PANEL.draw
