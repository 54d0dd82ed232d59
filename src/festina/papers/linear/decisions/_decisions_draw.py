"""The figure of the animals that learn to decide: accuracy, bias and psychometric curves."""

import numpy as np
import xarray as xr
from matplotlib.axes import Axes
from matplotlib.cm import ScalarMappable
from matplotlib.colors import Colormap, LinearSegmentedColormap, Normalize
from matplotlib.figure import Figure
from matplotlib.lines import Line2D

from ...figures import PALE, THEORY, styled
from .._slides import sheet
from ._animals import LEFT_FIRST
from ._decisions_claims import stage_times

_TITLES = {
    "total": "one error\nteaches all weights",
    "heterogeneous": "each part is taught\nby its own error",
}
_STAGES = {"naive": "0.6", "one-sided": "#cc79a7", "expert": "#56b4e9"}


@styled
def draw(run: xr.DataTree) -> Figure:
    """A row for each kind of teaching; colour says which side an animal starts out with."""
    figure = sheet("Every animal learns in its own way, and by one rule", (9.4, 5.6))
    rows = figure.subplots(2, 3, sharex="col", sharey="col", width_ratios=(1, 1, 0.9))
    left, right = run["total"].to_dataset()["gain"].values.T
    ratio = np.log10(right / left)
    scale = Normalize(-np.abs(ratio).max(), np.abs(ratio).max())
    colormap = _colormap()
    for (accuracy, bias, choices), (teaching, title) in zip(rows, _TITLES.items(), strict=True):
        table = run[teaching].to_dataset()
        _draw_animals(accuracy, table, "accuracy", colormap(scale(ratio)))
        _draw_animals(bias, table, "bias", colormap(scale(ratio)))
        _draw_stages(choices, table)
        accuracy.set(ylabel=f"{title}\n\nfraction correct", ylim=(0.45, 1.02))
        bias.set(ylabel="$P(R\\,|\\,0) - ½$", ylim=(-0.5, 0.5))
        choices.set(ylabel="$P(R)$", ylim=(-0.05, 1.05))
    titles = ("accuracy", "bias: choices without a stimulus", "an animal that learns left first")
    for ax, title in zip(rows[0], titles, strict=True):
        ax.set_title(title)
    for ax, label in zip(rows[1], ("time $t/τ$", "time $t/τ$", "contrast in %"), strict=True):
        ax.set_xlabel(label)
    end = float(run["total"].to_dataset()["time"][-1])
    for ax in rows[:, :2].flat:
        ax.set_xlim(0, end)
    rows[1, 1].legend(
        handles=[
            Line2D([], [], **PALE, color="0.6", label="trial by trial, mean of runs"),
            Line2D([], [], **THEORY, label="mean field"),
        ],
        loc="lower right",
    )
    bar = figure.colorbar(ScalarMappable(scale, colormap), ax=rows, aspect=40, pad=0.02)
    bar.set_label("initial gains: $\\log_{10}(v_R / v_L)$")
    bar.outline.set_visible(False)  # pyright: ignore[reportCallIssue]
    return figure


def _colormap() -> Colormap:
    return LinearSegmentedColormap.from_list(
        "sides", ["#0072b2", "#8ab8d4", "#b8b8b8", "#e8ab84", "#d55e00"]
    )


def _draw_animals(ax: Axes, table: xr.Dataset, name: str, colors: np.ndarray) -> None:
    for animal, color in zip(table["animal"].values, colors, strict=True):
        one = table.sel(animal=animal)
        ax.plot(one["time"], one[name], **PALE, color=color, alpha=0.7)
        ax.plot(one["time"], one[f"{name}_theory"], **THEORY)


def _draw_stages(ax: Axes, table: xr.Dataset) -> None:
    """Its psychometric curves at three times, which the legend gives."""
    places = stage_times(table)
    if places is None:
        places = np.linspace(0, table.sizes["time"] - 1, 3).astype(int)
    contrast = 100 * table["contrast"].values
    for place, (stage, color) in zip(places, _STAGES.items(), strict=True):
        one = table.isel(animal=LEFT_FIRST, time=place)
        label = f"{stage}, {float(one['time']):.0f} τ"
        ax.plot(contrast, one["right_probability"], **PALE, color=color, label=label)
        ax.plot(contrast, one["right_probability_theory"], **THEORY)
    ax.set_xticks(contrast)
    ax.legend(loc="lower right", fontsize=7, handlelength=1.0)
