"""The figure of the saddle points: their heights, what animals do there, and how near they come."""

import itertools

import numpy as np
import xarray as xr
from matplotlib.axes import Axes
from matplotlib.figure import Figure

from ...figures import PALE, THEORY, styled
from .._slides import sheet
from ._animals import COLORS, DRAWN, LEFT_FIRST, MADE_ON_PURPOSE
from ._decision_saddles_claims import ALL, CONSTANT, LEFT_CONSTANT, NAMES, NOTHING

_OBLIQUE = np.array([-1.0, 1.0, 0.45])
"""How far each line moves a point sideways: left and right to their sides, the constant a bit."""


# Where the curve of a point is drawn, in fractions of the panel: away from paths and edges.
_BESIDE = (
    (-0.05, 0.03),
    (-0.125, -0.03),
    (0.025, -0.03),
    (0.045, 0.005),
    (-0.2, -0.05),
    (-0.115, -0.15),
    (0.015, -0.15),
    (-0.05, -0.135),
)


@styled
def draw(run: xr.DataTree) -> Figure:
    """The cube of points with the paths of animals, and their distance from the saddles."""
    figure = sheet("Eight points of rest, and the way that animals take among them", (10.0, 5.4))
    grid = figure.add_gridspec(2, 2, width_ratios=(1.75, 1))
    cube = figure.add_subplot(grid[:, 0])
    distance, approach = (figure.add_subplot(grid[row, 1]) for row in range(2))
    points, paths = run["softmax"].to_dataset(), run["paths"].to_dataset()
    _draw_cube(cube, points)
    _draw_paths(cube, paths)
    _draw_insets(cube, points)
    _draw_distance(distance, paths)
    _draw_approach(approach, run["approach"].to_dataset(), points)
    return figure


def _sideways(strength: np.ndarray) -> np.ndarray:
    return strength @ _OBLIQUE


def _draw_cube(ax: Axes, points: xr.Dataset) -> None:
    active, loss = points["active"].values, points["loss"].values
    x, rate = _sideways(points["strength"].values), points["escape_rate"].values
    for one, other in itertools.permutations(range(len(loss)), 2):
        added = active[other] - active[one]
        if added.min() < 0 or added.sum() != 1:
            continue
        ax.plot(x[[one, other]], loss[[one, other]], color="0.82", lw=1.2, zorder=1)
        ax.annotate(
            f"{rate[one, added.argmax()]:.2g}",
            (0.6 * x[one] + 0.4 * x[other], loss[one] ** 0.6 * loss[other] ** 0.4),
            fontsize=6.5,
            color="0.45",
            ha="center",
            va="center",
            bbox={"boxstyle": "square,pad=0.1", "fc": "white", "ec": "none"},
            zorder=3.5,
        )
    ax.set(
        yscale="log",
        xlabel="$|W_R| - |W_L| + 0.45\\,|W_0|$, an oblique view of the cube",
        ylabel="loss",
        title="grey: rate at which a silent line leaves (1/τ); curves: $P(R)$ against contrast",
        xlim=(x.min() - 0.75, x.max() + 0.75),
        ylim=(0.4 * loss.min(), 2.2 * loss.max()),
    )


def _draw_paths(ax: Axes, paths: xr.Dataset) -> None:
    for animal in paths["animal"].values[::-1]:
        one = paths.sel(animal=animal)
        x = _sideways(one["strength"].values)
        if animal >= DRAWN:
            ax.plot(x, one["loss"], color="0.6", lw=0.8, alpha=0.7, zorder=2)
        else:
            label = MADE_ON_PURPOSE[int(animal)]
            ax.plot(
                x, one["loss"], **PALE, color=COLORS[int(animal)], alpha=0.8, zorder=3, label=label
            )
    ax.plot([], [], color="0.6", lw=0.8, label="drawn at random")
    ax.legend(loc="lower left", title="animals")


def _draw_insets(ax: Axes, points: xr.Dataset) -> None:
    x, loss = _sideways(points["strength"].values), points["loss"].values
    for point, name in enumerate(NAMES):
        stable = int(points["index"][point]) == 0
        face = "black" if stable else "white"
        ax.plot(x[point], loss[point], "o", ms=6, mfc=face, mec="black", zorder=5)
        at = ax.transData.transform((x[point], loss[point]))
        across, up = ax.transAxes.inverted().transform(at)
        aside, above = _BESIDE[point]
        small = ax.inset_axes((across + aside, up + above, 0.1, 0.095), zorder=4)
        small.plot(points["contrast"], points["right_probability"][point], color="black", lw=1.3)
        small.axhline(0.5, color="0.85", lw=0.6, zorder=0)
        small.set(ylim=(-0.08, 1.08), xticks=[], yticks=[])
        small.set_title(f"{{{name}}}" if point else "{ }", fontsize=7.5, pad=1.5)
        small.patch.set_alpha(0.9)


def _draw_distance(ax: Axes, paths: xr.Dataset) -> None:
    one = paths.isel(animal=LEFT_FIRST)
    looks = {NOTHING: "0.75", CONSTANT: "#e69f00", LEFT_CONSTANT: "#cc79a7", ALL: "#56b4e9"}
    for point, color in looks.items():
        label = f"{{{NAMES[point]}}}" if point else "{ }"
        ax.plot(one["time"], one["distance"].isel(point=point), **PALE, color=color, label=label)
    ax.set(
        xlabel="time $t/τ$",
        ylabel="distance $\\|W - W^*\\|$",
        title="the left-first animal and its saddles",
        xlim=(0, float(one["time"][-1])),
    )
    ax.set_ylim(0, 1.35 * ax.get_ylim()[1])
    ax.legend(ncols=4, loc="upper center", handlelength=1.0, columnspacing=1.0)


def _draw_approach(ax: Axes, approach: xr.Dataset, points: xr.Dataset) -> None:
    gain = approach["gain"].values
    mu = -float(points["eigenvalues"].values[CONSTANT].min())
    r = float(points["escape_rate"].values[CONSTANT, 0])
    even = approach["constant"].values
    ax.plot(gain, approach["one_sided"], "o-", **PALE, color="#cc79a7", alpha=0.7)
    ax.plot(gain, even, "o-", **PALE, color="#e69f00", alpha=0.7)
    ax.plot(gain, even[-1] * (gain / gain[-1]) ** (2 * mu / (mu + 2 * r)), **THEORY)
    ax.text(gain[2], 4 * float(approach["one_sided"][2]), "{L 0}, left-first animals", ha="center")
    ax.text(gain[0], even[-1], "{0}, even animals (theory dashed)", ha="right", va="center")
    ax.set(
        xscale="log",
        yscale="log",
        xlabel="initial gain of the right stimulus",
        ylabel="closest approach",
        title="smaller gains, nearer saddles",
        ylim=(0.3 * even.min(), 60),
    )
