"""Loss curves with their levels, ways past the saddles, and predicted times."""

import json

import numpy as np
import xarray as xr
from matplotlib.axes import Axes
from matplotlib.figure import Figure

from ...figures import PALE, THEORY, styled
from .._slides import sheet


@styled
def draw(run: xr.DataTree) -> Figure:
    """Individuals, coloured by the mode that they learn first."""
    s = np.array(json.loads(run.attrs["parameters"])["singular_values"])
    saddles, individuals, shallow = (
        run[name].to_dataset() for name in ("saddles", "individuals", "shallow")
    )
    figure = sheet(
        "Depth introduces saddles, and individuals pass them in their own way", (11.0, 3.9)
    )
    loss, plane, times = figure.subplots(1, 3, gridspec_kw={"width_ratios": (1.3, 1, 1)})
    first = individuals["half_time_theory"].values.argmin(axis=1)
    colors = [f"C{mode}" for mode in first]
    _draw_loss(loss, individuals, shallow, saddles, colors)
    _draw_plane(plane, individuals, shallow, s, colors)
    _draw_times(times, individuals, colors)
    for mode in np.unique(first):
        loss.plot(
            [], [], **PALE, color=f"C{mode}", alpha=0.6, label=f"learns mode {mode + 1} first"
        )
    loss.plot([], [], **PALE, color="0.75", label="shallow")
    loss.plot([], [], **THEORY, label="theory, from initial weights")
    figure.legend(*loss.get_legend_handles_labels(), loc="outside lower center", ncols=5)
    return figure


def _draw_loss(
    ax: Axes,
    individuals: xr.Dataset,
    shallow: xr.Dataset,
    saddles: xr.Dataset,
    colors: list[str],
) -> None:
    end = float(individuals["time"][-1])
    for level in saddles["loss"].values:
        ax.axhline(level, color="0.85", lw=1, zorder=0)
    shown = shallow.isel(seed=0)
    ax.plot(shown["time"], shown["loss"].where(shown["time"] <= end), **PALE, color="0.75")
    for color, seed in zip(colors, individuals["seed"], strict=True):
        one = individuals.sel(seed=seed)
        ax.plot(one["time"], one["loss"], **PALE, color=color, alpha=0.4)
        ax.plot(one["time"], one["loss_theory"], **{**THEORY, "lw": 0.7})
    ax.set(
        title="loss, and the levels of all saddles",
        xlabel="time $t/τ$",
        ylabel="loss $L$",
        xlim=(0, end),
    )
    ax.set_ylim(bottom=0)


def _draw_plane(
    ax: Axes, individuals: xr.Dataset, shallow: xr.Dataset, s: np.ndarray, colors: list[str]
) -> None:
    """The strengths of the first two modes: corners are stationary points."""
    one, other = shallow["strength"].isel(seed=0).values.T[:2] / s[:2, None]
    ax.plot(one, other, **PALE, color="0.75")
    for color, seed in zip(colors, individuals["seed"], strict=True):
        lane = individuals.sel(seed=seed)
        ax.plot(*(lane["strength"].values.T[:2] / s[:2, None]), **PALE, color=color, alpha=0.4)
        theory = lane["strength_theory"].values.T[:2] / s[:2, None]
        ax.plot(*theory, **{**THEORY, "lw": 0.7})
    for x, y in ((0, 0), (1, 0), (0, 1)):
        ax.plot(x, y, "o", ms=9, mfc="white", mec="black", clip_on=False, zorder=5)
    ax.plot(1, 1, "o", ms=9, color="black", clip_on=False, zorder=5)
    ax.set(
        title="ways past the saddles (○)",
        xlabel="mode 1 learned, $a_1/s_1$",
        ylabel="mode 2 learned, $a_2/s_2$",
        xlim=(-0.06, 1.06),
        ylim=(-0.06, 1.06),
        xticks=(0, 0.5, 1),
        yticks=(0, 0.5, 1),
        aspect="equal",
    )


def _draw_times(ax: Axes, individuals: xr.Dataset, colors: list[str]) -> None:
    measured, theory = individuals["half_time"].values, individuals["half_time_theory"].values
    markers = "osD^vP"
    reach = 0.92 * theory.min(), 1.05 * theory.max()
    ax.plot(reach, reach, **THEORY)
    for mode in range(measured.shape[1]):
        ax.scatter(
            theory[:, mode],
            measured[:, mode],
            c=colors,
            s=32,
            alpha=0.6,
            marker=markers[mode],
            linewidths=0,
        )
        ax.scatter([], [], c="0.4", s=32, marker=markers[mode], label=f"mode {mode + 1}")
    ax.legend(loc="upper left")
    ax.set(
        title="when a mode is half learned",
        xlabel="predicted time $t/τ$",
        ylabel="time in training $t/τ$",
        xlim=reach,
        ylim=reach,
        aspect="equal",
    )
