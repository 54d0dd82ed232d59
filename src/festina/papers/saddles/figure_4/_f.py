"""Figure 4F: φ = z tanh z rests with one active unit, at no fixed point: its u grows on and on.

A width-1 network has no minimum at finite weights here. With the best v its loss falls as |u|
grows, towards that of φ = |z|, so that the plateau drifts and lies above the infimum.
"""

from typing import Any

import numpy as np
from pydantic import Field

from ....networks import Layer
from ....tasks import AbstractTask
from ...claims import Claim
from ..panels._reading import PLATEAU, Reading
from ._claims import FIGURE, unit_claims
from ._panel import Levels, OtherPanel
from ._teacher import FewUnitsParameters, teacher_panel

_LENGTHS = 2.0 ** np.arange(8)


class Parameters(FewUnitsParameters):
    """φ(x; u) = u·x tanh(u·x)."""

    max_steps: int = Field(default=20_000, ge=1)
    """Most steps of training for each seed."""


PRESETS: dict[str, dict[str, Any]] = {}
QUICK: dict[str, Any] = {"seeds": 4, "max_steps": 12_000}


def _known(parameters: Parameters, task: AbstractTask, network: Layer) -> Levels:
    """Loss of one unit along the teacher's longer axis, against its length, and for φ = |z|.

    Along an axis Gaussian averages are products of integrals over one variable each, exact however
    steep φ is: ⟨yφ⟩ = ⟨φ₁⟩⟨φ⟩ + ⟨φ₂φ⟩ with φ_j the teacher's two.
    """
    del task, network
    x = np.linspace(0.0, 12.0, 240_001)
    density = np.exp(-(x**2) / 2)
    mean = lambda values: float(np.trapezoid(density * values, x) / np.trapezoid(density, x))
    phi = lambda length: length * x * np.tanh(length * x)
    short, long = (phi(length) for length in sorted(parameters.teacher))
    power = mean(short**2) + mean(long**2) + 2 * mean(short) * mean(long)

    def left(unit: np.ndarray) -> float:
        explained = mean(short) * mean(unit) + mean(long * unit)
        return power - explained**2 / mean(unit**2)

    infimum = left(x)
    return Levels(
        rest=infimum,
        tables={
            "length": ("length", _LENGTHS),
            "width_one_loss": ("length", [left(phi(length)) for length in _LENGTHS]),
            "infimum": ((), infimum),
        },
    )


def _structure(reading: Reading) -> list[Claim]:
    return [*unit_claims(reading), *_infimum_claims(reading)]


def _infimum_claims(reading: Reading) -> list[Claim]:
    """The infimum of one unit is at infinity; the plateau lies above it and drifts."""
    infimum = float(reading.theory["infimum"])
    above = reading.theory["width_one_loss"].values - infimum
    # From |u| = 8 on: φ differs from |z| on a strip of width 1/|u|, where |z| itself is as small.
    fall = np.log2(above[3:-1] / above[4:])
    claims = [
        reading.compare(
            "a width-1 network has its infimum at infinite weights: what is left above that of |z| "
            "falls with the square of |u|",
            2.0,
            float(fall[-1]),
            tolerance=0.05,
            source=f"{FIGURE}F; Gaussian averages along an axis",
            note=f"infimum {infimum:.5g}; all of them above it: {bool((above > 0).all())}",
        )
    ]
    seeds = np.array(reading.staircases, dtype=int)
    if not len(seeds):
        return claims
    parameters = reading.parameters
    assert isinstance(parameters, Parameters)
    levels = reading.plateaus["level"].values[seeds, PLATEAU]
    start, end = (
        np.array([_longest(reading, seed, edge) for seed in seeds.tolist()])
        for edge in ("start", "end")
    )
    return [
        *claims,
        reading.at_least(
            "the plateau lies above the infimum of width-1 networks",
            1.0,
            levels > infimum,
            source=f"{FIGURE}F",
            note=f"from {levels.min():.4g} to {levels.max():.4g}, no fixed point among them",
        ),
        reading.at_least(
            "along the plateau the active unit grows, |u| by more than a tenth",
            0.9,
            end > 1.1 * start,
            source=f"{FIGURE}F",
            note=f"|u| from {np.median(start):.3g} to {np.median(end):.3g} in the median, beyond "
            f"the teacher's longest in {np.sum(end > max(parameters.teacher))} of {len(end)}",
        ),
    ]


def _longest(reading: Reading, seed: int, edge: str) -> float:
    """Largest |u| at the start or the end of the plateau."""
    step = reading.plateaus[edge].values[seed, PLATEAU]
    save = int(np.searchsorted(reading.simulation["step"].values[seed], step))
    u, _ = reading.weights_at(seed, save)
    return float(np.linalg.norm(u.values, axis=1).max())


PANEL = OtherPanel(
    panel=teacher_panel(
        name="saddles/figure-4f",
        title="z tanh z",
        parameters=Parameters,
        activation="z-tanh",
        structure=_structure,
        count_fraction=0.6,
    ),
    order=2,
    known=_known,
)
run, claims, draw = PANEL.run, PANEL.claims, PANEL.draw
