"""Figure of `saddles/staircase`: four networks, their losses and their predicted staircases."""

import numpy as np
import xarray as xr
from matplotlib.axes import Axes
from matplotlib.figure import Figure

from ...figures import PALE, THEORY, styled

_TITLES = {
    "power": "linear, power-law spectrum",
    "mixed": "linear, modes that mix",
    "diagonal": "diagonal linear, correlated features",
    "attention": "linear attention, unequal token variances",
}
_COLOURS = ("#0072B2", "#E69F00", "#009E73")
_LOWEST = 1e-3


@styled
def draw(run: xr.DataTree) -> Figure:
    """Losses wide and pale, predicted levels and jumps thin and dashed."""
    figure = Figure(figsize=(8.4, 6.0), layout="constrained")
    figure.suptitle("Staircases predicted from data statistics and initial weights")
    axes = figure.subplots(2, 2).ravel()
    for ax, (name, title) in zip(axes, _TITLES.items(), strict=True):
        _panel(ax, run[name].to_dataset())
        ax.set_title(title, pad=20)
        ax.set(xlabel="time $t$ of the flow on $½⟨‖y−f‖²⟩$", ylim=(_LOWEST, 1.6))
    for ax in axes[::2]:
        ax.set_ylabel("loss above its floor, relative")
    return figure


def _panel(ax: Axes, table: xr.Dataset) -> None:
    swept = "scale" in table.dims
    if swept:  # the smallest weights, whose plateaus are longest
        table = table.isel(scale=slice(-len(_COLOURS), None))
    latest = 0.0
    for index in range(min(table.sizes["scale" if swept else "seed"], len(_COLOURS))):
        row = table.isel(scale=index, seed=0) if swept else table.isel(seed=index)
        label = f"ε = {float(row['scale']):.0e}" if swept else f"seed {index}"
        floor = float(table["floor"])
        start = float(row["loss"][0]) - floor
        relative = lambda values, start=start, floor=floor: np.maximum(
            (values - floor) / start, 1e-9
        )
        jumps = row["jump"].values[~np.isnan(row["jump"].values)]
        levels = relative(row["level"].values[: len(jumps) + 1])
        end = 1.25 * float(np.nanmax(row["passage"]))
        latest = max(latest, end)
        time, loss = row["time"].values, relative(row["loss"].values)
        ax.plot(time, loss, **PALE, color=_COLOURS[index], alpha=0.45, label=label)
        ax.step([0.0, *jumps, 10 * end], [*levels, levels[-1]], where="post", **THEORY)
    ax.plot([], [], **THEORY, label="predicted")
    ax.set(yscale="log", xlim=(0, latest))
    # Above the axes: which corner no curve passes depends on the seed.
    ax.legend(
        loc="lower center", bbox_to_anchor=(0.5, 0.99), ncols=4, handlelength=1.6, columnspacing=1.0
    )
