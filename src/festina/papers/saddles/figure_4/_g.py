"""Figure 4G: a cubic network rests with one unit on the diagonal, then learns with two.

The stated learning rate, 0.02, is above 2/sharpness of the solution and diverges from every seed;
0.005 is the default here. With ρ_j the cosines between the unit and the teacher's two,
⟨(u·x)³(w·x)³⟩ = 9ρ + 6ρ³ for unit vectors, so that one unit leaves 30 − (Σ_j 9ρ_j + 6ρ_j³)²/15 of
the loss: lowest on the diagonal, 54/5.
"""

from typing import Any, Literal

import numpy as np
import xarray as xr
from pydantic import Field, PositiveFloat

from ...._objective import objective
from ....dynamics import gradient_descent
from ....dynamics._curvature import extreme_curvatures
from ....networks import Layer, layer
from ....tasks import AbstractTask
from ...claims import Claim
from ..panels._reading import PAPER, PLATEAU, Reading
from ..panels._train import BROKEN_OFF
from ._claims import unit_claims
from ._panel import Levels, OtherPanel
from ._teacher import FewUnitsParameters, fixed_points, teacher_panel

_STATED = 0.02


class Parameters(FewUnitsParameters):
    """φ(x; u) = (u·x)³."""

    teacher: tuple[PositiveFloat, PositiveFloat] = (1.0, 1.0)
    """Lengths of the teacher's two weight vectors u₁* and u₂*, which lie along the two axes."""

    learning_rate: float = Field(default=0.005, gt=0)
    """Learning rate η of gradient descent on the loss; the 0.02 that the paper states diverges."""

    method: Literal["descent", "flow"] = "descent"
    """Gradient descent at the learning rate, or gradient flow on the same axis of steps, t/η."""

    max_steps: int = Field(default=300_000, ge=1)
    """Most steps of training for each seed."""


PRESETS: dict[str, dict[str, Any]] = {}
QUICK: dict[str, Any] = {"seeds": 5, "max_steps": 200_000}


def _known(parameters: Parameters, task: AbstractTask, network: Layer) -> Levels:
    """With the closed form of the width-1 minimum where both teachers are of length one."""
    levels = fixed_points(parameters, task, network)
    if parameters.samples is not None or parameters.teacher != (1.0, 1.0):
        return levels
    rho = np.sqrt(0.5)
    closed = 30 - (2 * (9 * rho + 6 * rho**3)) ** 2 / 15
    return Levels(closed, {**levels.tables, "closed_form": ((), closed)})


def _stated(parameters: Parameters, task: AbstractTask, network: Layer) -> dict[str, xr.Dataset]:
    """Descent at the stated learning rate, and the sharpness of the balanced solution.

    Balance of a unit of order p: v² − |u|²/p is conserved, zero from small weights; of a teacher w
    the unit learns v|u|³ = |w|³.
    """
    steps = min(parameters.max_steps, 100_000)
    trajectory = gradient_descent(network, task, _STATED, loss=parameters.loss, max_steps=steps)
    lengths, v = _balanced(np.array(parameters.teacher) ** 3)
    problem = objective(layer(network.unit, np.diag(lengths), v), task, parameters.loss)
    columns = problem.structure.columns(np.diag(lengths), v[:, None])
    _, sharpness = extreme_curvatures(problem.structure, columns.reshape(-1), problem.data)
    return {
        "stated": xr.Dataset(
            {
                "ending": ("seed", [ending.reason for ending in trajectory.endings]),
                "step": ("seed", trajectory.time[:, -1]),
                "sharpness": ((), sharpness),
            }
        )
    }


def _structure(reading: Reading) -> list[Claim]:
    return [*unit_claims(reading), *_exact_claims(reading), _stated_claim(reading)]


def _exact_claims(reading: Reading) -> list[Claim]:
    if "closed_form" not in reading.theory or not (seeds := reading.staircases):
        return []
    closed = float(reading.theory["closed_form"])
    levels = reading.plateaus["level"].values[seeds]
    largest = np.array([_largest(reading, seed) for seed in seeds])
    return [
        reading.compare(
            "the width-1 minimum has a closed form: the unit lies on the diagonal",
            closed,
            float(reading.theory["width_one_level"][0]),
            tolerance=1e-6,
            source=f"{PAPER}, Figure 4G; Gaussian moments of order six",
        ),
        reading.compare(
            "median levels of the plateau, the width-1 minimum in closed form, and of the end",
            [closed, 0.0],
            [float(np.median(levels[:, PLATEAU])), float(np.median(levels[:, 2]))],
            tolerance=1e-4,
            source=f"{PAPER}, Theorem 1, Eq. (5)",
            note=f"learning rate {reading.parameters.learning_rate:g}, not the stated {_STATED}",
        ),
        reading.compare(
            "norm of the one active unit on the plateau, median: balanced, and v|u|³ = 4√2/5",
            _norm(4 * np.sqrt(2) / 5),
            float(np.median(largest)),
            tolerance=1e-3,
            source=f"{PAPER}, Theorem 1, Eq. (5)",
        ),
    ]


def _balanced(strength: Any) -> tuple[Any, Any]:
    """|u| and v of a unit with v|u|³ = `strength` that grew from zero: v² = |u|²/3."""
    length = (np.sqrt(3) * strength) ** 0.25
    return length, length / np.sqrt(3)


def _norm(strength: float) -> float:
    return float(np.hypot(*_balanced(strength)))


def _largest(reading: Reading, seed: int) -> float:
    """Largest norm of a unit's weights on the plateau."""
    u, v = (part.values for part in reading.weights(seed, PLATEAU))
    return float(np.sqrt(np.sum(u**2, axis=1) + v[:, 0] ** 2).max())


def _stated_claim(reading: Reading) -> Claim:
    stated = reading.run["stated"].to_dataset()
    finite = ~np.isin(stated["ending"].values, BROKEN_OFF)
    sharpness = float(stated["sharpness"])
    return reading.compare(
        f"gradient descent at the stated learning rate, {_STATED}, stays finite from some seed",
        "finite",
        "finite" if finite.any() else "diverges from every seed",
        expected="does not hold" if sharpness * _STATED > 2 else "holds",
        note=f"{finite.sum()} of {finite.size} seeds; sharpness {sharpness:.4g} of the balanced "
        f"solution asks for a learning rate below {2 / sharpness:.2g}",
    )


PANEL = OtherPanel(
    panel=teacher_panel(
        name="saddles/figure-4g",
        title="cubic, (u·x)³",
        parameters=Parameters,
        activation="cubic",
        structure=_structure,
        level_fraction=0.75,
        count_fraction=0.75,
    ),
    order=3,
    known=_known,
    also=_stated,
)
run, claims, draw = PANEL.run, PANEL.claims, PANEL.draw
