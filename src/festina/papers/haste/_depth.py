r"""Two hidden layers: which of them is nonlinear, and whether selectivity stays mixed.

In the source, all contexts share the first of two hidden layers, this layer applies no
nonlinearity, and the second layer gates. The first layer indeed computes a linear map: without its
rectifiers the loss changes little. But gates of the first layer do close: its units are inactive
for a quarter of the examples. The inputs that its rectifiers cut are small.

The task has N objects in C contexts. ReLU networks have one or two hidden layers. Training is
gradient descent on ½⟨‖y − f‖²⟩ with small steps η, so n steps are a time t = ηn in units of τ.
"""

from typing import Annotated, Any

import numpy as np
import xarray as xr
from matplotlib.figure import Figure
from pydantic import Field

from ...diagnose import gating, layer_nonlinearity
from ...dynamics import gradient_descent
from ...experiments._frame import Progress, Tables, make_run, parameters_of_run
from ...experiments._keys import Key, keys_from_parameters
from ...experiments._parameters import Parameters as BaseParameters
from ...experiments._parameters import PowerOfTwo, check_decreasing
from ...experiments.claims import (
    ClaimCollector,
    agree,
    all_above,
    all_below,
    claims_from_source,
    join_numbers,
    most_seeds,
)
from ...experiments.figures import SIMULATION_STYLE, label_axes, panels, shades, styled
from ...networks import AbstractNetwork, deep_network, fully_connected
from ...tasks import Task, objects_in_contexts

_STEP, _SAMPLES = 0.2, 100
_LEARNED = 0.01
"""Fraction of the initial loss at which the panel of losses ends."""
_KEPT = ("kept", "on", "loss")
_NOT_BY_SETS = (
    "the first layer computes a linear map, but its units are not always active: they cut small "
    "negative inputs"
)


class Parameters(BaseParameters):
    """Objects in contexts, and ReLU networks with one and two hidden layers."""

    seeds: int = Field(default=2, ge=1)
    """Number of networks that are trained from each scale."""

    objects: PowerOfTwo = Field(default=8, ge=4, le=16)
    """Number N of objects, a power of two, with the features of a tree."""

    contexts: int = Field(default=3, ge=3, le=5)
    """Number C of contexts."""

    width: int = Field(default=60, ge=20)
    """Number of units in each of two hidden layers; a single hidden layer has twice as many."""

    scales: Annotated[tuple[float, ...], check_decreasing(0.05, 1e-4, count=1)] = (0.03, 0.01)
    """Standard deviations σ of the initial weights, decreasing."""

    steps: int = Field(default=6000, ge=500)
    """Number of gradient descent steps."""


QUICK: dict[str, Any] = {"seeds": 5, "objects": 4, "width": 40, "steps": 3000}


