r"""Context-dependent processing: a race between pathways that are open in different contexts.

The task has N objects in C contexts, and inputs are one-hot for both. Targets are the features of
the object, once for all contexts and once for each context (our reading of the slides' pictures).
The loss is ½⟨‖y − f‖²⟩, and τ Ẇ = −∂L/∂W with τ = 1. A gated network has one pathway of two layers
for every set of contexts, and all initial weights have the same scale. A pathway that is open in k
contexts has the initial correlation S = σ₁√((k + 1)(k + N))/NC, where σ₁ = √(2N − 1) is the largest
singular value of the tree of features.
"""

import itertools
from typing import Annotated, Any

import numpy as np
import xarray as xr
from jaxtyping import Float
from matplotlib.figure import Figure
from pydantic import Field

from ..._types import Keys
from ...dynamics import gradient_flow
from ...experiments._frame import Progress, Tables, make_run, parameters_of_run
from ...experiments._keys import Key, keys_from_parameters
from ...experiments._parameters import Parameters as BaseParameters
from ...experiments._parameters import PowerOfTwo, check_decreasing, check_increasing
from ...experiments.claims import (
    ClaimCollector,
    agree,
    claims_from_source,
    decreasing,
    join_numbers,
    max_error_below,
    most_seeds,
)
from ...experiments.figures import (
    POINT_STYLE,
    THEORY_STYLE,
    draw_pair,
    label_axes,
    panels,
    shades,
    styled,
)
from ...networks import Gated
from ...tasks import objects_in_contexts
from ...theory.gated import race_of_gatings
from .._growth import growth_rate
from .._pathways import between, context_pathways

_SAMPLES = 161
_LEFT = 1e-4
"""Fraction of the initial loss at which the last modes are nearly learned."""


class Parameters(BaseParameters):
    """Objects in contexts, and gated networks with one pathway per set of contexts."""

    seeds: int = Field(default=3, ge=1)
    """Number of networks that are trained from each scale."""

    objects: PowerOfTwo = Field(default=8, ge=4, le=16)
    """Number N of objects, a power of two."""

    contexts: Annotated[tuple[int, ...], check_increasing(3, 5, count=1)] = (3,)
    """Numbers C of contexts, increasing, each from 3 to 5; a network has 2^C − 1 pathways."""

    hidden: int = Field(default=40, ge=16)
    """Number of hidden units of each pathway."""

    scales: Annotated[tuple[float, ...], check_decreasing(1e-2, 1e-8)] = (1e-3, 1e-5)
    """Standard deviations σ of the initial weights, decreasing, from 0.01 at most."""


PRESETS: dict[str, dict[str, Any]] = {"more-contexts": {"objects": 4, "contexts": (4,)}}
QUICK: dict[str, Any] = {"objects": 4, "seeds": 2}


@make_run("race/context")
def run(parameters: Parameters, key: Key, progress: Progress) -> Tables:
    """Solve the race of all sets of contexts, and train networks with one pathway per set."""
    keys, tables = keys_from_parameters(parameters, key), {}
    for k, count in enumerate(parameters.contexts):
        progress(f"{count} contexts", k / len(parameters.contexts))
        tables[f"contexts_{count}"] = _raced(parameters, count, keys)
    return tables


def _raced(parameters: Parameters, count: int, keys: Keys) -> xr.Dataset:
    """Train networks and solve the race for one number of contexts."""
    task, scales = objects_in_contexts(parameters.objects, count), np.array(parameters.scales)
    starts = scales**2 * parameters.hidden / 2
    races = [
        race_of_gatings(task, "context", only_self_consistent=False, initial_strength=start)
        for start in starts
    ]
    late = races[-1].loss < _LEFT * races[-1].loss[0]
    times = np.linspace(0.0, 1.2 * float(races[-1].time[late][0]), _SAMPLES)
    sets = [c for k in range(1, count + 1) for c in itertools.combinations(range(count), k)]
    network = context_pathways(task, sets, parameters.hidden, scales[:, None], keys)
    trained = gradient_flow(network, task, times, rtol=1e-6, observe={"strength": _strength})
    context = task.labels["context"]
    rates = {k: growth_rate(task, context < k, keys) for k in range(1, count + 1)}
    curve = lambda name: np.stack([between(times, one.time, getattr(one, name)) for one in races])
    over = "scale", "seed", "time", "pathway"
    return xr.Dataset(
        {
            "strength": (over, trained.observed["strength"]),
            "strength_theory": ((over[0], *over[2:]), curve("strength")),
            "loss": (over[:3], trained.loss),
            "loss_theory": ((over[0], over[2]), curve("loss")),
            "rate": ("pathway", [rates[len(each)] for each in sets]),
        },
        {
            "scale": scales,
            "seed": parameters.seed + np.arange(len(keys)),
            "time": ("time", times, {"long_name": "time in units of τ"}),
            "size": ("pathway", [len(each) for each in sets]),
        },
    )


