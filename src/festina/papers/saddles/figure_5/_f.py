"""Figure 5F: a quadratic and a linear layer learn with one active unit, then with two.

The paper's initial scale, 0.05, is large. Some seeds pass the saddle at a distance, and other seeds
show no plateau. A smaller initial scale gives a cleaner plateau. If two quadratic units grow
together and feed a single linear unit, the loss can rest at 2 instead of 8/3.
"""

import dataclasses
from typing import Any

import numpy as np
from pydantic import Field

from ...._types import Keys
from ....dynamics import loss_factor
from ....experiments._keys import Key
from ....experiments.claims import ClaimCollector, join_numbers, most_seeds
from ....networks import DeepNetwork, deep_network
from ....tasks import AbstractTask, quadratic_teacher
from .. import panels
from ..panels import PLATEAU, Panel, Reading, active_units
from ._deep import DeepParameters, cleaner, deep, drawing, from_smaller_weights


class Parameters(DeepParameters):
    """Parameters of Figure 5F: inputs of Figure 1G, with the two target terms as two outputs."""

    width: int = Field(default=10, ge=2)
    """Number H of hidden units in each hidden layer."""

    scale: float = Field(default=0.05, gt=0)
    """Standard deviation ε of the initial weights."""

    cleaner: float | None = Field(default=0.01, gt=0)
    """Initial scale of a second run, which has a cleaner plateau; 'none' for no second run."""


def _task(parameters: Parameters, key: Key) -> AbstractTask:
    whole = quadratic_teacher(np.eye(2), samples=parameters.samples, key=key)
    return dataclasses.replace(whole, y=whole.x**2)


def _network(parameters: Parameters, keys: Keys) -> DeepNetwork:
    width = parameters.width
    activations = ("quadratic", "linear")
    return deep_network(
        (2, width, width, 2), activations=activations, scale=parameters.scale, key=keys
    )


def _predict(parameters: Parameters, task: AbstractTask, network: DeepNetwork) -> dict[str, Any]:
    """Predict the loss of another fixed point: two quadratic units followed by one linear unit."""
    statistics = task.statistics(network.view)
    smallest = np.linalg.eigvalsh((statistics.y.T * statistics.weight) @ statistics.y)[0]
    return {"rank_one": ((), loss_factor(parameters.loss, task) / 2 * smallest)}


def _asserts(reading: Reading, claim: ClaimCollector) -> None:
    """Check that one unit is active on the plateau and two at the end, for φ of order two."""
    rest, other = float(reading.theory["level"][1]), float(reading.theory["rank_one"])
    # On a finite sample either output may be learned first, each with its own minimum.
    reading.theory["fixed_point"] = "point", [*reading.theory["narrow_minimum"].values, other]
    panels.level(reading, claim, order=3)
    units = lambda weights: np.array([active_units(*each) for each in weights])
    at = "Figure 5, text; Eq. (5)"
    if seeds := reading.resting:
        wanted = np.where(reading.plateaus["level"].values[seeds, 1] > (rest + other) / 2, 1, 2)
        active = units(reading.weights(seed, PLATEAU) for seed in seeds)
        words = f"one unit is active if the loss rests at {rest:.4g}, two units if at {other:.4g}"
        note = f"active units by seed: {join_numbers(active)}"
        claim("active-units-at-rest", words, most_seeds(active == wanted, 0.9), at=at, note=note)
    if "cleaner" in reading.run:
        # Two units that grow at the same time leave no plateau at any initial scale.
        share = 0.75 if reading.parameters.samples is None else 0.75 / 2
        from_smaller_weights(reading, claim, 0.05, share, order=3)
        table = reading.run["cleaner"].ds
        active = units((table["u"][seed], table["v"][seed]) for seed in range(reading.seeds))
        start = f"from initial weights of size {table.attrs['scale']:g}"
        words = f"{start}, two units are active at the end"
        claim(
            "smaller-weights-final-units",
            words,
            most_seeds(active == 2, 0.9),
            at=at,
            corrected="more units can be active from the large initial scale "
            f"{reading.parameters.scale:g}",
            note=f"active units by seed: {join_numbers(active)}",
        )


_TABLES = deep(_network, _predict, also=cleaner(_network))
PANEL = Panel("5F", "quadratic, then linear", Parameters, _task, _network, _TABLES, _asserts)
run, claims, draw = PANEL.run, PANEL.claims, drawing(PANEL)