@make_run("haste/depth")
def run(parameters: Parameters, key: Key, progress: Progress) -> Tables:
    """Train networks of both depths, and measure the nonlinearity and selectivity of each layer."""
    task = objects_in_contexts(parameters.objects, parameters.contexts)
    keys = keys_from_parameters(parameters, key)
    inputs, scales = np.shape(task.x)[1], np.array(parameters.scales)
    common = {"scale": scales[:, None], "key": keys}
    width = parameters.width
    sizes = (inputs, width, width, task.outputs)
    networks = {
        "one": fully_connected(inputs, 2 * width, task.outputs, activation="relu", **common),
        "two": deep_network(sizes, activations="relu", **common),
    }
    tables = {}
    for k, (name, network) in enumerate(networks.items()):
        progress(f"{name} hidden layer{'s' * k}", k / 2)
        run = gradient_descent(
            network,
            task,
            _STEP,
            parameters.steps,
            batch_size=len(task.x),  # full batches give samples at even steps
            save_every=max(1, parameters.steps // _SAMPLES),
            key=keys[0],
        )
        table = _layers(run.final, task)
        table["course"] = ("scale", "seed", "time"), run.loss
        tables[name] = table.assign_coords(
            scale=scales,
            seed=parameters.seed + np.arange(len(keys)),
            time=("time", _STEP * run.time[0, 0], {"long_name": "time in units of τ"}),
        )
    return tables


def _layers(networks: AbstractNetwork, task: Task) -> xr.Dataset:
    """Return how nonlinear and how selective each hidden layer is, for every network of a batch.

    - `kept`: output power of a layer's rectifiers over their input power.
    - `on`: share of open gates among all units and examples.
    - `loss`: loss of the network if this layer were linear.
    - `trained`: loss of the network as it is.
    - `always`: share of strength in units that are active for every example.
    - `contexts_on`: share of strength in units that are active in 0 … C contexts.
    """
    context, count = task.labels["context"], int(task.labels["context"].max()) + 1
    within = np.eye(count)[context] / np.bincount(context)
    rows, batch = [], networks.batch_shape
    for index in np.ndindex(batch):
        one = networks.lane(*index)
        seen = layer_nonlinearity(one, task)
        row = {name: getattr(seen, name) for name in _KEPT} | {"trained": seen.network_loss}
        looks = [gating(one, task.x, layer=k + 1, pathways=1) for k in range(len(seen.kept))]
        weight = [np.where(look.dead, 0.0, look.strength) for look in looks]
        weight = [each / each.sum() for each in weight]
        open_in = [np.sum(look.active @ within >= 0.5, axis=-1) for look in looks]
        row["always"] = [
            w @ look.active.all(axis=-1) for w, look in zip(weight, looks, strict=True)
        ]
        row["contexts_on"] = [
            np.bincount(number, w, count + 1) for w, number in zip(weight, open_in, strict=True)
        ]
        rows.append(row)
    over = {"trained": (), "contexts_on": ("layer", "number")}
    stacked = lambda name: np.stack([np.asarray(row[name]) for row in rows])
    table = {
        name: (
            ("scale", "seed", *over.get(name, ("layer",))),
            stacked(name).reshape(*batch, *stacked(name).shape[1:]),
        )
        for name in rows[0]
    }
    numbered = {"layer": 1 + np.arange(len(rows[0]["always"])), "number": np.arange(count + 1)}
    return xr.Dataset(table, numbered)


@claims_from_source("Jarvis, Klein, Rosman & Saxe", "“Effect of depth”")
def claims(run: xr.DataTree, claim: ClaimCollector) -> None:
    """Check which layer is linear, in which sense, and the selectivity of the second layer."""
    count = parameters_of_run(run, Parameters).contexts
    one, two = run["one"].ds, run["two"].ds
    start = two["course"].isel(time=0).mean()
    first, second = two.sel(layer=1), two.sel(layer=2)
    cost = first["loss"] - first["trained"]
    claim(
        "linear-first-layer",
        "without the nonlinearity of its first hidden layer a trained network keeps a low loss",
        all_below(cost / start, 0.03),
        headline=True,
        note="increase in units of the initial loss; the loss is then "
        f"{join_numbers(first['loss'].mean('seed'), 2)}, initially {float(start):.3g}",
    )
    claim(
        "linear-second-layer",
        "without the nonlinearity of its second hidden layer a trained network loses more than a "
        "quarter of its gain in loss",
        all_above((second["loss"] - second["trained"]) / (start - second["trained"]), 0.25),
        note=f"the loss is then {join_numbers(second['loss'].mean('seed'), 3)}",
    )
    claim(
        "kept-power",
        "rectifiers of the first hidden layer pass nearly all of their input power, rectifiers of "
        "the second do not",
        most_seeds((first["kept"] > 0.95) & (second["kept"] < 0.85), of="networks"),
        note=f"first layer {join_numbers(first['kept'].mean('seed'), 3)}; "
        f"second layer {join_numbers(second['kept'].mean('seed'), 3)}",
    )
    single = one["kept"].sel(layer=1)
    claim(
        "second-layer-as-single",
        "rectifiers of the second hidden layer pass the same share of their input power as "
        "rectifiers of a single hidden layer",
        agree(second["kept"].mean(), single.mean(), within=0.08),
    )
    claim(
        "always-on-units",
        "the first of two hidden layers applies no nonlinearity: its units are active for all "
        "examples",
        all_above(first["always"], 0.9),
        wrong=_NOT_BY_SETS,
        instead=all_below(first["on"], 0.9),
        note=f"share of open gates: {join_numbers(first['on'].mean('seed'), 2)}",
    )
    share = second["contexts_on"]
    mixed = share.sel(number=slice(2, count - 1)).sum("number")
    others = share.sel(number=[0, 1, count]).max("number")
    claim(
        "mixed-second-layer",
        "selectivity stays mixed with two hidden layers: more units of the second layer are active "
        "in several contexts than in none, in one or in all",
        most_seeds(mixed > others, of="networks"),
        at="“Mixed selectivity persists”",
        note=f"share of strength in units that are active in 0 … {count} contexts: "
        f"{join_numbers(share.mean(('scale', 'seed')).values, 2)}",
    )


@styled
def draw(run: xr.DataTree) -> Figure:
    """Plot losses, power kept by each layer, losses with linear layers, and active units."""
    one, two = run["one"].ds, run["two"].ds
    title = "Two hidden layers: the first computes a linear map, the second gates"
    figure, (course, kept, cost, where) = panels(title, 4, width=3.4, height=3.2)
    for scale, shade, label in shades(two["scale"].values, "σ ="):
        lines = two["course"].sel(scale=scale)
        course.plot(two["time"], lines.mean("seed"), **SIMULATION_STYLE, color=shade, label=label)
    mean, first = two["course"].mean(("scale", "seed")), float(two["course"][..., 0].mean())
    learned = (mean < _LEARNED * first).values
    last = float(two["time"][int(np.argmax(learned)) if learned.any() else -1])
    how = {"xlim": (0, 1.1 * last), "ylim": (0, None)}
    label_axes(course, "time $t/τ$", "loss", "two hidden layers", **how)
    bars = {
        "layer 1": two.sel(layer=1),
        "layer 2": two.sel(layer=2),
        "single layer": one.sel(layer=1),
    }
    for k, (name, layer) in enumerate(bars.items()):
        kept.bar(k, layer["kept"].mean(), 0.6, color=f"C{k}")
        how = {"color": "0.2", "lw": 2, "label": "gates open" * (k == 0)}
        kept.hlines(layer["on"].mean(), k - 0.15, k + 0.15, **how)
        cost.bar(k, layer["loss"].mean(), 0.6, color=f"C{k}")
        shares = layer["contexts_on"].mean(("scale", "seed"))
        place = np.arange(len(shares)) + 0.27 * (k - 1)
        where.bar(place, shares, 0.25, color=f"C{k}", label=name)
    for ax in (kept, cost):
        ax.set_xticks(range(3), list(bars))
    cost.axhline(
        float(two["course"].isel(time=0).mean()), color="0.5", lw=0.8, ls=":", label="initial loss"
    )
    label_axes(
        kept, "hidden layer", "share of power kept", "power that passes gates", ylim=(0, 1.25)
    )
    label_axes(cost, "hidden layer", "loss", "if this layer were linear")
    label_axes(where, "contexts in which a unit is on", "share of strength", "selectivity")
    return figure
