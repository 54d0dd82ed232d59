r"""Why mixed selectivity wins: sharing is faster only while the common pathway still learns.

A pathway that is open in k of C contexts learns the task at the rate S = σ√(k² + k)/NC, which
increases with k. It learns the residual of the common pathway at the rate σ√(k(C − k)/C)/NC, which
is the same for one context and for C − 1, and largest for half of them. So pathways for C − 1
contexts win by their lead from before the common pathway has learned. The smaller the initial
weights, the larger this lead.

Loss ½⟨‖y − f‖²⟩, τ Ẇ = −∂L/∂W with τ = 1, pathways with inputs for object and context.
"""

import itertools
from dataclasses import replace
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
    Judgement,
    agree,
    all_above,
    all_below,
    claims_from_source,
    decreasing,
    increasing,
    join_numbers,
    max_error_below,
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
from ...networks import Gated, gated_from
from ...tasks import Task, objects_in_contexts
from ...theory.gated import context_spectrum, linear_residual_task, race_of_gatings
from .._growth import growth_rate
from .._pathways import between

_SAMPLES = 121
_START = 1e-4
"""Strength of every direction where pathways learn the residual alone."""


class Parameters(BaseParameters):
    """Objects in contexts, with the features of a tree."""

    seeds: int = Field(default=2, ge=1)
    """How many networks measure how fast a pathway starts. Nothing else here is random."""

    objects: PowerOfTwo = Field(default=8, ge=4, le=16)
    """Number N of objects, a power of two."""

    contexts: Annotated[tuple[int, ...], check_increasing(3, 6, count=1)] = (3, 4, 5)
    """Numbers C of contexts for spectra, the residual, and common pathways with others."""

    race_contexts: Annotated[tuple[int, ...], check_increasing(3, 5, count=1)] = (3, 4)
    """Numbers of contexts of which all sets race."""

    hidden: int = Field(default=40, ge=4)
    """Units of each pathway: from weights of size σ its directions start at σ²H/2."""

    scales: Annotated[tuple[float, ...], check_decreasing(1e-2, 1e-8)] = (1e-2, 1e-3, 1e-5)
    """Sizes σ of initial weights, from 0.01 down."""


QUICK: dict[str, Any] = {"objects": 4, "contexts": (3, 4), "race_contexts": (3,)}


@make_run("haste/why")
def run(parameters: Parameters, key: Key, progress: Progress) -> Tables:
    """Spectra, training on the residual, and races."""
    tables, counts, keys = {}, parameters.contexts, keys_from_parameters(parameters, key)
    for k, count in enumerate(counts):
        progress(f"{count} contexts", 0.7 * k / len(counts))
        tables[f"spectrum_{count}"] = _spectrum(parameters, count, keys)
        tables[f"residual_{count}"] = _residual(parameters, count)
        tables[f"common_{count}"] = _with_common(parameters, count)
    for k, count in enumerate(parameters.race_contexts):
        progress(f"all sets of {count} contexts", 0.7 + 0.3 * k / len(parameters.race_contexts))
        tables[f"open_{count}"] = _open(parameters, count)
    return tables


def _sets(count: int, k: int) -> list[tuple[int, ...]]:
    return list(itertools.combinations(range(count), k))


def _gate(task: Task, chosen: tuple[int, ...]) -> Float[np.ndarray, " sample"]:
    return np.isin(task.labels["context"], chosen) * 1.0


def _spectrum(parameters: Parameters, count: int, keys: Keys) -> xr.Dataset:
    """Measure how fast pathways for k contexts start to tell objects apart in training."""
    n, task = parameters.objects, objects_in_contexts(parameters.objects, count)
    contrast = task.x[:, :n] - 1 / n  # between objects
    found = np.zeros((2, count))
    for row, data in enumerate((task, linear_residual_task(task))):
        data = replace(data, x=contrast)
        for k in range(1, count + 1):
            gate = _gate(task, tuple(range(k)))
            found[row, k - 1] = growth_rate(data, gate, keys, slowest=1 / (n * count))
    return xr.Dataset(
        {"raw": ("on", found[0]), "residual": ("on", found[1])}, {"on": np.arange(1, count + 1)}
    )


