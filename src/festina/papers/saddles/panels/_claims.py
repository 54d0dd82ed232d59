"""Claims about the loss, how often and where it rests and when it falls, and about widths."""

from typing import Any

import numpy as np

from ....experiments.claims import ClaimCollector, join_numbers, max_error_below, most_seeds
from ....theory.saddles._kinds import EQUATION
from ._reading import Reading

_STAIRS = np.arange(3)
_USUAL = 0.1
_CLEAN = 0.6  # of seeds at least where units leave one by one: four of five are
_MANY = 10  # units: two of three may well be all that counts, whatever they are


def count(reading: Reading, claim: ClaimCollector, share: float = 1, **known: Any) -> None:
    """Three plateaus, in as many seeds as are expected to have them, or what is `known` instead."""
    lost = int(np.sum(~reading.trained))
    note = f"counts {join_numbers(reading.counts)}" + f"; {lost} seeds broke off" * bool(lost)
    words = "the loss shows three plateaus: initial, width one, final"
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
    r"""The plateau is at the level of a width-1 fixed point, the nearer the slower the loss falls.

    A saddle is passed with other units of a size w. Where φ is of order n, they take off the loss
    some $w^{n+1}$ and make it fall at a rate of order $w^{2n}$. Thus what separates the plateau
    from the fixed point goes as the rate to the power (n + 1)/2n, whatever the initial scale is. In
    units of the fall before it and of the rate there the factor is taken to be one.
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
        f"{start}the plateau is at the level of a fixed point of a width-1 network, as near as it "
        f"is slow: in units of the fall before it, less {power:g} decades for each by which the "
        "squared gradient dips",
        max_error_below(levels, point, over=(top - point) * 10 ** (-power * decades), within=1.0),
        at="Theorem 1",
        corrected=corrected,
        note=f"from {levels.min():.6g} to {levels.max():.6g}, at most {away.min(axis=1).max():.2g} "
        f"from {' or '.join(f'{level:.6g}' for level in np.unique(point))}; dips by "
        f"{decades.min():.2g} to {decades.max():.2g} decades",
    )


def falls(
    reading: Reading, claim: ClaimCollector, within: float, at: str, corrected: str = ""
) -> None:
    """Every fall that theory speaks about; a panel's `drop_step` is NaN where it is silent."""
    if "drop_step" not in reading.theory:
        return
    predicted, measured = reading.theory["drop_step"].values, reading.drops["step"].values
    with np.errstate(divide="ignore", invalid="ignore"):  # large weights are past a fall at once
        error = np.abs(measured / predicted - 1)
    error[np.isinf(predicted) & np.isnan(measured)] = 0.0  # it never comes, as it should be
    for fall in np.flatnonzero(np.isfinite(predicted).any(axis=0)):
        which = ("first", "second")[fall]
        steps = measured[np.isfinite(measured[:, fall]), fall]
        claim(
            f"{which}-drop",
            f"{which} drop predicted from the initial weights, relative error",
            max_error_below(error[~np.isnan(predicted[:, fall]), fall], within=within),
            at=at,
            corrected=corrected,
            note=f"steps {steps.mean():.4g} ± {steps.std():.2g}" if steps.size else "no drop",
        )


def widths(reading: Reading, claim: ClaimCollector, share: float = 1, corrected: str = "") -> None:
    """Widths 0, 1, 2 and the kind that the unit's algebra predicts, on clean plateaus.

    Two statements about widths: so few units can do what the network does (fitted), and its own
    units are so few once those of Theorem 1 are merged. The second is more.
    """
    if not reading.staircases:
        return
    clean, names = np.flatnonzero(reading.clean), reading.names
    left_out = f"no clean plateau from seeds {join_numbers(names[~reading.clean], 10)}"
    claim(
        "clean-plateaus",
        "all three plateaus are clean: their widths can be told",
        most_seeds(reading.clean, min(share, _CLEAN) if share < 1 else 1),
        note="" if reading.clean.all() else left_out,
    )
    if not clean.size:
        return
    table = reading.run["widths"].ds.isel(seed=clean, plateau=slice(3))
    # (seed, plateau, tolerance, kind); a kind without an answer is never the narrowest.
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
        "effective width 0, 1, 2 on the three plateaus, where they are clean: so few units, "
        f"fitted, compute the same (within {every})",
        most_seeds((fitted == _STAIRS[:, None]).all(axis=(1, 2))),
        at=at,
        note="; ".join((*remarks, f"with one unit less the error is {short:.2g} at least")),
    )
    # Of those that wait for each other some are still there at the end that others could replace.
    rows = slice(None) if share == 1 else slice(usual, usual + 1)
    claim(
        "own-units-merge",
        "the network's own units merge into 0, 1, 2 by Eqs. (4) to (7), within "
        + (every if share == 1 else f"{_USUAL:g}"),
        most_seeds((narrowest[..., rows] == _STAIRS[:, None]).all(axis=(1, 2)), share),
        at=at,
        note=_others(names[clean], narrowest[..., usual]),
    )
    expected: Any = table.attrs["expected_kind"]
    if not expected or reading.parameters.width < _MANY:
        return
    kinds: list[Any] = [str(kind) for kind in table["kind"].values]
    fits = own[:, :, usual] == narrowest[:, :, usual, None]
    # Kinds stand simplest first: the first that fits is the type. One direction is one line too,
    # so that on the plateau the type may be among several.
    index = kinds.index(expected)
    of_type = fits[:, 1, index] & (fits[:, 2].argmax(axis=-1) == index)
    ties = [f"({EQUATION[kind]})" for k, kind in enumerate(kinds) if fits[:, 1, k].all()]
    claim(
        "type",
        f"plateau and end are of type ({EQUATION[expected]}), as the algebra of φ predicts",
        most_seeds(of_type, share),
        at="Section 3",
        corrected=corrected,
        note=f"on the plateau {' and '.join(ties)} fit alike" if len(ties) > 1 else "",
    )


def _others(names: np.ndarray, widths: np.ndarray) -> str:
    """The widths that are not 0, 1, 2, and the seeds that have them."""
    return "; ".join(
        f"{join_numbers(found)} from seeds {join_numbers(names[(widths == found).all(axis=1)], 10)}"
        for found in np.unique(widths, axis=0)
        if not np.array_equal(found, _STAIRS)
    )
