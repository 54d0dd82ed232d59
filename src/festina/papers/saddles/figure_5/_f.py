"""Figure 5F: a quadratic layer with a linear one behind it learns with one unit, then two.

The paper's initial scale, 0.05, is large: in some seeds the plateau is passed at a distance or not
seen at all. A smaller one is cleaner.
"""

import dataclasses
from typing import Any

import numpy as np
from jaxtyping import PRNGKeyArray
from pydantic import Field

from ....networks import Stack, stack
from ....networks._seeds import Keys
from ....tasks import AbstractTask, quadratic_teacher
from ...claims import Claim
from ..panels._panel import Panel
from ..panels._reading import END, PAPER, Reading
from ..panels._structure_claims import active_units
from ._claims import resting_seeds
from ._panel import DeepPanel, DeepParameters

_SHARE = 0.25  # of the seeds at least, at the paper's initial scale


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


def _structure(reading: Reading) -> list[Claim]:
    """φ of order two: one active unit on the plateau, two at the end (Eq. 5).

    From the paper's initial weights only in some seeds, in most in the cleaner run.
    """
    source = f"{PAPER}, Figure 5, text; Eq. (5)"
    resting, index = resting_seeds(reading)
    claims = []
    if len(resting):
        saves = reading.plateaus["save"].values[resting, index].astype(int)
        on_plateau = np.array(
            [
                active_units(*reading.weights_at(seed, save))
                for seed, save in zip(resting.tolist(), saves.tolist(), strict=True)
            ]
        )
        claims.append(
            reading.at_least(
                "where the loss rests one unit is active and the others stay near zero",
                0.9,
                on_plateau == 1,
                source=source,
                note=f"active units {', '.join(map(str, on_plateau))}",
            )
        )
    at_end = [active_units(*reading.weights(seed, END)) for seed in range(reading.seeds)]
    claims.append(
        reading.at_least(
            "two units are active at the end",
            _SHARE,
            np.array(at_end) == 2,
            source=source,
            note=f"active units {', '.join(map(str, at_end))}",
        )
    )
    if "cleaner" in reading.run:
        table = reading.run["cleaner"].to_dataset()
        active = [
            active_units(table["u"].isel(seed=seed), table["v"].isel(seed=seed))
            for seed in range(reading.seeds)
        ]
        claims.append(
            reading.at_least(
                f"from initial weights of {float(table.attrs['scale']):g} two units are active at "
                "the end",
                0.9,
                np.array(active) == 2,
                source=source,
                correction=f"ε = {reading.parameters.scale:g} is large for a clean plateau",
                note=f"active units {', '.join(map(str, active))}",
            )
        )
    return claims


PANEL = DeepPanel(
    panel=Panel(
        name="saddles/figure-5f",
        title="quadratic, then linear",
        parameters=Parameters,
        task=_task,
        network=_network,
        structure=_structure,
        level_tolerance=0.05,
        level_fraction=_SHARE,
    ),
    cleaner=lambda parameters: parameters.cleaner,
    cleaner_median=1e-3,
    cleaner_share=0.75,  # two units that grow at the same time leave no plateau at any scale
)
run, claims, draw = PANEL.run, PANEL.claims, PANEL.draw
