"""Numbers of an independent implementation for the networks of Figure 6, in the mean over seeds."""

from collections.abc import Callable, Iterator
from typing import NamedTuple

import numpy as np
import xarray as xr

from ...diagnose import passage_time
from ._comparison import standard_error, two_digits

_SIGMAS = 3.0


class Quantity(NamedTuple):
    """What is measured: in words, and `(table, layers skipped) → one value for each seed`."""

    words: str
    of: Callable[[xr.Dataset, int], np.ndarray]


class Number(NamedTuple):
    """A quantity of one network, and how much it scatters.

    - `value`: mean over seeds of the reference, or the middle of their range.
    - `spread`: standard deviation from seed to seed, as a fraction; over six seeds of this library,
      because those of the reference are too few to have one.
    - `seeds`: how many of its own the value was taken over, at least: one value, or a range of two.
    """

    family: str
    skipped: int
    quantity: Quantity
    value: float
    spread: float
    seeds: int


def _halved(table: xr.Dataset, skipped: int) -> np.ndarray:
    curves = zip(table["step"].values, table["loss"].values, strict=True)
    return np.array([passage_time(step, loss, loss[0] / 2) for step, loss in curves])


_FIRST, _SECOND = (
    Quantity(
        f"mean step of the {words} drop",
        lambda table, skipped, drop=drop: table["drop_step"].values[:, drop],
    )
    for drop, words in enumerate(("first", "second"))
)
# Of networks whose plateau is weak or lost, where it is not told when either drop comes.
_HALF = Quantity("mean step at which half of the loss is gone", _halved)
_NORM = Quantity(
    "mean operator norm of the skipped layers at the end",
    lambda table, skipped: table["final_norm"].values[:, 1 : 1 + skipped].mean(axis=1),
)

# Plain gradient descent in float64: width 50, ε = 0.02, η = 0.01. Drops of ReLU networks that no or
# one layer is skipped in are not among them: from seed to seed they differ by 20 to 40 %, with a
# heavy tail, and a mean over few says nothing.
_NUMBERS = (
    Number("linear", 0, _FIRST, 328.0, 0.12, 1),
    Number("linear", 0, _SECOND, 2500.0, 0.07, 1),
    Number("linear", 1, _FIRST, 72.0, 0.09, 1),
    Number("linear", 1, _SECOND, 490.0, 0.1, 1),
    Number("linear", 2, _FIRST, 23.0, 0.07, 1),
    Number("linear", 1, _NORM, 0.42, 0.03, 1),
    Number("linear", 2, _NORM, 0.275, 0.025, 2),
    Number("relu", 2, _HALF, 124.5, 0.08, 2),
)


def compared(run: xr.DataTree, family: str) -> Iterator[tuple[Number, float, float]]:
    """Each number of a family, what it is here, and three standard errors of the difference.

    Without those whose drop has not come in every seed by the end of training.
    """
    for number in _NUMBERS:
        if number.family != family:
            continue
        table = run[f"{family}_{number.skipped}"].to_dataset()
        values = number.quantity.of(table, number.skipped)
        if np.isfinite(values).all():
            error = standard_error(number.spread, len(values), number.seeds)
            yield number, float(values.mean()), two_digits(_SIGMAS * error)
