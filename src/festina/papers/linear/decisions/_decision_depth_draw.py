"""The figure of depth: architecture, weights among the points of rest, and behaviour."""

import itertools

import numpy as np
import xarray as xr
from matplotlib.axes import Axes
from matplotlib.figure import Figure
from matplotlib.lines import Line2D

from ...figures import PALE, THEORY, styled
from .._slides import sheet
from ._animals import COLORS, DRAWN, LEFT_FIRST, MADE_ON_PURPOSE, RIGHT_FIRST

_INPUTS, _ACTIONS = ("left", "right", "1"), ("go left", "go right")


@styled
def draw(run: xr.DataTree) -> Figure:
    """A row for each architecture, from the same initial choices."""
    figure = sheet(
        "Only depth has saddles: the same animals with one layer and with two", (10.0, 5.6)
    )
    rows = figure.subplots(2, 3, width_ratios=(0.9, 1, 1.3))
    for (sketch, weights, choices), name in zip(rows, ("shallow", "deep"), strict=True):
        table = run[name].to_dataset()
        _draw_network(sketch, deep=name == "deep")
        _draw_weights(weights, table)
        _draw_influence(choices, table)
        count = table.sizes["point"]
        sketch.set_title(name, weight="bold")
        weights.set_title(
            "one point of rest" if count == 1 else f"{count} points of rest, two of them at 0"
        )
    limit = 1.12 * float(run["deep"].to_dataset()["point_lean"].max())
    for ax in rows[:, 1]:
        ax.set(xlim=(-0.12, limit), ylim=(-0.12, limit), xticks=(0, 1, 2), yticks=(0, 1, 2))
    rows[0, 2].set_title("left-first animal: both sides at once")
    rows[1, 2].set_title("left-first animal: one side after the other")
    _add_legends(rows)
    return figure


def _draw_network(ax: Axes, *, deep: bool) -> None:
    """Lines from inputs to actions, by way of a gain for each input if there are two layers."""
    inputs = np.array([0.85, 0.5, 0.15])
    actions, stop = np.array([0.7, 0.3]), 0.42 if deep else 0.0
    for a, b in itertools.product(inputs, actions):
        ax.plot([stop, 1.0], [a, b], color="0.7", lw=1.2, zorder=1)
    columns = [(0.0, inputs, "black"), (1.0, actions, "black")]
    if deep:
        for a in inputs:
            ax.plot([0.0, stop], [a, a], color="#0072b2", lw=2.2, zorder=1)
        columns.append((stop, inputs, "#0072b2"))
        ax.text(stop / 2, 0.93, "$v$", color="#0072b2", ha="center")
    ax.text(0.74, 0.88, "$u$" if deep else "$W$", color="0.4", ha="center")
    for x, ys, color in columns:
        ax.plot([x] * len(ys), ys, "o", ms=9, mfc="white", mec=color, zorder=2)
    for y, words in zip(inputs, _INPUTS, strict=True):
        ax.text(-0.1, y, words, ha="right", va="center")
    for y, words in zip(actions, _ACTIONS, strict=True):
        ax.text(1.12, y, words, ha="left", va="center")
    ax.set(xlim=(-0.55, 2.0), ylim=(0, 1))
    ax.axis("off")


def _draw_weights(ax: Axes, table: xr.Dataset) -> None:
    for animal in table["animal"].values[::-1]:
        left, right = table["lean"].sel(animal=animal).values.T
        if animal >= DRAWN:
            ax.plot(left, right, color="0.6", lw=0.8, alpha=0.8, zorder=1)
        else:
            ax.plot(left, right, **PALE, color=COLORS[int(animal)], alpha=0.8, zorder=2)
    lean, stable = table["point_lean"].values, table["point_index"].values == 0
    ax.plot(*lean[~stable].T, "o", ms=6, mfc="white", mec="black", zorder=3)
    ax.plot(*lean[stable].T, "o", ms=6, mfc="black", mec="black", zorder=3)
    ax.set(xlabel="left stimulus, $W_{LL} - W_{RL}$", ylabel="right stimulus, $W_{RR} - W_{LR}$")


def _draw_influence(ax: Axes, table: xr.Dataset) -> None:
    one = table.sel(animal=LEFT_FIRST)
    for side, color in enumerate((COLORS[LEFT_FIRST], COLORS[RIGHT_FIRST])):
        ax.plot(one["time"], one["influence"][:, side], **PALE, color=color, alpha=0.8)
        use = float(one["use"][side])
        if np.isfinite(use):
            ax.plot([use, use], [0, 0.25], color=color, lw=1, ls=":")
    expert = float(table["point_influence"].values[-1, 0])
    ax.axhline(expert, **THEORY)
    ax.set(
        xlabel="time $t/τ$",
        ylabel="shift of choices by a stimulus",
        xlim=(0, float(one["time"][-1])),
        ylim=(0, 1.35),
        yticks=(0, 0.5, 1),
    )


def _add_legends(rows: np.ndarray) -> None:
    rows[0, 1].legend(
        handles=[
            *(
                Line2D([], [], **PALE, color=COLORS[animal], label=label)
                for animal, label in MADE_ON_PURPOSE.items()
            ),
            Line2D([], [], color="0.6", lw=0.8, label="drawn"),
        ],
        loc="lower right",
    )
    rows[0, 2].legend(
        handles=[
            Line2D([], [], **PALE, color=COLORS[LEFT_FIRST], label="left stimulus"),
            Line2D([], [], **PALE, color=COLORS[RIGHT_FIRST], label="right stimulus"),
            Line2D([], [], **THEORY, label="theory: expert"),
            Line2D([], [], color="0.4", lw=1, ls=":", label="used from here"),
        ],
        loc="upper right",
        ncols=2,
    )
