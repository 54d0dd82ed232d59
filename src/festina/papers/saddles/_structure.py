"""What the weights look like on the plateau and at the end: ranks, rays, active units."""

from typing import TYPE_CHECKING

import numpy as np

from ...diagnose import rays
from .._claim import Claim

if TYPE_CHECKING:
    from ._panel import Reading

_SOURCE = "Zhang, Saxe & Latham, Theorem 1, Eq. ({})"


def contributions(u: np.ndarray, v: np.ndarray) -> np.ndarray:
    """How much each unit adds to the output, in order of magnitude: |v||u|ᵖ with p weights in u.

    Exact scaling for homogeneous units; a head's u holds a key and a query.
    """
    size = np.linalg.norm(v.reshape(len(v), -1), axis=1)
    if u.ndim == 4:  # (unit, key and query, rank, input)
        return size * np.prod(np.linalg.norm(u, axis=(2, 3)), axis=1)
    return size * np.linalg.norm(u, axis=1) ** 2


def rank_claims(reading: "Reading") -> list[Claim]:
    """Linear φ: rank one on the plateau, full rank at the end, balanced (Eq. 7)."""
    source = _SOURCE.format(7)

    def singular(seed: int, plateau: int) -> np.ndarray:
        u, v = reading.weights(seed, plateau)
        theta = np.concatenate((v.reshape(len(v), -1), u), axis=1)
        return np.linalg.svd(theta, compute_uv=False)

    seeds = reading.staircases
    on_plateau = np.array([singular(seed, 1) for seed in seeds])
    at_end = np.array([singular(seed, -1) for seed in range(reading.seeds)])
    expected = reading.theory["final_singular_values"].values
    second = on_plateau[:, 1] / on_plateau[:, 0] if len(seeds) else np.array([np.nan])
    return [
        reading.compare(
            "on the plateau the weights have rank one: largest second over first singular value",
            0.0,
            float(second.max()),
            tolerance=0.05,
            source=source,
        ),
        reading.compare(
            "at the end they have as many singular values as the target, √(2 s) each",
            [float(s) for s in expected],
            [float(s) for s in at_end[:, : len(expected)].mean(axis=0)],
            tolerance=0.01,
            relative=True,
            source=source,
            note=f"next singular value {at_end[:, len(expected) :].max(initial=0.0):.2g}",
        ),
    ]


def ray_claims(reading: "Reading") -> list[Claim]:
    """Positively homogeneous φ: one ray of weights on the plateau, one more at the end (Eq. 6)."""
    source = _SOURCE.format(6)
    expected = [float(angle) for angle in reading.theory["ray_angle"].values]
    on_plateau = [rays(*reading.weights(seed, 1)) for seed in reading.staircases]
    at_end = [rays(*reading.weights(seed, -1)) for seed in range(reading.seeds)]
    first = [found.angle[0] for found in on_plateau] or [float("nan")]
    # The rays of the data, wherever they stand among those found.
    both = np.array([[_nearest(found.angle, angle) for angle in expected] for found in at_end])
    return [
        reading.at_least(
            "on the plateau the weights that count lie on one ray",
            1.0,
            np.array([len(found) == 1 for found in on_plateau]),
            source=source,
        ),
        reading.compare(
            "direction of that ray, degrees",
            expected[0],
            float(np.median(first)),
            tolerance=1.0,
            source=source,
        ),
        reading.compare(
            "directions of the rays at the end, degrees",
            expected,
            [float(angle) for angle in np.median(both, axis=0)],
            tolerance=1.0,
            source=source,
            note=f"{', '.join(str(len(found)) for found in at_end)} rays by seed",
        ),
    ]


def _nearest(angles: np.ndarray, target: float) -> float:
    return float(angles[np.argmin(np.abs((angles - target + 180) % 360 - 180))])


def active_claims(reading: "Reading", threshold: float = 0.1) -> list[Claim]:
    """φ of order two: one active unit on the plateau, one per direction at the end (Eq. 5)."""
    source = _SOURCE.format(5)

    def active(seed: int, plateau: int) -> int:
        contribution = contributions(*reading.weights(seed, plateau))
        return int(np.sum(contribution > threshold * contribution.max()))

    on_plateau = np.array([active(seed, 1) for seed in reading.staircases])
    at_end = np.array([active(seed, -1) for seed in range(reading.seeds)])
    share = reading.panel.count_fraction
    return [
        reading.at_least(
            "on the plateau one unit is active and the rest stays near zero",
            share,
            on_plateau == 1,
            source=source,
            fragile=True,
            note=f"active units {', '.join(map(str, on_plateau))}",
        ),
        reading.at_least(
            "at the end two units are active",
            share,
            at_end == 2,
            source=source,
            fragile=True,
            note=f"active units {', '.join(map(str, at_end))}",
        ),
    ]
