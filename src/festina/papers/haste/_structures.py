r"""Contexts of different structures: mixed selectivity when contexts have less in common.

The same objects have the features of a tree in one context, of a ring in the second, and of a tree
that cuts across the first tree in the third. Features of the first tree are also targets in all
contexts. ReLU networks learn this task, or the task in which every context has the tree. Two gated
networks with the same number of units are trained for comparison: a modular one with one pathway
per context, and a common pathway with one pathway per pair of contexts. The loss is ½⟨‖y − f‖²⟩,
and a descent step η is a flow time η.

In the source, units are mixed also if contexts have different structures, and the experiment
confirms this. A linear network leaves the loss ½(1 − 1/C)⟨‖h_c − h̄_c‖²⟩, with features h_c of an
object in context c and their mean h̄_c over objects. The residual sums to zero over contexts for
any structures. The residual summed over some contexts is therefore the negative of the residual
summed over all other contexts, and pathways for either set of contexts start to learn at the same
rate.
"""

import itertools
from dataclasses import replace
from typing import Any

import numpy as np
import xarray as xr
from jaxtyping import Float
from matplotlib.figure import Figure
from pydantic import Field

from ..._types import Keys
from ...diagnose import passage_time, selectivity
from ...dynamics import gradient_descent
from ...experiments._frame import Progress, Tables, make_run, parameters_of_run
from ...experiments._keys import Key, keys_from_parameters
from ...experiments._parameters import Parameters as BaseParameters
from ...experiments._parameters import PowerOfTwo
from ...experiments.claims import (
    ClaimCollector,
    agree,
    all_above,
    all_below,
    claims_from_source,
    increasing,
    join_numbers,
)
from ...experiments.figures import SIMULATION_STYLE, label_axes, panels, styled
from ...networks import AbstractNetwork, fully_connected
from ...tasks import Task, objects_in_contexts, structured_features
from ...theory.gated import linear_residual_task
from .._growth import growth_rate
from .._pathways import context_pathways

_STRUCTURES = "tree", "ring", "crossed"
_TASKS = "same", "different"
_LEVELS = (0.5, 0.25, 0.1, 0.05, 0.01)
_SAMPLES = 201
_COLORS = {"ReLU": "C0", "common + pairs": "C2", "modular": "C3", "linear": "0.5"}
_COUNT = len(_STRUCTURES)
_SETS = [c for k in range(1, _COUNT + 1) for c in itertools.combinations(range(_COUNT), k)]


class Parameters(BaseParameters):
    """Objects in three contexts, with one structure for all contexts or one for each context."""

    seeds: int = Field(default=2, ge=1)
    """Number of networks of each kind that are trained."""

    objects: PowerOfTwo = Field(default=8, ge=4, le=16)
    """Number N of objects, a power of two."""

    width: int = Field(default=120, ge=32)
    """Number of hidden units, divided equally among pathways."""

    scale: float = Field(default=1e-3, gt=0, le=0.1)
    """Standard deviation σ of the initial weights."""

    learning_rate: float = Field(default=0.2, gt=0, le=0.5)
    """Learning rate η of gradient descent."""

    t_end: float = Field(default=200.0, ge=50)
    """Training time of all networks, in units of τ."""


QUICK: dict[str, Any] = {"seeds": 2, "objects": 4, "width": 64, "t_end": 110.0}


@make_run("haste/structures")
def run(parameters: Parameters, key: Key, progress: Progress) -> Tables:
    """Train all kinds of networks on both tasks, and measure the selectivity of ReLU units."""
    keys, tables = keys_from_parameters(parameters, key), {}
    for k, name in enumerate(_TASKS):
        structures = _STRUCTURES if name == "different" else None
        task = objects_in_contexts(parameters.objects, _COUNT, structures=structures)
        trained, kinds = {}, list(_COLORS) if structures else ["ReLU"]
        for j, kind in enumerate(kinds):
            progress(f"{name} structures, {kind}", (k + j / len(kinds)) / len(_TASKS))
            trained[kind] = _trained(parameters, _network(parameters, kind, task, keys), task)
        time, _, relu = trained["ReLU"]
        units = [_units(relu.lane(seed), task) for seed in range(len(keys))]
        start = 0.5 * float(np.mean(np.sum(np.asarray(task.y) ** 2, axis=1)))
        loss = np.stack([each for _, each, _ in trained.values()]) / start
        passed = passage_time(time, loss[..., None, :], _LEVELS)
        over = "network", "seed"
        tables[name] = xr.Dataset(
            {
                "loss": ((*over, "time"), loss),
                "area": (over, np.trapezoid(loss, time, axis=-1)),
                "passage": ((*over, "level"), np.array(passed)),
                "share": (("seed", "contexts_on"), np.array([each[0] for each in units])),
                "set_share": (("seed", "set"), np.array([each[1] for each in units])),
                "random": ("contexts_on", units[0][2]),
                "seen": ("set", [_starts(task, each, keys) for each in _SETS]),
                "left": (
                    "set",
                    [_starts(linear_residual_task(task), each, keys) for each in _SETS],
                ),
            },
            {
                "network": kinds,
                "seed": parameters.seed + np.arange(len(keys)),
                "time": ("time", time, {"long_name": "time in units of τ"}),
                "level": list(_LEVELS),
                "contexts_on": np.arange(_COUNT + 1),
                "set": [" ".join(_STRUCTURES[c] for c in each) for each in _SETS],
            },
        )
    return tables


