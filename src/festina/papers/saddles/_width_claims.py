"""Claims about the effective width on each plateau, and about the kind of its saddle."""

from typing import Any

import numpy as np

from ...theory.saddles._kinds import EQUATION
from .._claim import Claim
from ._reading import PAPER, Reading

_STAIRS = np.arange(3)
_USUAL = 0.1
_MANY = 10  # units: two of three may well be all that counts, whatever they are


def width_claims(reading: Reading) -> list[Claim]:
    """Widths 0, 1, 2 and the kind that the unit's algebra predicts, on clean plateaus."""
    table = reading.widths
    whole = table["clean"].values[:, :3].all(axis=1) & (reading.counts == 3)
    seeds = np.flatnonzero(whole)
    if not seeds.size:
        return []
    unclear = reading.simulation["seed"].values[~whole]
    note = f"no clean plateau from seeds {', '.join(map(str, unclear))}" if unclear.size else ""
    # (seed, plateau, tolerance, kind); a kind without an answer is never the narrowest.
    widths = np.nan_to_num(table["width"].values[seeds, :3], nan=np.inf)
    narrowest = widths.min(axis=-1)
    stairs = narrowest == _STAIRS[:, None]
    usual = int(np.argmin(np.abs(table["within"].values - _USUAL)))
    low, high = table["within"].values[[0, -1]]
    share = reading.panel.count_fraction
    claims = [
        reading.at_least(
            f"effective width 0, 1, 2 on the three plateaus (function space, within {_USUAL:g})",
            share,
            stairs[..., usual].all(axis=1),
            source=f"{PAPER}, Theorems 1 and 3",
            note=note,
            fragile=True,
        ),
        reading.at_least(
            f"the same for every tolerance from {low:g} to {high:g}",
            share,
            stairs.all(axis=(1, 2)),
            source=f"{PAPER}, Theorems 1 and 3",
            fragile=True,
        ),
    ]
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
                if reading.panel.letter == "G"
                else ""
            ),
            note=f"on the plateau {' and '.join(ties)} fit alike" if len(ties) > 1 else "",
            fragile=True,
        )
    )
    return claims
