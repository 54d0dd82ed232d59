"""All fixed points of a linear network by what they have learned, and how they are left."""

import numpy as np
import xarray as xr
from matplotlib.axes import Axes
from matplotlib.figure import Figure

from ...figures import PALE, THEORY, styled
from ._lemma_6_claims import growth_rates


@styled
def draw(run: xr.DataTree) -> Figure:
    """The lattice of fixed points, and the distance from each while it is left."""
    figure = Figure(figsize=(11, 4.4), layout="constrained")
    figure.suptitle("Every set of modes is a fixed point of a linear network")
    left, right = figure.subplots(1, 2)
    _lattice(left, run["points"].to_dataset())
    _leaving(right, run["leaving"].to_dataset())
    return figure


def _sets(points: xr.Dataset) -> list[frozenset[str]]:
    names = points["point"].values
    return [frozenset(str(name).strip("{}").replace(" ", "").split(",")) - {""} for name in names]


def _lattice(ax: Axes, points: xr.Dataset) -> None:
    sets, size = _sets(points), points["modes"].values
    for i, narrow in enumerate(sets):
        for j, wide in enumerate(sets):
            if narrow < wide and len(wide) == len(narrow) + 1:
                levels = points["loss"].values[[i, j]]
                ax.plot(size[[i, j]], levels, color="0.85", lw=0.8, zorder=0)
    ax.plot(size, points["measured_loss"], "o", ms=11, color="C0", alpha=0.4, label="network")
    ax.hlines(
        points["loss"], size - 0.13, size + 0.13, color="black", lw=1, ls="--", label="Lemma 6"
    )
    few = len(sets) <= 8
    for name, modes, loss, index in zip(
        points["point"].values, size, points["loss"].values, points["index"].values, strict=True
    ):
        if few:
            words = f"{name}  {index} ways down" if index else f"{name}  minimum"
            ax.annotate(words, (modes, loss), (10, 5), textcoords="offset points", fontsize=7)
    top = float(points["loss"].max())
    ax.set(
        xlabel="number of modes learned",
        ylabel=r"loss $\frac{1}{2}\langle\|y - f\|^2\rangle$",
        title="losses of all fixed points",
        xlim=(-0.3, size.max() + 1.1),
        ylim=(-0.06 * top, 1.12 * top),
        xticks=np.unique(size),
    )
    ax.legend(loc="upper right")


def _leaving(ax: Axes, leaving: xr.Dataset) -> None:
    rates, many = growth_rates(leaving), leaving.sizes["point"] > 8
    for index, point in enumerate(leaving["point"].values):
        one = leaving.sel(point=point)
        time, rate = one["time"].values, float(one["rate"])
        label = None if many else f"{point}: {rates[index]:.3f} / {rate:.3f}"
        ax.plot(time, one["distance"], **PALE, color=f"C{index}", alpha=0.45, label=label)
        first = float(one["distance"][0])
        clock = np.array([0.0, min(np.log(2.0 / first) / rate, time[-1])])
        ax.plot(clock, first * np.exp(rate * clock), **THEORY)
    ax.plot([], [], **THEORY, label=r"$e^{\tilde s_1 t}$")
    ax.set(
        yscale="log",
        xlim=(0, leaving["time"].values[-1]),
        xlabel="time $t$ since the start, close to a saddle",
        ylabel="distance from the saddle",
        title=r"how each is left: at the largest singular value $\tilde s_1$ of $\tildeΣ_{yz}$",
    )
    title = "" if many else r"modes learned: measured / $\tilde s_1$"
    ax.legend(title=title, loc="upper left", bbox_to_anchor=(1.01, 1.0))
