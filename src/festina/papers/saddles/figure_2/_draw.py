"""Panels of Figure 2: a loss curve for every setting, theory dashed on top of it."""

import matplotlib as mpl
import numpy as np
import xarray as xr
from matplotlib.axes import Axes
from matplotlib.figure import Figure

from ...figures import PALE, THEORY

_WIDE = (8.6, 3.5)
_MAP = "viridis"
TIME = "time $t = 2ηn$"


def sheet(title: str, size: tuple[float, float] = _WIDE) -> Figure:
    """An empty figure with its title at the top left."""
    figure = Figure(figsize=size, layout="constrained")
    figure.suptitle(title, x=0.01, ha="left", weight="bold")
    return figure


def draw_sweep(
    ax: Axes,
    data: xr.Dataset,
    axis: str,
    *,
    title: str,
    symbol: str,
    predicted: str,
    clock: xr.DataArray | float = 1.0,
    xlabel: str = TIME,
) -> None:
    """One seed of every setting, wide and pale; levels and predicted drops, thin and dashed.

    `clock` multiplies the time of every setting, where settings have clocks of their own.
    """
    values = data[axis].values
    shades = mpl.colormaps[_MAP](np.linspace(0.0, 0.85, len(values)))
    clocks = np.broadcast_to(np.asarray(clock, float), len(values))
    right = 1.12 * float(np.nanmax(data["drop_time"].isel(seed=0).max("drop") * clocks))
    shown = data["loss"].isel(seed=0) / data["level"].isel(plateau=0)
    top = max(1.0, float(shown.max()))  # large weights may start above the loss of none
    for value, shade, tick in zip(values, shades, clocks, strict=True):
        one = data.sel({axis: value}).isel(seed=0)
        time, loss = tick * one["time"].values, one["loss"].values / float(one["level"][0])
        # A network that has converged stays where it is.
        ax.plot(
            np.append(time, max(right, time[-1])),
            np.append(loss, loss[-1]),
            **PALE,
            color=shade,
            alpha=0.6,
            label=f"{symbol} {value:g}",
        )
        _draw_theory(ax, one, tick, shade)
    levels = (data["level"] / data["level"].isel(plateau=0)).values
    if np.allclose(levels, levels[0]):  # the same for all: no crowd of lines
        for level in levels[0]:
            ax.axhline(level, **THEORY | {"lw": 0.6}, zorder=0)
    ax.plot([], [], **THEORY, label=predicted)
    ax.set(xlim=(0, right), ylim=(-0.04 * top, 1.08 * top), title=title, xlabel=xlabel)
    ax.set_ylabel("loss / loss of zero weights")
    ax.legend(loc="upper left", bbox_to_anchor=(1.0, 1.0), borderaxespad=0.3)


def _draw_theory(ax: Axes, one: xr.Dataset, tick: float, shade: np.ndarray) -> None:
    """The predicted loss where there is one, the drops that are predicted where there is not."""
    first = float(one["level"][0])
    if "theory_loss" in one and np.isfinite(one["theory_loss"]).all():
        ax.plot(tick * one["theory_time"], one["theory_loss"] / first, **THEORY)
        return
    levels, times = one["level"].values / first, tick * one["predicted_time"].values
    for drop in np.flatnonzero(np.isfinite(times)):
        ax.plot([times[drop]] * 2, levels[drop : drop + 2], **THEORY | {"color": shade, "lw": 1.4})


def draw_both(heading: str, run: xr.DataTree, over: str, *, symbol: str, predicted: str) -> Figure:
    """Linear network and linear attention side by side, a curve for each value of what is swept.

    `predicted` is what theory draws for attention; of the linear network it draws all of it.
    """
    figure = sheet(heading)
    panels = {"linear": ("linear network", "theory"), "attention": ("linear attention", predicted)}
    for ax, (model, (title, theory)) in zip(figure.subplots(1, 2), panels.items(), strict=True):
        data = run[model].to_dataset()
        draw_sweep(ax, data, over, title=title, symbol=symbol, predicted=theory)
    return figure
