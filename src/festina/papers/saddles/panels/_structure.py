"""Claims about the weights on the plateau and at the end: ranks, rays and active units."""

import numpy as np
import xarray as xr

from ....diagnose import UnitClusters, unit_clusters_from
from ....experiments.claims import ClaimCollector, agree, join_numbers, max_error_below, most_seeds
from ._claims import count, level, widths
from ._reading import END, PLATEAU, Reading


def ranks(reading: Reading, claim: ClaimCollector) -> None:
    """Check for rank one on the plateau and balanced full rank at the end: linear φ (Eq. 7)."""

    def singular(seeds: list[int], stage: int) -> np.ndarray:
        theta = [np.hstack([_rows(part) for part in reading.weights(s, stage)]) for s in seeds]
        return np.linalg.svd(np.array(theta), compute_uv=False)

    at = "Theorem 1, Eq. (7)"
    if reading.staircases:
        s = singular(reading.staircases, PLATEAU)
        # A second direction of relative size x lowers the loss by a term of order x².
        bound = 10 ** (-reading.strengths[reading.staircases] / 2)
        claim(
            "rank-one-on-plateau",
            "on the plateau the weights have rank one: the second singular value over the first "
            "is below 10^(−d/2), where the squared gradient is 10^d times smaller than at the "
            "drops (ratio over this bound)",
            max_error_below(s[:, 1] / s[:, 0], over=bound, within=1.0),
            at=at,
            note=f"ratio at most {np.max(s[:, 1] / s[:, 0]):.2g}",
        )
    expected = reading.theory["final_singular_values"].values
    expected = expected[expected > 1e-6 * expected.max()]
    s = singular(list(range(reading.seeds)), END)
    claim(
        "final-singular-values",
        "at the end the singular values of the weights are √(2 s), for singular values s of the "
        "target",
        agree(s[:, : len(expected)].mean(axis=0), expected, within=0.01, relative=True),
        at=at,
        note=f"next singular value {s[:, len(expected) :].max(initial=0.0):.2g}",
    )


def one_ray_then_two(reading: Reading, claim: ClaimCollector) -> None:
    """Check for one ray of weights on the plateau and two at the end: homogeneous φ (Eq. 6)."""
    at, expected = "Theorem 1, Eq. (6)", reading.theory["ray_angle"].values
    if reading.staircases:
        found = [unit_clusters_from(*reading.weights(seed, PLATEAU)) for seed in reading.staircases]
        words = "on the plateau the weights that contribute to the output lie on one ray"
        claim("one-ray-on-plateau", words, most_seeds([len(each) == 1 for each in found]), at=at)
        first = np.median([each.angle[0] for each in found])
        along = agree(first, expected[0], within=1.0)
        words = "the ray of weights on the plateau has the angle predicted from the data (degrees)"
        claim("ray-direction", words, along, at=at)
    found = [unit_clusters_from(*reading.weights(seed, END)) for seed in range(reading.seeds)]
    # Compare each expected ray with the nearest of the rays found.
    both = np.median([nearest_rays(each, expected) for each in found], axis=0)
    claim(
        "final-rays",
        "the final weights lie on rays at the angles predicted from the data (degrees)",
        agree(both, expected, within=1.0),
        at=at,
        note=f"{join_numbers([len(each) for each in found])} rays, for each seed",
    )


def rays(reading: Reading, claim: ClaimCollector) -> None:
    """Make all claims of a panel with positively homogeneous φ."""
    count(reading, claim)
    level(reading, claim)
    one_ray_then_two(reading, claim)
    widths(reading, claim)


def apart(angle: np.ndarray, other: np.ndarray) -> np.ndarray:
    """Return the difference between two angles in degrees."""
    return np.abs((angle - other + 180) % 360 - 180)


def nearest_rays(found: UnitClusters, expected: np.ndarray) -> np.ndarray:
    """Return, for each expected angle, the nearest angle found."""
    return found.angle[apart(found.angle[:, None], expected).argmin(axis=0)]


def active(
    reading: Reading, claim: ClaimCollector, share: float, stages: tuple[int, ...] = (PLATEAU, END)
) -> None:
    """Check that one unit is active on the plateau and two at the end, for φ of order two."""
    alone = "on the plateau one unit is active and all others stay near zero"
    cases = {
        PLATEAU: ("active-on-plateau", alone, 1),
        END: ("active-at-end", "at the end two units are active", 2),
    }
    for stage in stages:
        id, words, wanted = cases[stage]
        seeds = reading.staircases if stage == PLATEAU else range(reading.seeds)
        units = np.array([active_units(*reading.weights(seed, stage)) for seed in seeds])
        if units.size:
            note = f"active units by seed: {join_numbers(units)}"
            claim(id, words, most_seeds(units == wanted, share), at="Theorem 1, Eq. (5)", note=note)


def contributions(u: xr.DataArray, v: xr.DataArray) -> np.ndarray:
    """Return the order of magnitude of each unit's contribution to the output, |v||u|².

    The formula holds for φ of order two. For an attention head, u consists of a key and a query.
    Training keeps key and query balanced, so |u|² is twice the product of their norms.
    """
    return np.linalg.norm(_rows(v), axis=1) * np.sum(_rows(u) ** 2, axis=1)


def active_units(u: xr.DataArray, v: xr.DataArray, threshold: float = 0.1) -> int:
    """Return the number of units whose contribution exceeds a fraction of the largest one."""
    contribution = contributions(u, v)
    return int(np.sum(contribution > threshold * contribution.max()))


def _rows(weights: xr.DataArray) -> np.ndarray:
    """Return the weights with one row for each unit."""
    return weights.values.reshape(weights.sizes["unit"], -1)