def _network(parameters: Parameters, kind: str, task: Task, keys: Keys) -> AbstractNetwork:
    inputs, width, scale = np.shape(task.x)[1], parameters.width, parameters.scale
    if kind in ("ReLU", "linear"):
        how = {"activation": kind.lower(), "scale": scale, "key": keys}
        return fully_connected(inputs, width, task.outputs, **how)
    sizes = {"common + pairs": (2, 3), "modular": (1,)}[kind]
    sets = [each for each in _SETS if len(each) in sizes]
    return context_pathways(task, sets, width // len(sets), scale, keys)


def _trained(
    parameters: Parameters, network: AbstractNetwork, task: Task
) -> tuple[Float[np.ndarray, " time"], Float[np.ndarray, "seed time"], AbstractNetwork]:
    """Train by descent and return times, losses at these times, and final networks.

    Gradient flow of rectifiers needs many small solver steps, so descent is cheaper.
    """
    times, rate = np.linspace(0.0, parameters.t_end, _SAMPLES), parameters.learning_rate
    steps = round(parameters.t_end / rate)
    ran = gradient_descent(network, task, rate, steps, converged=1e-12)
    lanes = zip(np.broadcast_to(ran.time, ran.loss.shape), ran.loss, strict=True)
    return times, np.stack([np.interp(times, rate * t, loss) for t, loss in lanes]), ran.final


def _units(network: AbstractNetwork, task: Task) -> tuple[np.ndarray, np.ndarray, np.ndarray]:
    """Return shares of strength by number and by set of open contexts, and of random features."""
    context = task.labels["context"]
    sets = {str(each): np.isin(context, each) for each in _SETS}
    found = selectivity(network, task, candidates=sets, anova=None)
    assert found.random is not None
    return found.shares, np.array(list(found.candidates.values())), found.random.shares


def _starts(task: Task, contexts: tuple[int, ...], keys: Keys) -> float:
    """Return the initial growth rate of pathways that are open in some contexts."""
    objects = replace(task, x=task.x[:, : len(task.x) // _COUNT])
    return growth_rate(objects, np.isin(task.labels["context"], contexts), keys, slowest=0.01)


@claims_from_source("Jarvis, Klein, Rosman & Saxe", "contexts of different structures")
def claims(run: xr.DataTree, claim: ClaimCollector) -> None:
    """Check mixed selectivity in differing contexts, losses, and growth rates of pathways."""
    parameters = parameters_of_run(run, Parameters)
    same, data = run["same"].ds, run["different"].ds
    share, alike = data["share"].mean("seed"), same["share"].mean("seed")
    claim(
        "mixed-units",
        "ReLU units are mixed, active in two of three contexts, even if contexts have different "
        "structures",
        all_above(share.sel(contexts_on=2), float(data["random"].sel(contexts_on=2)) + 0.2),
        note="shares of strength in units active in 0 … 3 contexts: "
        f"{join_numbers(share.values, 2)}; if all contexts are trees "
        f"{join_numbers(alike.values, 2)}; random features "
        f"{join_numbers(data['random'].values, 2)}",
        headline=True,
    )
    claim(
        "less-shared",
        "more ReLU units are modular if contexts have different structures than if all contexts "
        "are trees",
        increasing([float(each.sel(contexts_on=1)) for each in (alike, share)]),
        note="shares of strength by best-matching set of contexts: "
        + join_numbers(data["set_share"].mean("seed"), 2),
    )
    features = np.stack([structured_features(each, parameters.objects) for each in _STRUCTURES])
    apart_ = features - features.mean(axis=-1, keepdims=True)
    tree = structured_features("tree", parameters.objects)
    start = 0.5 * (np.sum(tree**2) + np.mean(np.sum(features**2, axis=(1, 2))))
    left = 0.5 * (1 - 1 / _COUNT) * np.mean(np.sum(apart_**2, axis=(1, 2)))
    claim(
        "linear-loss",
        "the final loss of a linear network is ½(1 − 1/C)⟨‖h_c − h̄_c‖²⟩, with features h_c of "
        "objects in context c and their mean h̄_c over objects",
        agree(data["loss"].sel(network="linear")[:, -1].mean(), left / start, within=2e-3),
        note="trained networks, in units of the initial loss",
    )
    whole = data["left"].values
    pairs = [
        [k, _SETS.index(tuple(c for c in range(_COUNT) if c not in each))]
        for k, each in enumerate(_SETS)
        if len(each) == 1
    ]
    claim(
        "residual-speed",
        "on the residual that a linear network leaves, a pathway for one context and a pathway for "
        "the other two contexts start to grow at the same rate, even if contexts have different "
        "structures",
        agree(
            whole[[b for _, b in pairs]], whole[[a for a, _ in pairs]], within=0.05, relative=True
        ),
    )
    gain = [data["seen"].values[b] / data["seen"].values[a] for a, b in pairs]
    claim(
        "whole-speed",
        "on the full targets, a pathway for two contexts has a higher initial growth rate than a "
        "pathway for the remaining context alone, which favours mixed units",
        all_above(gain, 1.0),
        note=f"ratios of growth rates: {join_numbers(gain, 3)}",
    )
    area = data["area"].mean("seed")
    order = ["common + pairs", "ReLU", "modular"]
    claim(
        "order-of-areas",
        f"the area below the loss curve is ordered as {' < '.join(order)}",
        increasing(area.sel(network=order)),
        note=join_numbers(area, 3),
    )
    passage = data["passage"].mean("seed", skipna=False)
    ratio = passage.sel(network="ReLU") / passage.sel(network="modular")
    claim(
        "relu-below-modular",
        "ReLU networks reach every level of the loss before modular networks",
        all_below(ratio, 1.0),
        wrong="the curves cross: ReLU networks reach a quarter of the initial loss first, but not "
        "every level",
        instead=all_below(ratio.sel(level=0.25), 1.0),
        note=f"times of ReLU networks over times of modular networks: {join_numbers(ratio, 2)}",
    )


@styled
def draw(run: xr.DataTree) -> Figure:
    """Plot the structures, losses, and shares of units by open contexts."""
    parameters, data = parameters_of_run(run, Parameters), run["different"].ds
    figure, (shown, loss, on, sets) = panels(
        "Units are mixed even if contexts have different structures", 4, width=3.4, height=3.2
    )
    features = [structured_features(each, parameters.objects) for each in _STRUCTURES]
    gap = np.full((features[0].shape[0], 1), np.nan)
    blocks = np.hstack([part for each in features for part in (each, gap)][:-1])
    shown.imshow(blocks, cmap="Blues", aspect="auto", interpolation="nearest")
    middle = (np.arange(_COUNT) + 0.5) * (parameters.objects + 1) - 1
    shown.set_xticks(middle, list(_STRUCTURES))
    shown.set_yticks([])
    label_axes(shown, "objects in each context", "features", "targets by context")
    for name, color in _COLORS.items():
        seen = data["loss"].sel(network=name)
        loss.plot(
            data["time"], seen.mean("seed"), **SIMULATION_STYLE, color=color, alpha=0.6, label=name
        )
    how = {"yscale": "log", "ylim": (3e-3, 1.3)}
    label_axes(loss, "time $t/τ$", "loss / initial loss", "different structures", **how)
    k = np.arange(_COUNT + 1)
    for shift, name, color in ((-0.27, "same", "0.45"), (0.0, "different", "C0")):
        mean = run[name].ds["share"].mean("seed")
        on.bar(k + shift, mean, 0.25, color=color, label=f"{name} structures")
    on.bar(k + 0.27, data["random"], 0.25, color="0.85", label="random features")
    words = "contexts in which a unit is on", "share of strength", "ReLU units"
    label_axes(on, *words, xticks=k, ylim=(0, 1))
    names = [str(each) for each in data["set"].values]
    for shift, name, color in ((-0.2, "same", "0.45"), (0.2, "different", "C0")):
        mean = run[name].ds["set_share"].mean("seed")
        sets.bar(np.arange(len(names)) + shift, mean, 0.38, color=color)
    sets.set_xticks(np.arange(len(names)), names)
    label_axes(sets, "best-matching contexts", "share of strength", "ReLU units, same colours")
    return figure
