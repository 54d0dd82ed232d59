"""What the experiments on perceptual decisions share: the animals, and what of them is ours."""

from typing import Any

import numpy as np
import xarray as xr
from jaxtyping import PRNGKeyArray
from pydantic import Field, model_validator

from ....networks._seeds import Keys
from ....theory.decisions import Animals, draw_naive_animals, naive_animals
from ..._frame import keys_of
from ..._old import compare
from ..._parameters import Parameters as BaseParameters
from ...claims import Claim

LEFT_FIRST, RIGHT_FIRST, EVEN, DRAWN = 0, 1, 2, 3
"""Places in the herd: three animals made on purpose, then those that were drawn."""

MADE_ON_PURPOSE = {LEFT_FIRST: "left first", RIGHT_FIRST: "right first", EVEN: "even"}
COLORS = {LEFT_FIRST: "#0072b2", RIGHT_FIRST: "#d55e00", EVEN: "#009e73"}

_OURS = "architecture, policy and initial weights are our reconstruction: the slides give none"


class AnimalParameters(BaseParameters):
    """Animals that differ by chance in how much they attend to either side."""

    seeds: int = Field(default=8, ge=1)
    """How many animals are drawn, beside three that are made on purpose."""

    inverse_temperature: float = Field(default=5.0, ge=2.0, le=8.0)
    """Sharpness β of the choices."""

    smallest_gain: float = Field(default=1e-3, ge=1e-5)
    """Smallest initial gain of a stimulus."""

    largest_gain: float = Field(default=0.1, le=0.15)
    """Largest initial gain of a stimulus."""

    @model_validator(mode="after")
    def _a_range(self) -> "AnimalParameters":
        if self.largest_gain < 10 * self.smallest_gain:
            raise ValueError(
                "`largest_gain` must be at least ten times `smallest_gain`, got "
                f"{self.largest_gain:g} and {self.smallest_gain:g}: all animals would be alike."
            )
        return self


def herd(parameters: AnimalParameters, key: PRNGKeyArray | None) -> tuple[Animals, Keys]:
    """One for each side, one for both alike, then one for each seed; and the keys of the seeds."""
    keys = keys_of(parameters, key)
    low, high = parameters.smallest_gain, parameters.largest_gain
    middle = float(np.sqrt(low * high))
    drawn = [draw_naive_animals(1, smallest=low, largest=high, key=one).gains for one in keys]
    gains = np.concatenate(
        [[[high, low], [low, high], [middle, middle]], *(v[:, :2] for v in drawn)]
    )
    return naive_animals(gains[:, 0], gains[:, 1]), keys


def claimed(experiment: str, *, note: str = "", **rest: Any) -> Claim:
    """A claim that says what of the model is ours."""
    return compare(experiment=experiment, note="; ".join(filter(None, (note, _OURS))), **rest)


def first_use(use: np.ndarray) -> np.ndarray:
    """When an animal starts to use a stimulus at all."""
    return use.min(axis=-1)


def slope_with_gain(table: xr.Dataset, use: np.ndarray) -> float:
    """Slope of the time of first use against the logarithm of the larger gain."""
    larger = np.log(table["gain"].values.max(axis=1))
    return float(np.polyfit(larger, first_use(use), 1)[0])
