"""Numbers of an independent implementation for the networks of Figure 6, in the mean over seeds."""

import math
from collections.abc import Iterator
from typing import NamedTuple

import numpy as np
import xarray as xr


class Number(NamedTuple):
    """One of them: what is measured, on which network, and how much it scatters.

    - `value`: mean over its seeds, or the middle of their range.
    - `spread`: standard deviation from seed to seed, as a fraction.
    - `seeds`: how many of its own it was taken over, at least: one value, or a range of two.
    """

    network: str
    words: str
    value: float
    spread: float
    seeds: int


_FIRST, _SECOND = "mean step of the first drop", "mean step of the second drop"
_HALF = "mean step at which half of the loss is gone, no plateau being left"
_SKIPPED = "mean operator norm of the skipped layers at the end"

# Plain gradient descent in float64: width 50, ε = 0.02, η = 0.01. Drops of ReLU networks that no or
# one layer is skipped in are not among them: from seed to seed they differ by 20 to 40 %, with a
# heavy tail, and a mean over few says nothing.
_NUMBERS = (
    Number("linear_0", _FIRST, 328.0, 0.12, 1),
    Number("linear_0", _SECOND, 2500.0, 0.07, 1),
    Number("linear_1", _FIRST, 72.0, 0.09, 1),
    Number("linear_1", _SECOND, 490.0, 0.1, 1),
    Number("linear_2", _FIRST, 23.0, 0.07, 1),
    Number("linear_1", _SKIPPED, 0.42, 0.03, 1),
    Number("linear_2", _SKIPPED, 0.275, 0.025, 2),
    Number("relu_2", _HALF, 124.5, 0.08, 2),
)


def compared(run: xr.DataTree, family: str) -> Iterator[tuple[Number, float, float]]:
    """Each number of a family, what it is here, and three standard errors of the difference."""
    for number in _NUMBERS:
        if not number.network.startswith(family):
            continue
        values = _measured(run[number.network].to_dataset(), number)
        error = number.spread * math.sqrt(1 / len(values) + 1 / number.seeds)
        yield number, float(values.mean()), round(3 * error, 3)


def _measured(table: xr.Dataset, number: Number) -> np.ndarray:
    """One value for each seed."""
    if number.words == _SKIPPED:
        skipped = int(number.network[-1])
        return table["final_norm"].values[:, 1 : 1 + skipped].mean(axis=1)
    if number.words == _HALF:
        curves = zip(table["step"].values, table["loss"].values, strict=True)
        return np.array([_passage(step, loss, loss[0] / 2) for step, loss in curves])
    return table["drop_step"].values[:, 0 if number.words == _FIRST else 1]


def _passage(step: np.ndarray, loss: np.ndarray, level: float) -> float:
    """When a falling loss passes a level; between two saves on a straight line."""
    below = int(np.argmax(loss <= level))
    pair = slice(below - 1, below + 1)
    return float(np.interp(-level, -loss[pair], step[pair]))
