"""Six worlds side by side: what they are, their modes, and how these are learned."""

import json

import matplotlib as mpl
import numpy as np
import xarray as xr
from jaxtyping import Float
from matplotlib.axes import Axes
from matplotlib.collections import LineCollection
from matplotlib.figure import Figure
from matplotlib.lines import Line2D

from ...figures import PALE, THEORY, styled
from .._slides import sheet

_SHOWN = 6  # leading levels of each world


@styled
def draw(run: xr.DataTree) -> Figure:
    """One column for each world: its items, its leading modes, and when these are learned."""
    worlds = {name: node.to_dataset() for name, node in run.children.items()}
    parameters = json.loads(run.attrs["parameters"])
    shape = parameters["rows"], parameters["columns"]
    figure = sheet(
        "Six worlds: items, their modes in the order of eigenvalues, and when each is learned",
        (12.0, 5.6),
    )
    axes = figure.subplots(3, len(worlds), gridspec_kw={"height_ratios": (1, 1.25, 1.15)})
    for column, (name, world) in enumerate(worlds.items()):
        items, modes, learning = axes[:, column]
        _draw_items(items, world)
        items.set_title(name)
        _draw_modes(modes, world, shape if name in ("grid", "torus") else None)
        _draw_learning(learning, world)
        learning.set_xlabel("time $t/τ$")
        if column:
            learning.set_yticklabels([])
    axes[2, 0].set_ylabel("learned, $a/s$")
    figure.legend(
        handles=[
            Line2D([], [], **PALE, color="0.6", label="training, small random weights"),
            Line2D([], [], **THEORY, label="theory, from the same weights"),
        ],
        loc="outside lower center",
        ncols=2,
    )
    return figure


def _colors(count: int) -> Float[np.ndarray, "level 4"]:
    """Early to late, from dark to light."""
    return mpl.colormaps["viridis"](np.linspace(0.0, 0.88, max(count, 2)))


def _draw_items(ax: Axes, world: xr.Dataset) -> None:
    ax.add_collection(LineCollection(list(world["edge"].values), colors="0.65", linewidths=1.0))
    ax.plot(*world["position"].values.T, "o", ms=4.5, color="0.2")
    ax.set_aspect("equal", adjustable="datalim")
    ax.margins(0.12)
    ax.axis("off")


def _draw_modes(ax: Axes, world: xr.Dataset, shape: tuple[int, int] | None) -> None:
    """The first mode of each level, in colours from negative to positive."""
    ax.axis("off")
    level = world["level_of_mode"].values
    _, first = np.unique(level, return_index=True)
    colors = _colors(min(len(first), _SHOWN))
    for index, mode in enumerate(first[:_SHOWN]):
        v = world["mode_of_items"].values[:, mode]
        if shape is None:
            box = (0.14, 1 - (index + 0.9) / _SHOWN, 0.86, 0.78 / _SHOWN)
        else:
            across, down = index % 2, index // 2
            box = (0.12 + 0.5 * across, 1 - (down + 0.95) / 3, 0.38, 0.27)
        small = ax.inset_axes(box)
        picture = v[None] if shape is None else v.reshape(shape)
        top = np.abs(v).max()
        small.imshow(picture, cmap="PuOr", vmin=-top, vmax=top, aspect="auto")
        small.set(xticks=[], yticks=[])
        small.spines[:].set_visible(False)
        small.set_ylabel(
            str(index + 1), color=colors[index], rotation=0, ha="right", va="center", weight="bold"
        )


def _draw_learning(ax: Axes, world: xr.Dataset) -> None:
    """The first of the random networks, with the prediction from its own weights."""
    count = min(world.sizes["level"], _SHOWN)
    one = world.isel(seed=0)
    for index, color in enumerate(_colors(count)[:count]):
        curve = one.isel(level=index)
        ax.plot(one["time"], curve["random"], **PALE, color=color, alpha=0.55)
        ax.plot(one["time"], curve["random_theory"], **THEORY)
    end = float(one["random_theory_half_time"][:count].max()) * 1.25
    ax.set(xlim=(0, min(end, float(one["time"][-1]))), ylim=(0, 1.06), yticks=(0, 0.5, 1))
