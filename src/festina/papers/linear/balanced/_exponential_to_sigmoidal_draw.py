"""Learning curves on the clock of their last phase, and one number for their shape."""

import matplotlib as mpl
import numpy as np
import xarray as xr
from matplotlib.axes import Axes
from matplotlib.figure import Figure

from ...figures import PALE, THEORY, styled
from .._slides import sheet
from ._exponential_to_sigmoidal_claims import reached, shape_of


@styled
def draw(run: xr.DataTree) -> Figure:
    """The strongest mode, what is left of it, and the wait before the rise."""
    curves = run["curves"].to_dataset().isel(mode=0)
    figure = sheet("Equal layers learn in sigmoids, unequal ones exponentially", (10.0, 3.2))
    rise, rest, shape = figure.subplots(1, 3)
    s = float(curves["singular_value"])
    colours = mpl.colormaps["viridis"](np.linspace(0.0, 0.9, curves.sizes["balance"]))
    for colour, balance in zip(colours, curves["balance"].values, strict=True):
        curve = curves.sel(balance=balance)
        clock = curve["rate"] * curve["time"]
        trained = curve["strength"].sel(sign=1.0).isel(seed=0) / s
        theory = curve["theory"] / s
        _draw_curve(rise, clock, trained, theory, colour, f"{balance / s:g}")
        _draw_curve(rest, clock, 1 - trained, 1 - theory, colour, None)
    # Until the slowest of the curves of this mode has learned it.
    end = 1.05 * float((curves["rate"] * curves["time_to"].sel(mark=0.9)).max()) + 2
    for ax in (rise, rest):
        ax.set(xlim=(0, end), xlabel="time $t/τ$ times final rate $2S_λ$")
    rise.set(title="strongest mode", ylabel="strength $a/s$", ylim=(0, 1.05))
    rest.set(title="what is left to learn", ylabel="$1 - a/s$", yscale="log", ylim=(1e-2, 4.0))
    rise.legend(title="$λ/s$", loc="lower right")
    rest.plot([], [], **PALE, color="0.6", alpha=0.5, label="training")
    rest.plot([], [], **THEORY, label="closed form")
    rest.legend(loc="upper right")
    _draw_shape(shape, run["curves"].to_dataset(), run["shape"].to_dataset(), colours)
    return figure


def _draw_curve(ax: Axes, clock, trained, theory, colour, label: str | None) -> None:
    ax.plot(clock, trained, **PALE, color=colour, alpha=0.5, label=label)
    ax.plot(clock, theory, **THEORY)


def _draw_shape(ax: Axes, curves: xr.Dataset, theory: xr.Dataset, colours: np.ndarray) -> None:
    """λ = 0 stands at the left edge of the logarithmic axis."""
    s = float(curves["singular_value"][0])
    ratio, many = curves["balance"].values / s, theory["balance"].values / s
    place = np.where(ratio > 0, ratio, many[0])
    early, _, late = theory["time_to"].values
    ax.scatter(place, shape_of(reached(curves)), s=60, c=colours, alpha=0.6)
    ax.plot(many, early / (late - early), **THEORY)
    exponential = np.log(1 / 0.9) / np.log(9)
    ax.axhline(exponential, color="0.8", lw=1, zorder=0)
    ax.text(many[0], 1.08 * exponential, "exponential", color="0.4")
    ax.set(title="wait before the rise", xscale="log", yscale="log", xlabel="balance $λ/s$")
    ax.set_ylabel("time to 10 % over rise to 90 %")
    ticks = [x for x in 10.0 ** np.arange(-6, 4) if 2 * many[0] < x < 2 * many[-1]]
    zero = [many[0]] if ratio[0] == 0 else []
    ax.set_xticks([*zero, *ticks], [*("0" for _ in zero), *(f"{tick:g}" for tick in ticks)])
    low, high = ax.get_ylim()
    levels = [y for y in (0.05, 0.1, 0.2, 0.5, 1.0, 2.0, 5.0) if low < y < high]
    ax.set_yticks(levels, [f"{level:g}" for level in levels])
    ax.minorticks_off()
