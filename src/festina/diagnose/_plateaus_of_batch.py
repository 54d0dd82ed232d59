"""Find the plateaus of every network of a batch, as one table."""

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
"""Variables of each plateau, and the padding for networks with fewer plateaus."""

_TOGETHER = 1000  # number of networks whose passages are computed together


def plateaus_of_batch(
    trajectory: Trajectory,
    levels: ArrayLike | None = None,
    *,
    merge: float = 1e-3,
    dims: tuple[str, ...] | None = None,
) -> "xr.Dataset":
    """Return the plateaus of every network of a batch, as one dataset.

    Plateaus are found from the gradient, and for mini-batch descent from the loss alone.

    **Arguments:**

    - `trajectory`: trajectory of one network or of a batch; its clock defines all times.
    - `levels`: falling losses of the plateaus that theory expects; with `levels`, the dataset also
      has `passage` and `save`.
    - `merge`: smallest drop, as a fraction of the initial loss.
    - `dims`: names of the batch axes; the default is the names of `trajectory.to_dataset()`.

    **Returns:** a dataset over the axes of the batch, with these variables:

    - `count`: number of plateaus of each network; 0 if a network failed before its first sample.
    - `level`, `strength`, `start`, `end` and `index` over `plateau`, and `drop_time` over `fall`,
      as in `festina.diagnose.Plateaus`. Networks with fewer plateaus are padded with NaN (`index`
      with −1).
    - `passage` over `middle`: time at which the loss first reaches the midpoint between two
      `levels`, even if the loss does not pause at a level; NaN if the loss starts below the
      midpoint or never reaches it.
    - `save` over `middle`: the first sample at or below the midpoint; −1 if `passage` is NaN.

    **Example:**

    >>> import festina, numpy as np
    >>> network = festina.networks.layer_from("relu", [[0.01, 0.009], [0.009, 0.01]], [0.01, -0.01])
    >>> task = festina.tasks.from_arrays([[1, 0], [0, 1]], [1, -3])
    >>> run = festina.gradient_flow(network, task, np.linspace(0, 20, 101))
    >>> festina.diagnose.plateaus_of_batch(run)["level"].values.round(2)
    array([2.5 , 0.24, 0.  ])
    """
    import xarray as xr

    check_trajectory(trajectory, use=" For a loss curve use `plateaus`.")
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
            f"`levels` is {given.tolist()}, expected at least two losses, one below the other. "
            "Sort them from highest to lowest."
        )
    return (given[1:] + given[:-1]) / 2
