"""Claims that several panels of Figure 2 share: levels, drop times, numbers of plateaus."""

from collections.abc import Mapping, Sequence
from typing import Any

import numpy as np
import xarray as xr

from .._claim import Claim, compare
from ._figure_2 import DIRECTIONS
from ._reading import PAPER

STAIRS = DIRECTIONS + 1
"""Plateaus of a full staircase, the initial and the final one included."""

_WORDS = {"linear": "linear network", "attention": "linear attention"}
_LEVELS = {
    "linear": (5e-3, f"{PAPER}, Lemma 6"),
    "attention": (0.02, f"{PAPER}, Theorem 1"),
}
_TIMES = {
    "linear": (
        0.01,
        "Theorem 4",
        "with the part of a mode orthogonal, over units, to earlier ones",
    ),
    "attention": (0.05, "Proposition 5", "with all entries of a head's key and value"),
}
_REFERENCE_SEEDS = 5


def level_claims(experiment: str, name: str, data: xr.Dataset, axis: str) -> list[Claim]:
    """Where the loss rests, of all seeds with a full staircase."""
    tolerance, source = _LEVELS[name]
    full = (data["count"] == STAIRS) & data["in_order"]
    kept = [value for value in data[axis].values if full.sel({axis: value}).mean() > 0.5]
    if not kept:
        return []
    visited = data["visited"].where(full).sel({axis: kept}).isel(rest=slice(STAIRS))
    seen, levels = visited.median("seed").values, data["level"].sel({axis: kept}).values
    worst = int(np.argmax(np.abs(seen - levels).max(axis=1) / levels[:, 0]))
    return [
        compare(
            experiment=experiment,
            claim=f"{_WORDS[name]}: the loss rests where none, one, two and three directions are "
            f"learned (medians at {axis} {kept[worst]:g}, the one that is furthest off)",
            source=source,
            predicted=levels[worst],
            measured=seen[worst],
            tolerance=tolerance * float(levels[worst, 0]),
        )
    ]


def time_claims(
    experiment: str,
    name: str,
    data: xr.Dataset,
    axis: str,
    values: Sequence[float | int] | np.ndarray,
) -> list[Claim]:
    """Drops predicted from the initial weights alone, seed by seed, in these settings."""
    if not len(values):
        return []
    tolerance, result, correction = _TIMES[name]
    part = data.sel({axis: list(values)})
    error = abs(part["drop_time"] / part["predicted_time"] - 1)
    linear = name == "linear"
    worst = error.max() if linear else error.isel({"drop": 0}).quantile(0.9)
    drops = "every drop" if linear else "the first drop"
    # Two heads that leave together drop the loss a little earlier than either would.
    words = "largest relative error" if linear else "90 % quantile of the relative error"
    return [
        compare(
            experiment=experiment,
            claim=f"{_WORDS[name]}: {drops} is predicted from the initial weights alone "
            f"({words} over seeds and settings)",
            source=f"{PAPER}, {result}",
            predicted=0.0,
            measured=float(worst),
            tolerance=tolerance,
            correction=correction,
        )
    ]


def count_claim(
    experiment: str,
    claim: str,
    source: str,
    counts: xr.DataArray,
    holds: xr.DataArray,
    share: float,
    **options: Any,
) -> Claim:
    """That at least a share of seeds shows something: a one-sided binomial test at one per cent."""
    from scipy.special import bdtr

    seen, total = int(holds.sum()), int(holds.size)
    likely = seen == total if share == 1 else bdtr(seen, total, share) >= 0.01
    shown = ", ".join(f"{count:g}" for count in np.unique(counts.values))
    return compare(
        experiment=experiment,
        claim=claim,
        source=source,
        predicted=f"in ≥ {share:g} of seeds",
        measured=f"in ≥ {share:g} of seeds" if likely else f"in {seen / total:g} of seeds",
        note=f"{seen} of {total} seeds; numbers of plateaus: {shown}",
        **options,
    )


def reference_claims(
    experiment: str,
    name: str,
    source: str,
    data: xr.Dataset,
    axis: str,
    table: Mapping[Any, Sequence[float | int]],
    tolerance: float,
) -> list[Claim]:
    """Mean drop times against those of plain gradient descent from five other draws."""
    if data.sizes["seed"] < _REFERENCE_SEEDS:
        return []
    values = [value for value in table if value in data[axis].values]
    if not values:
        return []
    expected = np.array([table[value] for value in values])
    drops = expected.shape[1]
    means = data["drop_time"].sel({axis: values}).mean("seed").values[:, :drops]
    worst = int(np.argmax(np.abs(means / expected - 1).max(axis=1)))
    return [
        compare(
            experiment=experiment,
            claim=f"{_WORDS[name]}: mean drop times t at {axis} {values[worst]:g} are those of "
            "plain gradient descent, which of all settings are furthest off",
            source=f"{source}; population averages, {_REFERENCE_SEEDS} seeds",
            predicted=expected[worst],
            measured=means[worst],
            tolerance=tolerance,
            relative=True,
        )
    ]


def stay(data: xr.Dataset, axis: str) -> xr.DataArray:
    """Median time between the first drop and the last: the intermediate plateaus together."""
    drops = data["drop_time"]
    between = drops.isel({"drop": -1}) - drops.isel({"drop": 0})
    return between.median("seed").sortby(axis)


def listed(values: xr.DataArray, axis: str) -> str:
    """Numbers with the settings that they belong to, in words."""
    return ", ".join(
        f"{number:.4g} at {axis} {place:g}"
        for number, place in zip(values.values, values[axis].values, strict=True)
    )
