"""Table 1 as a picture: how fast the second mode grows, and which number says so."""

import numpy as np
import xarray as xr
from matplotlib.axes import Axes
from matplotlib.figure import Figure

from ...figures import PALE, THEORY, styled
from ._pairs import PRINTED


@styled
def draw(run: xr.DataTree) -> Figure:
    """Singular values of U over training on the left; growth rates by pair on the right."""
    data = run["pairs"].to_dataset()
    figure = Figure(figsize=(8.6, 3.6), layout="constrained")
    figure.suptitle(
        "The second plateau is left at the second singular value of $\\Sigma_{yx}$",
        x=0.02,
        ha="left",
        weight="bold",
    )
    growing, rates = figure.subplots(1, 2, width_ratios=(1.25, 1))
    _draw_growth(data, growing)
    _draw_rates(data, rates)
    return figure


def _draw_growth(data: xr.Dataset, ax: Axes) -> None:
    for index, pair in enumerate(data["pair"].values):
        one = data.sel(pair=pair).isel(seed=0)
        time = one["time"].values
        second = one["weight_singular_value"].sel(mode=1).values
        ax.plot(time, second, **PALE, color=f"C{index}", alpha=0.6, label=pair)
        # A straight line of the predicted slope through where the growth is half over.
        middle = 1e-3
        slope = float(one["predicted_growth"].sel(mode=1))
        through = float(np.interp(np.log(middle), np.log(second), time))
        ends = through + np.array([-4.0, 5.0]) / slope
        ax.plot(ends, middle * np.exp(slope * (ends - through)), **THEORY)
    ax.plot([], [], **THEORY, label="theory: slope")
    ax.set(yscale="log", xlabel="time t = 2ηn", ylabel="second singular value of U")
    ax.legend(title="digits", loc="lower right")


def _draw_rates(data: xr.Dataset, ax: Axes) -> None:
    pairs = [str(pair) for pair in data["pair"].values]
    places = np.arange(len(pairs))
    measured = data["growth"].sel(mode=1).mean("seed").values
    ax.bar(places, measured, width=0.6, color="C0", alpha=0.4, label="measured growth rate")
    second = data["predicted_growth"].sel(mode=1).values
    ax.hlines(
        second,
        places - 0.38,
        places + 0.38,
        colors="black",
        linestyles="--",
        lw=1,
        label="second singular value of $\\Sigma_{yx}$",
    )
    ax.plot(places, data["recipe"].values, "D", color="C1", ms=6, mew=0, label="the text's recipe")
    printed = [PRINTED.get(pair, (np.nan, np.nan))[1] for pair in pairs]
    ax.plot(places, printed, "X", color="C3", ms=8, mew=0, label="Table 1, second row")
    ax.set(xticks=places, xticklabels=pairs, xlabel="digits", ylabel="rate on the second plateau")
    ax.set_ylim(0, 1.45 * np.nanmax([*printed, *measured, *data["recipe"].values]))
    ax.legend(loc="upper right")
