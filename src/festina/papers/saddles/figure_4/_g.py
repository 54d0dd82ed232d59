"""Figure 4G: a cubic network rests with one unit on the diagonal, then learns with two.

The stated learning rate, 0.02, is above 2/sharpness of the solution and diverges from every seed;
0.005 is the default here. With ρ_j the cosines between the unit and the teacher's two,
⟨(u·x)³(w·x)³⟩ = 9ρ + 6ρ³ for unit vectors, so that one unit leaves 30 − (Σ_j 9ρ_j + 6ρ_j³)²/15 of
the loss: lowest on the diagonal, 54/5.
"""

import functools
from typing import Any, Literal

import numpy as np
import xarray as xr
from pydantic import Field, PositiveFloat

from ...._objective import objective
from ...._types import Keys
from ....dynamics import gradient_descent
from ....dynamics._curvature import extreme_curvatures
from ....networks import Layer, layer
from ....tasks import AbstractTask
from ..._registry import Progress
from ...claims import Ledger, above, agree
from ..panels import BROKEN_OFF, PLATEAU, Reading
from ._panel import EQ_5, FewUnitsParameters, draw_other, tables, teacher_panel, units

_STATED = 0.02
_LOWEST = 54 / 5  # of one unit, where both teachers are of length one


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


def _tables(
    parameters: Parameters, task: AbstractTask, network: Layer, keys: Keys, say: Progress
) -> dict[str, xr.Dataset]:
    """Also descent at the stated learning rate, and the sharpness of the balanced solution."""
    steps = min(parameters.max_steps, 100_000)
    trajectory = gradient_descent(network, task, _STATED, loss=parameters.loss, max_steps=steps)
    lengths, v = _balanced(np.array(parameters.teacher) ** 3)
    problem = objective(layer(network.unit, np.diag(lengths), v), task, parameters.loss)
    columns = problem.structure.columns(np.diag(lengths), v[:, None])
    _, sharpness = extreme_curvatures(problem.structure, columns.reshape(-1), problem.data)
    stated = {
        "ending": ("seed", [ending.reason for ending in trajectory.endings]),
        "step": ("seed", trajectory.time[:, -1]),
        "sharpness": ((), sharpness),
    }
    return {**tables()(parameters, task, network, keys, say), "stated": xr.Dataset(stated)}


def _balanced(strength: Any) -> tuple[Any, Any]:
    """|u| and v of a unit with v|u|³ = `strength` that grew from zero.

    A unit of order p keeps v² − |u|²/p, here zero; of a teacher w it learns v|u|³ = |w|³.
    """
    length = (np.sqrt(3) * strength) ** 0.25
    return length, length / np.sqrt(3)


def _asserts(reading: Reading, say: Ledger) -> None:
    units(reading, say, 3, 0.75)
    if reading.parameters.samples is not None:
        return
    if reading.parameters.teacher == (1.0, 1.0) and (seeds := reading.staircases):
        rate = reading.parameters.learning_rate
        say(
            "median level of the plateau: the unit lies on the diagonal and leaves 54/5",
            agree(np.median(reading.levels), _LOWEST, within=1e-4),
            EQ_5,
            note=f"learning rate {rate:g}, not the stated {_STATED}",
        )
        say(
            "norm of the one active unit on the plateau, median: balanced, and v|u|³ = 4√2/5",
            agree(
                np.median([_largest(reading, seed) for seed in seeds]),
                np.hypot(*_balanced(4 * np.sqrt(2) / 5)),
                within=1e-3,
            ),
            EQ_5,
        )
    _stated(reading, say)


def _largest(reading: Reading, seed: int) -> float:
    """Largest norm of a unit's weights on the plateau."""
    u, v = (part.values for part in reading.weights(seed, PLATEAU))
    return float(np.sqrt(np.sum(u**2, axis=1) + v[:, 0] ** 2).max())


def _stated(reading: Reading, say: Ledger) -> None:
    stated = reading.run["stated"].ds
    finite = ~np.isin(stated["ending"].values, BROKEN_OFF)
    predicted, sharpness = _sharpness(reading.parameters), float(stated["sharpness"])
    known: dict[str, Any] = {}
    if predicted * _STATED > 2:
        known["wrong"] = (
            f"the sharpness of the balanced solution asks for a learning rate below "
            f"{2 / predicted:.2g}"
        )
        known["instead"] = agree(sharpness, predicted, within=1e-6, relative=True)
    say(
        f"gradient descent at the stated learning rate, {_STATED}, stays finite from some seed",
        above(finite.sum(), 0),
        note=f"{finite.sum()} of {finite.size} seeds",
        **known,
    )


def _sharpness(parameters: Parameters) -> float:
    """Largest curvature of the loss where each unit has learned its teacher, balanced.

    Nothing is left of the loss, so that it is that of 2⟨(δf)²⟩. A unit of length ℓ along axis 1 can
    change f by 2ℓ³x₁³, along itself and v at once, and by √3ℓ³x₁²x₂; the other one alike. Of these,
    x₁³ of the longer and x₂²x₁ of the shorter go together: ⟨x₁⁶⟩ = 15, ⟨x₁⁴x₂²⟩ = 3.
    """
    short, long = sorted(_balanced(np.array(parameters.teacher) ** 3)[0] ** 3)
    change = np.array([2 * long, np.sqrt(3) * short])
    return float(2 * np.linalg.eigvalsh(np.outer(change, change) * [[15, 3], [3, 3]])[-1])


PANEL = teacher_panel("4G", "cubic, (u·x)³", Parameters, _tables, _asserts, "cubic")
run, claims, draw = PANEL.run, PANEL.claims, functools.partial(draw_other, PANEL)
