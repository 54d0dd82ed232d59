"""Claims about the weights on the plateau and at the end: ranks, rays, active units."""

import numpy as np
import xarray as xr

from ....diagnose import rays
from ...claims import Claim
from ._reading import END, PAPER, PLATEAU, Reading


def rank_claims(reading: Reading) -> list[Claim]:
    """Linear φ: rank one on the plateau, full rank at the end, balanced (Eq. 7)."""
    source = _theorem(7)

    def singular(seed: int, stage: int) -> np.ndarray:
        u, v = reading.weights(seed, stage)
        return np.linalg.svd(np.concatenate((_rows(v), _rows(u)), axis=1), compute_uv=False)

    claims = []
    if reading.staircases:
        on_plateau = np.array([singular(seed, PLATEAU) for seed in reading.staircases])
        claims.append(
            reading.compare(
                "on the plateau the weights have rank one: "
                "largest second over first singular value",
                0.0,
                float(np.max(on_plateau[:, 1] / on_plateau[:, 0])),
                tolerance=0.05,
                source=source,
            )
        )
    expected = reading.theory["final_singular_values"].values
    expected = expected[expected > 1e-6 * expected.max()]
    at_end = np.array([singular(seed, END) for seed in range(reading.seeds)])
    claims.append(
        reading.compare(
            "at the end they have as many singular values as the target, √(2 s) each",
            [float(s) for s in expected],
            [float(s) for s in at_end[:, : len(expected)].mean(axis=0)],
            tolerance=0.01,
            relative=True,
            source=source,
            note=f"next singular value {at_end[:, len(expected) :].max(initial=0.0):.2g}",
        )
    )
    return claims


def ray_claims(reading: Reading) -> list[Claim]:
    """Positively homogeneous φ: one ray of weights on the plateau, one more at the end (Eq. 6)."""
    source = _theorem(6)
    expected = [float(angle) for angle in reading.theory["ray_angle"].values]
    claims = []
    if reading.staircases:
        on_plateau = [rays(*reading.weights(seed, PLATEAU)) for seed in reading.staircases]
        claims += [
            reading.at_least(
                "on the plateau the weights that count lie on one ray",
                1.0,
                np.array([len(found) == 1 for found in on_plateau]),
                source=source,
            ),
            reading.compare(
                "direction of that ray, degrees",
                expected[0],
                float(np.median([found.angle[0] for found in on_plateau])),
                tolerance=1.0,
                source=source,
            ),
        ]
    at_end = [rays(*reading.weights(seed, END)) for seed in range(reading.seeds)]
    # The rays of the data, wherever they stand among those found.
    both = np.array([[_nearest(found.angle, angle) for angle in expected] for found in at_end])
    claims.append(
        reading.compare(
            "directions of the rays at the end, degrees",
            expected,
            [float(angle) for angle in np.median(both, axis=0)],
            tolerance=1.0,
            source=source,
            note=f"{', '.join(str(len(found)) for found in at_end)} rays by seed",
        )
    )
    return claims


def active_claims(reading: Reading) -> list[Claim]:
    """φ of order two: one active unit on the plateau, one per direction at the end (Eq. 5)."""
    stages = (
        ("on the plateau one unit is active and the rest stays near zero", PLATEAU, 1),
        ("at the end two units are active", END, 2),
    )
    claims = []
    for words, stage, expected in stages:
        seeds = reading.staircases if stage == PLATEAU else range(reading.seeds)
        if not seeds:
            continue
        active = np.array([active_units(*reading.weights(seed, stage)) for seed in seeds])
        claims.append(
            reading.at_least(
                words,
                reading.panel.count_fraction,
                active == expected,
                source=_theorem(5),
                fragile=True,
                note=f"active units {', '.join(map(str, active))}",
            )
        )
    return claims


def contributions(u: xr.DataArray, v: xr.DataArray) -> np.ndarray:
    """How much each unit adds to the output, in order of magnitude: |v||u|² for φ of order two.

    A head's u is a key and a query whose product it responds to, and training keeps the two
    balanced: |u|² is then twice that product.
    """
    return np.linalg.norm(_rows(v), axis=1) * np.sum(_rows(u) ** 2, axis=1)


def active_units(u: xr.DataArray, v: xr.DataArray, threshold: float = 0.1) -> int:
    """Number of units that contribute more than a fraction of what the strongest one does."""
    contribution = contributions(u, v)
    return int(np.sum(contribution > threshold * contribution.max()))


def _rows(weights: xr.DataArray) -> np.ndarray:
    """One row of numbers for each unit."""
    return weights.values.reshape(weights.sizes["unit"], -1)


def _nearest(angles: np.ndarray, target: float) -> float:
    return float(angles[np.argmin(np.abs((angles - target + 180) % 360 - 180))])


def _theorem(equation: int) -> str:
    return f"{PAPER}, Theorem 1, Eq. ({equation})"
