"""Figure 4F: φ = z tanh z rests with one active unit, at no fixed point: its u grows on and on.

A width-1 network has no minimum at finite weights here. With the best v its loss falls as |u|
grows, towards that of φ = |z|, so that the plateau drifts and lies above the infimum.
"""

import functools
from typing import Any

import numpy as np
from pydantic import Field

from ....networks import Layer
from ....tasks import AbstractTask
from ...claims import Ledger, above, exponent, most
from ..panels import PLATEAU, Reading
from ._panel import FewUnitsParameters, draw_other, tables, teacher_panel, units

_LENGTHS = 2.0 ** np.arange(8)


class Parameters(FewUnitsParameters):
    """φ(x; u) = u·x tanh(u·x)."""

    max_steps: int = Field(default=20_000, ge=1)
    """Most steps of training for each seed."""


QUICK: dict[str, Any] = {"seeds": 4, "max_steps": 12_000}


def _known(
    parameters: Parameters, task: AbstractTask, network: Layer
) -> tuple[float, dict[str, Any]]:
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
    explained = lambda unit: mean(short) * mean(unit) + mean(long * unit)
    left = lambda unit: power - explained(unit) ** 2 / mean(unit**2)
    return left(x), {
        "length": ("length", _LENGTHS),
        "width_one_loss": ("length", [left(phi(length)) for length in _LENGTHS]),
        "infimum": ((), left(x)),
    }


def _asserts(reading: Reading, say: Ledger) -> None:
    units(reading, say, 2, 0.6)
    infimum = float(reading.theory["infimum"])
    left = reading.theory["width_one_loss"].values - infimum
    # Of the longest: φ differs from |z| on a strip of width 1/|u|, where |z| itself is as small.
    say(
        "a width-1 network has its infimum at infinite weights: what is left above that of |z| "
        "falls with the square of |u|",
        exponent(_LENGTHS[-2:], left[-2:], -2, within=0.05),
        "Figure 4F; Gaussian averages along an axis",
        note=f"infimum {infimum:.5g}; all of them above it: {bool((left > 0).all())}",
    )
    seeds = reading.staircases
    if not seeds:
        return
    if reading.parameters.samples is None:
        say(
            "the plateau lies above the infimum of width-1 networks",
            above(reading.levels, infimum),
            note=f"up to {reading.levels.max():.4g}, no fixed point among them",
        )
    start, end = np.array(
        [[_longest(reading, seed, edge) for seed in seeds] for edge in ("start", "end")]
    )
    beyond = np.sum(end > max(reading.parameters.teacher))
    say(
        "along the plateau the active unit grows, |u| by more than a tenth",
        most(end > 1.1 * start, 0.9),
        note=f"|u| from {np.median(start):.3g} to {np.median(end):.3g} in the median, beyond the "
        f"teacher's longest in {beyond} of {len(end)}",
    )


def _longest(reading: Reading, seed: int, edge: str) -> float:
    """Largest |u| at the start or the end of the plateau."""
    step = reading.plateaus[edge].values[seed, PLATEAU]
    u, _ = reading.weights_at(seed, int(np.searchsorted(reading.curves[0][seed], step)))
    return float(np.linalg.norm(u.values, axis=1).max())


PANEL = teacher_panel("4F", "z tanh z", Parameters, tables(_known), _asserts, "z-tanh")
run, claims, draw = PANEL.run, PANEL.claims, functools.partial(draw_other, PANEL)
