"""Claims that the panels of Figure 5 make: where the loss rests, and how wide the layers are."""

import dataclasses
from typing import TYPE_CHECKING, Any

import numpy as np
import xarray as xr

from ...diagnose import rays
from .._claim import Claim
from ._plateau_claims import count_claim
from ._reading import END, PAPER, Reading
from ._structure_claims import active_units

if TYPE_CHECKING:
    from ._figure_5 import DeepPanel

_CLEAN = 1.0  # decades by which the loss falls more slowly than at the drops beside it
_VISIBLE = 0.1  # of what the first direction passes on; the tolerance of effective widths, too


def common_claims(reading: Reading, deep: "DeepPanel") -> list[Claim]:
    """Three plateaus; where the loss starts, rests and ends; and a cleaner run if there is one."""
    initial, _, lowest = (float(level) for level in reading.theory["level"])
    loss = reading.simulation["loss"].values
    # Where only some seeds rest at all, how many plateaus the others have means nothing.
    counted = [] if deep.sometimes else [count_claim(reading)]
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
    """That the loss rests at the minimum of a narrow network: in most seeds, or only in some."""
    minimum = float(reading.theory["level"][1])
    distance, _ = nearest(reading.plateaus, minimum)
    within = reading.panel.level_tolerance
    words = (
        f"the loss rests within {within:g} of the minimum of the same network with "
        f"{deep.narrow_words}"
    )
    options = {
        "source": f"{reading.source}; Theorem 1 and Corollary 2",
        "fragile": True,
        "correction": deep.correction(reading.parameters),
        "note": f"minimum {minimum:.6g}; nearest rest of each seed {_away(distance)} away",
    }
    if deep.sometimes:
        return some(reading, f"in some seeds {words}", distance <= within, **options)
    return reading.at_least(words, reading.panel.level_fraction, distance <= within, **options)


def some(reading: Reading, claim: str, holds: np.ndarray, **options: Any) -> Claim:
    """A claim that there are seeds which show something, as the one in the paper's figure does."""
    seen = int(np.sum(holds))
    options["note"] = "; ".join(
        filter(None, (f"{seen} of {len(holds)} seeds", options.get("note", "")))
    )
    return dataclasses.replace(
        reading.compare(claim, 1, int(seen > 0), **options),
        predicted="≥ 1 seed",
        measured=seen,
        tolerance="some",
    )


def _cleaner_claims(reading: Reading, deep: "DeepPanel") -> list[Claim]:
    """From smaller initial weights nearly all seeds rest there, and most of them much closer."""
    table = reading.run["cleaner"].to_dataset()
    minimum = float(reading.theory["level"][1])
    distance, index = nearest(table, minimum)
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
    seeds = np.flatnonzero(np.isfinite(distance))
    return [
        reading.at_least(
            f"from initial weights of {float(table.attrs['scale']):g} it rests within "
            f"{within:g} of that minimum in nearly all seeds",
            0.9,
            distance <= within,
            note=f"{_away(distance)} away",
            **options,
        ),
        reading.compare(
            "level of that rest, in the median over seeds",
            minimum,
            float(np.median(table["level"].values[seeds, index[seeds]])) if len(seeds) else np.nan,
            tolerance=deep.cleaner_median,
            **options,
        ),
    ]


def width_claims(reading: Reading) -> list[Claim]:
    """Linear φ: one direction passes through all layers on the plateau, two at the end (Eq. 7)."""
    through = _through(reading.run["layers"].to_dataset()["singular_value"].values)
    passing = np.sum(through > _VISIBLE, axis=-1)
    resting, index = _resting(reading)
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
                "on the plateau one ray carries more of the first layer than all others together",
                0.9,
                shares > 0.5,
                source=source,
                note=f"shares {', '.join(f'{share:.3f}' for share in shares)}",
            ),
            reading.at_least(
                "that ray is one of the data's, within 3 degrees",
                0.9,
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
            0.9,
            np.max(near, axis=1) <= 6.0,
            source=source,
            note=f"{', '.join(str(len(each)) for each in ends)} rays by seed",
        )
    )
    return claims


def unit_claims(reading: Reading) -> list[Claim]:
    """φ of order two: one active unit on the plateau, two at the end (Eq. 5).

    From the paper's initial weights of Figure 5F only in some seeds; the cleaner run has the rest.
    """
    source = f"{PAPER}, Figure 5, text; Eq. (5)"
    resting, index = _resting(reading)
    claims = []
    if len(resting):
        saves = reading.plateaus["save"].values[resting, index].astype(int)
        on_plateau = np.array(
            [
                active_units(*reading.weights_at(seed, save))
                for seed, save in zip(resting.tolist(), saves.tolist(), strict=True)
            ]
        )
        claims.append(
            reading.at_least(
                "where the loss rests one unit is active and the others stay near zero",
                0.9,
                on_plateau == 1,
                source=source,
                note=f"active units {', '.join(map(str, on_plateau))}",
            )
        )
    at_end = [active_units(*reading.weights(seed, END)) for seed in range(reading.seeds)]
    claims.append(
        some(
            reading,
            "in some seeds two units are active at the end",
            np.array(at_end) == 2,
            source=source,
            note=f"active units {', '.join(map(str, at_end))}",
        )
    )
    if "cleaner" in reading.run:
        table = reading.run["cleaner"].to_dataset()
        active = [
            active_units(table["u"].isel(seed=seed), table["v"].isel(seed=seed))
            for seed in range(reading.seeds)
        ]
        claims.append(
            reading.at_least(
                f"from initial weights of {float(table.attrs['scale']):g} two units are active at "
                "the end",
                0.9,
                np.array(active) == 2,
                source=source,
                correction=f"ε = {reading.parameters.scale:g} is large for a clean plateau",
                note=f"active units {', '.join(map(str, active))}",
            )
        )
    return claims


def _resting(reading: Reading) -> tuple[np.ndarray, np.ndarray]:
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

    Layer by layer the next direction can be seen long before the loss leaves its plateau: of the
    third root of what passes through three.
    """
    products = np.nan_to_num(singular_values).prod(axis=-2)
    with np.errstate(invalid="ignore"):  # plateaus that a seed does not have
        return products / products[..., :1]


def _apart(angles: np.ndarray, target: float) -> np.ndarray:
    """Degrees between directions."""
    return np.abs((angles - target + 180) % 360 - 180)


def _away(distances: np.ndarray) -> str:
    return ", ".join("none" if np.isinf(d) else f"{d:.2g}" for d in distances)
