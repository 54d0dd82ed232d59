"""The maps that three networks learn, and how wrong the solution in print is."""

import matplotlib as mpl
import numpy as np
import xarray as xr
from matplotlib.axes import Axes
from matplotlib.figure import Figure

from ...figures import PALE, THEORY, styled
from .._slides import sheet
from ._shapes import SHAPES

_FLOOR = 1e-15


@styled
def draw(run: xr.DataTree) -> Figure:
    """Every entry of W₂W₁ over time for each shape, and the error of Eq. (15)."""
    figure = sheet("Balanced weights: every entry of the network map, exactly", (11.5, 3.2))
    *maps, errors = figure.subplots(1, 4)
    for ax, shape in zip(maps, SHAPES, strict=True):
        _draw_map(ax, run[shape].to_dataset().isel(balance=0), shape)
    low = min(ax.get_ylim()[0] for ax in maps)
    high = max(ax.get_ylim()[1] for ax in maps)
    for ax in maps:
        ax.set(ylim=(low, high), xlim=(0, None), xlabel="time $t/τ$")
    maps[0].set_ylabel("entries of $W_2W_1$")
    for ax in maps[1:]:
        ax.tick_params(labelleft=False)
    maps[0].plot([], [], **PALE, color="0.6", alpha=0.5, label="training")
    maps[0].plot([], [], **THEORY, label="solution")
    maps[0].legend(loc="center right", bbox_to_anchor=(1.0, 0.38))
    _draw_errors(errors, run["funnel"].to_dataset())
    return figure


def _draw_map(ax: Axes, table: xr.Dataset, shape: str) -> None:
    inputs = table.attrs["inputs"]
    block = table.isel(row=slice(inputs, None), column=slice(None, inputs))
    entries = block.stack(entry=("row", "column"))
    for index in range(entries.sizes["entry"]):
        entry = entries.isel(entry=index)
        ax.plot(entry["time"], entry["trained"], **PALE, color=f"C{index}", alpha=0.45)
        ax.plot(entry["time"], entry["theory"], **THEORY)
    sizes = f"{inputs}-2-{block.sizes['row']}"
    ax.set_title(f"{shape}, {sizes}, $λ = {float(table['balance']):g}$")


def _draw_errors(ax: Axes, table: xr.Dataset) -> None:
    """Largest error among the entries of QQᵀ."""
    apart = abs(table[["printed", "corrected"]] - table["trained"]).max(
        ("row", "column"), skipna=False
    )
    shown = [float(b) for b in table["balance"] if b != 0]
    colours = mpl.colormaps["viridis"](np.linspace(0.0, 0.85, max(len(shown), 2)))
    for balance, colour in zip(shown, colours, strict=False):
        each = apart.sel(balance=balance)
        ax.semilogy(each["time"][1:], each["printed"][1:], color=colour, label=f"{balance:g}")
    worst = np.fmax(apart["corrected"].max("balance"), _FLOOR)
    ax.semilogy(apart["time"][1:], worst[1:], color="0.5", ls=":")
    ax.text(0.97, 0.03, "corrected, every $λ$", transform=ax.transAxes, ha="right", color="0.4")
    ax.set(
        title="funnel: error of Eq. (15) as printed",
        xlabel="time $t/τ$",
        ylabel="largest error in $QQ^⊤$",
        xlim=(0, None),
        ylim=(_FLOOR, None),
    )
    if shown:
        ax.legend(title="$λ$", loc="upper left", bbox_to_anchor=(1.0, 1.0))
