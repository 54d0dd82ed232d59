"""Figure 6: loss curves of networks with no, one and two layers skipped, on two axes of time."""

import numpy as np
import xarray as xr
from matplotlib.axes import Axes
from matplotlib.figure import Figure

from ..figures import PALE, THEORY, styled
from ._figure_6_claims import FAMILIES

_COLOURS = ("#0072B2", "#E69F00", "#009E73")  # of Okabe and Ito
_SHOWN = 6  # seeds; more would hide each other
_WORDS = ("no skip", "skips one layer", "skips two layers")


@styled
def draw_skips(run: xr.DataTree) -> Figure:
    """Columns are linear and ReLU networks, rows linear and logarithmic time."""
    figure = Figure(figsize=(7.2, 5.0), layout="constrained")
    figure.suptitle(
        "6   A network learns as if the layers that are skipped were not there",
        x=0.02,
        ha="left",
        weight="bold",
    )
    axes = figure.subplots(2, 2, sharey="col")
    for column, family in enumerate(FAMILIES):
        for row, scale in enumerate(("linear", "log")):
            _draw_losses(run, family, scale, axes[row, column])
        axes[0, column].set_title(f"{FAMILIES[family]} networks")
    handles, labels = axes[0, 0].get_legend_handles_labels()
    figure.legend(handles, labels, loc="outside lower center", ncols=4)
    return figure


def _draw_losses(run: xr.DataTree, family: str, scale: str, ax: Axes) -> None:
    slowest = run[f"{family}_0"].to_dataset()
    drops = slowest["drop_step"].values[:_SHOWN]
    # Training that ends before there is a drop is shown to its end.
    right = 1.15 * float(np.nanmax(drops) if np.isfinite(drops).any() else slowest["step"].max())
    shown = min(_SHOWN, slowest.sizes["seed"])
    for skipped, (colour, words) in enumerate(zip(_COLOURS, _WORDS, strict=True)):
        for seed, (step, loss) in enumerate(_curves(run, f"{family}_{skipped}", right)[:_SHOWN]):
            label = f"{words}, {shown} seed{'s' if shown > 1 else ''}" if seed == 0 else None
            ax.plot(step, loss, **PALE, color=colour, alpha=0.35, label=label)
    for skipped in (1, 2):
        step, loss = _curves(run, f"{family}_{skipped}_shallow", right)[0]
        label = "without these layers, 1 seed" if skipped == 1 else None
        ax.plot(step, loss, **THEORY, label=label)
    top = float(run[f"{family}_theory"].to_dataset()["level"][0])
    ax.set(
        xscale=scale,
        xlim=(0, right) if scale == "linear" else (1, right),
        ylim=(-0.04 * top, 1.08 * top),
        xlabel="gradient descent step" + (", logarithmic" if scale == "log" else ""),
        ylabel="loss ⟨|y − f|²⟩",
    )


def _curves(run: xr.DataTree, name: str, right: float) -> list[tuple[np.ndarray, np.ndarray]]:
    """Steps and losses of every seed, each continued to the edge of the figure."""
    table = run[name].to_dataset()
    return [
        (np.append(step, max(right, step[-1])), np.append(loss, loss[-1]))
        for step, loss in zip(table["step"].values, table["loss"].values, strict=True)
    ]
