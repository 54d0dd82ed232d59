"""Claims that the panels of Figure 5 make: where the loss rests, and how wide the layers are."""

from typing import TYPE_CHECKING

import numpy as np
import xarray as xr

from ...diagnose import rays
from .._claim import Claim
from ._plateau_claims import count_claim
from ._reading import END, PAPER, Reading

if TYPE_CHECKING:
    from ._figure_5 import DeepPanel

_COROLLARY = f"{PAPER}, Theorem 1 and Corollary 2"
_CLEAN = 1.0  # decades by which the loss falls more slowly than at the drops beside it
_VISIBLE = 0.2  # of the largest singular value; what is left of the initial weights is less


def common_claims(reading: Reading, deep: "DeepPanel") -> list[Claim]:
    """Three plateaus; where the loss starts, rests and ends; and a cleaner run if there is one."""
    initial, narrow, lowest = (float(level) for level in reading.theory["level"])
    loss = reading.simulation["loss"].values
    distance, _ = nearest(reading.plateaus, narrow)
    within = reading.panel.seed_tolerance
    claims = [
        count_claim(reading),
        reading.at_least(
            f"the loss rests within {100 * within:g} % of the minimum of the same network with "
            f"{deep.narrow_words}",
            reading.panel.level_fraction,
            distance <= within,
            source=_COROLLARY,
            fragile=True,
            note=f"minimum {narrow:.6g}; nearest rest of each seed {_percent(distance)} away",
        ),
        reading.compare(
            "training starts at the loss of no network at all",
            initial,
            float(np.median(loss[:, 0])),
            tolerance=1e-3,
            relative=True,
        ),
        reading.compare(
            "training ends at the lowest loss that the architecture can reach",
            lowest,
            float(loss[reading.trained, -1].max()),
            tolerance=max(1e-6, 2 * deep.converged * initial),
        ),
    ]
    if "cleaner" in reading.run:
        claims.append(_cleaner_claim(reading, deep, distance))
    return claims


def _cleaner_claim(reading: Reading, deep: "DeepPanel", before: np.ndarray) -> Claim:
    table = reading.run["cleaner"].to_dataset()
    distance, _ = nearest(table, float(reading.theory["level"][1]))
    scale = float(table.attrs["scale"])
    return reading.at_least(
        f"from initial weights of {scale:g} it rests within {100 * deep.cleaner_rest:g} % of that "
        "minimum",
        0.75,
        distance <= deep.cleaner_rest,
        source=_COROLLARY,
        fragile=True,
        correction=f"ε = {reading.parameters.scale:g} is large for a clean plateau",
        note=f"{_percent(distance)} away, where ε = {reading.parameters.scale:g} had "
        f"{_percent(before)}",
    )


def width_claims(reading: Reading) -> list[Claim]:
    """Linear φ: every layer has rank one on the plateau and two at the end (Eq. 7)."""
    at = reading.run["layers"].to_dataset()["singular_value"].values
    resting, index = _resting(reading)
    ranks = _visible(at)
    last = np.array([ranks[seed, count - 1] for seed, count in enumerate(reading.counts)])
    claims = []
    if len(resting):
        on_plateau = ranks[resting, index]
        claims.append(
            reading.at_least(
                "on the plateau every layer has rank one: one singular value above "
                f"{_VISIBLE:g} of the largest",
                0.9,
                (on_plateau == 1).all(axis=1),
                source=f"{PAPER}, Figure 5, text; Eq. (7)",
            )
        )
    claims.append(
        reading.at_least(
            "at the end every layer has rank two",
            0.9,
            (last == 2).all(axis=1),
            source=f"{PAPER}, Figure 5, text; Eq. (7)",
        )
    )
    return claims


def ray_claims(reading: Reading) -> list[Claim]:
    """Positively homogeneous φ: one ray of first-layer weights on the plateau (Eq. 6)."""
    expected = reading.theory["ray_angle"].values
    source = f"{PAPER}, Figure 5, text; Eq. (6)"
    claims = []
    resting, index = _resting(reading)
    if len(resting):
        saves = reading.plateaus["save"].values[resting, index].astype(int)
        at = zip(resting.tolist(), saves.tolist(), strict=True)
        found = [rays(*reading.weights_at(seed, save)) for seed, save in at]
        main = np.array([each.angle[0] for each in found])
        off = np.min([_apart(main, angle) for angle in expected], axis=0)
        shares = np.array([each.share[0] for each in found])
        claims += [
            reading.at_least(
                "on the plateau more than three quarters of the first layer lie on one ray",
                0.75,
                shares > 0.75,
                source=source,
                note=f"shares {', '.join(f'{share:.3f}' for share in shares)}",
            ),
            reading.at_least(
                "that ray is one of the data's, within 3 degrees",
                0.75,
                off <= 3.0,
                source=source,
                note=f"at {', '.join(f'{angle:.1f}' for angle in main)}, of "
                + " and ".join(f"{angle:.1f}" for angle in expected),
            ),
        ]
    ends = [rays(*reading.weights(seed, END)) for seed in np.flatnonzero(reading.trained).tolist()]
    near = [[_apart(each.angle, angle).min() for angle in expected] for each in ends]
    claims.append(
        reading.at_least(
            "at the end there are units along both rays of the data, within 6 degrees",
            0.75,
            np.max(near, axis=1) <= 6.0,
            source=source,
            note=f"{', '.join(str(len(each)) for each in ends)} rays by seed",
        )
    )
    return claims


def _resting(reading: Reading) -> tuple[np.ndarray, np.ndarray]:
    """Seeds that rest at the predicted level, and which of their plateaus that is."""
    distance, index = nearest(reading.plateaus, float(reading.theory["level"][1]))
    seeds = np.flatnonzero(distance <= reading.panel.seed_tolerance)
    return seeds, index[seeds]


def nearest(table: xr.Dataset, level: float) -> tuple[np.ndarray, np.ndarray]:
    """Relative distance of the nearest intermediate plateau, ∞ without one, and its index or 0.

    A plateau on which the loss falls less than ten times as slowly as beside it does not count.
    """
    counts = table["count"].values
    away = np.abs(table["level"].values / level - 1)
    away[~(table["strength"].values >= _CLEAN)] = np.inf
    distance, index = np.full(len(counts), np.inf), np.zeros(len(counts), int)
    for seed, count in enumerate(counts):
        between = away[seed, 1 : count - 1]
        if np.isfinite(between).any():
            index[seed] = 1 + int(np.argmin(between))
            distance[seed] = between.min()
    return distance, index


def _visible(singular_values: np.ndarray) -> np.ndarray:
    """How many singular values of a layer stand out."""
    return np.sum(singular_values > _VISIBLE * singular_values[..., :1], axis=-1)


def _apart(angles: np.ndarray, target: float) -> np.ndarray:
    """Degrees between directions."""
    return np.abs((angles - target + 180) % 360 - 180)


def _percent(distances: np.ndarray) -> str:
    return ", ".join("none" if np.isinf(d) else f"{100 * d:.2g} %" for d in distances)
