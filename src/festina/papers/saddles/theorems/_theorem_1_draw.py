"""Gradients after embedding, for every architecture, and how the saddles of Figure 1 are left."""

import numpy as np
import xarray as xr
from matplotlib.axes import Axes
from matplotlib.figure import Figure

from ...figures import PALE, THEORY, styled
from ._theorem_1_claims import exponents

_LOOK = {
    "equal": ("C0", "o", "(4) equal"),
    "zero": ("C2", "s", "(5) zero"),
    "proportional": ("C1", "^", "(6) proportional"),
    "linear": ("C4", "D", "(7) linear"),
    "negative": ("0.35", "v", "(6) with $γ_u < 0$"),
}
_FLOOR = 1e-17


@styled
def draw(run: xr.DataTree) -> Figure:
    """On the left every architecture and way of embedding, on the right the way out."""
    figure = Figure(figsize=(10, 4.8), layout="constrained")
    figure.suptitle("Fixed points of a narrow network are saddles of a wider one")
    left, right = figure.subplots(1, 2, width_ratios=(1.7, 1))
    _gradients(left, run["embeddings"].to_dataset())
    _ways_out(right, run["panels"].to_dataset())
    return figure


def _gradients(ax: Axes, table: xr.Dataset) -> None:
    names = table["architecture"].values
    for offset, (case, (color, marker, label)) in zip(
        np.linspace(0.28, -0.28, len(_LOOK)), _LOOK.items(), strict=True
    ):
        chosen = table.sel(case=case)
        for row, name in enumerate(names):
            one = chosen.sel(architecture=name)
            sizes = np.maximum(one["after"].values, _FLOOR)
            filled = color if bool(one["admitted"]) else "none"
            ax.plot(
                sizes,
                np.full(len(sizes), row - offset),
                marker,
                color=color,
                mfc=filled,
                ms=4,
                alpha=0.7,
                label=label if row == 0 else None,
            )
    ax.axvspan(1e-18, 1e-12, color="0.95", zorder=0)
    ax.set(
        xscale="log",
        xlim=(3e-18, 3e4),
        ylim=(len(names) - 0.5, -0.5),
        xlabel=r"gradient $|\partial L/\partial\theta|$ in the wide network",
        title="filled: $φ$ has the property that the equation needs; open: it has not",
    )
    ax.set_yticks(range(len(names)), names)
    ax.tick_params(axis="y", length=0)
    for row in range(1, len(names)):
        ax.axhline(row - 0.5, color="0.9", lw=0.6, zorder=0)
    handles, labels = ax.get_legend_handles_labels()
    for handle in handles:
        handle.set_markerfacecolor(handle.get_color())  # pyright: ignore[reportAttributeAccessIssue]
    ax.figure.legend(handles, labels, loc="outside lower left", ncols=5)  # pyright: ignore


def _ways_out(ax: Axes, table: xr.Dataset) -> None:
    radius, slopes = table["radius"].values, exponents(table)
    for index, panel in enumerate(table["panel"].values):
        gain = table["gain"].sel(panel=panel).values
        words = f"{panel}: {slopes[index]:.2f}"
        ax.plot(radius, gain, **PALE, color=f"C{index}", alpha=0.5, label=words)
        order = 1 + int(table["order"].sel(panel=panel))
        ax.plot(radius, gain[-1] * (radius / radius[-1]) ** order, **THEORY)
    ax.plot([], [], **THEORY, label="power of theory")
    largest = float(table["gain"].max())
    ax.set(
        xscale="log",
        yscale="log",
        ylim=(None, 3e3 * largest),
        xlabel="distance $δ$ of a silent unit from zero",
        ylabel="largest fall of the loss",
        title="width-1 minima of Figure 1's panels",
    )
    ax.legend(title="panel: exponent of $δ$", loc="upper left", ncols=3)
