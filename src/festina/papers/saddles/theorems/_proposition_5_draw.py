"""Figure of Proposition 5: when units escape, and how far the others are then."""

import numpy as np
import xarray as xr
from matplotlib.axes import Axes
from matplotlib.figure import Figure
from matplotlib.ticker import LogLocator, NullFormatter, StrMethodFormatter

from ...figures import PALE, THEORY, styled
from ..figure_2._draw import sheet


@styled
def draw_units(run: xr.DataTree) -> Figure:
    """Escape of random units on the left, the second-largest unit on the right."""
    figure = sheet("Proposition 5   One unit leaves zero while the others are still small")
    left, right = figure.subplots(1, 2)
    _draw_escapes(left, run["both_signs"].to_dataset())
    _draw_rivals(right, run["rivals"].to_dataset())
    return figure


def _draw_escapes(ax: Axes, data: xr.Dataset) -> None:
    predicted, measured = data["predicted"].values, data["measured"].values
    bounces = data["bounces"].values
    ends = np.array([measured[np.isfinite(measured)].min(), measured[np.isfinite(measured)].max()])
    for chosen, color, label in (
        (~bounces, "C0", "Eq. (56) is right"),
        (bounces, "C1", "v changes sign: Eq. (56) imaginary"),
    ):
        ax.loglog(
            predicted[chosen], measured[chosen], "o", color=color, ms=5, alpha=0.5, mew=0,
            label=label,
        )  # fmt: skip
    ax.loglog(ends, ends, **THEORY, label="equal")
    ax.set(
        title=f"{data.sizes['unit']} random units",
        xlabel="escape time predicted from the initial weights",
        ylabel="escape time by direct integration",
    )
    for axis in (ax.xaxis, ax.yaxis):
        axis.set_major_locator(LogLocator(subs=(1, 2, 5)))
        axis.set_major_formatter(StrMethodFormatter("{x:g}"))
        axis.set_minor_formatter(NullFormatter())
    ax.legend(loc="upper left", fontsize=7)


def _draw_rivals(ax: Axes, data: xr.Dataset) -> None:
    ratio = data["second"].dropna("draw")
    scales = ratio["scale"].values
    for quantile, alpha, label in (
        (0.9, 0.3, "90 % quantile"),
        (0.5, 0.7, "median"),
        (0.1, 0.3, "10 % quantile"),
    ):
        size = scales * ratio.quantile(quantile, "draw").values
        ax.loglog(scales, size, **PALE, color="C0", alpha=alpha, label=label)
        ax.loglog(scales, size[-1] * scales / scales[-1], **THEORY)
    ax.plot([], [], **THEORY, label="∝ ε")
    ax.set(
        title=f"second-largest unit, {len(ratio)} networks",
        xlabel="initial scale ε",
        ylabel="its norm when the largest has norm 1",
    )
    ax.legend(loc="upper left")
