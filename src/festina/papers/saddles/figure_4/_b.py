"""Figure 4B: the loss of a sigmoid network drops at once, then rests near a one-unit fixed point.

The activation φ does not vanish at u = 0. The output of the network therefore grows from the first
step, and the loss has no initial plateau. Zero weights do not embed a fixed point, because Eq. (5)
needs φ(z; 0) = 0. Equal weights embed a fixed point (Eq. 4).

The figure shows the weights right after the first drop. All units are then nearly equal, and the
loss still falls. At the parameters of the figure the units separate (spread 0.3) before the loss
rests at the level of one unit: the network has the loss of the embedded fixed point, but not its
weights.
"""

from typing import Any

import numpy as np
from pydantic import Field

from ....experiments.claims import ClaimCollector, agree, all_below, max_error_below, most_seeds
from ..panels import PLATEAU, Reading
from ._panel import TeacherParameters, other


class Parameters(TeacherParameters):
    """Parameters of Figure 4B, with activation φ(x; u) = sigmoid(u·x)."""

    spacing: float = Field(default=0.6, gt=0, le=1)
    """Spacing of the grid points over which population averages are taken."""

    seeds: int = Field(default=3, ge=1)
    """Number of independent initialisations that are trained."""

    max_steps: int = Field(default=120_000, ge=1)
    """Maximal number of training steps per seed."""


QUICK: dict[str, Any] = {"seeds": 1}


def _asserts(reading: Reading, claim: ClaimCollector) -> None:
    first, chosen = reading.plateaus["drop_step"].values[:, 0], reading.parameters
    claim(
        "no-initial-plateau",
        "the loss has no initial plateau: it drops within a time 2/(ηH), where v learns the mean "
        "of the targets in a time 1/(ηH) (learning rate η, H units, φ = ½)",
        all_below(first * chosen.learning_rate * chosen.width, 2.0),
        at="Figure 4B; φ is of order zero",
        note=f"median step of the first drop {np.median(first):.3g}",
    )
    lowest, eq_4 = reading.theory["fixed_point"].values[0], "Theorem 1, Eq. (4)"
    level = np.median(reading.plateaus["level"].values[:, PLATEAU])
    words = "after the first drop the loss rests near a fixed point of one unit (median level)"
    near = agree(level, lowest, within=0.1, relative=True)
    claim("plateau-level", words, near, at=eq_4, headline=True)
    words = (
        "right after the first drop, where the plateau begins and the loss still falls, all units "
        "have nearly equal u: relative spread of u about its mean"
    )
    begins = reading.plateaus["save"].values[:, PLATEAU]
    moments = np.array([begins, [_resting(reading, seed) for seed in range(reading.seeds)]])
    spread, rested = np.median([_spread(reading, moment) for moment in moments], axis=1)
    claim(
        "equal-units",
        f"{words} (median)",
        max_error_below(spread, within=0.02),
        at="caption of Figure 4; Eq. (4)",
        note=f"median spread where the loss rests: {rested:.2g}",
    )
    last = np.array([loss[-1] for loss in reading.curves[1]])
    words = "the final loss is at least 10 % below the lowest fixed point of one unit"
    below, note = most_seeds(last < 0.9 * lowest, 0.75), f"median final loss {np.median(last):.2g}"
    claim("below-one-unit", words, below, note=note)


def _resting(reading: Reading, seed: int) -> int:
    """Return the saved step at which the loss is at the level of the plateau."""
    losses = reading.curves[1][seed]
    return int(np.argmin(np.abs(losses - reading.plateaus["level"].values[seed, PLATEAU])))


def _spread(reading: Reading, saves: np.ndarray) -> list[float]:
    """Return the root mean square of |u_i − ū|, weighted by v, over |ū|, of each seed."""
    found = list[float]()
    for seed, save in enumerate(saves):
        # Contiguous arrays sum to the same last digit before and after saving.
        u, v = (np.ascontiguousarray(part.values) for part in reading.weights_at(seed, int(save)))
        share = np.abs(v[:, 0]) / np.abs(v).sum()
        mean = share @ u
        square = share @ np.sum((u - mean) ** 2, axis=1)
        found.append(float(np.sqrt(square) / np.linalg.norm(mean)))
    return found


_how: Any = {"activation": "sigmoid", "scales": ("log", "log")}
run, claims, draw = other("4B", "sigmoid(u·x)", Parameters, 0, _asserts, **_how)
