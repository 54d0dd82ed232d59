"""Figure 1G: a quadratic network learns with one active unit, then two.

Proposition 5 predicts the first drop, and the unit that causes it, from the initial weights alone,
after a correction for units whose readout v changes sign. The printed loss curve starts at 1, not
at ⟨y²⟩ = 8, as for targets divided by √8 (preset `printed`).
"""

from typing import Any

import numpy as np
from pydantic import Field

from ...._types import Keys
from ....experiments._keys import Key
from ....experiments.claims import ClaimCollector, most_seeds
from ....networks import Layer, fully_connected
from ....tasks import AbstractTask, quadratic_teacher
from ....theory.saddles import blow_up_times
from .. import panels
from ..panels import FewUnitsParameters, Panel, Reading, staircase

_BOUNCE = "includes units whose readout weight v changes sign before they grow"
_LARGEST_ERROR = 0.2  # relative error above which no first drop is predicted


class Parameters(FewUnitsParameters):
    """Parameters of Figure 1G (paper: Section I, Eq. 71)."""

    learning_rate: float = Field(default=0.04, gt=0)
    """Learning rate η of gradient descent on the loss."""

    target_scale: float = Field(default=1.0, gt=0)
    """Factor of the targets; 1/√8 = 0.35355339059327373 makes the initial loss 1."""


PRESETS: dict[str, dict[str, Any]] = {"printed": {"target_scale": float(1 / np.sqrt(8))}}


def _task(parameters: Parameters, key: Key) -> AbstractTask:
    scale, samples = parameters.target_scale, parameters.samples
    return quadratic_teacher(np.eye(2), target_scale=scale, samples=samples, key=key)


def _network(parameters: Parameters, keys: Keys) -> Layer:
    width, scale = parameters.width, parameters.scale
    return fully_connected(2, width, activation="quadratic", scale=scale, key=keys)


def _predict(parameters: Parameters, task: AbstractTask, network: Layer) -> dict[str, Any]:
    steps = blow_up_times(network, task, loss=parameters.loss) / parameters.learning_rate
    silent = _tolerance(parameters) > _LARGEST_ERROR  # Proposition 5 is about small weights
    first = np.full(len(steps), np.nan) if silent else np.min(steps, axis=-1)
    return {
        "drop_step": (("seed", "fall"), np.stack((first, np.full_like(first, np.nan)), axis=-1)),
        "winner": ("seed", np.argmin(steps, axis=-1)),
    }


def _tolerance(parameters: Parameters) -> float:
    """Return the tolerance of the first drop time: 1.5 % for the paper's weights.

    Proposition 5 neglects terms of order (initial weights)/(final weights). The final weights are
    proportional to the cube root of the targets. Gradient descent adds an error that does not
    shrink with ε.
    """
    relative = parameters.scale / Parameters().scale / parameters.target_scale ** (1 / 3)
    return 0.015 * max(1.0, relative)


def _asserts(reading: Reading, claim: ClaimCollector) -> None:
    panels.count(reading, claim, 0.75)
    panels.level(reading, claim, order=2)
    panels.falls(
        reading, claim, _tolerance(reading.parameters), "Proposition 5 and Eq. (56)", _BOUNCE
    )
    _winner(reading, claim)
    panels.active(reading, claim, 0.75)
    text = "the paper cites Eq. (5) for panels (E,F); it holds for panels (F,G)"
    panels.widths(reading, claim, 0.75, corrected=text)


def _winner(reading: Reading, claim: ClaimCollector) -> None:
    """Check which unit grows first, if a drop is predicted; a seed that never drops fails."""
    seeds = np.flatnonzero(np.isfinite(reading.theory["drop_step"].values[:, 0])).tolist()
    if not seeds:
        return
    save = reading.drops["save"].values[:, 0].tolist()
    grown = [
        np.argmax(panels.contributions(*reading.weights_at(seed, save[seed]))) for seed in seeds
    ]
    dropped = np.isfinite(reading.drops["step"].values[seeds, 0])
    claim(
        "winner",
        "the unit that grows at the first drop is the unit with the shortest predicted escape time",
        most_seeds(dropped & (grown == reading.theory["winner"].values[seeds])),
        at="Proposition 5",
        corrected=_BOUNCE,
    )


PANEL = Panel("1G", "quadratic", Parameters, _task, _network, staircase(_predict), _asserts)
run, claims, draw, animate = PANEL.run, PANEL.claims, PANEL.draw, PANEL.animate
