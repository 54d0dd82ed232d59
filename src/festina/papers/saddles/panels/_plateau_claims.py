"""Claims about the staircase: how many plateaus there are, and at which levels of the loss."""

import numpy as np

from ...claims import Claim
from ._reading import PAPER, PLATEAU, Reading

_THEOREM = f"{PAPER}, Theorem 1"

# About half of the plateaus of Figure 1G are clean: of so many none by chance once in 250 runs.
_ENOUGH = 8


def count_claim(reading: Reading) -> Claim:
    """Three plateaus, in as many seeds as the panel expects them in."""
    notes = [f"counts {', '.join(map(str, reading.counts))}"]
    if not reading.trained.all():
        notes.append(f"{int(np.sum(~reading.trained))} seeds broke off")
    return reading.at_least(
        "the loss shows three plateaus: initial, width one, final",
        reading.panel.count_fraction,
        (reading.counts == 3) & reading.trained,
        fragile=True,
        note="; ".join(notes),
    )


def level_claims(reading: Reading) -> list[Claim]:
    """Where the loss starts, rests and ends."""
    # Without a plateau nothing can be said of its level: the count has said that there is none.
    visited = [*_visited_claims(reading), _each_claim(reading)] if reading.staircases else []
    return [*visited, *_outer_claims(reading), *_closed_form_claims(reading)]


def _visited_claims(reading: Reading) -> list[Claim]:
    panel, levels, minimum = reading.panel, reading.levels, _minimum(reading)
    spread = f"from {levels.min():.6g} to {levels.max():.6g}"
    if panel.clean is not None:
        return _clean_claims(reading, panel.clean, spread)
    return [
        reading.compare(
            "median level of the plateau is the optimised minimum of a width-1 network",
            minimum,
            float(np.median(levels)),
            tolerance=panel.level_tolerance,
            source=_THEOREM,
            note=spread,
            fragile=True,
        )
    ]


def _clean_claims(reading: Reading, decades: float, spread: str) -> list[Claim]:
    """A saddle is passed at a distance that falls with the gradient on the plateau.

    Where none of many plateaus is clean the claim fails; of a few that may be chance.
    """
    clean = reading.plateaus["strength"].values[reading.staircases, PLATEAU] >= decades
    if not clean.any() and clean.size < _ENOUGH:
        return []
    distance = np.abs(reading.levels[clean] - _minimum(reading))
    return [
        reading.compare(
            f"where the squared gradient dips by {decades:g} decades, the plateau is the optimised "
            "minimum of a width-1 network (largest distance)",
            0.0,
            float(distance.max()) if clean.any() else np.nan,
            tolerance=reading.panel.level_tolerance,
            source=_THEOREM,
            fragile=not clean.any(),
            note=f"{int(clean.sum())} of {clean.size} plateaus; all of them {spread}",
        )
    ]


def _each_claim(reading: Reading) -> Claim:
    panel = reading.panel
    return reading.at_least(
        f"the plateau is within {100 * panel.seed_tolerance:g} % of the minimum of a width-1 "
        "network, seed by seed",
        panel.level_fraction,
        np.abs(reading.levels / _minimum(reading) - 1) <= panel.seed_tolerance,
        source=_THEOREM,
        fragile=True,
    )


def _outer_claims(reading: Reading) -> list[Claim]:
    initial, _, lowest = reading.theory["level"].values
    loss = reading.simulation["loss"].values
    return [
        reading.compare(
            "training starts at the loss of no network at all",
            float(initial),
            float(loss[:, 0].mean()),
            tolerance=1e-4,
            relative=True,
        ),
        reading.compare(
            "training ends at the lowest loss that the architecture can reach",
            float(lowest),
            float(loss[reading.trained, -1].max()),
            tolerance=1e-6,
        ),
    ]


def _closed_form_claims(reading: Reading) -> list[Claim]:
    """Levels that the panel knows in closed form, against those found by optimising."""
    theory = reading.theory
    return [
        reading.compare(
            f"the {what} has a closed form",
            float(theory[name]),
            float(optimised),
            tolerance=1e-6,
            source=theory[name].attrs.get("source", reading.source),
        )
        for name, what, optimised in (
            ("closed_form_final", "lowest loss", theory["level"][2]),
            ("closed_form_minimum", "width-1 minimum", _minimum(reading)),
        )
        if name in theory
    ]


def _minimum(reading: Reading) -> float:
    """The lowest minimum of a network with one unit."""
    return float(reading.theory["narrow_minimum"][0])
