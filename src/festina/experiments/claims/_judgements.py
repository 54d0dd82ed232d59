"""Judgements: functions that compare measurements with predictions and decide whether they hold.

All statistics of claims are here: one significance level, one binomial test, one rule for means.
A judgement of NaN, infinity or an empty selection does not hold.
"""

import math
from collections.abc import Callable, Sequence
from typing import Any

import numpy as np

from ._claim import Judgement

SIGNIFICANCE_LEVEL = 0.01
"""Probability that a test of random draws rejects a claim that is true."""


def agree(
    measured: Any, predicted: Any, *, within: float | int = 0.0, relative: bool = False
) -> Judgement:
    """Judge whether every entry is within the tolerance, or that fraction of the prediction."""
    wanted, seen = np.broadcast_arrays(np.asarray(predicted, float), np.asarray(measured, float))
    near = np.abs(seen - wanted) <= within * (np.abs(wanted) if relative else 1.0)
    near &= np.isfinite(seen) & np.isfinite(wanted)
    tolerance = f"{100 * within:g} %" if relative else within
    holds = near.size > 0 and bool(near.all())
    return Judgement(_listed(wanted), _listed(seen), tolerance, holds)


def max_error_below(
    measured: Any,
    predicted: Any = 0.0,
    *,
    within: float | int,
    over: Any = 1.0,
    relative: bool = False,
) -> Judgement:
    """Judge the largest difference, in units of `over` or of the prediction, against `within`."""
    scale = np.abs(predicted) if relative else np.asarray(over, float)
    off = np.abs(np.asarray(measured, float) - np.asarray(predicted, float)) / scale
    known = off.size and np.isfinite(scale).all()
    largest = float(off.max()) if known else math.nan
    words = f"largest {'relative ' * relative}difference of {off.size}"
    return Judgement(0.0, largest, within, bool(largest <= within), words * (off.size > 1))


def most_seeds(holds: Any, share: float | int = 1, *, of: str = "seeds") -> Judgement:
    """Judge whether at least this share of draws is true, by a one-sided binomial test.

    A share of one requires all of them, any other share at least one.
    """
    holds = np.asarray(holds, bool).ravel()
    seen, total = int(holds.sum()), holds.size
    if share == 1:
        likely, wanted, test = seen == total, f"all {of}", "all"
    else:
        likely = _binomial().cdf(seen, total, share) >= SIGNIFICANCE_LEVEL
        wanted, test = f"≥ {share:g} of {of}", f"{100 * SIGNIFICANCE_LEVEL:g} % test"
    measured = seen / total if total else math.nan
    return Judgement(wanted, measured, test, bool(likely and seen), f"{seen} of {total} {of}")


def frequency_agrees(holds: Any, expected: float | int, *, of: str = "seeds") -> Judgement:
    """Judge whether draws are true with a known probability, by a two-sided binomial test."""
    holds = np.asarray(holds, bool).ravel()
    seen, total = int(holds.sum()), holds.size
    low, high = (
        _binomial().interval(1 - SIGNIFICANCE_LEVEL, total, expected)
        if total
        else (math.nan, math.nan)
    )
    measured = seen / total if total else math.nan
    test = f"{100 * SIGNIFICANCE_LEVEL:g} % test"
    return Judgement(expected, measured, test, bool(low <= seen <= high), f"{seen} of {total} {of}")


def mean_agrees(
    values: Any, expected: Any, spread: Any, *, there: float | int = math.inf
) -> Judgement:
    """Judge whether means over the first axis are as expected; report the one furthest off.

    `spread` is the standard deviation of a draw, `there` the number of draws behind `expected`.
    """
    from scipy.stats import norm

    values = np.asarray(values, float)
    if not values.size:
        return Judgement(expected, math.nan, "", False, "no draws")
    means, expected = np.broadcast_arrays(values.mean(axis=0), np.asarray(expected, float))
    error = np.broadcast_to(np.asarray(spread, float), means.shape)
    error = error * math.sqrt(1 / len(values) + 1 / there)
    sigmas = -norm.ppf(SIGNIFICANCE_LEVEL / 2 / means.size)  # for the furthest of so many
    off = np.abs(means - expected) / error
    worst = np.unravel_index(np.argmax(off), off.shape)
    return Judgement(
        float(expected[worst]),
        float(means[worst]),
        float(f"{sigmas * error[worst]:.2g}"),
        bool(off[worst] <= sigmas),
        f"over {len(values)} draws" + f", furthest off of {off.size} means" * (off.size > 1),
    )


def follows_power_law(x: Any, y: Any, expected: Any, *, within: float | int) -> Judgement:
    """Judge whether y goes as this power of x: the slope of ln y over ln x along the first axis."""
    x, y = np.asarray(x, float), np.asarray(y, float)
    if len(x) < 2 or not (np.isfinite(y) & (y > 0)).all():
        return agree(math.nan, expected, within=within)
    slope = np.polyfit(np.log(x), np.log(y.reshape(len(x), -1)), 1)[0].reshape(y.shape[1:])
    return agree(slope, expected, within=within)


def all_above(measured: Any, bound: float | int) -> Judgement:
    """Judge whether the smallest entry is larger than the bound."""
    least, words = _extreme(measured, np.min, "smallest")
    return Judgement(f"> {bound:g}", least, "above", least > bound, words)


def all_below(measured: Any, bound: float | int) -> Judgement:
    """Judge whether the largest entry is smaller than the bound."""
    largest, words = _extreme(measured, np.max, "largest")
    return Judgement(f"< {bound:g}", largest, "below", largest < bound, words)


def decreasing(values: Any) -> Judgement:
    """Judge whether each value is below the one before it."""
    return _in_order(values, -1.0, "falls")


def increasing(values: Any) -> Judgement:
    """Judge whether each value is above the one before it."""
    return _in_order(values, 1.0, "rises")


def equal_to(measured: Any, predicted: Any) -> Judgement:
    """Judge whether words or whole numbers are equal."""
    return Judgement(predicted, measured, "exact", bool(measured == predicted))


def join_numbers(values: Any, digits: int = 4) -> str:
    """Return numbers as text, separated by commas, each with its coordinate if it has one."""
    dims = getattr(values, "dims", ())
    if len(dims) == 1 and dims[0] in values.coords:
        places = [p if isinstance(p, str) else f"{p:g}" for p in values[dims[0]].values]
        pairs = zip(values.values, places, strict=True)
        return ", ".join(f"{value:.{digits}g} at {dims[0]} {place}" for value, place in pairs)
    return ", ".join(f"{value:.{digits}g}" for value in np.ravel(values))


def _extreme(measured: Any, pick: Callable[[np.ndarray], Any], which: str) -> tuple[float, str]:
    values = np.asarray(measured, float)
    found = float(pick(values)) if values.size and np.isfinite(values).all() else math.nan
    return found, f"{which} of {values.size}" * (values.size > 1)


def _in_order(values: Any, sign: float, words: str) -> Judgement:
    signed = sign * np.ravel(np.asarray(values, float))
    if signed.size < 2 or not np.isfinite(signed).all():
        return Judgement(words, math.nan, "in order", False, join_numbers(values))
    seen = words if bool((signed[1:] > signed[:-1]).all()) else "does not"
    return Judgement(words, seen, "in order", seen == words, join_numbers(values))


def _listed(values: np.ndarray) -> float | Sequence[float]:
    return values.item() if values.ndim == 0 else values.ravel().tolist()


def _binomial() -> Any:
    from scipy.stats import binom  # takes longer to import than all else a claim needs

    return binom
