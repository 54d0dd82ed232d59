"""Predicted staircases and trained networks in one table: what claims and figure read."""

import itertools
from typing import Any

import numpy as np
import xarray as xr

from ....diagnose import passage_time, plateaus
from ....dynamics import Trajectory
from ....networks import AbstractNetwork, DiagonalLinear
from ....theory.saddles import Staircase

# A coordinate counts as active from this fraction of the largest on.
_ACTIVE = 0.05


def measured(
    network: AbstractNetwork,
    predicted: list[Staircase],
    trajectory: Trajectory,
    scales: tuple[float, ...],
) -> xr.Dataset:
    """Levels, times and active sets, as predicted and as seen in training.

    Axes of the batch are `(scale, seed)`, or `(seed,)` for networks of one scale. `level`, `jump`
    and `active` are predicted; `passage` is when training passes the middle between two predicted
    levels, `rest` and `strength` belong to the plateaus that training is found to have.
    """
    batch = network.batch_shape
    lanes = zip(predicted, np.ndindex(batch), strict=True)
    rows = [_lane(staircase, trajectory.lane(*index)) for staircase, index in lanes]
    axes = ("scale", "seed")[-len(batch) :]
    table: dict[str, Any] = {
        "time": ((*axes, "save"), trajectory.time),
        "loss": ((*axes, "save"), trajectory.loss),
        "floor": ((), trajectory.floor),
        "end": (axes, trajectory.time[..., -1]),
    }
    for name, inner in _INNER.items():
        if name in rows[0]:
            stacked = _stack([row[name] for row in rows])
            table[name] = ((*axes, *inner), stacked.reshape(*batch, *stacked.shape[1:]))
    coordinates = {"scale": list(scales)} if "scale" in axes else {}
    return xr.Dataset(table, coordinates)


_INNER = {
    "level": ("stage",),
    "jump": ("fall",),
    "passage": ("fall",),
    "active": ("stage", "member"),
    "rest": ("plateau",),
    "strength": ("plateau",),
    "seen": ("plateau", "member"),
}


def _lane(predicted: Staircase, trained: Trajectory) -> dict[str, np.ndarray]:
    slope = trained.slope
    found = plateaus(trained.time, trained.loss, trained.squared_gradient, slope=slope)
    members = len(predicted.joined)
    row = {
        "level": predicted.levels,
        "jump": predicted.times,
        "passage": np.array(
            [
                passage_time(trained.time, trained.loss, 0.5 * (high + low), slope=slope)
                for high, low in itertools.pairwise(predicted.levels)
            ]
        ),
        "active": np.array([np.isin(np.arange(members), each) for each in predicted.active], float),
        "rest": found.level,
        "strength": found.strength,
    }
    if isinstance(trained.network, DiagonalLinear):
        size = np.abs(np.asarray(trained.network.coefficients())[found.index])
        # Before anything is learned the largest is as small as the rest.
        grown = np.maximum(size.max(axis=1, keepdims=True), _ACTIVE * size.max())
        row["seen"] = (size > _ACTIVE * grown).astype(float)
    return row


def _stack(arrays: list[np.ndarray]) -> np.ndarray:
    """Arrays of different lengths as one, padded with NaN."""
    longest = max(len(array) for array in arrays)
    pad = lambda array: [(0, longest - len(array)), *[(0, 0)] * (array.ndim - 1)]
    return np.stack([np.pad(array, pad(array), constant_values=np.nan) for array in arrays])
