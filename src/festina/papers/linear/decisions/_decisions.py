r"""Mice learn which side a stimulus is on: from chance by way of one side to both.

The deep network of `festina.theory.decisions`, trial by trial and in the mean over trials, with
each of two readings of the slides' three losses: one error for all weights (`total`), or for each
part its own (`heterogeneous`).
"""

from collections.abc import Mapping
from typing import Any, get_args

import jax
import numpy as np
import xarray as xr
from jaxtyping import PRNGKeyArray
from pydantic import Field, model_validator

from ....networks._seeds import Keys
from ....theory.decisions import (
    Animals,
    DecisionModel,
    Learning,
    StationaryPoint,
    heterogeneous_limit,
    mean_field,
    simulate_trials,
    stationary_points,
    stimulus_use_times,
)
from ....theory.decisions._model import Teaching
from ..._old import experiment, run_tree
from ..._registry import Progress
from ._animals import AnimalParameters, herd
from ._decisions_claims import NAME as NAME
from ._decisions_claims import claims as claims
from ._decisions_draw import draw as draw

TEACHINGS: tuple[Teaching, ...] = get_args(Teaching)
_RECORDS = 400
_CHECKPOINTS = (25.0, 50.0, 100.0)
_REFERENCE = Animals([0.3, 0.1, 0.2], [[0.15, -0.05, 0.2], [-0.15, 0.05, 0.2]])
"""An animal whose weights in time are known from another integration."""

_LUCK = 1
_LARGEST_STEP = 0.7
"""Of ηβ²: choices fluctuate by its root, and beyond this leave the mean field altogether."""


class Parameters(AnimalParameters):
    """Animals that learn trial by trial, each of them several times over."""

    runs: int = Field(default=8, ge=4)
    """How often each animal learns, with different luck."""

    learning_rate: float = Field(default=0.01, ge=1e-3, le=0.02)
    """Learning rate η of a trial; n trials are the time ηn in units of τ."""

    duration: float = Field(default=200.0, ge=50.0, le=2000.0)
    """How long they learn, in units of τ."""

    @model_validator(mode="after")
    def _many_trials_count(self) -> "Parameters":
        if self.learning_rate * self.inverse_temperature**2 > _LARGEST_STEP:
            most = _LARGEST_STEP / self.inverse_temperature**2
            raise ValueError(
                f"`learning_rate` must not exceed {most:.2g} at an `inverse_temperature` of "
                f"{self.inverse_temperature:g}, got {self.learning_rate:g}: the luck of a few "
                "trials would decide which side is learned, and no mean field describe it."
            )
        return self


PRESETS: dict[str, dict[str, Any]] = {}


@experiment
def run(parameters: Parameters, key: PRNGKeyArray | None, say: Progress) -> xr.DataTree:
    """Let the same animals learn under both kinds of teaching."""
    animals, keys = herd(parameters, key)
    tables = {}
    for index, teaching in enumerate(TEACHINGS):
        say(f"{len(animals)} animals, {teaching} teaching", index / len(TEACHINGS))
        model = DecisionModel(inverse_temperature=parameters.inverse_temperature, teaching=teaching)
        tables[teaching] = _learn(parameters, model, animals, keys)
    return run_tree(NAME, parameters, **tables)


def _learn(
    parameters: Parameters, model: DecisionModel, animals: Animals, keys: Keys
) -> xr.Dataset:
    """Trials and their mean field, side by side; the reference animal comes last."""
    everyone = Animals(
        np.concatenate([animals.gains, _REFERENCE.gains]),
        np.concatenate([animals.striatum, _REFERENCE.striatum]),
    )
    between = max(1, round(parameters.duration / (_RECORDS * parameters.learning_rate)))
    records = round(parameters.duration / (between * parameters.learning_rate))
    trials = simulate_trials(
        model,
        everyone.repeated(parameters.runs),
        records * between,
        learning_rate=parameters.learning_rate,
        record_every=between,
        key=jax.random.fold_in(keys[0], _LUCK),
    )
    mean, checked = _mean_field(model, everyone, trials.time)
    points = {point.active: point for point in stationary_points(model)}
    luck = lambda values: values.reshape(len(everyone), parameters.runs, *values.shape[1:])
    table: dict[str, Any] = {
        "gain": (("animal", "side"), animals.gains[:, :2]),
        "use": (("animal", "run", "side"), luck(stimulus_use_times(trials))[:-1]),
        "use_theory": (("animal", "side"), stimulus_use_times(mean)[:-1]),
        "stage_choices": (("stage", "contrast"), _stage_choices(model, points)),
        "reference_products": (("checkpoint", "action", "line"), checked.products[-1]),
    }
    over = {"accuracy": (), "bias": (), "right_probability": ("contrast",)}
    for name, rest in over.items():
        seen, expected = luck(getattr(trials, name)).mean(axis=1), getattr(mean, name)
        table[name] = (("animal", "time", *rest), seen[:-1])
        table[f"{name}_theory"] = (("animal", "time", *rest), expected[:-1])
        table[f"reference_{name}"] = (("time", *rest), seen[-1])
        table[f"reference_{name}_theory"] = (("time", *rest), expected[-1])
    coordinates = {
        "time": ("time", trials.time, {"units": "τ"}),
        "contrast": np.asarray(model.contrasts),
        "checkpoint": list(_CHECKPOINTS),
        "animal": np.arange(len(animals)),
    }
    rate = points[("constant",)].escape_rates["left"]
    return xr.Dataset(table, coordinates, {"escape_rate": rate})


def _mean_field(
    model: DecisionModel, animals: Animals, times: np.ndarray
) -> tuple[Learning, Learning]:
    """At `times`, and at those of which reference numbers exist: one integration."""
    grid = np.union1d(times, _CHECKPOINTS)
    whole = mean_field(model, animals, grid)
    some = lambda chosen: Learning(
        model,
        grid[chosen],
        whole.gains[:, chosen],
        whole.striatum[:, chosen],
        method=whole.method,
    )
    return some(np.isin(grid, times)), some(np.isin(grid, _CHECKPOINTS))


def _stage_choices(
    model: DecisionModel, points: Mapping[tuple[str, ...], StationaryPoint]
) -> np.ndarray:
    """P(R | c) at which theory sees the left-first animal: one-sided, then expert."""
    if model.teaching == "total":
        stages = (points["left", "constant"], points["left", "right", "constant"])
        return np.stack([point.right_probability for point in stages])
    # Nothing rests with both a stimulus and the constant line. Of the first stage theory only says
    # that what the animal does not use yet leaves it at chance.
    one_sided = np.where(np.asarray(model.contrasts) < 0, np.nan, 0.5)
    w = heterogeneous_limit(model).products
    expert = 0.5 * (1 + np.tanh(0.5 * model.inverse_temperature * model.stimuli @ (w[1] - w[0])))
    return np.stack([one_sided, expert])
