"""Items part ways in a deep network, and all at once in a shallow one."""

import json

import matplotlib as mpl
import numpy as np
import xarray as xr
from matplotlib.axes import Axes
from matplotlib.figure import Figure

from ...figures import PALE, THEORY, styled
from .._slides import sheet

_NAMES = ("canary", "robin", "salmon", "sunfish", "daisy", "rose", "oak", "pine")
"""The eight items of Rogers & McClelland (2004), for a tree of eight."""


@styled
def draw(run: xr.DataTree) -> Figure:
    """What one network makes of the items over time, and its levels, deep and shallow."""
    hierarchy, deep, shallow = (run[name].to_dataset() for name in ("hierarchy", "deep", "shallow"))
    parameters = json.loads(run.attrs["parameters"])
    figure = sheet("A hierarchy is learned from the top: broad distinctions first", (10.5, 3.9))
    places, strengths, straight = figure.subplots(
        1, 3, gridspec_kw={"width_ratios": (1.25, 1, 0.8)}
    )
    binary = list(parameters["branching"]) == [2, 2, 2]
    colors = mpl.colormaps["viridis"](np.linspace(0.0, 0.88, deep.sizes["level"]))
    _draw_places(places, hierarchy, deep, _NAMES if binary else None, colors)
    for level, color in enumerate(colors):
        one = deep.isel(level=level)
        strengths.plot(
            deep["time"], one["random"].transpose("time", "seed"), **PALE, color=color, alpha=0.3
        )
        theory = one["random_theory"].transpose("time", "seed")
        strengths.plot(deep["time"], theory, **{**THEORY, "lw": 0.6})
        strengths.plot([], [], **PALE, color=color, label=_words(level))
        # One on the other, so that all can be seen.
        wide = 3 + 5 * (1 - level / len(colors))
        one = shallow.isel(level=level)
        straight.plot(shallow["time"], one["strength"], color=color, lw=wide, alpha=0.5)
    straight.plot(shallow["time"], shallow["theory"].isel(level=0), **THEORY)
    strengths.set(title="deep: level by level", ylabel="learned, $a/s$")
    straight.set(title="shallow: all levels at once")
    for ax in (strengths, straight):
        ax.set(xlabel="time $t/τ$", ylim=(0, 1.06), yticks=(0, 0.5, 1))
        ax.set_xlim(left=0)
    strengths.set_xlim(right=float(deep["time"][-1]))
    strengths.plot([], [], **THEORY, label="theory, from initial weights")
    figure.legend(*strengths.get_legend_handles_labels(), loc="outside lower center", ncols=5)
    return figure


def _words(level: int) -> str:
    return "what all share" if level == 0 else f"distinctions at level {level}"


def _draw_places(
    ax: Axes,
    hierarchy: xr.Dataset,
    deep: xr.Dataset,
    names: tuple[str, ...] | None,
    colors: np.ndarray,
) -> None:
    """The hidden representations of the first random network, from the start to the end."""
    place, theory = (deep[name].isel(seed=0).values for name in ("place", "place_theory"))
    branch = hierarchy["groups"].values[min(1, hierarchy.sizes["depth"] - 1)]
    half = deep["random_theory_half_time"].isel(seed=0).values
    for item in range(place.shape[1]):
        color = f"C{branch[item] % 10}"
        ax.plot(*place[:, item].T, lw=2.5, alpha=0.45, color=color, solid_capstyle="round")
        ax.plot(*theory[:, item].T, **THEORY)
        ax.plot(*place[-1, item], "o", ms=7, color=color)
        label = names[item] if names else str(item + 1)
        side = 1 if place[-1, item, 1] >= 0 else -1
        ax.annotate(
            label,
            place[-1, item],
            (0, 7 * side),
            textcoords="offset points",
            ha="center",
            va="bottom" if side > 0 else "top",
        )
    for level, time in enumerate(half[1:], start=1):
        now = int(np.searchsorted(deep["time"].values, time))
        if now < len(place):
            ax.plot(*place[now].T, "o", ms=4.5, color=colors[level], zorder=3)
    ax.plot(*place[0].mean(axis=0), "o", ms=5, color="0.25")
    ax.margins(0.12, 0.16)
    ax.set(
        title="items in the hidden layer part ways\n(small dots: when a level is half learned)",
        xlabel="distinctions of odd levels",
        ylabel="distinctions of even levels",
        xticks=[],
        yticks=[],
    )
