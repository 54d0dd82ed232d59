r"""Mixed selectivity against modularity: objects in three, four and five contexts.

The targets of an object have one part that is the same in all C contexts, and one part per context.
A modular network, with one pathway per context, can learn this task, but units of ReLU networks end
up active in all contexts but one. Three gated networks with the same number of units are trained
for comparison: modular, a common pathway with one pathway per context, and a common pathway with
one pathway per C − 1 contexts. The loss is ½⟨‖y − f‖²⟩, and τ Ẇ = −∂L/∂W with τ = 1. Published runs
sum the loss over P samples, so their step η is a flow time ηP.

Two statements of the source need a correction. First, ReLU networks do not have a lower loss than
modular networks at all times: the curves cross, ReLU networks have a smaller area below the loss,
and modular networks have the lower loss at the end. Second, mixed selectivity does not intensify
with more contexts: the share of units that are active in several contexts, but not in all, rises,
but this share rises more for random features.
"""

import itertools
from typing import Annotated, Any

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
from ...experiments._parameters import PowerOfTwo, check_increasing
from ...experiments.claims import (
    ClaimCollector,
    all_above,
    all_below,
    claims_from_source,
    decreasing,
    increasing,
    join_numbers,
    max_error_below,
)
from ...experiments.figures import GUIDE_STYLE, draw_pair, label_axes, panels, shades, styled
from ...networks import AbstractNetwork, Layer, fully_connected
from ...tasks import Task, objects_in_contexts
from ...theory.gated import best_linear_loss, context_spectrum
from .._pathways import between, context_pathways

_LEVELS = (0.5, 0.25, 0.1, 0.05, 0.01)
_SAMPLES = 241
_RANDOM = 4000
"""Number of random features with which trained units are compared."""
_ON = 1e-3
"""Fraction of its largest activity above which a unit is active."""
_COLORS = {"ReLU": "C0", "common + C−1": "C2", "common + single": "C1", "modular": "C3"}


class Parameters(BaseParameters):
    """Objects in contexts, and networks with one hidden layer and small random weights."""

    seeds: int = Field(default=2, ge=1)
    """Number of networks of each kind that are trained."""

    objects: PowerOfTwo = Field(default=8, ge=4, le=16)
    """Number N of objects, a power of two, with the features of a tree."""

    contexts: Annotated[tuple[int, ...], check_increasing(3, 6, count=1)] = (3, 4, 5)
    """Numbers C of contexts, increasing, from 3 to 6."""

    widths: tuple[int, ...] = (120, 120, 150)
    """Number of hidden units for each entry of `contexts`, divided equally among pathways."""

    scale: float = Field(default=1e-3, gt=0, le=0.1)
    """Standard deviation σ of the initial weights."""

    over_width: bool = False
    """Whether σ is divided by the width, as in the published runs."""

    learning_rate: float = Field(default=3e-3, gt=0, le=0.01)
    """Learning rate of gradient descent on the sum over samples; 0.001 in the published runs."""

    steps: int = Field(default=2667, ge=100)
    """Number of gradient descent steps; 8,001 in the published runs."""

    def _check(self) -> None:
        if len(self.widths) != len(self.contexts):
            raise ValueError(
                f"`widths` must have one entry for each of the {len(self.contexts)} entries of "
                f"`contexts`, got {len(self.widths)}."
            )
        for width, count in zip(self.widths, self.contexts, strict=True):
            if width < 4 * (count + 1):
                raise ValueError(
                    f"`widths` must be at least {4 * (count + 1)} for {count} contexts, 4 units "
                    f"for each of {count + 1} pathways, got {width}."
                )


PRESETS: dict[str, dict[str, Any]] = {
    "paper": {  # published widths are 500 for four contexts, 600 for five
        "seeds": 1,
        "contexts": (3,),
        "widths": (700,),
        "scale": 0.005,
        "over_width": True,
        "learning_rate": 1e-3,
        "steps": 8001,
    }
}
QUICK: dict[str, Any] = {"seeds": 2, "contexts": (3,), "widths": (120,)}


