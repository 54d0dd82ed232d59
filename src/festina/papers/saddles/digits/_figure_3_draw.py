"""Figure 3: loss and singular values over training, pair by pair."""

import numpy as np
import xarray as xr
from matplotlib.axes import Axes
from matplotlib.figure import Figure

from ...figures import PALE, THEORY, styled

_ROWS = {"linear": "linear network", "relu": "ReLU network"}
_RANKS = {1: "C0", 2: "C1", 3: "C2"}


@styled
def draw(run: xr.DataTree) -> Figure:
    """A column for each pair: linear networks above, ReLU below."""
    simulation, theory = (run[name].to_dataset() for name in ("simulation", "theory"))
    pairs = simulation["pair"].values
    figure = Figure(figsize=(max(8.0, 1.5 + 2.2 * len(pairs)), 4.8), layout="constrained")
    figure.suptitle(
        "3   Two digits at a time: each drop of the loss is one more singular value",
        x=0.02,
        ha="left",
        weight="bold",
    )
    grid = figure.subplots(len(_ROWS), len(pairs), sharex="col", sharey=True, squeeze=False)
    for row, (kind, words) in zip(grid, _ROWS.items(), strict=True):
        for ax, pair in zip(row, pairs, strict=True):
            at = {"pair": pair, "network": kind}
            _draw_one(simulation.sel(at), theory.sel(at) if kind == "linear" else None, ax)
        row[0].set_ylabel(f"{words}\nloss, singular values")
    for ax, pair in zip(grid[0], pairs, strict=True):
        ax.set_title(f"{pair[0]} or {pair[-1]}")
    for ax in grid[-1]:
        ax.set_xlabel("step")
    handles, labels = grid[0, 0].get_legend_handles_labels()
    figure.legend(handles, labels, loc="outside lower center", ncols=len(labels))
    return figure


def _draw_one(simulation: xr.Dataset, theory: xr.Dataset | None, ax: Axes) -> None:
    step = simulation["step"].values
    for seed in range(simulation.sizes["seed"]):
        first = seed == 0
        one = simulation.isel(seed=seed)
        ax.plot(
            step,
            one["loss"].values,
            **PALE,
            color="0.5",
            alpha=0.5,
            label="loss" if first else None,
        )
        for rank, colour in _RANKS.items():
            ax.plot(
                step,
                one["singular_value"].sel(rank=rank).values,
                **PALE,
                color=colour,
                alpha=0.6,
                label=f"singular value {rank}" if first else None,
            )
        if theory is not None:
            for mode in range(2):
                line = ax.axvline(float(theory["passage"].isel(seed=seed, mode=mode)), **THEORY)
                line.set_label("theory: passes 0.1" if first and mode == 0 else None)
    last = simulation["start"].sel(plateau=2).max()
    ax.set(xlim=(0, 1.4 * float(last) if np.isfinite(last) else step[-1]), ylim=(-0.03, 1.06))
