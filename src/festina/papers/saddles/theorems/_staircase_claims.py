"""What is claimed of predicted staircases, read off a saved run."""

import json
from typing import Any

import numpy as np
import xarray as xr

from ..._old import compare
from ...claims import Claim

_NAME = "saddles/staircase"
_LEMMA = "Zhang, Saxe & Latham, Lemma 6"
_AGF = "Kunin et al. (2025), alternating gradient flows"
_SOURCES = {
    "power": _LEMMA,
    "mixed": _LEMMA,
    "diagonal": "Pesme & Flammarion (2023), Algorithm 1",
    "attention": _AGF,
}
_WORDS = {
    "power": "linear, power law",
    "mixed": "linear, modes that mix",
    "diagonal": "diagonal, correlated features",
    "attention": "attention, unequal tokens",
}
# Plateaus of fewer decades pass their saddle at a distance: their level is not that of the saddle.
_CLEAN = 2.0

_APART = 0.1  # jumps within this part of their time have no plateau in between
_LINEAR = ("power", "mixed")
_COMPUTED = 1e-4  # to which jumps are followed: they end when their gradient has fallen so far
# What jumps leave out: dormant weights below a hundredth, and features that are correlated, which
# matters several times as much where they are so strongly.
_PART_OF_AN_E_FOLDING = {"power": 1e-3, "mixed": 1e-3, "diagonal": 0.15}
_STRONGLY, _MORE = 0.5, 3
# From 1e-3 to 1e-12 errors fall to a quarter, in nine runs to .05 to .55; if they did not, to one.
_FAR, _JUMPS, _FALLEN = 0.3, 8, 0.45
_ENOUGH = 12  # seeds for two distributions to be told apart


def staircase_claims(run: xr.DataTree) -> list[Claim]:
    """Levels, times and active sets against training, in every setting."""
    tables = {name: run[name].to_dataset() for name in _SOURCES}
    strongly = json.loads(run.attrs["parameters"])["correlated"] > _STRONGLY
    found = []
    for name, table in tables.items():
        found += _levels(name, table)
        if name == "diagonal":
            found += _active(table)
        if "scale" in table.dims:
            found += _times(name, table)
            found += _falls(name, table, correlated=strongly and name == "diagonal")
    return [*found, *_attention(tables["attention"])]


def _shown(table: xr.Dataset) -> xr.Dataset:
    """The scale at which levels and times are judged: 1e-8, or the one nearest to it."""
    if "scale" not in table.dims:
        return table
    distance = np.abs(np.log(table["scale"].values) - np.log(1e-8))
    return table.isel(scale=int(distance.argmin()))


def _levels(name: str, table: xr.Dataset) -> list[Claim]:
    """Each clean plateau of training against the nearest predicted level, but for the last."""
    here = _shown(table)
    apart, passed = list[float](), 0
    for seed in range(here.sizes["seed"]):
        levels, rest, strength = (
            _known(here[key].isel(seed=seed)) for key in ("level", "rest", "strength")
        )
        for value, decades in zip(rest[:-1], strength[:-1], strict=True):
            if decades >= _CLEAN:
                apart.append(float(np.abs(levels / value - 1).min()))
            else:
                passed += 1
    if not apart:
        return []
    return [
        compare(
            experiment=_NAME,
            claim=f"{_WORDS[name]}: plateaus of training lie on predicted levels (largest "
            "deviation)",
            source=_SOURCES[name],
            predicted=0.0,
            measured=max(apart),
            tolerance=0.01,
            note=f"{len(apart)} plateaus on which the squared gradient dips by {_CLEAN:g} decades "
            f"or more; {passed} shallower ones left out, and the last of each network, which is "
            "the floor",
        )
    ]


