"""Judgements: functions that compare measurements with predictions and decide whether they agree.

All statistical tests of claims are defined here and share one significance level. A judgement of
NaN, of infinity or of no values does not hold.
"""

import math
from collections.abc import Callable, Sequence
from typing import Any

import numpy as np

from ._claim import Judgement

SIGNIFICANCE_LEVEL = 0.01
"""Probability that a statistical test of a true claim fails by chance.

**Example:**

>>> from festina.experiments.claims import SIGNIFICANCE_LEVEL
>>> SIGNIFICANCE_LEVEL
0.01
"""


def agree(
    measured: Any, predicted: Any, *, within: float | int = 0.0, relative: bool = False
) -> Judgement:
    """Judge whether every measured value agrees with its prediction within a tolerance.

    **Arguments:**

    - `measured`, `predicted`: numbers or arrays, broadcast against each other.
    - `within`: largest allowed difference.
    - `relative`: if True, `within` is a fraction of the prediction.

    **Returns:**

    A `Judgement` that lists all values.

    **Example:**

    >>> from festina.experiments.claims import agree
    >>> judgement = agree([1.02, 1.97], [1.0, 2.0], within=0.03, relative=True)
    >>> judgement.holds, judgement.tolerance
    (True, '3 %')
    """
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
    """Judge whether the largest difference between measurements and predictions is small enough.

    **Arguments:**

    - `measured`, `predicted`: numbers or arrays, broadcast against each other.
    - `within`: largest allowed difference.
    - `over`: unit of the differences.
    - `relative`: if True, differences are relative to the prediction.

    **Returns:**

    A `Judgement` whose `measured` is the largest difference.

    **Example:**

    >>> from festina.experiments.claims import max_error_below
    >>> judgement = max_error_below([0.52, 0.99], [0.5, 1.0], within=0.05)
    >>> judgement.holds, round(judgement.measured, 3)
    (True, 0.02)
    """
    scale = np.abs(predicted) if relative else np.asarray(over, float)
    off = np.abs(np.asarray(measured, float) - np.asarray(predicted, float)) / scale
    known = off.size and np.isfinite(scale).all()
    largest = float(off.max()) if known else math.nan
    words = f"largest of {off.size} {'relative ' * relative}differences"
    return Judgement(0.0, largest, within, bool(largest <= within), words * (off.size > 1))


