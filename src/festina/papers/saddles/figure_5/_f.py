"""Figure 5F: a quadratic layer with a linear one behind it learns with one unit, then two.

The paper's initial scale, 0.05, is large: in some seeds the plateau is passed at a distance or not
seen at all. A smaller one is cleaner.
"""

import dataclasses

import numpy as np
from jaxtyping import PRNGKeyArray
from pydantic import Field

from ...._types import Keys
from ....networks import Stack, stack
from ....tasks import AbstractTask, quadratic_teacher
from ...claims import Ledger, listed, most
from .. import panels
from ..panels import PLATEAU, Panel, Reading, active_units
from ._deep import DeepParameters, cleaner, deep, drawing, from_smaller_weights, resting


class Parameters(DeepParameters):
    """A quadratic and a linear layer on the inputs of Figure 1G, its two terms as two outputs."""

    width: int = Field(default=10, ge=2)
    """Number of units H of each hidden layer."""

    scale: float = Field(default=0.05, gt=0)
    """Standard deviation ε of the initial weights."""

    cleaner: float | None = Field(default=0.01, gt=0)
    """Initial scale of a second run, for a cleaner plateau; 'none' for no such run."""


def _task(parameters: Parameters, key: PRNGKeyArray | None) -> AbstractTask:
    whole = quadratic_teacher(np.eye(2), samples=parameters.samples, key=key)
    return dataclasses.replace(whole, y=whole.x**2)


def _network(parameters: Parameters, keys: Keys) -> Stack:
    width = parameters.width
    activations = ("quadratic", "linear")
    return stack((2, width, width, 2), activations=activations, scale=parameters.scale, key=keys)


def _asserts(reading: Reading, say: Ledger) -> None:
    """φ of order two: one active unit on the plateau, two at the end (Eq. 5)."""
    panels.level(reading, say, near=0.3, order=3)
    units = lambda weights: np.array([active_units(*each) for each in weights])
    at = "Figure 5, text; Eq. (5)"
    if seeds := resting(reading):
        active = units(reading.weights(seed, PLATEAU) for seed in seeds)
        words = "where the loss rests one unit is active and the others stay near zero"
        say(words, most(active == 1, 0.9), at, note=f"active units {listed(active)}")
    if "cleaner" in reading.run:
        # Two units that grow at the same time leave no plateau at any scale.
        from_smaller_weights(reading, say, 0.05, 0.75, near=0.3, order=3)
        table = reading.run["cleaner"].ds
        active = units((table["u"][seed], table["v"][seed]) for seed in range(reading.seeds))
        words = f"from initial weights of {table.attrs['scale']:g} two units are active at the end"
        corrected = f"not always from {reading.parameters.scale:g}, which is large"
        note = f"active units {listed(active)}"
        say(words, most(active == 2, 0.9), at, corrected=corrected, note=note)


_TABLES = deep(_network, also=cleaner(_network))
PANEL = Panel("5F", "quadratic, then linear", Parameters, _task, _network, _TABLES, _asserts)
run, claims, draw = PANEL.run, PANEL.claims, drawing(PANEL)