def _active(table: xr.Dataset) -> list[Claim]:
    """Active coordinates on clean plateaus against those of the level."""
    here = _shown(table)
    right, total, passed = 0, 0, 0
    for seed in range(here.sizes["seed"]):
        row = here.isel(seed=seed)
        levels = _known(row["level"])
        for plateau, (rest, decades) in enumerate(
            zip(_known(row["rest"]), _known(row["strength"]), strict=True)
        ):
            if decades < _CLEAN:
                passed += 1
                continue
            stage = int(np.abs(levels - rest).argmin())
            total += 1
            right += bool((row["active"][stage] == row["seen"][plateau]).all())
    if not total:
        return []
    return [
        compare(
            experiment=_NAME,
            claim="diagonal, correlated features: plateaus with the predicted active coordinates",
            source=_SOURCES["diagonal"],
            predicted=total,
            measured=right,
            note=f"{passed} plateaus shallower than {_CLEAN:g} decades left out",
        )
    ]


def _times(name: str, table: xr.Dataset) -> list[Claim]:
    """Jumps at 1e-8; of linear networks, whose error is small, at every ε."""
    linear = name in _LINEAR
    here = table if linear else _shown(table)
    error, alone = _error(here), _alone(here)
    if not int(error.where(alone).count()):
        return []
    close = error.where(~alone)
    scales = ", ".join(f"{scale:.0e}" for scale in np.atleast_1d(here["scale"].values))
    note = (
        f"at ε = {scales}, {int(error.where(alone).count())} jumps; "
        f"{int(close.count())} left out that nearly coincide, with another within "
        f"{100 * _APART:g} % of their time"
    )
    if int(close.count()):
        note += f" (their largest error: {float(close.max()):.1g})"
    return [
        compare(
            experiment=_NAME,
            claim=f"{_WORDS[name]}: jump times from the initial weights"
            f"{' at every ε' if linear else ''} (largest relative error)",
            source=_SOURCES[name],
            predicted=0.0,
            measured=float(error.where(alone).max()),
            tolerance=max(float(here["scale"].max()), _COMPUTED) if linear else 0.05,
            note=note,
        )
    ]


def _falls(name: str, table: xr.Dataset, correlated: bool) -> list[Claim]:
    """Predictions get better as 1/ln(1/ε).

    A jump's time is ln(1/ε) e-foldings of the weights, and the error a part of one, of either sign,
    which no single jump need approach steadily.
    """
    error = _error(table).where(_alone(table))
    if not int(error.count()):
        return []
    jumps, scales = ("seed", "fall"), table["scale"].values
    size = np.sqrt((error**2).mean(jumps).values)
    sizes = ", ".join(
        f"{each:.1e} at {scale:.0e}" for each, scale in zip(size, scales, strict=True)
    )
    options: dict[str, Any] = {
        "experiment": _NAME,
        "source": _SOURCES[name],
        "note": f"{int(error.count())} jumps; root mean square {sizes}",
    }
    claims = [
        compare(
            claim=f"{_WORDS[name]}: a jump is missed by a small part of the time in which weights "
            "grow by e (root mean square of the relative error, times ln(1/ε), largest at any ε)",
            predicted=0.0,
            measured=float(np.nanmax(size * np.log(1 / scales))),
            tolerance=_PART_OF_AN_E_FOLDING[name] * (_MORE if correlated else 1),
            **options,
        )
    ]
    fall = float(np.log(scales[0]) / np.log(scales[-1]))
    if fall <= _FAR and error.count(jumps).min() >= _JUMPS:
        claims.append(
            compare(
                claim=f"{_WORDS[name]}: the error of a jump time falls with ε, as 1/ln(1/ε) (root "
                f"mean square at {scales[-1]:g} over that at {scales[0]:g})",
                predicted=fall,
                measured=float(size[-1] / size[0]),
                tolerance=_FALLEN,
                **options,
            )
        )
    return claims


def _error(table: xr.Dataset) -> xr.DataArray:
    return abs(table["jump"] / table["passage"] - 1)


def _alone(table: xr.Dataset) -> xr.DataArray:
    """Jumps with none within 10 % of their time: others have no plateau in between."""
    jumps = table["jump"]
    before, after = jumps.shift(fall=1), jumps.shift(fall=-1)
    return ~((jumps < (1 + _APART) * before) | (after < (1 + _APART) * jumps))


