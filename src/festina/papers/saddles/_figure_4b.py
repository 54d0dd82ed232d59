"""Figure 4B: a sigmoid network drops at once, rests near one unit's fixed point, and goes on.

φ does not vanish at u = 0: the network's output grows from the first step, and there is no initial
plateau. Zero weights embed no fixed point (Eq. 5 needs φ(z; 0) = 0); equal ones do (Eq. 4).
"""

from typing import Any

import numpy as np
from pydantic import Field

from .._claim import Claim
from ._figure_4 import OtherPanel
from ._figure_4_claims import FIGURE
from ._figure_4_teacher import TeacherParameters, fixed_points, teacher_panel
from ._reading import PAPER, PLATEAU, Reading


class Parameters(TeacherParameters):
    """φ(x; u) = sigmoid(u·x)."""

    spacing: float = Field(default=0.6, gt=0, le=1)
    """Distance of the grid points that population averages are taken over."""

    seeds: int = Field(default=3, ge=1)
    """How many independent initialisations are trained."""

    max_steps: int = Field(default=60_000, ge=1)
    """Most steps of training for each seed."""


PRESETS: dict[str, dict[str, Any]] = {}
QUICK: dict[str, Any] = {"seeds": 1}


def _structure(reading: Reading) -> list[Claim]:
    first = reading.plateaus["drop_step"].values[:, 0]
    claims = [
        reading.at_least(
            "there is no initial plateau: the loss drops within the first thousandth of training",
            1.0,
            first < 1e-3 * reading.parameters.max_steps,
            source=f"{FIGURE}B; φ is of order zero",
            note=f"median step {np.median(first):.3g}",
        )
    ]
    seeds = np.flatnonzero(reading.counts >= 2)
    if not len(seeds):
        return claims
    critical = reading.theory["width_one_level"].values
    levels = reading.plateaus["level"].values[seeds, PLATEAU]
    last = reading.simulation["loss"].values[:, -1]
    spread = np.array([_spread(reading, seed) for seed in seeds.tolist()])
    return [
        *claims,
        reading.compare(
            "after its first drop the loss rests near the fixed point of one unit: median level",
            float(critical[0]),
            float(np.median(levels)),
            tolerance=0.1,
            relative=True,
            source=f"{PAPER}, Theorem 1, Eq. (4)",
        ),
        reading.compare(
            "where the loss rests first all units are alike: spread of u about its mean, relative, "
            "in the median",
            0.0,
            float(np.median(spread)),
            tolerance=0.02,
            source=f"{PAPER}, Theorem 1, Eq. (4)",
        ),
        reading.at_least(
            "in the end the loss is below the lowest of one unit by more than a tenth",
            0.75,
            last < 0.9 * critical[0],
            source=f"{FIGURE}B",
            note=f"median {np.median(last):.2g}",
        ),
    ]


def _spread(reading: Reading, seed: int) -> float:
    """Root mean square of |u_i − ū|, weighted by v, over |ū|, right after the drop."""
    u, v = (part.values for part in reading.weights(int(seed), PLATEAU))
    share = np.abs(v[:, 0]) / np.abs(v).sum()
    mean = share @ u
    return float(np.sqrt(share @ np.sum((u - mean) ** 2, axis=1)) / np.linalg.norm(mean))


PANEL = OtherPanel(
    panel=teacher_panel(
        name="saddles/figure-4b",
        title="sigmoid(u·x)",
        parameters=Parameters,
        activation="sigmoid",
        structure=_structure,
    ),
    order=0,
    known=fixed_points,
    axes=("log", "log"),
)
run, claims, draw = PANEL.run, PANEL.claims, PANEL.draw
