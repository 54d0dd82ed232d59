"""Figure of Theorem 3: what stays on its manifold, and what the narrower networks are off by."""

import numpy as np
import xarray as xr
from matplotlib.axes import Axes
from matplotlib.figure import Figure

from ...figures import PALE, THEORY, styled
from ._theorem_3_cases import cases_of

_FLOOR = 1e-17  # where exact zeros are drawn
_TOLERANCE = 1e-10
_KEPT, _NEW, _CONTROL = "#0072B2", "#009E73", "#D55E00"


@styled
def draw_theorem(run: xr.DataTree) -> Figure:
    """Left: distance from the manifold over training. Right: error with one unit less, by case."""
    drift = run["drift"].to_dataset()
    figure = Figure(figsize=(9.0, 4.2), layout="constrained")
    figure.suptitle("Units that are related stay related, and one of them can be left out")
    over_time, by_case = figure.subplots(1, 2, width_ratios=(1, 1.15))
    _draw_distance(over_time, drift)
    _draw_errors(by_case, drift)
    return figure


def _draw_distance(ax: Axes, drift: xr.Dataset) -> None:
    for case in cases_of(drift):
        lines = np.maximum(drift["distance"].sel(case=case.name).values, _FLOOR)
        ax.plot(drift["step"], lines.max(axis=0), **PALE, color=_colour(case.group), alpha=0.45)
    ax.axhline(_TOLERANCE, **THEORY)
    ax.set(
        yscale="log",
        ylim=(0.3 * _FLOOR, 30),
        xlabel="gradient descent step",
        ylabel="distance from the manifold / |θ|",
        title="distance while training (largest over seeds)",
    )
    for colour, words in (
        (_CONTROL, "controls: φ does not allow it"),
        (_NEW, "even or odd φ, not in the theorem"),
        (_KEPT, "Theorem 3(i)–(iv)"),
    ):
        ax.plot([], [], **PALE, color=colour, alpha=0.6, label=words)
    ax.plot([], [], **THEORY, label="counts as zero below")
    ax.text(drift["step"].values[-1], 1.6 * _FLOOR, "exactly zero", ha="right", size=8, color="0.3")
    ax.legend(loc="center", bbox_to_anchor=(0.5, 0.66))


def _draw_errors(ax: Axes, drift: xr.Dataset) -> None:
    error = drift["reduction_error"].max("moment")
    cases = cases_of(drift)[::-1]
    for row, case in enumerate(cases):
        values = np.maximum(error.sel(case=case.name).values, _FLOOR)
        ax.plot(values, np.full(len(values), row), "o", color=_colour(case.group), alpha=0.5, mew=0)
    ax.axvline(_TOLERANCE, **THEORY)
    ax.set_yticks(
        range(len(cases)),
        [f"{case.name}  {case.group if case.group[0] == '(' else ''}" for case in cases],
    )
    ax.set(
        xscale="log",
        xlim=(0.3 * _FLOOR, 30),
        xlabel="error of the network with one unit less / ⟨y²⟩$^{1/2}$",
        title="reduced by F.3 (dots: seeds, worst moment)",
    )
    ax.tick_params(axis="y", labelsize=7.5, length=0)
    ax.grid(axis="y", color="0.93", lw=0.8)
    ax.set_axisbelow(True)


def _colour(group: str) -> str:
    return {"control": _CONTROL, "even": _NEW, "odd": _NEW}.get(group, _KEPT)
