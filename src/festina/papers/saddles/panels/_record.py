"""What is kept of a panel's training: curves, plateaus, drops and theory, as named tables.

All that claims and figures need is computed here, once; they read it back (`_reading.py`).
"""

from typing import Any

import numpy as np
import xarray as xr

from ....diagnose import Plateaus, passage_time, plateaus
from ....dynamics import Trajectory, loss_factor
from ....networks import AbstractNetwork
from ....tasks import AbstractTask
from ._parameters import PanelParameters
from ._train import time_of_a_step


def curves(parameters: PanelParameters, trajectory: Trajectory) -> xr.Dataset:
    """The trajectory itself, with an axis of steps that flow and descent share."""
    data = trajectory.to_dataset(("seed",))
    return data.assign_coords(
        seed=parameters.seed + np.arange(parameters.seeds),
        step=data["time"] / time_of_a_step(parameters),
    )


def levels(
    parameters: PanelParameters,
    task: AbstractTask,
    network: AbstractNetwork,
    narrow: np.ndarray,
    floor: float,
    predicted: dict[str, Any],
) -> xr.Dataset:
    """Predictions of the panel, and the three levels of the loss that theory expects for it.

    No network at all, ⟨‖y‖²⟩; the lowest minimum of a network with one unit; the lowest loss.
    """
    statistics = task.statistics(network.view)
    half_power = 0.5 * float(statistics.weight @ (statistics.y**2).sum(axis=1)) + statistics.floor
    initial = loss_factor(parameters.loss, task) * half_power
    return xr.Dataset(
        {
            "level": ("plateau", [initial, float(narrow[0]), floor]),
            "narrow_minimum": ("minimum", narrow),
            **predicted,
        }
    )


def plateau_table(
    parameters: PanelParameters, trajectory: Trajectory, *, merge: float = 1e-3
) -> xr.Dataset:
    """Plateaus of all seeds in one table, padded with NaN (−1 for indices).

    `merge` is the smallest drop that counts, as a fraction of the initial loss.
    """
    found = [_plateaus(trajectory.lane(seed), merge) for seed in range(parameters.seeds)]
    most = max(3, *(len(each) for each in found))
    step = time_of_a_step(parameters)

    def padded(name: str, length: int = most, fill: float | int = np.nan) -> np.ndarray:
        table = np.full((len(found), length), fill)
        for row, each in zip(table, found, strict=True):
            values = getattr(each, name)
            row[: len(values)] = values
        return table

    over = ("seed", "plateau")
    return xr.Dataset(
        {
            "count": ("seed", np.array([len(each) for each in found])),
            "save": (over, padded("index", fill=-1)),
            "level": (over, padded("level")),
            "strength": (over, padded("strength")),
            "start": (over, padded("start") / step),
            "end": (over, padded("end") / step),
            "drop_step": (("seed", "drop"), padded("drop_time", most - 1) / step),
        }
    )


def drop_table(
    parameters: PanelParameters, trajectory: Trajectory, predicted_levels: np.ndarray
) -> xr.Dataset:
    """When each seed passes the middle between two predicted levels, and where in the record.

    Unlike a detected plateau this exists for every seed, however weak its plateau is.
    """
    middles = (predicted_levels[:-1] + predicted_levels[1:]) / 2
    times = np.full((parameters.seeds, len(middles)), np.nan)
    saves = np.zeros((parameters.seeds, len(middles)), int)
    for seed in range(parameters.seeds):
        lane = trajectory.lane(seed)
        for drop, middle in enumerate(middles):
            times[seed, drop] = passage_time(lane.time, lane.loss, middle, slope=lane.slope)
            saves[seed, drop] = int(np.argmax(lane.loss <= middle))
    over = ("seed", "drop")
    return xr.Dataset({"step": (over, times / time_of_a_step(parameters)), "save": (over, saves)})


def _plateaus(lane: Trajectory, merge: float) -> Plateaus:
    return plateaus(lane.time, lane.loss, lane.squared_gradient, slope=lane.slope, merge=merge)
