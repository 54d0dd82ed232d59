r"""Two hidden layers: which of them bends, and whether selectivity stays mixed.

With a second hidden layer the first could be shared by all contexts and apply no nonlinearity, as
the source has it, and leave gating to the second. It does so in what it computes: made linear, it
changes the network little. It does not by its gates: its units are off for a quarter of the
examples, where what they cut is small.

N objects in C contexts, ReLU networks of one and of two hidden layers, gradient descent by small
steps on ½⟨‖y − f‖²⟩: n steps are time t = ηn in units of τ.
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
"""Fraction of the initial loss at which the figure of losses ends."""
_KEPT = ("kept", "on", "loss")
_NOT_BY_SETS = "by what it computes, not by its gates: units cut small negative parts"


class Parameters(BaseParameters):
    """Objects in contexts, and ReLU networks with two hidden layers."""

    seeds: int = Field(default=2, ge=1)
    """How many networks are trained from each scale."""

    objects: PowerOfTwo = Field(default=8, ge=4, le=16)
    """Number N of objects, a power of two, with the features of a tree."""

    contexts: int = Field(default=3, ge=3, le=5)
    """Number C of contexts."""

    width: int = Field(default=60, ge=20)
    """Units of each hidden layer; a network with one has twice as many."""

    scales: Annotated[tuple[float, ...], check_decreasing(0.05, 1e-4, count=1)] = (0.03, 0.01)
    """Standard deviations σ of the initial weights."""

    steps: int = Field(default=6000, ge=500)
    """Steps of gradient descent."""


QUICK: dict[str, Any] = {"seeds": 5, "objects": 4, "width": 40, "steps": 3000}


@make_run("haste/depth")
def run(parameters: Parameters, key: Key, progress: Progress) -> Tables:
    """Train networks of both depths, and look at what every layer does."""
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
            batch_size=len(task.x),  # all: a run with samples at even steps
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
    """What each hidden layer of every network of a batch does.

    - `kept`: share of the power of what goes into a layer's rectifiers that comes out.
    - `on`: share of gates that are open, of units and examples.
    - `loss`: of the network if that layer were linear; `trained` of the network as it is.
    - `always`: share of strength in units that are on for every example.
    - `contexts_on`: share of strength in units that are on in 0 … C contexts.
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
    """Which layer is linear, in what sense, and where selectivity is mixed."""
    count = parameters_of_run(run, Parameters).contexts
    one, two = run["one"].ds, run["two"].ds
    start = two["course"].isel(time=0).mean()
    first, second = two.sel(layer=1), two.sel(layer=2)
    cost = first["loss"] - first["trained"]
    claim(
        "linear-first-layer",
        "made linear, the first layer changes the loss little",
        all_below(cost / start, 0.03),
        headline=True,
        note=f"loss {join_numbers(first['loss'].mean('seed'), 2)}, of {float(start):.3g} at first",
    )
    claim(
        "linear-second-layer",
        "the second layer is not: made linear, it loses more than a quarter of what was learned",
        all_above((second["loss"] - second["trained"]) / (start - second["trained"]), 0.25),
        note=f"loss {join_numbers(second['loss'].mean('seed'), 3)}",
    )
    claim(
        "kept-power",
        "of the power into their rectifiers the first layer keeps nearly all, the second does not",
        most_seeds((first["kept"] > 0.95) & (second["kept"] < 0.85), of="networks"),
        note=f"{join_numbers(first['kept'].mean('seed'), 3)}; "
        f"{join_numbers(second['kept'].mean('seed'), 3)}",
    )
    single = one["kept"].sel(layer=1)
    claim(
        "second-layer-as-single",
        "the second layer keeps as much as the only one of a network with one hidden layer",
        agree(second["kept"].mean(), single.mean(), within=0.08),
    )
    claim(
        "always-on-units",
        "the first layer applies no nonlinearity: its units are on for all examples",
        all_above(first["always"], 0.9),
        wrong=_NOT_BY_SETS,
        instead=all_below(first["on"], 0.9),
        note=f"share of gates that are open {join_numbers(first['on'].mean('seed'), 2)}",
    )
    share = second["contexts_on"]
    mixed = share.sel(number=slice(2, count - 1)).sum("number")
    others = share.sel(number=[0, 1, count]).max("number")
    claim(
        "mixed-second-layer",
        "selectivity stays mixed: more of the second layer is on in several contexts, not in all, "
        "than in one or in all",
        most_seeds(mixed > others, of="networks"),
        at="“Mixed selectivity persists”",
        note=f"in 0 … {count} contexts {join_numbers(share.mean(('scale', 'seed')).values, 2)}",
    )


@styled
def draw(run: xr.DataTree) -> Figure:
    """Losses, what each layer keeps, what linear layers would cost, and where units are on."""
    one, two = run["one"].ds, run["two"].ds
    title = "Two hidden layers: the first is linear in what it does, the second gates"
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
        kept, "hidden layer", "share of power kept", "power that passes the gates", ylim=(0, 1.25)
    )
    label_axes(cost, "hidden layer", "loss", "if that layer were linear")
    label_axes(where, "contexts in which a unit is on", "share of strength", "selectivity")
    return figure