def _residual(parameters: Parameters, count: int) -> xr.Dataset:
    """Gated networks that learn what a linear one leaves, with pathways for 1 or C − 1 contexts."""
    task = linear_residual_task(objects_in_contexts(parameters.objects, count))
    kinds = [context_spectrum(parameters.objects, count, k, of="residual") for k in (1, count - 1)]
    s, final = float(kinds[0].singular_values[-1]), float(kinds[0].final[-1])
    times = np.linspace(0.0, 2.5 * np.log(final / _START) / (2 * s), _SAMPLES)
    losses, strengths = [], []
    for k in (1, count - 1):
        ran = gradient_flow(_along(task, _sets(count, k)), task, times, rtol=1e-11)
        weights = dict(zip(ran.final.part_axes, map(np.asarray, ran.final.parts), strict=True))
        losses.append(ran.loss)
        whole = np.linalg.svd(weights["h0-y"] @ weights["x-h0"], compute_uv=False)
        strengths.append(whole[: len(kinds[0].final)])
    return xr.Dataset(
        {
            "loss": (("on", "time"), losses),
            "loss_theory": ("time", kinds[0].loss(times, _START)),
            "final": (("on", "mode"), strengths),
            "final_theory": ("mode", kinds[0].final),
            "alone": ("mode", kinds[1].singular_values / kinds[1].input_variance),
        },
        {"on": [1, count - 1], "time": times},
    )


def _along(task: Task, sets: list[tuple[int, ...]]) -> Gated:
    """Pathways with balanced weights along the directions that each of them sees."""
    edges, gates = {}, {}
    for k, chosen in enumerate(sets):
        gate = _gate(task, chosen)
        u, s, v = np.linalg.svd((gate[:, None] * task.y).T @ task.x, full_matrices=False)
        seen = s > 1e-9 * s[0]
        edges[f"x-h{k}"] = np.sqrt(_START) * v[seen]
        edges[f"h{k}-y"] = np.sqrt(_START) * u[:, seen]
        gates[f"h{k}"] = gate
    return gated_from(edges, gates=gates, x=task.x)


def _with_common(parameters: Parameters, count: int) -> xr.Dataset:
    """A common pathway races together with those for 1, or for C − 1, contexts."""
    task = objects_in_contexts(parameters.objects, count)
    start = parameters.scales[0] ** 2 * parameters.hidden / 2
    races = []
    for k in (1, count - 1):
        gates = {"common": np.ones(len(task.x))}
        gates |= {f"{chosen}": _gate(task, chosen) for chosen in _sets(count, k)}
        races.append(
            race_of_gatings(
                task, gates, initial_strength=start, only_self_consistent=False, rtol=1e-6
            )
        )
    times = np.linspace(
        0.0, 8 * max(float(each.half_time[1:].max()) for each in races), 4 * _SAMPLES
    )
    curve = lambda name: [between(times, one.time, getattr(one, name)) for one in races]
    explained = np.stack(curve("explained"))
    done = explained[..., 0] >= 0.9 * explained[..., -1:, 0]
    strength = np.stack([each[:, 1] for each in curve("strength")])
    return xr.Dataset(
        {
            "loss": (("on", "time"), np.stack(curve("loss"))),
            "strength": (("on", "time"), strength),
            "common": (("on", "time"), explained[..., 0]),
            "done": ("on", times[np.argmax(done, axis=1)]),
        },
        {"on": [1, count - 1], "time": times},
    )


def _open(parameters: Parameters, count: int) -> xr.Dataset:
    """Pathways for all sets of contexts race, from each scale."""
    task = objects_in_contexts(parameters.objects, count)
    size = np.array([len(each) for k in range(1, count + 1) for each in _sets(count, k)])
    shares = []
    for scale in parameters.scales:
        start = scale**2 * parameters.hidden / 2
        last = race_of_gatings(
            task, "context", only_self_consistent=False, initial_strength=start, rtol=1e-6
        ).strength[-1]
        shares.append([last[size == k].mean() / last.sum() for k in range(1, count + 1)])
    return xr.Dataset(
        {"share": (("scale", "on"), shares)},
        {"scale": list(parameters.scales), "on": np.arange(1, count + 1)},
    )


