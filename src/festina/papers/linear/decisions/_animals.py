"""Shared code of the experiments on perceptual decisions: simulated animals and their drawing."""

from typing import Any

import numpy as np
import xarray as xr
from matplotlib.axes import Axes
from pydantic import Field

from ...._types import Keys
from ....experiments._keys import Key, keys_from_parameters
from ....experiments._parameters import Parameters as BaseParameters
from ....experiments.figures import SIMULATION_STYLE
from ....theory.decisions import AnimalWeights, draw_naive_animals, naive_animals

LEFT_FIRST, RIGHT_FIRST, EVEN, DRAWN = 0, 1, 2, 3
"""Indices of the three animals with chosen gains, and of the first animal drawn at random."""

MADE_ON_PURPOSE = {LEFT_FIRST: "left first", RIGHT_FIRST: "right first", EVEN: "even"}
COLORS = {LEFT_FIRST: "#0072b2", RIGHT_FIRST: "#d55e00", EVEN: "#009e73"}

RECONSTRUCTED = (
    "architecture, policy and initial weights are our reconstruction: the slides give none"
)


class AnimalParameters(BaseParameters):
    """Parameters of simulated animals that differ in their initial gains of the two stimuli."""

    seeds: int = Field(default=8, ge=1)
    """Number of animals with random initial gains, in addition to three with chosen gains."""

    inverse_temperature: float = Field(default=5.0, ge=2.0, le=8.0)
    """Inverse temperature β of the softmax that turns values into choices."""

    smallest_gain: float = Field(default=1e-3, ge=1e-5)
    """Smallest initial gain of a stimulus input."""

    largest_gain: float = Field(default=0.1, le=0.15)
    """Largest initial gain of a stimulus input."""

    duration: float = Field(default=200.0, ge=50.0, le=2000.0)
    """Duration of learning, in units of τ."""

    def _check(self) -> None:
        if self.largest_gain < 10 * self.smallest_gain:
            raise ValueError(
                "`largest_gain` must be at least ten times `smallest_gain`, got "
                f"{self.largest_gain:g} and {self.smallest_gain:g}: all animals would be alike."
            )


def herd(parameters: AnimalParameters, key: Key) -> tuple[AnimalWeights, Keys]:
    """Return left-first, right-first, even and random simulated animals, and keys of the seeds."""
    keys = keys_from_parameters(parameters, key)
    low, high = parameters.smallest_gain, parameters.largest_gain
    middle = np.sqrt(low * high)
    drawn = [draw_naive_animals(1, smallest=low, largest=high, key=one).gains for one in keys]
    made = [[high, low, 0.0], [low, high, 0.0], [middle, middle, 0.0]]
    left, right, _ = np.concatenate([made, *drawn]).T
    return naive_animals(left, right), keys


def told_apart(table: xr.Dataset, ratio: float) -> np.ndarray:
    """Return which animals have gains so different that chance does not decide the first side."""
    gain = table["gain"].values
    return gain.max(axis=1) > ratio * gain.min(axis=1)


def slope_with_gain(table: xr.Dataset, use: np.ndarray) -> float:
    """Return the slope of the time of first use of a side against ln of the larger gain."""
    larger = np.log(table["gain"].values.max(axis=1))
    return float(np.polyfit(larger, use.min(axis=-1), 1)[0])


def draw_ways(ax: Axes, x: np.ndarray, y: np.ndarray) -> None:
    """Plot the path of every animal, `(animal, time)`; wide and coloured for chosen animals."""
    for animal in reversed(range(len(x))):
        look: dict[str, Any] = {"color": "0.6", "lw": 0.8, "zorder": 2}
        if animal < DRAWN:
            look = {"color": COLORS[animal], "zorder": 3, "label": MADE_ON_PURPOSE[animal]}
            look |= {**SIMULATION_STYLE, "lw": 2.0 + animal}  # widths differ for overlapping paths
        ax.plot(x[animal], y[animal], **look, alpha=0.8)
    ax.plot([], [], color="0.6", lw=0.8, label="drawn at random")