def _strength(network: Gated) -> Float[np.ndarray, " pathway"]:
    """Return the sum of singular values of each pathway's map."""
    weights = dict(zip(network.part_axes, map(np.asarray, network.parts), strict=True))
    count = len(weights) // 2
    maps = np.stack([weights[f"h{k}-y"] @ weights[f"x-h{k}"] for k in range(count)])
    return np.linalg.svd(maps, compute_uv=False).sum(axis=-1)


def _by_size(strength: xr.DataArray) -> xr.DataArray:
    """Return the share of a pathway in the total strength: mean by number of open contexts."""
    return (strength / strength.sum("pathway")).groupby("size").mean()


@claims_from_source("Saxe, slides", "“Context-dependent processing”")
def claims(run: xr.DataTree, claim: ClaimCollector) -> None:
    """Check the growth rates of pathways, the winners, and the effect of smaller weights."""
    parameters = parameters_of_run(run, Parameters)
    n = parameters.objects
    for count in parameters.contexts:
        data, case = run[f"contexts_{count}"].ds, f"C = {count}"
        size, last = data["size"], data.isel(time=-1)
        seen, theory = _by_size(last["strength"]), _by_size(last["strength_theory"])
        law = np.sqrt((2 * n - 1) * (size + 1) * (size + n)) / (n * count)
        claim(
            "initial-growth",
            "a pathway that is open in k of C contexts, with N objects, starts to grow at the rate "
            "S = σ₁√((k + 1)(k + N))/NC, σ₁ = √(2N − 1)",
            agree(data["rate"], law, within=0.02, relative=True),
            at="“The neural race reduction”",
            note="rates of trained pathways, by the number k of open contexts: "
            f"{join_numbers(data['rate'].groupby('size').mean(), 3)}",
            case=case,
        )
        claim(
            "final-strengths",
            "the race predicts the final strength of pathways that are open in 1 … C contexts",
            agree(seen.mean("seed"), theory, within=0.03),
            headline=True,
            note="strengths are shares of the sum over pathways; initial scales "
            f"σ = {join_numbers(data['scale'].values)}",
            case=case,
        )
        winners = seen.isel(size=slice(-2, None)).min("size")
        claim(
            "most-contexts-win",
            "pathways that are open in all contexts, or in all but one, win in every network",
            most_seeds(winners > seen.isel(size=slice(None, -2)).max("size"), of="networks"),
            case=case,
        )
        many = (last["strength"] / last["strength"].sum("pathway")).where(size < count - 1, 0.0)
        claim(
            "others-fade",
            "the share of the total strength in pathways that are open in fewer than C − 1 of C "
            "contexts falls as initial weights get smaller",
            decreasing(many.sum("pathway").mean("seed")),
            at="“The neural race reduction”",
            case=case,
        )
        first = float(data["loss_theory"][0, 0])
        claim(
            "loss",
            "the race predicts the loss of gated networks over time",
            max_error_below(
                data["loss"].mean("seed"), data["loss_theory"], within=0.05, over=first
            ),
            note="in units of the initial loss",
            case=case,
        )


@styled
def draw(run: xr.DataTree) -> Figure:
    """Plot the race, the loss, and final shares against scale, in a row per number of contexts."""
    counts = parameters_of_run(run, Parameters).contexts
    title = "Pathways that are open in all contexts, or in all but one, win"
    how = {"squeeze": False, "width": 3.6, "height": 3.0}
    figure, rows = panels(title, 3, len(counts), **how)
    for count, (course, loss, shares) in zip(counts, rows, strict=True):
        data = run[f"contexts_{count}"].ds
        kinds = data["strength"], data["strength_theory"]
        small = [each.isel(scale=-1).groupby("size").mean() for each in kinds]
        ends = [_by_size(each.isel(time=-1)) for each in kinds]
        for k, shade, label in shades(range(1, count + 1), "k ="):
            seen, raced = (each.sel(size=k) for each in small)
            draw_pair(course, data["time"], seen.mean("seed"), raced, color=shade, label=label)
            seen, raced = (each.sel(size=k) for each in ends)
            shares.plot(data["scale"], seen, **{**POINT_STYLE, "alpha": 0.6}, color=shade)
            shares.plot([], [], **POINT_STYLE, color=shade, label=label)
            shares.plot(data["scale"], raced, **THEORY_STYLE)
        for scale, shade, label in shades(data["scale"].values, "σ ="):
            one = data.sel(scale=scale)
            curves = one["loss"].mean("seed"), one["loss_theory"]
            draw_pair(loss, data["time"], *curves, color=shade, label=label)
        words = "time $t/τ$", "strength of a pathway", f"{count} contexts, pathways open in $k$"
        label_axes(course, *words, theory="race")
        label_axes(loss, "time $t/τ$", "loss", f"{count} contexts", theory="race")
        words = "initial weights σ", "share of a pathway", f"{count} contexts, after training"
        label_axes(shares, *words, theory="race", xscale="log", yscale="log")
    return figure