def most_seeds(holds: Any, share: float | int = 1, *, of: str = "seeds") -> Judgement:
    """Judge whether a statement is true for at least this share of the seeds.

    The judgement fails if a one-sided binomial test at the 1 % level rejects the share, or if the
    statement is true for no seed. With a share of one, the statement must be true for all seeds.

    **Arguments:**

    - `holds`: truth values, one for each seed.
    - `share`: smallest share of seeds for which the statement is true.
    - `of`: plural noun for the seeds in the remark.

    **Returns:**

    A `Judgement` whose remark counts the seeds for which the statement is true.

    **Example:**

    >>> from festina.experiments.claims import most_seeds
    >>> judgement = most_seeds([True] * 7 + [False], 0.75)
    >>> judgement.holds, judgement.remark
    (True, '7 of 8 seeds')
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
    """Judge whether a statement is true with the expected probability: two-sided binomial test.

    **Arguments:**

    - `holds`: truth values, one for each seed.
    - `expected`: expected probability.
    - `of`: plural noun for the seeds in the remark.

    **Returns:**

    A `Judgement` whose `measured` is the observed frequency.

    **Example:**

    >>> from festina.experiments.claims import frequency_agrees
    >>> judgement = frequency_agrees([True] * 6 + [False] * 4, 0.5)
    >>> judgement.holds, judgement.measured
    (True, 0.6)
    """
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
    """Judge whether means over the first axis agree with expected values, by a two-sided z-test.

    With several means, the level of the test is divided by their number (Bonferroni).

    **Arguments:**

    - `values`: draws along the first axis.
    - `expected`: expected means.
    - `spread`: standard deviation of a single draw.
    - `there`: number of draws from which `expected` was estimated; infinite if it is exact.

    **Returns:**

    A `Judgement` of the mean with the largest deviation in units of its standard error.

    **Example:**

    >>> from festina.experiments.claims import mean_agrees
    >>> judgement = mean_agrees([0.9, 1.2, 1.1, 0.8], 1.0, 0.2)
    >>> judgement.holds, judgement.tolerance
    (True, 0.26)
    """
    from scipy.stats import norm

    values = np.asarray(values, float)
    if not values.size:
        return Judgement(expected, math.nan, "", False, "no draws")
    means, expected = np.broadcast_arrays(values.mean(axis=0), np.asarray(expected, float))
    error = np.broadcast_to(np.asarray(spread, float), means.shape)
    error = error * math.sqrt(1 / len(values) + 1 / there)
    sigmas = -norm.ppf(SIGNIFICANCE_LEVEL / 2 / means.size)  # corrected for the number of means
    off = np.abs(means - expected) / error
    worst = np.unravel_index(np.argmax(off), off.shape)
    return Judgement(
        float(expected[worst]),
        float(means[worst]),
        float(f"{sigmas * error[worst]:.2g}"),
        bool(off[worst] <= sigmas),
        f"over {len(values)} draws" + f", largest deviation of {off.size} means" * (off.size > 1),
    )


def follows_power_law(x: Any, y: Any, expected: Any, *, within: float | int) -> Judgement:
    """Judge whether y is proportional to a power of x, by the slope of ln y over ln x.

    **Arguments:**

    - `x`: positive numbers.
    - `y`: positive numbers along the first axis; further axes hold further curves.
    - `expected`: expected exponent.
    - `within`: largest allowed difference of the exponent.

    **Returns:**

    A `Judgement` whose `measured` is the least-squares slope of each curve.

    **Example:**

    >>> from festina.experiments.claims import follows_power_law
    >>> judgement = follows_power_law([1, 2, 4], [3.0, 12.1, 47.9], 2, within=0.1)
    >>> judgement.holds, round(judgement.measured, 2)
    (True, 2.0)
    """
    x, y = np.asarray(x, float), np.asarray(y, float)
    if len(x) < 2 or not (np.isfinite(y) & (y > 0)).all():
        return agree(math.nan, expected, within=within)
    slope = np.polyfit(np.log(x), np.log(y.reshape(len(x), -1)), 1)[0].reshape(y.shape[1:])
    return agree(slope, expected, within=within)


def all_above(measured: Any, bound: float | int) -> Judgement:
    """Judge whether all values are above a bound; `measured` is the smallest value.

    **Example:**

    >>> from festina.experiments.claims import all_above
    >>> all_above([0.3, 0.2], 0.1).holds
    True
    """
    least, words = _extreme(measured, np.min, "smallest")
    return Judgement(f"> {bound:g}", least, "above", least > bound, words)


def all_below(measured: Any, bound: float | int) -> Judgement:
    """Judge whether all values are below a bound; `measured` is the largest value.

    **Example:**

    >>> from festina.experiments.claims import all_below
    >>> judgement = all_below([0.3, 0.2], 0.25)
    >>> judgement.holds, judgement.measured
    (False, 0.3)
    """
    largest, words = _extreme(measured, np.max, "largest")
    return Judgement(f"< {bound:g}", largest, "below", largest < bound, words)


def decreasing(values: Any) -> Judgement:
    """Judge whether each value is smaller than the value before it.

    **Example:**

    >>> from festina.experiments.claims import decreasing
    >>> decreasing([3.0, 2.0, 0.5]).holds
    True
    """
    return _in_order(values, -1.0, "falls")


def increasing(values: Any) -> Judgement:
    """Judge whether each value is larger than the value before it.

    **Example:**

    >>> from festina.experiments.claims import increasing
    >>> judgement = increasing([1.0, 0.5])
    >>> judgement.holds, judgement.remark
    (False, '1, 0.5')
    """
    return _in_order(values, 1.0, "rises")


def equal_to(measured: Any, predicted: Any) -> Judgement:
    """Judge whether a measured text or whole number equals its prediction.

    **Example:**

    >>> from festina.experiments.claims import equal_to
    >>> equal_to(3, 2).holds
    False
    """
    return Judgement(predicted, measured, "exact", bool(measured == predicted))


def join_numbers(values: Any, digits: int = 4) -> str:
    """Return numbers as text, separated by commas, for the note of a claim.

    **Arguments:**

    - `values`: numbers. Each number of an `xarray.DataArray` is followed by its coordinate.
    - `digits`: number of significant digits.

    **Returns:**

    A text such as "0.12 at seed 0, 0.34 at seed 1".

    **Example:**

    >>> import xarray as xr
    >>> from festina.experiments.claims import join_numbers
    >>> join_numbers(xr.DataArray([0.12, 0.34], coords={"depth": [2, 3]}))
    '0.12 at depth 2, 0.34 at depth 3'
    """
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
    from scipy.stats import binom  # imported late, because this import is slow

    return binom
