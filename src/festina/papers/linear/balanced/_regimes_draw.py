"""A map of the regimes, and what the hidden layer holds in each of them."""

from typing import Any

import numpy as np
import xarray as xr
from matplotlib.axes import Axes
from matplotlib.figure import Figure

from ...figures import THEORY, styled
from .._slides import sheet
from ._shapes import COLOURS, SHAPES

_COLUMNS = {
    "items_equal": "rich",
    "items_first_large": "lazy",
    "items_second_large": "lazy",
    "items_funnel": "delayed rich",
}


@styled
def draw(run: xr.DataTree) -> Figure:
    """Kernel distance against λ for three shapes; similarity of items before and after."""
    figure = sheet("Rich, lazy, or rich with a delay: balance and architecture decide", (11.0, 4.0))
    left, right = np.asarray(figure.subfigures(1, 2, width_ratios=(1.0, 1.35)))
    _draw_distances(left.subplots(), run)
    grid = right.subplots(2, 4)
    for column, (name, regime) in zip(grid.T, _COLUMNS.items(), strict=True):
        table = run[name].to_dataset()
        for ax, when in zip(column, ("before", "after"), strict=True):
            _draw_items(ax, table[when].values)
        shape = "square" if table.attrs["features"] == 8 else "funnel"
        column[0].set_title(f"{regime}\n{shape}, $λ = {table.attrs['balance']:g}$")
    for ax, when in zip(grid[:, 0], ("before", "after"), strict=True):
        ax.set_ylabel(f"{when} learning\nitem")
    for ax in grid[1]:
        ax.set_xlabel("item")
    right.suptitle("similarity of items in the hidden layer, $W_1^⊤W_1$", fontsize=9)
    return figure


def _draw_distances(ax: Axes, run: xr.DataTree) -> None:
    """λ on an axis that is linear around zero and logarithmic beyond."""
    tables = {shape: run[shape].to_dataset() for shape in SHAPES}
    balance = tables["square"]["balance"].values
    inner = float(run["theory_square"].attrs["inner"])
    for shape in SHAPES:
        moved = tables[shape]["kernel_distance"].transpose("balance", "seed")
        spread: dict[str, Any] = {"color": COLOURS[shape], "alpha": 0.3, "s": 22, "lw": 0}
        for seed in range(moved.sizes["seed"]):
            ax.scatter(balance, moved.isel(seed=seed), **spread)
        theory = run[f"theory_{shape}"].to_dataset()["kernel_distance"].median("seed")
        style = {**THEORY, "color": COLOURS[shape], "lw": 1.5}
        ax.plot(theory["balance"], theory, **style, label=f"{shape}, theory (median)")
    ax.scatter([], [], color="0.5", alpha=0.5, s=22, lw=0, label="training, each seed")
    ax.set_xscale("symlog", linthresh=inner, linscale=0.6)
    sizes = [size for size in (0.01, 0.1, 1.0, 10.0, 100.0) if inner < size <= balance.max()]
    ticks = [*(-size for size in sizes[::-1]), 0.0, *sizes]
    ax.set_xticks(ticks, [f"{tick:g}" for tick in ticks])
    ax.set(xlabel="balance $λ$", ylabel="kernel distance, start to end", ylim=(-0.02, None))
    ax.legend(loc="upper center", ncols=2, bbox_to_anchor=(0.5, 1.2))


def _draw_items(ax: Axes, gram: np.ndarray) -> None:
    """Each image on its own scale: what counts is the pattern."""
    most = np.abs(gram).max()
    ax.imshow(gram / most, cmap="RdBu_r", vmin=-1, vmax=1)
    ax.set(xticks=[], yticks=[])