@claims_from_source("Jarvis, Klein, Rosman & Saxe", "why mixed selectivity wins")
def claims(run: xr.DataTree, claim: ClaimCollector) -> None:
    """More data are faster on raw targets alone, and what follows from that."""
    parameters = parameters_of_run(run, Parameters)
    n, counts = parameters.objects, parameters.contexts
    sigma = np.sqrt(n - 1)  # of the first split of the tree
    for count in counts:
        case, seen = f"C = {count}", run[f"spectrum_{count}"].ds
        k = seen["on"]
        ratio = float(seen["raw"].sel(on=count - 1) / seen["raw"].sel(on=1))
        claim(
            "more-data-faster",
            "pathways that see more data learn faster, S = σ√(k² + k)/NC",
            _near(seen["raw"], sigma * np.sqrt(k**2 + k) / (n * count)),
            corrected="while nothing is learned yet",
            note=f"C − 1 contexts against one: {ratio:.3f} = √(C(C − 1)/2)",
            case=case,
        )
        claim(
            "more-data-faster-on-residual",
            "also of what the common pathway leaves",
            increasing(seen["residual"]),
            wrong="S = σ√(k(C − k)/C)/NC: one context and all but one are the same, half of them "
            "would be fastest",
            instead=_near(seen["residual"], sigma * np.sqrt(k * (count - k) / count) / (n * count)),
            case=case,
        )
        left = run[f"residual_{count}"].ds
        one, most = (left["loss"].sel(on=on) for on in (1, count - 1))
        claim(
            "same-residual-loss",
            "there pathways for C − 1 contexts and for one learn alike, at all times",
            max_error_below(most, one, within=1e-10, over=float(one[0])),
            headline=True,
            note="losses of trained networks, of the initial one",
            case=case,
        )
        claim(
            "overlapping-pathways",
            "pathways for C − 1 contexts end at (C − 1) S/D",
            agree(left["final"].sel(on=count - 1), (count - 1) * left["alone"], within=1e-4),
            at="effect of more contexts",
            corrected="because they overlap, Σ_j D(j, p) u_j·u_p = D/(C − 1): pathways for one "
            "context end there too",
            note="one pathway alone would end at S/D",
            case=case,
        )
        beside = run[f"common_{count}"].ds
        at = beside["strength"].interp(time=float(beside["done"].min()))
        gain = float(at.sel(on=count - 1) / at.sel(on=1))
        claim(
            "ahead-after-common",
            "when the common pathway is nearly done, those for C − 1 contexts are ahead",
            all_above(gain, 1.0),
            note="strength of one of them over that of one for a single context",
            case=case,
        )
        area = beside["loss"].integrate("time") / beside["loss"][0, 0]
        claim(
            "smaller-area",
            "so beside a common pathway they have a smaller area below the loss",
            all_below(float(area.sel(on=count - 1) / area.sel(on=1)), 1.0),
            note=f"{join_numbers(area.values[::-1], 3)}",
            case=case,
        )
        late = float(seen["raw"].sel(on=1) / seen["residual"].sel(on=1))
        claim(
            "late-modes",
            "late modes are learned faster by modular pathways, by √(2C/(C − 1))",
            _near(late, np.sqrt(2 * count / (count - 1))),
            note="growth of trained pathways; hence these are ahead in the end",
            case=case,
        )
    _more(run, counts, claim)
    for count in parameters.race_contexts:
        share, case = run[f"open_{count}"].ds["share"], f"C = {count}"
        few, many = share.sel(on=slice(1, count - 2)), share.sel(on=slice(count - 1, None))
        claim(
            "most-contexts-win",
            "all sets of contexts race: pathways for all of them, and for all but one, win",
            all_above(many.min("on") / few.max("on"), 1.0),
            note=f"share of a pathway for 1 … {count}, σ = {share['scale'].values[-1]:g}: "
            f"{join_numbers(share.isel(scale=-1).values, 2)}",
            case=case,
        )
        claim(
            "smaller-weights",
            "the more so, the smaller the weights; one for a single context has",
            decreasing(share.sel(on=1)),
            note=f"σ = {join_numbers(share['scale'].values)}",
            case=case,
        )


