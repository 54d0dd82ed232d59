"""The figure of the relative scale: accuracies over time, and when networks grok."""

import json

import matplotlib as mpl
import numpy as np
import xarray as xr
from matplotlib.axes import Axes
from matplotlib.figure import Figure
from matplotlib.lines import Line2D
from matplotlib.ticker import MaxNLocator

from ...figures import PALE, styled
from .._slides import sheet

# What each way is called below its column; its factors are in the module of the experiment.
_WAYS = {
    "embedding": "smaller\nembedding",
    "both": "both\nsmaller",
    "readout": "smaller\nreadout",
    "exchange": "function\nkept",
}


@styled
def draw(run: xr.DataTree) -> Figure:
    """Accuracies with a smaller embedding, the same with the function kept, and times to grok."""
    data = run["simulation"].to_dataset()
    parameters = json.loads(run.attrs["parameters"])
    figure = sheet(f"Addition modulo {parameters['modulus']}: when a network groks", (9.6, 3.3))
    smaller, kept, times = figure.subplots(1, 3, width_ratios=(1, 1, 1.2))
    factors = data["factor"].values
    colors = mpl.colormaps["viridis"](np.linspace(0.85, 0.05, len(factors)))
    for ax, way, title in (
        (smaller, "embedding", "smaller embedding: $u → g\\,u$"),
        (kept, "exchange", "function kept: $u → g\\,u$, $v → v/g^2$"),
    ):
        _draw_accuracies(ax, data.sel(way=way), colors)
        ax.set(title=title)
    smaller.set(ylabel="accuracy, mean over seeds")
    kept.tick_params(labelleft=False)
    _legend(smaller, factors, colors)
    _draw_times(times, data, colors, parameters["t_end"])
    return figure


def _draw_accuracies(ax: Axes, data: xr.Dataset, colors: np.ndarray) -> None:
    mean = data.mean("seed").isel(time=slice(1, None))
    for factor, color in zip(data["factor"].values, colors, strict=True):
        curve = mean.sel(factor=factor)
        ax.plot(curve["time"], curve["train_accuracy"], color=color, lw=1.2, ls=":")
        ax.plot(curve["time"], curve["test_accuracy"], **PALE, color=color, alpha=0.8)
    times = mean["time"].values
    ax.set(xscale="log", xlabel="flow time $t$", xlim=(times[0], times[-1]), ylim=(-0.03, 1.05))


def _legend(ax: Axes, factors: np.ndarray, colors: np.ndarray) -> None:
    lines = [
        Line2D([], [], **PALE, color=color, alpha=0.8, label=f"$g$ = {factor:g}")
        for factor, color in zip(factors, colors, strict=True)
    ]
    kinds = [
        Line2D([], [], color="0.3", lw=1.2, ls=":", label="trained on"),
        Line2D([], [], **PALE, color="0.3", alpha=0.8, label="held out"),
    ]
    ax.legend(handles=[*lines, *kinds], loc="upper left", handlelength=1.6)


def _draw_times(ax: Axes, data: xr.Dataset, colors: np.ndarray, end: float) -> None:
    """Every seed a dot, the median a bar; above the line is who had not grokked by the end."""
    grok = data["grok_time"].transpose("way", "factor", "seed")
    never = 1.15 * end
    ax.axhline(end, color="0.8", lw=1, zorder=0)
    _draw_column(ax, 0.0, 0.7, grok.sel(way="embedding").values[0], colors[0], never)
    room = 0.8 / (len(colors) - 1)
    for column, way in enumerate(_WAYS, start=1):
        for index in range(1, len(colors)):
            place = column - 0.4 + room * (index - 0.5)
            times = grok.sel(way=way).values[index]
            _draw_column(ax, place, 0.85 * room, times, colors[index], never)
    ax.set(
        xlabel="what is scaled",
        ylabel="flow time to grok",
        title="every seed, and the median",
        xlim=(-0.6, len(_WAYS) + 0.6),
        ylim=(0, 1.22 * end),
    )
    ax.set_xticks(range(len(_WAYS) + 1), ["$g$ = 1", *_WAYS.values()], fontsize=8)
    ax.tick_params(axis="x", length=0)
    ticks = [tick for tick in MaxNLocator(6).tick_values(0, end) if 0 <= tick <= end]
    ax.set_yticks([*ticks, never], [*(f"{tick:g}" for tick in ticks), "not yet"])


def _draw_column(
    ax: Axes, place: float, width: float, times: np.ndarray, color: np.ndarray, never: float
) -> None:
    times = np.nan_to_num(times, nan=never)
    beside = place + 0.7 * width * (np.arange(len(times)) / max(len(times) - 1, 1) - 0.5)
    ax.plot(beside, times, "o", color=color, ms=4, alpha=0.6, mew=0)
    middle = np.median(times)
    ax.plot([place - width / 2, place + width / 2], [middle, middle], **PALE, color=color)
