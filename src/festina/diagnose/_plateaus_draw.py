"""A loss curve with its plateaus and drops, as a picture."""

from typing import TYPE_CHECKING

import numpy as np
from jaxtyping import Float

if TYPE_CHECKING:
    from matplotlib.axes import Axes

    from ._plateaus_result import Plateaus

_DECADES = 2.0  # between levels, from which on the lower ones could not be told apart


def draw(
    found: "Plateaus",
    time: Float[np.ndarray, " sample"],
    loss: Float[np.ndarray, " sample"],
    ax: "Axes | None",
) -> "Axes":
    if ax is None:
        import matplotlib.pyplot as plt

        _, ax = plt.subplots(figsize=(6.4, 3.4), layout="constrained")
    ax.plot(time, loss, color="C0", alpha=0.7, lw=2.0, label="loss")
    ax.hlines(
        found.level,
        found.start,
        found.end,
        colors="black",
        linestyles="--",
        linewidths=1.0,
        label="plateaus",
    )
    for k, drop in enumerate(found.drop_time):
        ax.axvline(drop, color="0.5", ls=":", lw=1.0, label=None if k else "drops")
    for k, (begin, end) in enumerate(found.rises):
        ax.axvspan(begin, end, color="C3", alpha=0.15, lw=0, label=None if k else "passed over")
    lowest, highest = found.level.min(), found.level.max()
    if loss.min() > 0 and np.log10(highest / lowest) > _DECADES:
        ax.set_yscale("log")
    ax.set(xlabel="time", ylabel="loss")
    # Above the axes: within them there is no place that no curve passes.
    ax.legend(loc="lower left", bbox_to_anchor=(0.0, 1.0), ncols=4, frameon=False)
    return ax
