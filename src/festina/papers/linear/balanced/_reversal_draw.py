"""The figure of reversal learning: curves, crossing times, and the price of learning well."""

import math

import matplotlib as mpl
import numpy as np
import xarray as xr
from matplotlib.axes import Axes
from matplotlib.figure import Figure

from ...figures import PALE, THEORY, styled
from .._slides import sheet


@styled
def draw(run: xr.DataTree) -> Figure:
    """One mode over time, when modes pass through zero, and learning that was stopped early."""
    figure = sheet("Learning the opposite: the nearer to balance 0, the longer it takes")
    curves, crossing, early = figure.subplots(1, 3, width_ratios=(1.15, 1, 1))
    _draw_curves(curves, run)
    _draw_crossing(crossing, run["converged"].to_dataset(), run["shallow"].to_dataset())
    _draw_early(early, run["early"].to_dataset())
    return figure


def _draw_curves(ax: Axes, run: xr.DataTree) -> None:
    data, trapped = run["converged"].to_dataset(), run["trapped"].to_dataset()
    s = float(trapped["singular_value"])
    data = data.sel(mode=s)
    balances = data["balance"].values
    colors = mpl.colormaps["viridis"](np.linspace(0.0, 0.85, len(balances) + 1))
    end = min(2.6 * float(data["crossing_theory"].max()), float(data["time"][-1]))
    time = trapped["time"].values
    shown = time <= end
    ax.plot(time[shown], trapped["strength"][shown], **PALE, color=colors[0], alpha=0.6, label="0")
    ax.plot(time[shown], trapped["theory"][shown], **THEORY)
    for value, color in zip(balances, colors[1:], strict=True):
        curve = data.sel(balance=value)
        ax.plot(
            curve["time"],
            curve["strength"].isel(seed=0),
            **PALE,
            color=color,
            alpha=0.6,
            label=f"{value:g}",
        )
        ax.plot(curve["time"], curve["theory"], **THEORY)
    ax.axhline(0, color="0.85", lw=1, zorder=0)
    ax.set(
        xlim=(0, end),
        ylim=(-1.1 * s, 1.35 * s),
        xlabel="time $t$ since the reversal, in units of $τ$",
        ylabel="mode strength $a(t)$",
        title=f"$s$ = {s:g} → {-s:g}",
    )
    ax.legend(loc="upper right", title="balance $λ$", ncols=3)


def _draw_crossing(ax: Axes, data: xr.Dataset, shallow: xr.Dataset) -> None:
    lam, fine = data["balance"].values, data["fine_balance"].values
    for index, s in enumerate(data["mode"].values):
        part = data.sel(mode=s)
        color = f"C{index}"
        middle = part["crossing"].median("seed")
        ax.plot(lam, middle, "o", color=color, ms=9, alpha=0.5, mew=0, label=f"$s$ = {s:g}")
        ax.plot(fine, part["crossing_curve"], **THEORY)
        weak = fine[fine < s]
        ax.plot(weak, np.log(2 * s / weak) / (2 * s), color=color, lw=1.2, ls=":")
    strong = fine[fine >= 0.7 * float(data["mode"].min())]
    ax.plot(strong, math.log(2) / strong, color="0.4", lw=1.2, ls=":", label="limits")
    ax.axhline(float(shallow["crossing"][0]), color="0.6", **PALE, alpha=0.35, zorder=0)
    ax.text(lam[-1], 1.08 * math.log(2), "shallow", color="0.4", ha="right", va="bottom")
    ax.set(
        xscale="log",
        yscale="log",
        xlabel="balance $λ$",
        ylabel="time to pass through zero, in $τ$",
        title="learned to the end",
    )
    ax.legend(loc="lower left")


def _draw_early(ax: Axes, data: xr.Dataset) -> None:
    stop = data["stop"].values
    for name, label, color, slope in (
        ("relearned", "half relearned", "C1", 2),
        ("crossing", "changes sign", "C0", 1),
    ):
        times = data[name].transpose("stop", "seed").values
        ax.plot(stop, times, "o", color=color, ms=7, alpha=0.4, mew=0)
        last = np.median(times[-1])
        ax.plot(stop, last + slope * (stop - stop[-1]), **THEORY)
        ax.annotate(
            f"{label}: slope {slope}",
            (stop[-1], last),
            (-6, 14 if slope == 2 else 12),
            textcoords="offset points",
            color=color,
            ha="right",
        )
    ax.set(
        xlabel="learned for a time $T$, in units of $τ$",
        ylabel="time since the reversal, in $τ$",
        title="balance 0, stopped early",
    )
    ax.set_ylim(0, 1.2 * float(data["relearned"].max()))
