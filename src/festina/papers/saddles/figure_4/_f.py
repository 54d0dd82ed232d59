"""Figure 4F: a network with φ = z tanh z rests with one active unit, which keeps growing.

A network of width 1 has no minimum at finite weights. With the best v, its loss decreases with |u|
towards the loss of φ = |z|. The plateau therefore drifts, above the infimum and at no fixed point.
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
    """Parameters of Figure 4F, with activation φ(x; u) = u·x tanh(u·x)."""

    max_steps: int = Field(default=20_000, ge=1)
    """Maximal number of training steps per seed."""


QUICK: dict[str, Any] = {"seeds": 4, "max_steps": 12_000}


def _known(parameters: Parameters, task: AbstractTask, network: Layer) -> Levels:
    """Return the infimum of the loss of one unit: its length grows along the teacher's longer axis.

    For a long unit φ becomes |z|. Gaussian averages along an axis are products of one-dimensional
    integrals, which are exact for steep φ as well: ⟨yφ⟩ = ⟨φ₁⟩⟨φ⟩ + ⟨φ₂φ⟩ for the teacher's φ₁, φ₂.
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
        words = "the plateau loss lies above the infimum of width-1 networks"
        note = f"up to {reading.levels.max():.4g}; width-1 networks have no fixed point here"
        claim("above-infimum", words, all_above(reading.levels, infimum), note=note)
    start, end = np.array(
        [[_longest(reading, k, edge) for k in seeds] for edge in ("start", "end")]
    )
    claim(
        "growing-unit",
        "the weight norm |u| of the active unit grows by more than 10 % along the plateau",
        most_seeds(end > 1.1 * start, 0.9),
        note=f"median growth from {np.median(start):.3g} to {np.median(end):.3g}",
    )


def _longest(reading: Reading, seed: int, edge: str) -> float:
    """Return the largest |u| at the start or the end of the plateau."""
    step = reading.plateaus[edge].values[seed, PLATEAU]
    u, _ = reading.weights_at(seed, int(np.searchsorted(reading.curves[0][seed], step)))
    return float(np.linalg.norm(u.values, axis=1).max())


_how: Any = {"activation": "z-tanh", "share": 0.6}
run, claims, draw = other("4F", "z tanh z", Parameters, 2, _asserts, _known, **_how)
