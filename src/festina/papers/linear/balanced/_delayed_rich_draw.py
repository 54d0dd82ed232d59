"""Loss and kernel on a logarithmic clock, and how their times part."""

from typing import Any

import matplotlib as mpl
import numpy as np
import xarray as xr
from matplotlib.axes import Axes
from matplotlib.figure import Figure

from ...figures import PALE, THEORY, styled
from .._slides import sheet
from ._delayed_rich_claims import drop_times, slow_turn_times, turn_times


@styled
def draw(run: xr.DataTree) -> Figure:
    """The first seed over time for each λ; all seeds' times against |λ|."""
    curves, slow = run["curves"].to_dataset(), run["slow"].to_dataset()
    figure = sheet("The loss drops at once, the features are learned much later", (10.0, 3.2))
    loss, kernel, times = figure.subplots(1, 3)
    colours = mpl.colormaps["viridis"](np.linspace(0.0, 0.85, curves.sizes["balance"]))
    for colour, balance in zip(colours, curves["balance"].values, strict=True):
        one = curves.sel(balance=balance).isel(seed=0, sample=slice(1, None))
        start = float(curves["loss"].sel(balance=balance).isel(seed=0, sample=0))
        label = f"$-${balance:g}"
        loss.plot(one["time"], one["loss"] / start, **PALE, color=colour, alpha=0.5, label=label)
        loss.plot(one["time"], one["loss_theory"] / start, **THEORY)
        kernel.plot(one["time"], one["kernel_distance"], **PALE, color=colour, alpha=0.5)
        kernel.plot(one["time"], one["kernel_theory"], **THEORY)
    for ax in (loss, kernel):
        ax.set(xscale="log", xlabel="time $t/τ$", ylim=(0, None))
    loss.set(title="loss, one network", ylabel="loss over its start")
    kernel.set(title="tangent kernel, the same network", ylabel="kernel distance from start")
    loss.legend(title="$λ$", loc="upper right")
    kernel.plot([], [], **PALE, color="0.6", alpha=0.5, label="training")
    kernel.plot([], [], **THEORY, label="exact solution")
    kernel.legend(loc="upper left")
    _draw_times(times, curves, slow)
    return figure


def _draw_times(ax: Axes, curves: xr.Dataset, slow: xr.Dataset) -> None:
    balance = curves["balance"].values
    span = np.array([balance[0] / 1.5, balance[-1] * 1.5])
    for values, colour in ((turn_times(curves), "C3"), (drop_times(curves, slow), "C0")):
        for of_seed in values.T:
            ax.scatter(balance, of_seed, color=colour, alpha=0.35, s=28, lw=0)
    ax.plot(span, np.median(slow_turn_times(slow)) * span, **THEORY, label="limit of large $|λ|$")
    ax.plot(span, np.log(2) / 2 / span, **THEORY)
    inside: dict[str, Any] = {"transform": ax.transAxes}
    ax.text(0.03, 0.97, "kernel half turned, $∝|λ|$", color="C3", va="top", **inside)
    ax.text(0.03, 0.03, "loss half dropped, $∝1/|λ|$", color="C0", **inside)
    ax.set(
        title="two times, every network",
        xscale="log",
        yscale="log",
        xlabel="balance $|λ|$",
        ylabel="time $t/τ$",
    )
    ax.set_xticks(balance, [f"{b:g}" for b in balance])
    ax.minorticks_off()
    ax.legend(loc="center right")
