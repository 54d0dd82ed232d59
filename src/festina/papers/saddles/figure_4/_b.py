"""Figure 4B: a sigmoid network drops at once, rests near one unit's fixed point, and goes on.

φ does not vanish at u = 0: the network's output grows from the first step, and there is no initial
plateau. Zero weights embed no fixed point (Eq. 5 needs φ(z; 0) = 0); equal ones do (Eq. 4).
"""

from typing import Any

import numpy as np
from pydantic import Field

from ....experiments.claims import ClaimCollector, agree, all_below, max_error_below, most_seeds
from ..panels import PLATEAU, Reading
from ._panel import TeacherParameters, other


class Parameters(TeacherParameters):
    """φ(x; u) = sigmoid(u·x)."""

    spacing: float = Field(default=0.6, gt=0, le=1)
    """Distance of the grid points that population averages are taken over."""

    seeds: int = Field(default=3, ge=1)
    """How many independent initialisations are trained."""

    max_steps: int = Field(default=120_000, ge=1)
    """Most steps of training for each seed."""


QUICK: dict[str, Any] = {"seeds": 1}


def _asserts(reading: Reading, claim: ClaimCollector) -> None:
    first, chosen = reading.plateaus["drop_step"].values[:, 0], reading.parameters
    claim(
        "no-initial-plateau",
        "there is no initial plateau: the loss drops within two of the times 1/ηH in which v "
        "learns the mean of the targets, with φ = ½",
        all_below(first * chosen.learning_rate * chosen.width, 2.0),
        at="Figure 4B; φ is of order zero",
        note=f"median step {np.median(first):.3g}",
    )
    lowest, eq_4 = reading.theory["fixed_point"].values[0], "Theorem 1, Eq. (4)"
    level = np.median(reading.plateaus["level"].values[:, PLATEAU])
    words = "after its first drop the loss rests near the fixed point of one unit: median level"
    near = agree(level, lowest, within=0.1, relative=True)
    claim("plateau-level", words, near, at=eq_4, headline=True)
    words = "where the loss rests first all units are alike: spread of u about its mean, relative"
    spread = np.median([_spread(reading, seed) for seed in range(reading.seeds)])
    claim("equal-units", f"{words}, in the median", max_error_below(spread, within=0.02), at=eq_4)
    last = np.array([loss[-1] for loss in reading.curves[1]])
    words = "in the end the loss is below the lowest of one unit by more than a tenth"
    below, note = most_seeds(last < 0.9 * lowest, 0.75), f"median {np.median(last):.2g}"
    claim("below-one-unit", words, below, note=note)


def _spread(reading: Reading, seed: int) -> float:
    """Root mean square of |u_i − ū|, weighted by v, over |ū|, right after the drop."""
    # Laid out alike before and after saving, so that sums agree to the last digit.
    u, v = (np.ascontiguousarray(part.values) for part in reading.weights(seed, PLATEAU))
    share = np.abs(v[:, 0]) / np.abs(v).sum()
    mean = share @ u
    return float(np.sqrt(share @ np.sum((u - mean) ** 2, axis=1)) / np.linalg.norm(mean))


_how: Any = {"activation": "sigmoid", "scales": ("log", "log")}
run, claims, draw = other("4B", "sigmoid(u·x)", Parameters, 0, _asserts, **_how)
