"""Claims that several panels of Figure 2 share: levels, drop times, numbers of plateaus."""

import math
from collections.abc import Mapping, Sequence
from typing import Any

import numpy as np
import xarray as xr
from jaxtyping import Float

from ..._old import compare
from ...claims import Claim
from .._comparison import standard_error, two_digits
from ..panels._reading import PAPER
from ._models import DIRECTIONS

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
REFERENCE_SEEDS = 5
"""Draws of the descent that runs are compared with; runs of fewer are not."""

_RATES = {"linear": 0.01, "attention": 0.02}
"""Learning rates η of that descent, on ⟨‖y − f‖²⟩."""

_TELLING = 0.35
"""Largest fraction of itself that a mean which is compared may be off by chance."""

_WAIT = 0.65
"""Standard deviation over draws of a time between attention's drops, in units of its mean."""


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
    spread: Mapping[Any, Sequence[float | int] | np.ndarray],
) -> list[Claim]:
    """Mean drop times against those of plain gradient descent from five other draws.

    How far two means lie apart by chance follows from `spread`, the standard deviation over draws
    of each setting and drop. Those that chance may move further than `_TELLING` are left out.
    """
    values = [value for value in table if value in data[axis].values]
    if not values or data.sizes["seed"] < REFERENCE_SEEDS:
        return []
    part = data.sel({axis: values})
    printed = np.array([table[value] for value in values], dtype=float)
    descent = _as_flow(name, part["singular_value"].values, printed)
    drops = descent.shape[1]
    mean = part["drop_time"].mean("seed").transpose(axis, "drop").values[:, :drops]
    error = _standard_error(data) * np.array([spread[value][:drops] for value in values])
    allowed = sigmas(descent.size) * error + 2 * _RATES[name]  # it is known to a step
    telling = allowed <= _TELLING * descent
    if not telling.any():
        return []
    off = np.where(telling, np.abs(mean - descent) / allowed, -1.0)
    setting, drop = np.unravel_index(np.argmax(off), off.shape)
    return [
        compare(
            experiment=experiment,
            claim=f"{_WORDS[name]}: mean drop times t are those of plain gradient descent; "
            f"furthest off is drop {drop + 1} at {axis} {values[setting]:g}",
            source=f"{source}; population averages, {REFERENCE_SEEDS} seeds",
            predicted=float(descent[setting, drop]),
            measured=float(mean[setting, drop]),
            tolerance=two_digits(allowed[setting, drop]),
            note=f"tolerance of {descent.size} means together, from the standard deviation over "
            f"draws; compared are those that chance moves by {100 * _TELLING:g} % at most: "
            f"{telling.sum()}",
        )
    ]


def duration_claims(
    experiment: str,
    name: str,
    source: str,
    data: xr.Dataset,
    axis: str,
    table: Mapping[Any, Sequence[float | int]],
) -> list[Claim]:
    """The same for the times between drops, in units of descent's and averaged over settings.

    One plateau alone says little about attention, where they vary by more than half.
    """
    values = [value for value in table if value in data[axis].values]
    if not values or data.sizes["seed"] < REFERENCE_SEEDS:
        return []
    descent = np.diff([table[value] for value in values], axis=1)
    between = data["drop_time"].sel({axis: values}).diff("drop").mean("seed")
    between = between.transpose(axis, "drop").values
    allowed = sigmas(1) * _standard_error(data) * _WAIT / math.sqrt(descent.size)
    if allowed > _TELLING:
        return []
    shown = "; ".join(
        f"{value:g}: " + ", ".join(f"{time:.4g}" for time in times)
        for value, times in zip(values, between, strict=True)
    )
    return [
        compare(
            experiment=experiment,
            claim=f"{_WORDS[name]}: mean times between drops, in units of plain gradient descent's "
            f"and averaged over drops and {axis}",
            source=f"{source}; population averages, {REFERENCE_SEEDS} seeds",
            predicted=1.0,
            measured=float((between / descent).mean()),
            tolerance=two_digits(allowed),
            note=f"tolerance from the standard deviation over draws; by {axis} {shown}",
        )
    ]


def mode_spread(width: int, s: Float[np.ndarray, " mode"]) -> Float[np.ndarray, " mode"]:
    """Standard deviation over draws of the times at which a linear network's modes drop.

    Twice s times such a time is −ln a₀ up to a constant, and a₀ of mode k is χ² of ν = H − k + 1
    degrees of freedom, whose logarithm has variance ψ′(ν/2). Where drops overlap it is less.
    """
    from scipy.special import polygamma

    freedom = width - np.arange(len(s))
    return np.sqrt(polygamma(1, freedom / 2)) / (2 * s)


def _as_flow(name: str, s: np.ndarray, times: np.ndarray) -> np.ndarray:
    """Times of descent, as flow would have them: a mode of rate s grows by 1 + 2ηs in a step."""
    if name != "linear":  # heads wait at rates far below 1/η
        return times
    growth = 2 * _RATES[name] * s[:, : times.shape[1]]
    return times * np.log1p(growth) / growth


def _standard_error(data: xr.Dataset) -> float:
    """Of a mean over the run's seeds less one over the reference's, per standard deviation."""
    return standard_error(1.0, data.sizes["seed"], REFERENCE_SEEDS)


def sigmas(means: int) -> float:
    """How many standard errors off the furthest of several means may be, at one per cent."""
    from scipy.special import ndtri

    return float(-ndtri(0.005 / means))


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
