"""Claims about the effective width on each plateau, and about the kind of its saddle."""

from typing import Any

import numpy as np

from ....theory.saddles._kinds import EQUATION
from ...claims import Claim
from ._reading import PAPER, Reading

_STAIRS = np.arange(3)
_USUAL = 0.1
_CLEAN = 0.6  # of seeds at least where units leave one by one: four of five are
_MANY = 10  # units: two of three may well be all that counts, whatever they are


def width_claims(reading: Reading) -> list[Claim]:
    """Widths 0, 1, 2 and the kind that the unit's algebra predicts, on clean plateaus.

    Two statements about widths: so few units can do what the network does (fitted), and its own
    units are so few once those of Theorem 1 are merged. The second is more.
    """
    table, share = reading.widths, reading.panel.count_fraction
    if not reading.staircases:
        return []
    seeds = np.flatnonzero(reading.clean)
    names = reading.simulation["seed"].values
    left_out = f"no clean plateau from seeds {_listed(names[~reading.clean])}"
    whole = reading.at_least(
        "all three plateaus are clean: their widths can be told",
        min(share, _CLEAN) if share < 1 else 1.0,
        reading.clean,
        note="" if reading.clean.all() else left_out,
        fragile=True,
    )
    if not seeds.size:
        return [whole]
    # (seed, plateau, tolerance, kind); a kind without an answer is never the narrowest.
    widths = np.nan_to_num(table["width"].values[seeds, :3], nan=np.inf)
    narrowest = widths.min(axis=-1)
    fitted = table["fitted"].values[seeds, :3]
    usual = int(np.argmin(np.abs(table["within"].values - _USUAL)))
    low, high = table["within"].values[[0, -1]]
    as_stairs = fitted == _STAIRS[:, None]
    short = np.nanmin(table["short"].values[seeds, 1:3, usual], initial=np.inf)
    remarks = (
        *(
            f"within {tolerance:g}: {others}"
            for row, tolerance in enumerate(table["within"].values)
            if (others := _others(names[seeds], fitted[..., row]))
        ),
        f"with one unit less the error is {short:.2g} at least",
    )
    source = f"{PAPER}, Theorems 1 and 3"
    claims = [
        whole,
        reading.at_least(
            "effective width 0, 1, 2 on the three plateaus, where they are clean: so few units, "
            f"fitted, compute the same (within every tolerance from {low:g} to {high:g})",
            1.0,
            as_stairs.all(axis=(1, 2)),
            source=source,
            note="; ".join(filter(None, remarks)),
            fragile=True,
        ),
    ]
    # Of those that wait for each other some are still there at the end that others could replace.
    rows = slice(None) if share == 1 else slice(usual, usual + 1)
    within = f"every tolerance from {low:g} to {high:g}" if share == 1 else f"{_USUAL:g}"
    claims.append(
        reading.at_least(
            f"the network's own units merge into 0, 1, 2 by Eqs. (4) to (7), within {within}",
            share,
            (narrowest[..., rows] == _STAIRS[:, None]).all(axis=(1, 2)),
            source=source,
            note=_others(names[seeds], narrowest[..., usual]),
            fragile=True,
        )
    )
    expected: Any = table.attrs["expected_kind"]
    if not expected or reading.parameters.width < _MANY:
        return claims
    kinds: list[Any] = [str(kind) for kind in table["kind"].values]
    index = kinds.index(expected)
    fits = widths[:, :, usual] == narrowest[:, :, usual, None]
    # Kinds stand simplest first: the first that fits is the type. One direction is one line too,
    # so that on the plateau the type may be among several.
    of_type = fits[:, 1, index] & (fits[:, 2].argmax(axis=-1) == index)
    ties = [f"({EQUATION[kind]})" for k, kind in enumerate(kinds) if fits[:, 1, k].all()]
    claims.append(
        reading.at_least(
            f"both saddles are of type ({EQUATION[expected]}), as the algebra of φ predicts",
            share,
            of_type,
            source=f"{PAPER}, Section 3",
            correction=(
                "the text has Eq. (5) for panels (E,F), it should read (F,G)"
                if reading.panel.number == "1G"
                else ""
            ),
            note=f"on the plateau {' and '.join(ties)} fit alike" if len(ties) > 1 else "",
            fragile=True,
        )
    )
    return claims


def _others(names: np.ndarray, widths: np.ndarray) -> str:
    """The widths that are not 0, 1, 2, and the seeds that have them."""
    return "; ".join(
        f"{_listed(found)} from seeds {_listed(names[(widths == found).all(axis=1)])}"
        for found in np.unique(widths, axis=0)
        if not np.array_equal(found, _STAIRS)
    )


def _listed(numbers: np.ndarray) -> str:
    return ", ".join(f"{number:g}" for number in numbers)
