"""The figure of the chains: all modes at once, one after the other, and how near random weights."""

import matplotlib as mpl
import numpy as np
import xarray as xr
from matplotlib.axes import Axes
from matplotlib.figure import Figure

from ...figures import PALE, THEORY, styled
from .._slides import sheet


@styled
def draw(run: xr.DataTree) -> Figure:
    """Shallow beside deep, and the errors that small random weights leave."""
    data = run["decoupled"].to_dataset().sel(input="white")
    deepest = int(data["depth"].values[-1])
    figure = sheet("A network learns its modes like separate chains; with depth, in stages")
    shallow, deep, errors = figure.subplots(1, 3)
    _draw_modes(shallow, data.sel(depth=1))
    _draw_modes(deep, data.sel(depth=deepest))
    shallow.set(title="shallow, $D = 1$", ylabel="mode strength $a(t)$")
    deep.set(title=f"deep, $D = {deepest}$")
    top = 1.25 * float(data["target"].max())
    for ax in (shallow, deep):
        ax.set(ylim=(0, top))
    shallow.plot([], [], **PALE, color="0.5", alpha=0.6, label="training")
    shallow.plot([], [], **THEORY, label="chains")
    shallow.legend(loc="upper left", ncols=2)
    _draw_errors(errors, run["random"].to_dataset())
    return figure


def _draw_modes(ax: Axes, data: xr.Dataset) -> None:
    colors = mpl.colormaps["viridis"](np.linspace(0.0, 0.85, data.sizes["mode"]))
    time = data["time"].values
    for mode, color in enumerate(colors):
        curve = data.isel(mode=mode)
        ax.plot(time, curve["strength"], **PALE, color=color, alpha=0.6)
        ax.plot(time, curve["theory"], **THEORY)
        ax.text(
            1.03 * time[-1],
            float(curve["target"]),
            f"$s$ = {float(curve['target']):g}",
            color=color,
            va="center",
        )
    ax.set(xlabel="time $t$ in units of $τ$", xlim=(0, time[-1]))


def _draw_errors(ax: Axes, data: xr.Dataset) -> None:
    """Of the whole map, each seed a dot, medians joined."""
    scale = data["scale"].values
    for name, label, color, height in (
        ("chain_error", "chains", "C0", 1.6),
        ("balanced_error", "balanced solution", "C1", 1.6),
    ):
        error = data[name].transpose("scale", "seed").values
        ax.plot(scale, error, "o", color=color, ms=5, alpha=0.35, mew=0)
        middle = np.median(error, axis=1)
        ax.plot(scale, middle, **PALE, color=color, alpha=0.35)
        ax.annotate(
            label,
            (scale[-1], height * middle[-1]),
            (0, 4),
            textcoords="offset points",
            color=color,
            ha="left",
        )
    balanced = np.median(data["balanced_error"].transpose("scale", "seed").values, axis=1)
    ax.plot(scale, balanced[0] * (scale / scale[0]) ** 2, **THEORY, label="scale²")
    ax.set(
        xscale="log",
        yscale="log",
        xlabel="scale of small random weights",
        ylabel="largest error of $W_2 W_1$",
        title="random weights, $D = 2$",
    )
    ax.set_ylim(top=10)
    ax.legend(loc="lower right")
