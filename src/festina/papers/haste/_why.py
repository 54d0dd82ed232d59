r"""Why mixed selectivity wins: sharing is faster only while the common pathway still learns.

N objects in C contexts have features with singular values σ. A pathway that is open in k contexts
learns a mode of the task at the rate S = σ√(k² + k)/NC, which increases with k. A pathway that is
open in k contexts learns the residual of the common pathway at the rate σ√(k(C − k)/C)/NC, which is
equal for k = 1 and k = C − 1, and largest for k = C/2. Pathways for C − 1 contexts therefore win by
the lead that they gain before the common pathway is learned. The lead of pathways for C − 1
contexts grows as initial weights get smaller.

The loss is ½⟨‖y − f‖²⟩, and τ Ẇ = −∂L/∂W with τ = 1. Pathways receive object and context inputs.
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
"""Initial strength of every direction in pathways that learn only the residual."""


class Parameters(BaseParameters):
    """Objects in contexts, with the features of a tree."""

    seeds: int = Field(default=2, ge=1)
    """Number of networks that measure initial growth rates; nothing else is random."""

    objects: PowerOfTwo = Field(default=8, ge=4, le=16)
    """Number N of objects, a power of two."""

    contexts: Annotated[tuple[int, ...], check_increasing(3, 6, count=1)] = (3, 4, 5)
    """Numbers C of contexts for growth rates, the residual and races with a common pathway."""

    race_contexts: Annotated[tuple[int, ...], check_increasing(3, 5, count=1)] = (3, 4)
    """Numbers of contexts for races between pathways for all sets of contexts."""

    hidden: int = Field(default=40, ge=4)
    """Number H of hidden units of each pathway; its directions start at strength σ²H/2."""

    scales: Annotated[tuple[float, ...], check_decreasing(1e-2, 1e-8)] = (1e-2, 1e-3, 1e-5)
    """Standard deviations σ of the initial weights, decreasing, from 0.01 at most."""


QUICK: dict[str, Any] = {"objects": 4, "contexts": (3, 4), "race_contexts": (3,)}


@make_run("haste/why")
def run(parameters: Parameters, key: Key, progress: Progress) -> Tables:
    """Measure growth rates, train pathways on the residual, and solve races of pathways."""
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
    """Measure the rate at which pathways for k contexts start to learn differences of objects."""
    n, task = parameters.objects, objects_in_contexts(parameters.objects, count)
    contrast = task.x[:, :n] - 1 / n  # differences between objects only
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
    """Train pathways for 1, or for C − 1, contexts on the residual of a linear network."""
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
    """Return pathways with balanced weights along the singular directions of their own data."""
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
    """Solve races of a common pathway with pathways for 1, or for C − 1, contexts."""
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
    """Solve races of pathways for all sets of contexts, from each scale."""
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
    """Check growth rates on targets and on the residual, and the races that follow from them."""
    parameters = parameters_of_run(run, Parameters)
    n, counts = parameters.objects, parameters.contexts
    sigma = np.sqrt(n - 1)  # singular value of the first split of the tree
    for count in counts:
        case, seen = f"C = {count}", run[f"spectrum_{count}"].ds
        k = seen["on"]
        ratio = float(seen["raw"].sel(on=count - 1) / seen["raw"].sel(on=1))
        claim(
            "more-data-faster",
            "pathways that receive more data learn faster: a pathway that is open in k of C "
            "contexts with N objects learns at the rate S = σ√(k² + k)/NC, with the singular value "
            "σ of a mode",
            _near(seen["raw"], sigma * np.sqrt(k**2 + k) / (n * count)),
            corrected="this holds only at the start of training, before anything is learned",
            note=f"rate for C − 1 contexts over the rate for one: {ratio:.3f} = √(C(C − 1)/2)",
            case=case,
        )
        claim(
            "more-data-faster-on-residual",
            "pathways that receive more data also learn the residual of the common pathway faster",
            increasing(seen["residual"]),
            wrong="the rate is S = σ√(k(C − k)/C)/NC for k of C contexts: equal for k = 1 and "
            "k = C − 1, and largest for k = C/2",
            instead=_near(seen["residual"], sigma * np.sqrt(k * (count - k) / count) / (n * count)),
            case=case,
        )
        left = run[f"residual_{count}"].ds
        one, most = (left["loss"].sel(on=on) for on in (1, count - 1))
        claim(
            "same-residual-loss",
            "on the residual of the common pathway, pathways for C − 1 contexts and pathways for "
            "one context have the same loss at all times",
            max_error_below(most, one, within=1e-10, over=float(one[0])),
            headline=True,
            note="losses of trained networks, in units of the initial loss",
            case=case,
        )
        claim(
            "overlapping-pathways",
            "pathways for C − 1 of C contexts reach the final strength (C − 1) S/D, with "
            "correlation S and input variance D",
            agree(left["final"].sel(on=count - 1), (count - 1) * left["alone"], within=1e-4),
            at="effect of more contexts",
            corrected="the strength exceeds S/D because pathways overlap, Σ_j D(j, p) u_j·u_p = "
            "D/(C − 1); pathways for one context reach the same final strength",
            note="a single pathway would reach S/D",
            case=case,
        )
        beside = run[f"common_{count}"].ds
        at = beside["strength"].interp(time=float(beside["done"].min()))
        gain = float(at.sel(on=count - 1) / at.sel(on=1))
        claim(
            "ahead-after-common",
            "when the common pathway is nearly learned, pathways for C − 1 contexts are stronger "
            "than pathways for one context",
            all_above(gain, 1.0),
            note="ratio of strengths",
            case=case,
        )
        area = beside["loss"].integrate("time") / beside["loss"][0, 0]
        claim(
            "smaller-area",
            "beside a common pathway, pathways for C − 1 contexts have a smaller area below the "
            "loss than pathways for one context",
            all_below(float(area.sel(on=count - 1) / area.sel(on=1)), 1.0),
            note="areas for C − 1 contexts and for one context: "
            f"{join_numbers(area.values[::-1], 3)}",
            case=case,
        )
        late = float(seen["raw"].sel(on=1) / seen["residual"].sel(on=1))
        claim(
            "late-modes",
            "modular pathways learn late modes faster by √(2C/(C − 1)) than pathways on the "
            "residual of a common one",
            _near(late, np.sqrt(2 * count / (count - 1))),
            note="growth of trained pathways; modular networks are therefore ahead at the end",
            case=case,
        )
    _more(run, counts, claim)
    for count in parameters.race_contexts:
        share, case = run[f"open_{count}"].ds["share"], f"C = {count}"
        few, many = share.sel(on=slice(1, count - 2)), share.sel(on=slice(count - 1, None))
        claim(
            "most-contexts-win",
            "in a race of pathways for all sets of contexts, pathways for all contexts and for all "
            "but one win",
            all_above(many.min("on") / few.max("on"), 1.0),
            note=f"share of the final strength in a pathway for 1 … {count} contexts, σ = "
            f"{share['scale'].values[-1]:g}: {join_numbers(share.isel(scale=-1).values, 2)}",
            case=case,
        )
        claim(
            "smaller-weights",
            "from smaller initial weights, a pathway for a single context gets a smaller share of "
            "the final strength of all pathways",
            decreasing(share.sel(on=1)),
            note=f"race of all sets of contexts, σ = {join_numbers(share['scale'].values)}",
            case=case,
        )


def _near(measured: Any, predicted: Any) -> Judgement:
    """Compare growth rates of trained networks, measured before 2 % of the task is learned."""
    return agree(measured, predicted, within=float(f"{0.02 * np.max(predicted):.2g}"))


def _more(run: xr.DataTree, counts: tuple[int, ...], claim: ClaimCollector) -> None:
    """Compare pathways for C − 2 and for C − 1 contexts, for C ≥ 4."""
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
        "with more contexts, pathways remain active in C − 1 of C contexts",
        all_below(over("residual"), 1.0),
        at="effect of more contexts",
        wrong="pathways for C − 2 contexts learn the residual of the common pathway faster, by "
        "√(2(C − 2)/(C − 1)), and with more contexts their initial rate approaches that of "
        "pathways for C − 1 contexts: the ratio is √((C − 2)/C)",
        instead=_near(
            [*over("residual"), *over("raw")],
            [*np.sqrt(2 * (c - 2) / (c - 1)), *np.sqrt((c - 2) / c)],
        ),
        note=f"ratios of growth rates on the residual, then initially, C = {join_numbers(c)}",
    )


@styled
def draw(run: xr.DataTree) -> Figure:
    """Plot growth rates, losses on the residual and beside a common pathway, and a race."""
    parameters = parameters_of_run(run, Parameters)
    counts = parameters.contexts
    title = "Mixed selectivity wins by its lead before the common pathway is learned"
    figure, (rates, alone, beside, all_sets) = panels(title, 4, width=3.5)
    for count, shade, label in reversed([*shades(counts, "C =")]):  # the smallest C on top
        seen = run[f"spectrum_{count}"].ds
        size = float(seen["raw"].sel(on=1))
        rates.plot(seen["on"], seen["raw"] / size, **POINT_STYLE, color=shade, label=label)
        rates.plot(
            seen["on"], seen["residual"] / size, **{**POINT_STYLE, "marker": "s"}, color=shade
        )
        k = np.linspace(1, count, 100)
        rates.plot(k, np.sqrt((k**2 + k) / 2), **THEORY_STYLE)
        rates.plot(k, np.sqrt(k * (count - k) / count / 2), **THEORY_STYLE)
    words = "open in k contexts", "rate S / rate for k = 1", "targets (dots), residual (squares)"
    label_axes(rates, *words, theory="formula")
    count = counts[0]
    left = run[f"residual_{count}"].ds
    for on, color in zip(left["on"].values, ("C1", "C2"), strict=True):
        seen = left["loss"].sel(on=on)
        width = 8.0 if on == 1 else 4.0
        draw_pair(alone, left["time"], seen, color=color, label=f"open in {on}", lw=width)
    alone.plot(left["time"], left["loss_theory"], **THEORY_STYLE)
    label_axes(alone, "time $t/τ$", "loss", f"residual only, C = {count}", theory="closed form")
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
    until = {"color": "0.93", "zorder": 0, "label": "common one still learns"}
    beside.axvspan(0, float(data["done"].min()), **until)
    low = data["loss"].max("on") < 0.02 * data["loss"][0, 0]
    words = "time $t/τ$", "loss", f"beside a common pathway, C = {count}"
    label_axes(beside, *words, xlim=(0, float(data["time"][int(np.argmax(low.values))])))
    count = parameters.race_contexts[-1]
    share = run[f"open_{count}"].ds["share"]
    for on, shade, label in shades(share["on"].values, "k ="):
        how = {**POINT_STYLE, "ls": "-", "color": shade, "label": label}
        all_sets.plot(share["scale"], share.sel(on=on), **how)
    words = "initial weights σ", "share of final strength", f"race of all sets of {count} contexts"
    label_axes(all_sets, *words, xscale="log", yscale="log")
    return figure
