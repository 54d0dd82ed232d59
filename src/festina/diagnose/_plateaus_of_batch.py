"""Plateaus of every network of a batch, as one table."""

from typing import TYPE_CHECKING

import numpy as np
from jaxtyping import Float

from .._types import ArrayLike
from ..dynamics import Trajectory
from ._given import check_trajectory
from ._passage import passage_time
from ._plateaus import Judging, answered, judged, slope_of
from ._plateaus_loss import Options
from ._plateaus_result import Plateaus

if TYPE_CHECKING:
    import xarray as xr

_PLATEAU = {"level": np.nan, "strength": np.nan, "start": np.nan, "end": np.nan, "index": -1}
"""What is known of each plateau, and what stands where a network has fewer."""

_TOGETHER = 1000  # networks whose passages are computed together


def plateaus_of_batch(
    trajectory: Trajectory,
    levels: ArrayLike | None = None,
    *,
    merge: float = 1e-3,
    dims: tuple[str, ...] | None = None,
) -> "xr.Dataset":
    """Return the plateaus of every network of a batch, and when it passes midway between levels.

    Slowness is judged by the gradient, along mini-batch descent by the loss alone.

    **Arguments:**

    - `trajectory`: of one network or of a batch; times below are on its clock.
    - `levels`: losses of plateaus that theory expects, falling. Left out, there is no `passage` and
      no `save`.
    - `merge`: smallest drop, as a fraction of the initial loss.
    - `dims`: names for the axes of the batch instead.

    **Returns:** a dataset over the axes of the batch, as `trajectory.to_dataset()` names and labels
    them, and

    - over `plateau` the `level`, `strength`, `start`, `end` and `index` of `plateaus`; over `fall`
      its `drop_time`. Networks with fewer plateaus than another are padded with NaN, `index`
      with −1; `count` says how many each has: none, if it failed before its first sample.
    - over `middle`, one between each two `levels`, `passage`: when the loss first gets there, which
      exists however weakly a network rests; and `save`: the first sample at or below it. NaN and
      −1 where a network starts below it or never gets there.
    """
    import xarray as xr

    check_trajectory(trajectory, use=" Of a loss curve: `plateaus`.")
    middles = None if levels is None else _middles(levels)
    batch = trajectory.batch_shape
    over = trajectory.dims if dims is None else dims
    slope = slope_of(trajectory)
    lanes = [index for index in np.ndindex(*batch) if trajectory.saves[index]]
    known = dict[tuple[int, ...], Plateaus]()
    for first in range(0, len(lanes), _TOGETHER):
        some = lanes[first : first + _TOGETHER]
        asking = [_judged(trajectory, slope, index, merge) for index in some]
        known |= zip(some, answered(asking), strict=True)
    found = [known.get(index) for index in np.ndindex(*batch)]
    count = np.array([0 if each is None else len(each) for each in found])
    most = max(int(count.max(initial=0)), 1)

    def padded(name: str, length: int, fill: float | int) -> np.ndarray:
        table = np.full((len(found), length), fill)
        for row, each in zip(table, found, strict=True):
            values = [] if each is None else getattr(each, name)
            row[: len(values)] = values
        return table.reshape(*batch, length)

    table = xr.Dataset(
        {
            "count": (over, count.reshape(batch)),
            **{
                name: ((*over, "plateau"), padded(name, most, fill))
                for name, fill in _PLATEAU.items()
            },
            "drop_time": ((*over, "fall"), padded("drop_time", most - 1, np.nan)),
        },
        {
            **trajectory.coordinates(over),
            "plateau": np.arange(most),
            "fall": np.arange(most - 1),
        },
    )
    if middles is None:
        return table
    time, loss = (curve[..., None, :] for curve in (trajectory.time, trajectory.loss))
    slope = None if slope is None else slope[..., None, :]
    passage = passage_time(time, loss, middles, slope=slope)
    save = np.argmax(loss <= middles[:, None], axis=-1)
    return table.assign(
        passage=((*over, "middle"), passage),
        save=((*over, "middle"), np.where(np.isnan(passage), -1, save)),
    )


def _judged(
    trajectory: Trajectory,
    slope: Float[np.ndarray, "*batch save"] | None,
    index: tuple[int, ...],
    merge: float,
) -> Judging:
    """Find the plateaus of one network, by its gradient or, without a slope, by its loss."""
    upto = (*index, slice(0, int(trajectory.saves[index])))
    gradient = None if slope is None else trajectory.squared_gradient[upto]
    slopes = None if slope is None else slope[upto]
    return judged(
        trajectory.time[upto], trajectory.loss[upto], gradient, slopes, Options(merge=merge)
    )


def _middles(levels: ArrayLike) -> Float[np.ndarray, " middle"]:
    given = np.asarray(levels, dtype=float)
    if given.ndim != 1 or given.size < 2 or not (np.diff(given) < 0).all():
        raise ValueError(
            f"`levels` is {given.tolist()}, expected at least two losses, one below the other."
        )
    return (given[1:] + given[:-1]) / 2
