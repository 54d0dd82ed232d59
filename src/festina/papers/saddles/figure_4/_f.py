"""Figure 4F: φ = z tanh z rests with one active unit, at no fixed point: its u grows on and on.

A width-1 network has no minimum at finite weights here. With the best v its loss falls as |u|
grows, towards that of φ = |z|, so that the plateau drifts and lies above the infimum.
"""

from typing import Any

import numpy as np
from pydantic import Field

from ....experiments.claims import ClaimCollector, all_above, most_seeds
from ....networks import Layer
from ....tasks import AbstractTask
from ..panels import PLATEAU, Reading
from ._panel import FewUnitsParameters, Levels, other


class Parameters(FewUnitsParameters):
    """φ(x; u) = u·x tanh(u·x)."""

    max_steps: int = Field(default=20_000, ge=1)
    """Most steps of training for each seed."""


QUICK: dict[str, Any] = {"seeds": 4, "max_steps": 12_000}


def _known(parameters: Parameters, task: AbstractTask, network: Layer) -> Levels:
    """Loss of one unit along the teacher's longer axis as its length grows: that of φ = |z|.

    Along an axis Gaussian averages are products of integrals over one variable each, exact however
    steep φ is: ⟨yφ⟩ = ⟨φ₁⟩⟨φ⟩ + ⟨φ₂φ⟩ with φ_j the teacher's two.
    """
    x = np.linspace(0.0, 12.0, 240_001)
    density = np.exp(-(x**2) / 2)
    mean = lambda values: float(np.trapezoid(density * values, x) / np.trapezoid(density, x))
    phi = lambda length: length * x * np.tanh(length * x)
    short, long = (phi(length) for length in sorted(parameters.teacher))
    power = mean(short**2) + mean(long**2) + 2 * mean(short) * mean(long)
    explained = mean(short) * mean(x) + mean(long * x)
    infimum = power - explained**2 / mean(x**2)
    return infimum, {"infimum": ((), infimum)}


def _asserts(reading: Reading, claim: ClaimCollector) -> None:
    seeds, infimum = reading.staircases, float(reading.theory["infimum"])
    if not seeds:
        return
    if reading.parameters.samples is None:
        words = "the plateau lies above the infimum of width-1 networks, no fixed point among them"
        note = f"up to {reading.levels.max():.4g}"
        claim("above-infimum", words, all_above(reading.levels, infimum), note=note)
    start, end = np.array(
        [[_longest(reading, k, edge) for k in seeds] for edge in ("start", "end")]
    )
    claim(
        "growing-unit",
        "along the plateau the active unit grows, |u| by more than a tenth",
        most_seeds(end > 1.1 * start, 0.9),
        note=f"from {np.median(start):.3g} to {np.median(end):.3g} in the median",
    )


def _longest(reading: Reading, seed: int, edge: str) -> float:
    """Largest |u| at the start or the end of the plateau."""
    step = reading.plateaus[edge].values[seed, PLATEAU]
    u, _ = reading.weights_at(seed, int(np.searchsorted(reading.curves[0][seed], step)))
    return float(np.linalg.norm(u.values, axis=1).max())


_how: Any = {"activation": "z-tanh", "share": 0.6}
run, claims, draw = other("4F", "z tanh z", Parameters, 2, _asserts, _known, **_how)
