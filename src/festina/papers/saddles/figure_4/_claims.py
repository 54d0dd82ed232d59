"""Claims that the panels of Figure 4 make: orders, ranks, active units, and levels of rest."""

from typing import Any

import numpy as np

from ...claims import Claim
from ..panels._reading import END, PLATEAU, Reading
from ..panels._structure_claims import active_claims
from ._activations import formula

FIGURE = "Zhang, Saxe & Latham, Figure 4"


def common_claims(reading: Reading, order: int, end: float | None) -> list[Claim]:
    """The lowest order of φ, where training starts, and that it learns the task."""
    loss = reading.simulation["loss"].values
    claims = [
        reading.compare(
            "order of the lowest term of φ around zero weights, measured on responses",
            order,
            int(reading.theory["order"]),
            source=f"{FIGURE}, text",
            note=("units separate" if order > 1 else "directions separate") if order else "",
        ),
        reading.compare(
            "training starts at the loss of no network at all",
            float(reading.theory["level"][0]),
            float(np.median(loss[:, 0])),
            tolerance=1e-3,
            relative=True,
        ),
    ]
    if end is not None:
        claims.append(
            reading.at_least(
                f"in the end less than {100 * end:g} % of the loss is left",
                0.75,
                loss[:, -1] < end * loss[:, 0],
                note=f"medians {np.median(loss[:, 0]):.5g} and {np.median(loss[:, -1]):.2g}",
            )
        )
    return claims


def direction_claims(reading: Reading) -> list[Claim]:
    """φ of order one, not homogeneous: rank one after the first drop, at no width-1 fixed point."""
    seeds = np.flatnonzero(reading.counts >= 3)
    claims = [stops_claim(reading, 1.0)]
    if not len(seeds):
        return claims
    after, end = (
        np.array([_second_singular_value(reading, seed, stage) for seed in seeds.tolist()])
        for stage in (PLATEAU, END)
    )
    claims += [
        reading.compare(
            "right after the first drop the weights have rank one: second over first singular "
            "value, median",
            0.0,
            float(np.median(after)),
            tolerance=0.01,
            source=f"{FIGURE}, text; Theorem 4",
            note=f"at most {after.max():.2g}",
        ),
        reading.at_least(
            "rank one does not last, for it is no invariant manifold: the second singular value "
            "ends above a tenth of the first",
            0.9,
            end > 0.1,
            source=f"{FIGURE}, text; Theorem 3",
            note=f"median {np.median(end):.2g}",
        ),
    ]
    critical = reading.theory["width_one_level"].values
    levels = reading.plateaus["level"].values[seeds, PLATEAU]
    nearest = critical[np.argmin(np.abs(levels[:, None] - critical), axis=1)]
    claims.append(
        reading.at_least(
            "the level after the first drop is that of no width-1 fixed point: more than 2 % away "
            "from each",
            0.9,
            np.abs(levels / nearest - 1) > 0.02,
            source=f"{FIGURE}, text",
            note=f"median {np.median(levels):.5g}; fixed points at "
            + ", ".join(f"{level:.5g}" for level in critical),
        )
    )
    return claims


def unit_claims(reading: Reading, *, correction: str = "") -> list[Claim]:
    """φ of order two or three: one active unit, then two; at a width-1 fixed point if any."""
    claims = [stops_claim(reading, reading.panel.count_fraction, correction=correction)]
    seeds = np.flatnonzero(reading.counts >= 3)
    if "width_one_level" in reading.theory and len(seeds):
        critical = reading.theory["width_one_level"].values
        levels = reading.plateaus["level"].values[seeds, PLATEAU]
        away = np.min(np.abs(levels[:, None] / critical - 1), axis=1)
        claims.append(
            reading.at_least(
                "after the first drop the loss rests within 2 % of the level of a width-1 fixed "
                "point",
                reading.panel.level_fraction,
                away <= 0.02,
                source="Zhang, Saxe & Latham, Theorem 1, Eq. (5)",
                note=f"median {np.median(levels):.6g}; fixed points at "
                + ", ".join(f"{level:.6g}" for level in critical),
            )
        )
    return [*claims, *active_claims(reading)]


def unnamed_claims(reading: Reading) -> list[Claim]:
    """The same where the text gives the order of φ alone, and the parameters name it."""
    parameters: Any = reading.parameters
    chosen = formula(parameters.activation)
    return unit_claims(reading, correction=f"the text names no activation; here φ = {chosen}")


def stops_claim(reading: Reading, share: float, correction: str = "") -> Claim:
    """Between start and end the loss rests."""
    return reading.at_least(
        "after the first drop the loss rests before it drops again",
        share,
        reading.counts >= 3,
        correction=correction,
        note=f"plateaus by seed {', '.join(map(str, reading.counts))}",
    )


def _second_singular_value(reading: Reading, seed: int, stage: int) -> float:
    """Of Θ = [V, U], in units of the first."""
    u, v = reading.weights(seed, stage)
    s = np.linalg.svd(np.concatenate((v.values, u.values), axis=1), compute_uv=False)
    return float(s[1] / s[0])