@make_run("haste/mixed")
def run(parameters: Parameters, key: Key, progress: Progress) -> Tables:
    """Train ReLU and gated networks for each number of contexts."""
    keys, tables = keys_from_parameters(parameters, key), {}
    total = len(parameters.contexts) * len(_COLORS)
    for k, (count, width) in enumerate(zip(parameters.contexts, parameters.widths, strict=True)):
        task = objects_in_contexts(parameters.objects, count)
        scale = parameters.scale / (width if parameters.over_width else 1)
        last = parameters.steps * parameters.learning_rate * len(task.x)
        times = np.linspace(0.0, last, _SAMPLES)
        found = []
        for j, name in enumerate(_COLORS):
            progress(f"{count} contexts, {name}", (k * len(_COLORS) + j) / total)
            network = _network(name, task, count, width, scale, keys)
            found.append(_trained(parameters, network, task, count, times))
        table = xr.concat(found, xr.Variable("network", list(_COLORS)), join="override")
        modular = context_spectrum(parameters.objects, count, 1, of="common")
        # A descent step multiplies small weights by 1 + ηs, flow for a time η by e^{ηs}.
        growth = parameters.learning_rate * len(task.x) * modular.singular_values
        clock, start = growth / np.log1p(growth), scale**2 * (width // count) / 2
        table["modular_theory"] = "time", modular.loss(times, start, tau=clock)
        table["floor"] = best_linear_loss(task)
        table["share"] = table["share"].isel(network=0)  # gated networks have fixed shares
        table["random_share"] = "on", _random_share(task)
        tables[f"contexts_{count}"] = table.assign_coords(
            seed=parameters.seed + np.arange(len(keys)),
            time=("time", times, {"long_name": "time in units of τ"}),
        )
    return tables


def _network(
    name: str, task: Task, count: int, width: int, scale: float, keys: Keys
) -> AbstractNetwork:
    inputs, outputs = np.shape(task.x)[1], np.shape(task.y)[1]
    if name == "ReLU":
        return fully_connected(inputs, width, outputs, activation="relu", scale=scale, key=keys)
    single = list(itertools.combinations(range(count), 1))
    most, every = list(itertools.combinations(range(count), count - 1)), [tuple(range(count))]
    sets = {"common + C−1": every + most, "common + single": every + single, "modular": single}
    return context_pathways(task, sets[name], width // len(sets[name]), scale, keys)


def _trained(
    parameters: Parameters, network: AbstractNetwork, task: Task, count: int, times: np.ndarray
) -> xr.Dataset:
    """Train networks and return their losses, and shares of strength by open contexts."""
    rate, steps = parameters.learning_rate, parameters.steps
    ran = gradient_descent(
        network,
        task,
        rate,
        steps,
        loss="half-sum",
        converged=1e-12,
        observe={"share": lambda one: _share(one, task, count)},
    )
    clock = rate * len(task.x) * ran.time
    over = lambda values: np.stack(
        [between(times, lane, each) for lane, each in zip(clock, values, strict=True)]
    )
    loss, share = over(ran.loss / len(task.x)), over(ran.observed["share"])
    first = loss[:, :1]
    passed = passage_time(times, loss[:, None], first * _LEVELS)
    return xr.Dataset(
        {
            "loss": (("seed", "time"), loss),
            "share": (("seed", "time", "on"), share),
            "area": ("seed", np.trapezoid(loss / first, times, axis=1)),
            "passage": (("seed", "level"), passed),
        },
        {"level": list(_LEVELS), "on": np.arange(count + 1)},
    )


def _share(network: AbstractNetwork, task: Task, count: int) -> Float[np.ndarray, " on"]:
    """Return the shares of strength |u||v| in units that are active in 0 … C contexts.

    A unit is active in a context if it is active for at least half of the objects.
    """
    if not isinstance(network, Layer):
        return np.full(count + 1, np.nan)
    u, v = (np.asarray(part) for part in (network.u, network.v))
    h = np.maximum(task.x @ u.T, 0.0)
    on = h > _ON * np.maximum(h.max(axis=0), 1e-300)
    contexts = (on.reshape(count, -1, len(u)).mean(axis=1) >= 0.5).sum(axis=0)
    strength = np.linalg.norm(u, axis=1) * np.linalg.norm(v, axis=1)
    return np.bincount(contexts, strength, minlength=count + 1) / strength.sum()


def _random_share(task: Task) -> Float[np.ndarray, " on"]:
    """Return shares of strength, by open contexts, of rectified random features of the inputs."""
    rows = np.random.default_rng(0).standard_normal((np.shape(task.x)[1], _RANDOM))
    features = np.maximum(np.asarray(task.x) @ rows, 0.0)
    size = np.linalg.norm(rows, axis=0)
    how = {"strengths": size, "threshold": _ON, "anova": None, "random": 0, "shuffles": 1}
    return selectivity(features, task, **how).shares


def _final(data: xr.Dataset) -> xr.DataArray:
    """Return the mean final shares of strength, by the number of open contexts."""
    return data["share"].isel(time=-1).mean("seed")


@claims_from_source("Jarvis, Klein, Rosman & Saxe", "mixed selectivity")
def claims(run: xr.DataTree, claim: ClaimCollector) -> None:
    """Check in how many contexts ReLU units are active, and compare losses of networks."""
    parameters = parameters_of_run(run, Parameters)
    counts = parameters.contexts
    for count in counts:
        data, case = run[f"contexts_{count}"].ds, f"C = {count}"
        share, area = _final(data), data["area"].mean("seed")
        passage = data["passage"].mean("seed", skipna=False)
        mixed = share.sel(on=count - 1) + (share.sel(on=count - 2) if count > 3 else 0.0)
        claim(
            "units-on-in-all-but-one",
            "ReLU units that are not active in all C contexts are active in C − 1 contexts",
            all_above(mixed / (1 - share.sel(on=count)), 0.9),
            at="effect of more contexts",
            corrected=""
            if count == 3
            else "units are active in C − 1 or C − 2 contexts; C − 2 becomes more frequent with "
            "more contexts",
            headline=True,
            note=f"shares of strength in units active in 0 … {count} contexts: "
            f"{join_numbers(share.values, 2)}",
            case=case,
        )
        claim(
            "modular-units",
            "hardly any ReLU unit is modular, that is, active in a single context",
            all_below(share.sel(on=slice(0, 1)).sum("on"), 0.05),
            case=case,
        )
        course = data["share"].sel(on=count).mean("seed")
        early = course.sel(time=float(passage.sel(network="ReLU", level=0.5)), method="nearest")
        claim(
            "always-on-first",
            "early in training ReLU units are active in all contexts; later most units switch off "
            "in one context",
            decreasing([float(early), float(course[-1])]),
            note="share of strength in units that are active in all contexts, at half of the "
            "initial loss and at the end",
            case=case,
        )
        order = ["common + C−1", "ReLU", "modular"]
        claim(
            "order-of-areas",
            f"the area below the loss curve is ordered as {' < '.join(order)}",
            increasing(area.sel(network=order)),
            at="why mixed selectivity wins",
            case=case,
        )
        ratio = passage / passage.sel(network="modular")
        claim(
            "faster-than-modular",
            "mixed networks, gated or ReLU, reach a tenth of the initial loss before modular "
            "networks",
            all_below(ratio.sel(network=order[:2], level=0.1), 1.0),
            at="why mixed selectivity wins",
            note="time of ReLU networks over time of modular networks: "
            f"{join_numbers(ratio.sel(network='ReLU'), 2)}",
            case=case,
        )
        seen = data["loss"].sel(network="modular").mean("seed")
        relu = data["loss"].sel(network="ReLU").mean("seed")
        behind = ((relu - seen) / seen[0])[1:]
        last = np.flatnonzero(behind <= 0)[-1:] + 1  # from here the loss of ReLU networks is larger
        crossing = np.append((relu / seen[0])[1:], np.nan)[last]
        claim(
            "relu-below-modular",
            "ReLU networks have a lower loss than modular networks at all times",
            all_below(behind, 0.0),
            at="why mixed selectivity wins",
            wrong="the curves cross at a few percent of the initial loss, earlier from larger "
            "initial weights: a late mode with singular value σ grows at √2 σ/NC in modular "
            "networks, at √(1 − 1/C) σ/NC in all other networks",
            instead=all_below(crossing, 0.1),
            note="loss of ReLU networks minus loss of modular networks, in units of the initial "
            f"loss; at the crossing the loss is {join_numbers(crossing, 2)}",
            case=case,
        )
        claim(
            "modular-loss",
            "the loss of modular networks follows the theory of independently learned modes",
            max_error_below(seen, data["modular_theory"], within=0.05, over=float(seen[0])),
            at="learning dynamics",
            note="in units of the initial loss; modes start with the strength σ²H/2 of H random "
            "units",
            case=case,
        )
    if len(counts) > 1:
        several = [slice(2, count - 1) for count in counts]
        tables = [run[f"contexts_{count}"].ds for count in counts]
        mixed, random = (
            np.array(
                [float(each.sel(on=on).sum()) for each, on in zip(shares, several, strict=True)]
            )
            for shares in ([_final(each) for each in tables], [t["random_share"] for t in tables])
        )
        claim(
            "mixed-share",
            "mixed selectivity intensifies with more contexts: the share of strength in units that "
            "are active in several contexts, but not in all, rises",
            increasing(mixed),
            at="effect of more contexts",
        )
        claim(
            "mixed-beyond-random",
            "the excess of mixed units over mixed random features grows with more contexts",
            increasing(mixed - random),
            at="effect of more contexts",
            wrong="the excess falls, because random features get more mixed with more contexts too",
            instead=decreasing(mixed - random),
            note=f"mixed share of random features: {join_numbers(random, 2)}",
        )


@styled
def draw(run: xr.DataTree) -> Figure:
    """Plot losses, shares of units by open contexts, and areas, a row per number of contexts.

    The labels of the bars name the colours of the losses.
    """
    counts = parameters_of_run(run, Parameters).contexts
    title = (
        "Mixed and modular networks (dashed: theory): most ReLU units are inactive in one context"
    )
    figure, rows = panels(title, 3, len(counts), squeeze=False, width=3.8, height=2.9)
    for count, (loss, units, area) in zip(counts, rows, strict=True):
        data, where = run[f"contexts_{count}"].ds, f"{count} contexts"
        first = float(data["modular_theory"][0])
        for name, color in _COLORS.items():
            seen = data["loss"].sel(network=name).mean("seed") / first
            theory = data["modular_theory"] / first if name == "modular" else None
            draw_pair(loss, data["time"], seen, theory, color=color)
        floor = float(data["floor"]) / first
        loss.axhline(floor, **GUIDE_STYLE)
        right = loss.get_yaxis_transform()
        loss.text(
            1, floor, "linear network", transform=right, ha="right", va="bottom", size="small"
        )
        words = "time $t/τ$", "loss / initial loss", f"loss, {where}"
        label_axes(loss, *words, yscale="log", ylim=(3e-3, 1.3), legend=None)
        for on, shade, label in shades(range(1, count + 1), "on in"):
            seen = data["share"].sel(on=on).mean("seed")
            draw_pair(units, data["time"], seen, color=shade, label=label)
        words = "time $t/τ$", "share of strength", f"ReLU, {where}"
        label_axes(units, *words, ylim=(-0.02, 1.02), legend="beside")
        mean = data["area"].mean("seed")
        area.barh(np.arange(4), mean, color=list(_COLORS.values()), alpha=0.6)
        area.set_yticks(np.arange(4), [name.replace("C−1", f"{count - 1}") for name in _COLORS])
        for k, name in enumerate(_COLORS):
            seeds = data["area"].sel(network=name)
            area.plot(seeds, np.full(len(seeds), k), ".", color="black", ms=3)
        area.invert_yaxis()
        label_axes(area, "area below the loss", "network", f"loss, {where}")
    return figure
