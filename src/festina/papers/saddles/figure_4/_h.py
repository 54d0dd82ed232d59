"""Figure 4H: an activation of order three, which the text does not name: one unit, then two.

z² sin z shows what the paper says of the panel, and so does z³/(1 + z²). z² tanh z, by analogy with
panel F, does as well, but its plateau is no fixed point: one unit does best with infinite weights,
as z|z|. All of them rest for several times as long as they need to leave zero.
"""

import functools
from typing import Any, Literal

import numpy as np
from pydantic import Field, PositiveFloat

from ....networks import Layer
from ....tasks import AbstractTask
from ...claims import Ledger, apart
from ..panels import Reading
from ._panel import (
    EQ_5,
    FewUnitsParameters,
    draw_other,
    fixed_points,
    tables,
    teacher_panel,
    units,
    unnamed,
)

_CLEAN = 4.5  # decades, as in Figure 1G


class Parameters(FewUnitsParameters):
    """An activation of order three; the text names none for this panel."""

    activation: Literal["z2-sin", "z2-tanh", "z3-rational"] = "z2-sin"
    """The activation function: z² sin z, z² tanh z or z³/(1 + z²)."""

    teacher: tuple[PositiveFloat, PositiveFloat] = (1.0, 1.0)
    """Lengths of the teacher's two weight vectors u₁* and u₂*, which lie along the two axes."""

    max_steps: int = Field(default=600_000, ge=1)
    """Most steps of training for each seed."""


PRESETS: dict[str, dict[str, Any]] = {
    "z2-tanh": {"activation": "z2-tanh"},
    "z3-rational": {"activation": "z3-rational"},
}
QUICK: dict[str, Any] = {"seeds": 4}


def _known(
    parameters: Parameters, task: AbstractTask, network: Layer
) -> tuple[float, dict[str, Any]]:
    """Fixed points of one unit; where it has none, the infimum, which is that of φ = z|z|."""
    if parameters.activation != "z2-tanh":
        return fixed_points(parameters, task, network)
    x, y, weight, _ = task.statistics(network.unit)
    angle = np.linspace(0, 2 * np.pi, 1440, endpoint=False)
    z = x @ np.stack((np.cos(angle), np.sin(angle)))
    explained = (weight * y[:, 0]) @ (z * np.abs(z))
    left = weight @ y[:, 0] ** 2 - explained**2 / (weight @ z**4)
    return float(left.min()), {}


def _asserts(reading: Reading, say: Ledger) -> None:
    units(reading, say, 3, 0.75, unnamed(reading.parameters))
    clean = reading.strengths[reading.staircases] >= _CLEAN
    if "width_one_level" not in reading.theory or not clean.any():
        return
    # Units of order three wait so long that the plateau is the fixed point to many digits.
    levels, points = reading.levels[clean], reading.theory["width_one_level"].values
    nearest = points[np.abs(levels[:, None] - points).argmin(axis=1)]
    say(
        f"where the squared gradient dips by {_CLEAN:g} decades, the plateau is a fixed point of "
        "one unit: largest difference of the levels, over the initial loss",
        apart(levels, nearest, over=reading.theory["level"].values[0], within=1e-5),
        EQ_5,
        note=f"{len(levels)} of {len(clean)} plateaus, median {np.median(levels):.6g}",
    )


PANEL = teacher_panel("4H", "order three, unnamed", Parameters, tables(_known), _asserts)
run, claims, draw = PANEL.run, PANEL.claims, functools.partial(draw_other, PANEL)