def _attention(table: xr.Dataset) -> list[Claim]:
    """The closed form of the levels, the first jump of each seed, and later ones over seeds."""
    closed = table["closed_form"].values
    # A plateau for each level but the last, where training may end before it rests.
    seen = np.array([_nearest(table["rest"].values, level) for level in closed[:-1]])
    return [
        compare(
            experiment=_NAME,
            claim="attention: plateaus of training at ½(tr Λ − Σ λ/(1 + (1 + tr Λ/λ)/N)), summed "
            "over the largest λ (median over seeds)",
            source=_AGF,
            predicted=closed[:-1],
            measured=seen,
            tolerance=0.01,
            relative=True,
        ),
        compare(
            experiment=_NAME,
            claim="attention: first jump of every seed from its initial weights (relative error)",
            source="Zhang, Saxe & Latham, Proposition 5",
            predicted=0.0,
            measured=float(_error(table).isel(fall=0).max()),
            tolerance=0.05,
            correction="units may bounce, and v is a vector",
            note=f"{table.sizes['seed']} seeds",
        ),
        *later_claims(table),
    ]


def later_claims(table: xr.Dataset) -> list[Claim]:
    """Jumps after the first, as distributions over seeds; infinity where there was none by then."""
    seeds, end = table.sizes["seed"], float(table["end"].max())
    jump = table["jump"].where(table["jump"] <= end, np.inf).values[:, 1:]
    passage = table["passage"].fillna(np.inf).values[:, 1:]
    half = np.isfinite(np.median(jump, axis=0)) & np.isfinite(np.median(passage, axis=0))
    jump, passage = jump[:, half], passage[:, half]
    if not half.any():  # one direction, or none reached by most
        return []
    error = _median_error(jump, passage)
    claims = [
        compare(
            experiment=_NAME,
            claim="attention: later jumps, median over seeds as predicted over that of training",
            source=_AGF,
            predicted=[1.0] * int(half.sum()),
            measured=np.median(jump, axis=0) / np.median(passage, axis=0),
            tolerance=round(0.05 + 2.0 * error, 3),
            note=f"{seeds} seeds; 5 % and twice the standard error of such a ratio, {error:.2g}",
        )
    ]
    if seeds < _ENOUGH:
        return claims
    distance = max(_kolmogorov(*pair) for pair in zip(jump.T, passage.T, strict=True))
    return [
        *claims,
        compare(
            experiment=_NAME,
            claim="attention: later jumps, largest distance of the distributions over seeds",
            source=_AGF,
            predicted=0.0,
            measured=distance,
            tolerance=round(1.36 * np.sqrt(2.0 / seeds), 3),
            note=f"Kolmogorov and Smirnov's, at 5 % for {seeds} seeds each",
        ),
    ]


def _median_error(jump: np.ndarray, passage: np.ndarray) -> float:
    """Standard error of the ratio of medians, the largest of the jumps, by drawing seeds anew."""
    draws = np.random.default_rng(0).integers(len(jump), size=(1000, len(jump)))
    with np.errstate(invalid="ignore"):  # draws in which most have not jumped
        ratios = np.median(jump[draws], axis=1) / np.median(passage[draws], axis=1)
    known = np.where(np.isfinite(ratios) & (ratios > 0), ratios, np.nan)
    return float(np.nanstd(known, axis=0).max())


def _nearest(rest: np.ndarray, level: float) -> float:
    """The plateau of each seed that is nearest to a level, median over seeds."""
    which = np.nanargmin(np.abs(rest - level), axis=1)
    return float(np.median(rest[np.arange(len(rest)), which]))


def _kolmogorov(a: np.ndarray, b: np.ndarray) -> float:
    """Largest difference of the two empirical distributions."""
    from scipy.stats import ks_2samp

    return float(ks_2samp(a, b, method="asymp").statistic)  # pyright: ignore[reportAttributeAccessIssue]


def _known(values: xr.DataArray) -> np.ndarray:
    """Without what pads rows to one length."""
    flat = values.values.ravel()
    return flat[~np.isnan(flat)]
