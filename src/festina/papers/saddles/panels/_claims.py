"""Claims about plateaus, drops and effective widths."""

from typing import Any

import numpy as np

from ....experiments.claims import ClaimCollector, join_numbers, max_error_below, most_seeds
from ....theory.saddles._kinds import EQUATION
from ._reading import Reading

_STAIRS = np.arange(3)
_USUAL = 0.1
_CLEAN = 0.6  # least share of seeds with clean plateaus, if units grow one by one (four of five do)
_MANY = 10  # units; in a smaller network, two active units of any type are too common


def count(reading: Reading, claim: ClaimCollector, share: float = 1, **known: Any) -> None:
    """Check that a share of seeds has three plateaus; `known` describes a known error."""
    lost = int(np.sum(~reading.trained))
    note = f"number of plateaus by seed: {join_numbers(reading.counts)}"
    note += f"; training of {lost} seeds stopped early" * bool(lost)
    words = "the loss has three plateaus: initial, width one, final"
    three = most_seeds((reading.counts == 3) & reading.trained, share)
    claim("three-plateaus", words, three, note=note, **known)


def level(
    reading: Reading,
    claim: ClaimCollector,
    *,
    order: int = 1,
    corrected: str = "",
    id: str = "plateau-level",
    start: str = "",
) -> None:
    r"""Claim that the plateau is at the level of a width-1 fixed point.

    When a network passes a saddle, its dormant units have some size $w$. For φ of order $n$ dormant
    units lower the loss by a term of order $w^{n+1}$ at a rate of order $w^{2n}$. The distance of
    the plateau from the fixed point is therefore proportional to the rate to the power
    $(n + 1)/2n$, for any initial scale. The factor is taken to be one, in units of the preceding
    drop of the loss and of the rate during that drop.
    """
    if not (seeds := reading.resting):
        return
    top, rest, _ = reading.theory["level"].values
    points = np.asarray(reading.theory.get("fixed_point", [rest]))
    levels, decades = reading.plateaus["level"].values[seeds, 1], reading.strengths[seeds]
    away = np.abs(levels[:, None] - points)
    point, power = points[away.argmin(axis=1)], (order + 1) / (2 * order)
    claim(
        id,
        f"{start}the plateau loss differs from the loss of a fixed point of a width-1 network by "
        f"less than 10^(−{power:.3g}·d) of the first drop, where the squared gradient on the "
        "plateau is 10^d times smaller than at the drops (difference over this bound)",
        max_error_below(levels, point, over=(top - point) * 10 ** (-power * decades), within=1.0),
        at="Theorem 1",
        corrected=corrected,
        note=f"plateau losses {levels.min():.6g} to {levels.max():.6g}, at most "
        f"{away.min(axis=1).max():.2g} from "
        f"{' or '.join(f'{level:.6g}' for level in np.unique(point))}; dips of "
        f"{decades.min():.2g} to {decades.max():.2g} decades",
    )


SQUARED_AMPLITUDE = (
    "a mode's initial weights form a vector over units; only its component orthogonal to the "
    "vectors of the modes learned earlier counts"
)
"""Correction to the initial amplitude of a mode in Theorem 4 and Eq. (35)."""


def falls(
    reading: Reading, claim: ClaimCollector, within: float, at: str, corrected: str = ""
) -> None:
    """Check the predicted drops; a NaN in a panel's `drop_step` means no prediction."""
    if "drop_step" not in reading.theory:
        return
    predicted, measured = reading.theory["drop_step"].values, reading.drops["step"].values
    with np.errstate(divide="ignore", invalid="ignore"):  # large weights have no first plateau
        error = np.abs(measured / predicted - 1)
    error[np.isinf(predicted) & np.isnan(measured)] = 0.0  # correctly predicted never to drop
    for fall in np.flatnonzero(np.isfinite(predicted).any(axis=0)):
        which = ("first", "second")[fall]
        steps = measured[np.isfinite(measured[:, fall]), fall]
        claim(
            f"{which}-drop",
            f"the initial weights predict the time of the {which} drop (relative error)",
            max_error_below(error[~np.isnan(predicted[:, fall]), fall], within=within),
            at=at,
            corrected=corrected,
            note=f"drop at step {steps.mean():.4g} ± {steps.std():.2g}"
            if steps.size
            else "no drop",
        )


