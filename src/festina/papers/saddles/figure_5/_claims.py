"""Claims that the panels of Figure 5 make: where the loss rests, and how wide the layers are."""

from typing import TYPE_CHECKING

import numpy as np
import xarray as xr

from ....diagnose import rays
from ...claims import Claim
from ..panels._plateau_claims import count_claim
from ..panels._reading import END, PAPER, Reading

if TYPE_CHECKING:
    from ._panel import DeepPanel

_CLEAN = 1.0  # decades by which the loss falls more slowly than at the drops beside it
_BESIDE = 6.0  # degrees from a ray of the data
_VISIBLE = 0.1  # of what the first direction passes on; the tolerance of effective widths, too


def common_claims(reading: Reading, deep: "DeepPanel") -> list[Claim]:
    """Three plateaus; where the loss starts, rests and ends; and a cleaner run if there is one."""
    initial, _, lowest = (float(level) for level in reading.theory["level"])
    loss = reading.simulation["loss"].values
    # Where only some seeds rest at all, how many plateaus the others have means nothing.
    counted = [count_claim(reading)] if reading.panel.level_fraction > 0.5 else []
    claims = [
        *counted,
        _rest_claim(reading, deep),
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
        claims += _cleaner_claims(reading, deep)
    return claims


def _rest_claim(reading: Reading, deep: "DeepPanel") -> Claim:
    """That the loss rests at the minimum of a narrow network, in the panel's share of seeds."""
    minimum = float(reading.theory["level"][1])
    distance, _ = nearest(reading.plateaus, minimum)
    within = reading.panel.level_tolerance
    return reading.at_least(
        f"the loss rests within {within:g} of {_narrow(deep)}",
        reading.panel.level_fraction,
        distance <= within,
        source=f"{reading.source}; Theorem 1 and Corollary 2",
        fragile=True,
        correction=deep.correction(reading.parameters),
        note=f"minimum {minimum:.6g}; nearest rest of each seed {_away(distance)} away",
    )


def _narrow(deep: "DeepPanel") -> str:
    return f"the minimum of the same network with {deep.narrow_words}"


def _cleaner_claims(reading: Reading, deep: "DeepPanel") -> list[Claim]:
    """From smaller initial weights most seeds rest there, and half of them much closer."""
    assert deep.cleaner_median is not None
    table = reading.run["cleaner"].to_dataset()
    smaller = f"from initial weights of {float(table.attrs['scale']):g}"
    minimum = float(reading.theory["level"][1])
    distance, _ = nearest(table, minimum)
    within = reading.panel.level_tolerance
    options = {
        "source": f"{reading.source}; Theorem 1 and Corollary 2",
        "fragile": True,
        "correction": "; ".join(
            filter(
                None,
                (
                    f"ε = {reading.parameters.scale:g} is large for a clean plateau",
                    deep.correction(reading.parameters),
                ),
            )
        ),
    }
    return [
        reading.at_least(
            f"{smaller} the loss rests within {within:g} of {_narrow(deep)} in most seeds",
            deep.cleaner_share,
            distance <= within,
            note=f"{_away(distance)} away",
            **options,
        ),
        reading.at_least(
            f"{smaller} it rests within {deep.cleaner_median:g} of it in half of the seeds",
            0.5,
            distance <= deep.cleaner_median,
            **options,
        ),
    ]


def width_claims(reading: Reading) -> list[Claim]:
    """Linear φ: one direction passes through all layers on the plateau, two at the end (Eq. 7)."""
    through = _through(reading.run["layers"].to_dataset()["singular_value"].values)
    passing = np.sum(through > _VISIBLE, axis=-1)
    resting, index = resting_seeds(reading)
    source = f"{PAPER}, Figure 5, text; Eq. (7)"
    words = f"through all layers: product of their singular values above {_VISIBLE:g} of the first"
    claims = []
    if len(resting):
        claims.append(
            reading.at_least(
                f"on the plateau one direction passes {words}",
                0.9,
                passing[resting, index] == 1,
                source=source,
                note=f"the second at most {through[resting, index, 1].max():.2g} of the first",
            )
        )
    every = np.arange(len(passing))
    last, third = (table[every, reading.counts - 1] for table in (passing, through[..., 2]))
    claims.append(
        reading.at_least(
            f"at the end two directions pass {words}",
            0.9,
            last == 2,
            source=source,
            note=f"the third at most {third.max():.2g} of the first",
        )
    )
    return claims


def ray_claims(reading: Reading) -> list[Claim]:
    """Positively homogeneous φ: one ray of first-layer weights on the plateau (Eq. 6)."""
    expected = reading.theory["ray_angle"].values
    source = f"{PAPER}, Figure 5, text; Eq. (6)"
    claims = []
    resting, index = resting_seeds(reading)
    if len(resting):
        saves = reading.plateaus["save"].values[resting, index].astype(int)
        at = zip(resting.tolist(), saves.tolist(), strict=True)
        found = [rays(*reading.weights_at(seed, save)) for seed, save in at]
        main = np.array([each.angle[0] for each in found])
        off = np.min([_apart(main, angle) for angle in expected], axis=0)
        shares = np.array([each.share[0] for each in found])
        claims += [
            reading.at_least(
                "on the plateau one ray carries more of the first layer than all others together",
                0.9,
                shares > 0.5,
                source=source,
                note=f"shares {', '.join(f'{share:.3f}' for share in shares)}",
            ),
            reading.at_least(
                "on the plateau the ray that carries most is one of the data's, within "
                f"{_BESIDE:g} degrees",
                0.9,
                off <= _BESIDE,
                source=source,
                note=f"at {', '.join(f'{angle:.1f}' for angle in main)}, of "
                + " and ".join(f"{angle:.1f}" for angle in expected),
            ),
        ]
    ends = [rays(*reading.weights(seed, END)) for seed in np.flatnonzero(reading.trained).tolist()]
    near = [[_apart(each.angle, angle).min() for angle in expected] for each in ends]
    claims.append(
        reading.at_least(
            f"at the end there are units along both rays of the data, within {_BESIDE:g} degrees",
            0.9,
            np.max(near, axis=1) <= _BESIDE,
            source=source,
            note=f"{', '.join(str(len(each)) for each in ends)} rays by seed",
        )
    )
    return claims


def resting_seeds(reading: Reading) -> tuple[np.ndarray, np.ndarray]:
    """Seeds that rest at the predicted level, and which of their plateaus that is."""
    distance, index = nearest(reading.plateaus, float(reading.theory["level"][1]))
    seeds = np.flatnonzero(distance <= reading.panel.level_tolerance)
    return seeds, index[seeds]


def nearest(table: xr.Dataset, level: float) -> tuple[np.ndarray, np.ndarray]:
    """Distance of the nearest intermediate plateau, ∞ without one, and its index or 0.

    A plateau on which the loss falls less than ten times as slowly as beside it does not count.
    """
    counts = table["count"].values
    away = np.abs(table["level"].values - level)
    away[~(table["strength"].values >= _CLEAN)] = np.inf
    distance, index = np.full(len(counts), np.inf), np.zeros(len(counts), int)
    for seed, count in enumerate(counts):
        between = away[seed, 1 : count - 1]
        if np.isfinite(between).any():
            index[seed] = 1 + int(np.argmin(between))
            distance[seed] = between.min()
    return distance, index


def _through(singular_values: np.ndarray) -> np.ndarray:
    """What passes through all layers (the last axis but one), as a fraction of the first direction.

    Layer by layer the next direction can be seen long before the loss leaves its plateau: its size
    is the third root of what passes through three.
    """
    products = np.nan_to_num(singular_values).prod(axis=-2)
    with np.errstate(invalid="ignore"):  # plateaus that a seed does not have
        return products / products[..., :1]


def _apart(angles: np.ndarray, target: float) -> np.ndarray:
    """Degrees between directions."""
    return np.abs((angles - target + 180) % 360 - 180)


def _away(distances: np.ndarray) -> str:
    return ", ".join("none" if np.isinf(d) else f"{d:.2g}" for d in distances)