def _near(measured: Any, predicted: Any) -> Judgement:
    """Compare growth in trained networks, measured when at most 2 % has been learned."""
    return agree(measured, predicted, within=float(f"{0.02 * np.max(predicted):.2g}"))


def _more(run: xr.DataTree, counts: tuple[int, ...], claim: ClaimCollector) -> None:
    """C − 2 contexts against C − 1, from four contexts on, where one context is neither."""
    many = [count for count in counts if count > 3]
    if not many:
        return
    tables = {count: run[f"spectrum_{count}"].ds for count in many}
    over = lambda name: [
        float(t[name].sel(on=c - 2) / t[name].sel(on=c - 1)) for c, t in tables.items()
    ]
    c = np.array(many)
    claim(
        "all-but-one-context",
        "context pathways remain active in C − 1 contexts",
        all_below(over("residual"), 1.0),
        at="effect of more contexts",
        wrong="of what the common pathway leaves, those for C − 2 see more, by "
        "√(2(C − 2)/(C − 1)), and what they are behind at first shrinks with C, √((C − 2)/C)",
        instead=_near(
            [*over("residual"), *over("raw")],
            [*np.sqrt(2 * (c - 2) / (c - 1)), *np.sqrt((c - 2) / c)],
        ),
        note=f"growth of trained pathways, C = {join_numbers(c)}",
    )


@styled
def draw(run: xr.DataTree) -> Figure:
    """Rates by the number of contexts, the residual alone, beside a common pathway, all sets."""
    parameters = parameters_of_run(run, Parameters)
    counts = parameters.contexts
    title = "Why mixed selectivity wins: before the common pathway is done"
    figure, (rates, alone, beside, all_sets) = panels(title, 4, width=3.5)
    for count, shade, label in reversed([*shades(counts, "C =")]):  # the fewest on top
        seen = run[f"spectrum_{count}"].ds
        size = float(seen["raw"].sel(on=1))
        rates.plot(seen["on"], seen["raw"] / size, **POINT_STYLE, color=shade, label=label)
        rates.plot(
            seen["on"], seen["residual"] / size, **{**POINT_STYLE, "marker": "s"}, color=shade
        )
        k = np.linspace(1, count, 100)
        rates.plot(k, np.sqrt((k**2 + k) / 2), **THEORY_STYLE)
        rates.plot(k, np.sqrt(k * (count - k) / count / 2), **THEORY_STYLE)
    words = "open in k contexts", "rate S over modular", "all targets (dots), residual (squares)"
    label_axes(rates, *words, theory="formula")
    count = counts[0]
    left = run[f"residual_{count}"].ds
    for on, color in zip(left["on"].values, ("C1", "C2"), strict=True):
        seen = left["loss"].sel(on=on)
        width = 8.0 if on == 1 else 4.0
        draw_pair(alone, left["time"], seen, color=color, label=f"open in {on}", lw=width)
    alone.plot(left["time"], left["loss_theory"], **THEORY_STYLE)
    label_axes(
        alone, "time $t/τ$", "loss", f"the residual alone, C = {count}", theory="closed form"
    )
    count = counts[-1]
    data = run[f"common_{count}"].ds
    for on, color in zip(data["on"].values, ("C1", "C2"), strict=True):
        beside.plot(
            data["time"],
            data["loss"].sel(on=on),
            color=color,
            lw=1.0,
            ls="--",
            label=f"common and {on}",
        )
    until = {"color": "0.93", "zorder": 0, "label": "until the common one is done"}
    beside.axvspan(0, float(data["done"].min()), **until)
    low = data["loss"].max("on") < 0.02 * data["loss"][0, 0]
    words = "time $t/τ$", "loss", f"beside a common pathway, C = {count}"
    label_axes(beside, *words, xlim=(0, float(data["time"][int(np.argmax(low.values))])))
    count = parameters.race_contexts[-1]
    share = run[f"open_{count}"].ds["share"]
    for on, shade, label in shades(share["on"].values, "k ="):
        how = {**POINT_STYLE, "ls": "-", "color": shade, "label": label}
        all_sets.plot(share["scale"], share.sel(on=on), **how)
    words = "initial weights σ", "share of a pathway", f"all sets of {count} contexts race"
    label_axes(all_sets, *words, xscale="log", yscale="log")
    return figure
