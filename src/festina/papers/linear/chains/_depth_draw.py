"""The figure of training times: chains, whole networks, and what pretraining costs."""

import json
from typing import Any

import numpy as np
import xarray as xr
from matplotlib.axes import Axes
from matplotlib.figure import Figure

from ...figures import PALE, THEORY, styled
from .._slides import sheet

_DOT = {"ls": "none", "marker": "o", "ms": 9, "alpha": 0.5, "mew": 0}


@styled
def draw(run: xr.DataTree) -> Figure:
    """Three kinds of initial weights: as chains, as whole networks, and a module by itself."""
    figure = sheet("Training time against depth, at a learning rate of 1/D", (9.0, 3.8))
    figure.set_layout_engine("constrained", h_pad=0.12)
    chains, networks, modules = figure.subplots(1, 3, width_ratios=(1.2, 1.2, 1))
    parameters = json.loads(run.attrs["parameters"])
    _draw_chains(chains, run, parameters)
    _draw_networks(networks, run, parameters)
    _draw_modules(modules, run["modules"].to_dataset())
    for ax in (chains, networks, modules):
        ax.legend(loc="upper center", bbox_to_anchor=(0.45, -0.2))
    return figure


def _draw_chains(ax: Axes, run: xr.DataTree, parameters: dict[str, Any]) -> None:
    small, module = parameters["layer_strength"], parameters["module_strength"]
    pretrained = run["pretrained"].to_dataset()
    last = parameters["depths"][-1]
    orthogonal = run["orthogonal"].to_dataset()
    for data, label, color in (
        (run["small"].to_dataset(), f"small, $b_0$ = {small:g}", "C3"),
        (pretrained.sel(module=4), f"pretrained by 4 layers, $b_0$ = {module:g}", "C1"),
        (pretrained.sel(module=2), f"pretrained by 2 layers, $b_0$ = {module:g}", "C2"),
        (orthogonal.where(orthogonal["depth"] <= last, drop=True), "orthogonal, $b_0$ = 1", "C0"),
    ):
        ax.plot(data["depth"], data["time"], **_DOT, color=color, label=label)
        ax.plot(data["depth"], data["theory"], **THEORY)
    ax.plot([], [], **THEORY, label="closed form")
    ax.set(
        yscale="log",
        xlabel="depth $D$",
        ylabel="training time, in units of $τ/D$",
        title="one chain",
    )


def _draw_networks(ax: Axes, run: xr.DataTree, parameters: dict[str, Any]) -> None:
    data, gaussian = run["networks"].to_dataset(), run["gaussian"].to_dataset()
    for times, label, color in (
        (gaussian["time"], f"Gaussian, gain {parameters['gain']:g}", "C3"),
        (data["rotated"], "random orthogonal, one product", "C4"),
    ):
        # A network that was given up has no dot; in the median it counts as late.
        seen = times.where(np.isfinite(times)).transpose("depth", "seed")
        ax.plot(times["depth"], seen, "o", color=color, ms=4, alpha=0.35, mew=0)
        middle = times.median("seed")
        ax.plot(times["depth"], middle, **PALE, color=color, alpha=0.5, label=f"{label} (median)")
    ax.plot(data["depth"], data["aligned"], **_DOT, color="C0", label="orthogonal, aligned")
    ax.plot(data["depth"], data["aligned_theory"], **THEORY, label="closed form")
    size = parameters["size"]
    ax.set(yscale="log", xlabel="depth $D$", title=f"networks of {size} × {size} matrices")


def _draw_modules(ax: Axes, data: xr.Dataset) -> None:
    for module, color, law in ((4, "C1", "$1/2b_0^2$"), (2, "C2", "$\\ln 1/b_0$")):
        part = data.sel(module=module)
        words = f"{module} layers, about {law}"
        ax.plot(1 / part["strength"], part["time"], **_DOT, color=color, label=words)
        ax.plot(1 / part["strength"], part["theory"], **THEORY)
    ax.plot([], [], **THEORY, label="closed form")
    ax.set(
        xscale="log",
        yscale="log",
        xlabel="$1/b_0$",
        ylabel="time of one module, in $τ$",
        title="what pretraining costs",
    )
    places = 1 / data["strength"].values
    ax.set_xticks(places, [f"{place:g}" for place in places])
    ax.set_xticks([], minor=True)
    ax.margins(x=0.12)
