"""Figure 4G: a cubic network rests with one unit on the diagonal, then learns with two.

The stated learning rate, 0.02, is above 2/sharpness of the solution and diverges from every seed;
0.005 is the default here. With ρ_j the cosines between the unit and the teacher's two,
⟨(u·x)³(w·x)³⟩ = 9ρ + 6ρ³ for unit vectors, so that one unit leaves 30 − (Σ_j 9ρ_j + 6ρ_j³)²/15 of
the loss: lowest on the diagonal, 54/5.
"""

from typing import Any, Literal

import numpy as np
from pydantic import Field, PositiveFloat

from ....dynamics import gradient_descent
from ....experiments.claims import ClaimCollector, agree, all_above
from ....networks import Layer, layer_from
from ....tasks import AbstractTask
from ....theory.saddles import escape_directions
from ..panels import BROKEN_OFF, PLATEAU, Reading
from ._panel import EQ_5, FewUnitsParameters, Levels, fixed_points, other

_STATED = 0.02
_DIAGONAL = 4 * np.sqrt(2) / 5  # v|u|³ of the best single unit, for teachers of length one
_CLEAN = 7.0  # decades of the squared gradient: by then units that wait are of no account


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


QUICK: dict[str, Any] = {"seeds": 5, "max_steps": 200_000}


def _known(parameters: Parameters, task: AbstractTask, network: Layer) -> Levels:
    """Also how descent at the stated learning rate ends, and the sharpness of the solution."""
    rest, points = fixed_points(parameters, task, network)
    steps = min(parameters.max_steps, 100_000)
    stated = gradient_descent(network, task, _STATED, loss=parameters.loss, max_steps=steps)
    lengths, v = _balanced(np.array(parameters.teacher) ** 3)
    solution = layer_from(network.unit, np.diag(lengths), v)
    points["stated"] = ("seed", [ending.reason for ending in stated.endings])
    points["sharpness"] = ((), escape_directions(solution, task, loss=parameters.loss).sharpness)
    return rest, points


def _balanced(strength: Any) -> tuple[Any, Any]:
    """|u| and v of a unit with v|u|³ = `strength` that grew from zero.

    A unit of order p keeps v² − |u|²/p, here zero; of a teacher w it learns v|u|³ = |w|³.
    """
    length = (np.sqrt(3) * strength) ** 0.25
    return length, length / np.sqrt(3)


def _asserts(reading: Reading, claim: ClaimCollector) -> None:
    parameters = reading.parameters
    seeds = [seed for seed in reading.staircases if reading.strengths[seed] >= _CLEAN]
    if parameters.samples is not None:
        return
    if parameters.teacher == (1.0, 1.0) and seeds:
        weights = [np.hstack(reading.weights(seed, PLATEAU)) for seed in seeds]
        largest = np.linalg.norm(weights, axis=2).max(axis=1)
        levels, norm = reading.plateaus["level"].values[seeds, 1], np.hypot(*_balanced(_DIAGONAL))
        claim(
            "diagonal-unit",
            "medians on the plateau: level 54/5, for the unit lies on the diagonal, and its norm, "
            "balanced with v|u|³ = 4√2/5",
            agree([np.median(levels), np.median(largest)], [54 / 5, norm], within=1e-4),
            at=EQ_5,
        )
    finite = ~np.isin(reading.theory["stated"].values, BROKEN_OFF)
    sharpness = _sharpness(parameters)
    known: dict[str, Any] = {"note": f"{finite.sum()} of {finite.size} seeds"}
    if sharpness * _STATED > 2:
        known["instead"] = all_above(_STATED * reading.theory["sharpness"], 2.0)
        known["wrong"] = f"2/sharpness of the balanced solution is {2 / sharpness:.2g}"
    words = f"descent at the stated learning rate, {_STATED}, stays finite from some seed"
    claim("stated-learning-rate", words, all_above(finite.sum(), 0), **known)


def _sharpness(parameters: Parameters) -> float:
    """Largest curvature of the loss where each unit has learned its teacher, balanced.

    Nothing is left of the loss, so that it is that of 2⟨(δf)²⟩. A unit of length ℓ along axis 1 can
    change f by 2ℓ³x₁³, along itself and v at once, and by √3ℓ³x₁²x₂; the other one alike. Of these,
    x₁³ of the longer and x₂²x₁ of the shorter go together: ⟨x₁⁶⟩ = 15, ⟨x₁⁴x₂²⟩ = 3.
    """
    short, long = sorted(_balanced(np.array(parameters.teacher) ** 3)[0] ** 3)
    change = np.array([2 * long, np.sqrt(3) * short])
    return float(2 * np.linalg.eigvalsh(np.outer(change, change) * [[15, 3], [3, 3]])[-1])


_how: Any = {"activation": "cubic", "share": 0.75}
run, claims, draw = other("4G", "cubic, (u·x)³", Parameters, 3, _asserts, _known, **_how)
