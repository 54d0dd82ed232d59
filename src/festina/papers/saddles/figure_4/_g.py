"""Figure 4G: a cubic network rests with one unit on the diagonal, then learns with two.

The learning rate stated in the paper, 0.02, exceeds 2/sharpness of the solution, and descent
diverges from every seed. The default here is 0.005. Let ρ_j be the cosine between the unit u and
teacher unit j. For unit vectors ⟨(u·x)³(w·x)³⟩ = 9ρ + 6ρ³, so one unit leaves a loss of 30 − (Σ_j
9ρ_j + 6ρ_j³)²/15. The loss of one unit is lowest, 54/5, on the diagonal.
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
_DIAGONAL = 4 * np.sqrt(2) / 5  # v|u|³ of the best single unit, for a teacher of unit lengths
_CLEAN = 7.0  # strength of a plateau, in decades, at which dormant units are negligible


class Parameters(FewUnitsParameters):
    """Parameters of Figure 4G, with activation φ(x; u) = (u·x)³."""

    teacher: tuple[PositiveFloat, PositiveFloat] = (1.0, 1.0)
    """Lengths of the teacher's weight vectors u₁* and u₂*, which lie along the two axes."""

    learning_rate: float = Field(default=0.005, gt=0)
    """Learning rate η of gradient descent on the loss; the paper's 0.02 diverges."""

    method: Literal["descent", "flow"] = "descent"
    """Training by gradient descent, or by gradient flow with time t plotted in steps t/η."""

    max_steps: int = Field(default=300_000, ge=1)
    """Maximal number of training steps per seed."""


QUICK: dict[str, Any] = {"seeds": 5, "max_steps": 200_000}


def _known(parameters: Parameters, task: AbstractTask, network: Layer) -> Levels:
    """Return fixed points, how training at the stated rate ends, and the solution's sharpness."""
    rest, points = fixed_points(parameters, task, network)
    steps = min(parameters.max_steps, 100_000)
    stated = gradient_descent(network, task, _STATED, loss=parameters.loss, max_steps=steps)
    lengths, v = _balanced(np.array(parameters.teacher) ** 3)
    solution = layer_from(network.unit, np.diag(lengths), v)
    points["stated"] = ("seed", [ending.reason for ending in stated.endings])
    points["sharpness"] = ((), escape_directions(solution, task, loss=parameters.loss).sharpness)
    return rest, points


def _balanced(strength: Any) -> tuple[Any, Any]:
    """Return |u| and v of a unit with v|u|³ = `strength` that grew from zero.

    Training conserves v² − |u|²/p for a unit of order p, here at zero. From a teacher unit w the
    unit learns v|u|³ = |w|³.
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
            "the active unit lies on the diagonal: the plateau loss is 54/5, and the norm of the "
            "unit is that of balanced weights with v|u|³ = 4√2/5 (medians)",
            agree([np.median(levels), np.median(largest)], [54 / 5, norm], within=1e-4),
            at=EQ_5,
        )
    finite = ~np.isin(reading.theory["stated"].values, BROKEN_OFF)
    sharpness = _sharpness(parameters)
    known: dict[str, Any] = {"note": f"{finite.sum()} of {finite.size} seeds stay finite"}
    if sharpness * _STATED > 2:
        known["instead"] = all_above(_STATED * reading.theory["sharpness"], 2.0)
        known["wrong"] = (
            "the learning rate exceeds 2/sharpness of the balanced solution, "
            f"which is {2 / sharpness:.2g}"
        )
    words = f"gradient descent at the stated learning rate {_STATED} stays finite for some seeds"
    claim("stated-learning-rate", words, all_above(finite.sum(), 0), **known)


def _sharpness(parameters: Parameters) -> float:
    """Return the largest curvature of the loss at the balanced solution.

    The loss is zero at the balanced solution, so that the curvature of the loss is that of
    2⟨(δf)²⟩. A unit of length ℓ along axis 1 has two directions of weight space that change
    f: its length and v together by 2ℓ³x₁³, and its rotation by √3ℓ³x₁²x₂. The unit along axis 2
    has the same changes with axes swapped. The largest curvature combines x₁³ of the longer
    unit with x₂²x₁ of the shorter one: ⟨x₁⁶⟩ = 15, ⟨x₁⁴x₂²⟩ = 3.
    """
    short, long = sorted(_balanced(np.array(parameters.teacher) ** 3)[0] ** 3)
    change = np.array([2 * long, np.sqrt(3) * short])
    return float(2 * np.linalg.eigvalsh(np.outer(change, change) * [[15, 3], [3, 3]])[-1])


_how: Any = {"activation": "cubic", "share": 0.75}
run, claims, draw = other("4G", "cubic, (u·x)³", Parameters, 3, _asserts, _known, **_how)
