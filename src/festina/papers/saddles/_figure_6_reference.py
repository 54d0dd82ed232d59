"""Numbers of an independent implementation for the networks of Figure 6, from other weights."""

from collections.abc import Callable, Iterator
from typing import NamedTuple

import numpy as np
import xarray as xr

from ...diagnose import passage_time
from ._comparison import Reported


class Quantity(NamedTuple):
    """What is measured: in words, and `(table, layers skipped) → one value for each seed`."""

    words: str
    of: Callable[[xr.Dataset, int], np.ndarray]


class Number(NamedTuple):
    """A quantity of one network as it was reported."""

    family: str
    skipped: int
    quantity: Quantity
    reported: Reported


def _halved(table: xr.Dataset, skipped: int) -> np.ndarray:
    curves = zip(table["step"].values, table["loss"].values, strict=True)
    return np.array([passage_time(step, loss, loss[0] / 2) for step, loss in curves])


_FIRST, _SECOND = (
    Quantity(
        f"step of the {words} drop",
        lambda table, skipped, drop=drop: table["drop_step"].values[:, drop],
    )
    for drop, words in enumerate(("first", "second"))
)
# Of networks whose plateau is weak or lost there is one drop, from the initial loss to the last.
_HALF = Quantity("step at which half of the loss is gone", _halved)
_NORM = Quantity(
    "operator norm of the skipped layers at the end",
    lambda table, skipped: table["final_norm"].values[:, 1 : 1 + skipped].mean(axis=1),
)

# Plain gradient descent in float64: width 50, ε = 0.02, η = 0.01. Ranges of steps are over three
# seeds; of how many a single number is the mean is not told. Spreads are over 64 to 128 seeds for
# drops, 24 for norms.
_NUMBERS = (
    Number("linear", 0, _FIRST, Reported((328.0,), 1, 0.108)),
    Number("linear", 0, _SECOND, Reported((2500.0,), 1, 0.126)),
    Number("linear", 1, _FIRST, Reported((72.0,), 1, 0.086)),
    Number("linear", 1, _SECOND, Reported((490.0,), 1, 0.077)),
    Number("linear", 2, _HALF, Reported((23.0,), 1, 0.055)),
    Number("linear", 1, _NORM, Reported((0.42,), 1, 0.03)),
    Number("linear", 2, _NORM, Reported((0.27, 0.28), 2, 0.025)),
    Number("relu", 0, _FIRST, Reported((2600.0, 4350.0), 3, 0.22)),
    Number("relu", 0, _SECOND, Reported((5900.0, 9700.0), 3, 0.26)),
    Number("relu", 1, _FIRST, Reported((420.0, 620.0), 3, 0.15)),
    Number("relu", 1, _SECOND, Reported((840.0, 1030.0), 3, 0.18)),
    Number("relu", 2, _HALF, Reported((111.0, 138.0), 3, 0.063)),
)


def compared(run: xr.DataTree, family: str) -> Iterator[tuple[Number, np.ndarray]]:
    """Each number of a family, and what it is here for each seed.

    Without those whose drop has not come in every seed by the end of training.
    """
    for number in _NUMBERS:
        if number.family != family:
            continue
        table = run[f"{family}_{number.skipped}"].to_dataset()
        values = number.quantity.of(table, number.skipped)
        if np.isfinite(values).all():
            yield number, values