def widths(reading: Reading, claim: ClaimCollector, share: float = 1, corrected: str = "") -> None:
    """Check widths 0, 1, 2 and the predicted type of relation on clean plateaus.

    Two claims concern the three plateaus. First, fitted networks with 0, 1 and 2 units compute the
    same function. Second, the relations of Theorem 1 merge the network's own units into 0, 1 and 2
    units. The claim about the network's own units is stronger.
    """
    if not reading.staircases:
        return
    clean, names = np.flatnonzero(reading.clean), reading.names
    left_out = f"no clean plateau from seeds {join_numbers(names[~reading.clean], 10)}"
    claim(
        "clean-plateaus",
        "all three plateaus are clean, so that their effective widths are well defined",
        most_seeds(reading.clean, min(share, _CLEAN) if share < 1 else 1),
        note="" if reading.clean.all() else left_out,
    )
    if not clean.size:
        return
    table = reading.run["widths"].ds.isel(seed=clean, plateau=slice(3))
    # Axes: (seed, plateau, tolerance, kind). A kind without a width is never the narrowest.
    own = table["width"].fillna(np.inf).values
    narrowest, fitted = own.min(axis=-1), table["fitted"].values
    within = table["within"].values
    usual = int(np.argmin(np.abs(within - _USUAL)))
    every = f"every tolerance from {within[0]:g} to {within[-1]:g}"
    short = np.nanmin(table["short"].values[:, 1:, usual], initial=np.inf)
    others = [_others(names[clean], fitted[..., row]) for row in range(len(within))]
    remarks = [f"within {within[row]:g}: {each}" for row, each in enumerate(others) if each]
    at = "Theorems 1 and 3"
    claim(
        "effective-widths",
        "the effective widths on the three clean plateaus are 0, 1 and 2: fitted networks of these "
        f"widths compute the same function (for {every})",
        most_seeds((fitted == _STAIRS[:, None]).all(axis=(1, 2))),
        at=at,
        note="; ".join((*remarks, f"the error with one unit less is at least {short:.2g}")),
    )
    # If units compete, units may remain at the end that could be replaced by the other units.
    rows = slice(None) if share == 1 else slice(usual, usual + 1)
    claim(
        "own-units-merge",
        "on the three plateaus the network's units merge into 0, 1 and 2 units by the relations "
        "(4) to (7) of Theorem 1, for " + (every if share == 1 else f"tolerance {_USUAL:g}"),
        most_seeds((narrowest[..., rows] == _STAIRS[:, None]).all(axis=(1, 2)), share),
        at=at,
        note=_others(names[clean], narrowest[..., usual]),
    )
    expected: Any = table.attrs["expected_kind"]
    if not expected or reading.parameters.width < _MANY:
        return
    kinds: list[Any] = [str(kind) for kind in table["kind"].values]
    fits = own[:, :, usual] == narrowest[:, :, usual, None]
    # Kinds are ordered from simple to general; the first kind that fits is the type. One direction
    # fits several kinds, so the type on the plateau may be ambiguous.
    index = kinds.index(expected)
    of_type = fits[:, 1, index] & (fits[:, 2].argmax(axis=-1) == index)
    ties = [f"({EQUATION[kind]})" for k, kind in enumerate(kinds) if fits[:, 1, k].all()]
    claim(
        "type",
        f"the units on the plateau and at the end are related by Eq. ({EQUATION[expected]}), as "
        "predicted from the activation φ",
        most_seeds(of_type, share),
        at="Section 3",
        corrected=corrected,
        note=f"on the plateau Eqs. {' and '.join(ties)} fit equally well" if len(ties) > 1 else "",
    )


def _others(names: np.ndarray, widths: np.ndarray) -> str:
    """Return text that names the widths other than 0, 1, 2 and the seeds that have them."""
    return "; ".join(
        f"{join_numbers(found)} from seeds {join_numbers(names[(widths == found).all(axis=1)], 10)}"
        for found in np.unique(widths, axis=0)
        if not np.array_equal(found, _STAIRS)
    )
