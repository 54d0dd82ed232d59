r"""From one task to two: independent targets do not make views compete, they end the competition.

*Two tasks.* View 1 shows one class and view 2 another, each with outputs of its own: x = (a₁e_i,
a₂e_j), y = (e_i, e_j), all K² pairs. The notes expected a race. With 2K − 1 units or more there is
none: each head is learned as if the other were not there. With fewer something has to go, no matter
what to the loss, and what goes is the slower view.

*In between.* Views x_v = a_vl_v of signs with correlation κ, each with a pathway of its own to one
output. What they contribute obeys ċ_v = 2a_vc_v(m − c_v − κc_u). At κ = 1, one task, there is a
line of fixed points and the faster wins. At any κ < 1 both end with m/(1 + κ), and the slower is
late by 1/(1 − κ).

Loss ½⟨‖y − f‖²⟩, τ Ẇ = −∂L/∂W with τ = 1.
"""

import math
from typing import Annotated, Any

import numpy as np
import xarray as xr
from jaxtyping import Float
from matplotlib.figure import Figure
from pydantic import Field

from ..._types import Keys
from ...diagnose import passage_time
from ...dynamics import gradient_flow
from ...experiments._frame import Progress, Tables, make_run, parameters_of_run
from ...experiments._keys import Key, keys_from_parameters
from ...experiments._parameters import Parameters as BaseParameters
from ...experiments._parameters import check_decreasing, check_increasing
from ...experiments.claims import (
    ClaimCollector,
    agree,
    all_above,
    all_below,
    claims_from_source,
    decreasing,
    join_numbers,
    max_error_below,
    most_seeds,
)
from ...experiments.figures import (
    GUIDE_STYLE,
    POINT_STYLE,
    THEORY_STYLE,
    draw_pair,
    label_axes,
    panels,
    shades,
    styled,
)
from ...networks import Layer, fully_connected
from ...tasks import correlated_views, views_of_independent_classes
from ...theory.gated import latecomer_delay, view_contributions
from ...theory.linear import chain_strength
from ._views import contributions, growing, pathways

_SAMPLES = 161
_FEW = 0.1
"""1 − κ below which the law of late comers is held to."""


class Parameters(BaseParameters):
    """Two views with a task each, and two views of tasks that overlap."""

    seeds: int = Field(default=6, ge=2)
    """How many networks of each kind are trained."""

    classes: int = Field(default=5, ge=3, le=8)
    """Number K of classes that each view shows."""

    amplitude: float = Field(default=1.5, ge=1.2, le=3)
    """Of the first view; that of the second is 1. Two tasks."""

    narrow: Annotated[tuple[int, ...], check_increasing(2, count=1)] = (4, 5)
    """Hidden units that are too few: below 2K − 1."""

    enough: Annotated[tuple[int, ...], check_increasing(5, count=1)] = (9, 64)
    """Hidden units that are enough: 2K − 1 or more. The last is held against theory."""

    scales: Annotated[tuple[float, ...], check_decreasing(0.1, 1e-8)] = (1e-2, 1e-4, 1e-6)
    """Standard deviations σ of the initial weights, two tasks."""

    ahead: float = Field(default=1.2, ge=1.2, le=2)
    """Amplitude of the first view where tasks overlap."""

    overlaps: Annotated[tuple[float, ...], check_increasing(0, 0.9999, count=3)] = (
        *(0.0, 0.5, 0.8, 0.9, 0.95),
        *(0.98, 0.99, 0.995),
    )
    """Overlaps κ below 1, increasing, two or more of them above 0.9; κ = 1 comes by itself."""

    hidden: int = Field(default=20, ge=4)
    """Units of each pathway where tasks overlap."""

    strength: float = Field(default=1e-6, gt=1e-20, le=1e-5)
    """What pathways start with there, σ²H/2."""

    def _check(self) -> None:
        least = 2 * self.classes - 1
        if self.narrow[-1] >= least or self.enough[0] < least:
            raise ValueError(f"`narrow` must be below 2K − 1 = {least} units, `enough` from there.")
        if sum(each > 1 - _FEW for each in self.overlaps) < 2:
            raise ValueError(f"`overlaps` must have two or more above {1 - _FEW:g}.")


QUICK: dict[str, Any] = {
    "seeds": 3,
    "narrow": (5,),
    "enough": (64,),
    "overlaps": (0.0, 0.5, 0.95, 0.99),
    "scales": (1e-2, 1e-4),
}


@make_run("haste/tasks")
def run(parameters: Parameters, key: Key, progress: Progress) -> Tables:
    """Train networks of several widths on two tasks, and pathways on tasks that overlap."""
    keys, found = keys_from_parameters(parameters, key), list[xr.Dataset]()
    widths = *parameters.narrow, *parameters.enough
    for k, width in enumerate(widths):
        progress(f"two tasks, {width} units", 0.5 * k / len(widths))
        found.append(_two_tasks(parameters, width, keys))
    tables = {"heads": xr.concat(found, xr.Variable("width", list(widths)))}
    for k, target in enumerate(("sum", "common")):
        overlaps = [each for each in (*parameters.overlaps, 1.0) if target == "sum" or each > 0]
        each = list[xr.Dataset]()
        for overlap in overlaps:
            progress(f"overlap {overlap:g}", 0.5 + 0.25 * k)
            each.append(_overlapping(parameters, overlap, target, keys))
        tables[target] = xr.concat(each, xr.Variable("overlap", overlaps))
    return tables


def _two_tasks(parameters: Parameters, width: int, keys: Keys) -> xr.Dataset:
    """The loss of each head, of networks that both share, and as if they were alone."""
    a, k = np.array([parameters.amplitude, 1.0]), parameters.classes
    data, scales = views_of_independent_classes(a, k), np.array(parameters.scales)
    times = np.linspace(0.0, 1.5 * k * (3 - np.log(scales[-1] ** 2)), _SAMPLES)
    network = fully_connected(2 * k, width, 2 * k, scale=scales[:, None], key=keys)
    trained = gradient_flow(network, data, times, rtol=1e-6)
    square = (trained.network.predict(data.x) - data.y) ** 2
    loss = 0.5 * square.mean(axis=-2).reshape(*square.shape[:-2], 2, k).sum(axis=-1)
    # Classes of either view, and the mean of both views together.
    s, d = np.append(a, math.sqrt(2) * np.linalg.norm(a)), np.append(a**2, a @ a)
    begun = _begun(network, a)
    pi = np.asarray(chain_strength(times, s / k, begun, depth=2, input_variance=d / k))
    left = (1 - pi * d / s) ** 2
    alone = (0.5 / k) * ((k - 1) * left[..., :2] + left[..., 2:])
    over = "scale", "seed", "time", "view"
    return xr.Dataset(
        {
            "loss": (over, loss),
            "alone": (over, np.moveaxis(alone, 0, -2)),
            "best": _best(k, width),
        },
        {
            "scale": scales,
            "seed": parameters.seed + np.arange(len(keys)),
            "time": ("time", times, {"long_name": "time in units of τ"}),
        },
    )


def _begun(network: Layer, a: Float[np.ndarray, " view"]) -> Float[np.ndarray, "*batch mode"]:
    """What modes start with, |(W₁v + W₂ᵀu)/2|²: classes of either view on average, and the mean."""
    u = np.asarray(network.u)
    first = u.reshape(*u.shape[:-1], len(a), -1)
    second = np.asarray(network.v).reshape(first.shape)
    centre = lambda part: part - part.mean(axis=-1, keepdims=True)
    classes = np.sum((centre(first) + centre(second)) ** 2, axis=(-3, -1)) / (first.shape[-1] - 1)
    means = [part.mean(axis=-1) * math.sqrt(first.shape[-1]) for part in (first, second)]
    joint = means[0] @ a / np.linalg.norm(a) + means[1].sum(axis=-1) / math.sqrt(len(a))
    return np.concatenate((classes, np.sum(joint**2, axis=-1)[..., None]), axis=-1) / 4


def _best(classes: int, width: int) -> float:
    """The lowest loss of both heads: the mean of both counts 1/K, the other modes 1/2K each."""
    return max(2 * classes - 1 - width, 0) * 0.5 / classes


def _overlapping(parameters: Parameters, overlap: float, target: str, keys: Keys) -> xr.Dataset:
    """What two views contribute, and how that follows from each network's own weights."""
    a = np.array([parameters.ahead, 1.0])
    data = correlated_views(a, overlap, target=target)
    m = 1 + overlap if target == "sum" else math.sqrt(overlap)
    scale = math.sqrt(2 * parameters.strength / parameters.hidden)
    network = pathways(parameters.hidden, data, scale, keys)
    starts = a * growing(network, 2)
    late = [
        latecomer_delay(a, start, overlap=overlap, target=m) if overlap < 1 else 0.0
        for start in starts
    ]
    fast = (4 - math.log(parameters.strength)) / m
    times = np.linspace(0.0, fast + 6 * np.nanmax(late), _SAMPLES)
    trained = gradient_flow(network, data, times, rtol=1e-8)
    seen = contributions(trained.network, data, 2) / m
    own = [view_contributions(times, a, start, overlap=overlap, target=m) for start in starts]
    half = passage_time(times, -seen[..., 1], -m / (1 + overlap) / 2)
    over = "seed", "sample", "view"
    return xr.Dataset(
        {
            "contribution": (over, seen),
            "theory": (over, np.stack(own)),
            "half": ("seed", half),
            "law": ("seed", late),
            "target": m,
            "time": ("sample", times),
        },
        {"seed": parameters.seed + np.arange(len(keys))},
    )


@claims_from_source("Notes on Jarvis et al. (2025)", "IDEA-002")
def claims(run: xr.DataTree, claim: ClaimCollector) -> None:
    """Two tasks with and without room for both, and what lies between one task and two."""
    parameters = parameters_of_run(run, Parameters)
    heads = run["heads"].ds
    final = heads["loss"].isel(time=-1)
    wide = heads.sel(width=parameters.enough[-1])
    least = 2 * parameters.classes - 1
    claim(
        "competition-of-tasks",
        "view 1 → task A, view 2 → task B should show competition",
        all_above(final.sel(width=parameters.enough[-1], view=1), 0.01),
        wrong="independent targets have errors that do not overlap: each is learned as if alone",
        instead=max_error_below(wide["loss"], wide["alone"], within=0.05, over=0.5),
        note=f"{parameters.enough[-1]} units, in units of the initial loss of a head",
    )
    claim(
        "enough-units",
        f"both tasks are learned by {least} units, 2K − 1, or more",
        all_below(final.sel(width=list(parameters.enough)), 5e-3),
        note="one less than two times K, since both views have a mean",
    )
    tight = final.sel(width=list(parameters.narrow))
    claim(
        "too-few-units",
        "with fewer units what is left in both heads together is the least that it can be",
        agree(tight.sum("view").mean(("scale", "seed")), heads["best"][: len(tight)], within=2e-3),
        note=f"{join_numbers(parameters.narrow)} units",
    )
    claim(
        "faster-view-kept",
        "of all solutions that are as good they take that of the faster view",
        most_seeds(tight.isel(scale=-1, view=0) < tight.isel(scale=-1, view=1), of="networks"),
        note=f"left in heads A and B: {join_numbers(tight.isel(scale=-1).mean('seed').values, 3)}",
    )
    claim(
        "smaller-weights",
        "the more so, the smaller the weights: what is left in head A",
        decreasing(tight.isel(view=0).mean(("width", "seed"))),
        note=f"σ = {join_numbers(parameters.scales)}",
    )
    for target, words in (("sum", "y = l₁ + l₂"), ("common", "noisy views of one y")):
        data = run[target].ds
        claim(
            f"{target}-contributions",
            f"{words}: contributions obey ċ_v = 2a_vc_v(m − c_v − κc_u), from each network's own "
            "weights",
            max_error_below((data["contribution"] - data["theory"]) / data["target"], within=0.02),
            at="IDEA-003",
            note=f"in units of m, κ = {join_numbers(data['overlap'].values)}",
        )
    data = run["sum"].ds
    kappa = data["overlap"].values
    end = data["contribution"].isel(sample=-1)
    share = (end.isel(view=0) / end.sum("view")).mean("seed")
    claim(
        "winner-takes-all",
        "from “learn everything” in a single task to “winner-take-all” in several",
        all_above(share[0] - share[-1], 0.1),
        at="IDEA-003",
        wrong="the other way round: views race for one target, and targets of their own end that",
        instead=all_above(share[-1] - share[:-1].max(), 0.1),
        headline=True,
        note=f"share of the first view {join_numbers(share)}",
    )
    claim(
        "final-contributions",
        "at every κ < 1 both end with m/(1 + κ)",
        max_error_below((end - data["target"] / (1 + data["overlap"]))[:-1], within=0.02),
        at="IDEA-003",
    )
    near = data.isel(overlap=(kappa > 1 - _FEW) & (kappa < 1))
    off = abs(near["half"] / near["law"] - 1).mean("seed", skipna=False)
    last = 1 - float(near["overlap"][-1])
    claim(
        "late-view",
        "the slower view is late by 1/(1 − κ): (1 − κ)t → [F(m/4) − F(c₂*)]τ",
        # What is left out is the race before, of ln(1/π₀) against 1/(1 − κ).
        max_error_below(off[-1], within=last * math.log(1 / parameters.strength)),
        at="IDEA-003",
        note=f"κ = {1 - last:g}: half at t = {join_numbers(near['half'][-1].mean().values)}; off "
        f"by {join_numbers(off.values, 2)}, κ = {join_numbers(near['overlap'].values)}",
    )
    claim(
        "late-view-limit",
        "that law is the limit: what it is off by falls with 1 − κ",
        decreasing(off),
        at="IDEA-003",
    )


@styled
def draw(run: xr.DataTree) -> Figure:
    """Heads with and without room, contributions at three overlaps, shares and half times."""
    parameters = parameters_of_run(run, Parameters)
    heads, data = run["heads"].ds, run["sum"].ds
    title = "Targets of their own end the competition of views"
    figure, axes = panels(title, 3, 2, width=3.6, height=2.9)
    (room, tight, left), (curves, shares, late) = axes
    widths = parameters.enough[-1], parameters.narrow[-1]
    for ax, width in zip((room, tight), widths, strict=True):
        one = heads.sel(width=width).isel(scale=-1)
        for view, head in enumerate("AB"):
            seen, alone = (one[name].isel(view=view).mean("seed") for name in ("loss", "alone"))
            theory = alone if width == widths[0] else None
            draw_pair(ax, one["time"], seen, theory, color=f"C{view}", label=f"head {head}")
        words = "time $t/τ$", "loss of a head", f"two tasks, {width} units"
        label_axes(ax, *words, theory="each alone" if width == widths[0] else "")
    final = heads["loss"].isel(time=-1, scale=-1)
    for view, name in enumerate("AB"):
        dots = final.isel(view=view)
        how = {**POINT_STYLE, "color": f"C{view}", "label": f"head {name}"}
        left.errorbar(heads["width"], dots.mean("seed"), dots.std("seed"), **how)
    left.plot(heads["width"], heads["best"], **THEORY_STYLE, label="least for both")
    words = "hidden units", "final loss of a head", f"two tasks, σ = {parameters.scales[-1]:g}"
    label_axes(left, *words, xscale="log")
    left.set_xticks(heads["width"].values, [f"{each}" for each in heads["width"].values])
    left.minorticks_off()
    kappa = data["overlap"].values
    some = kappa[[0, len(kappa) // 2, -1]]
    for overlap, shade, label in shades(some, "κ ="):
        one = data.sel(overlap=overlap)
        for view, style in enumerate(("-", ":")):
            seen = one["contribution"].isel(view=view, seed=0) / one["target"]
            theory = one["theory"].isel(view=view, seed=0) / one["target"]
            draw_pair(
                curves,
                one["time"],
                seen,
                theory,
                color=shade,
                ls=style,
                label=label if view == 0 else "",
            )
    words = "time $t/τ$", "contribution $c_v/m$", "view 1 (solid) and 2 (dotted)"
    label_axes(curves, *words, theory="theory", xscale="symlog")
    end = data["contribution"].isel(sample=-1)
    share = end.isel(view=0) / end.sum("view")
    shares.plot(kappa, share, **POINT_STYLE, color="C0")
    shares.axhline(0.5, **GUIDE_STYLE)
    words = "overlap κ of the tasks", "share of the faster view", "in the end"
    label_axes(shares, *words, ylim=(0.4, 1))
    below_one = data.isel(overlap=kappa < 1)
    rest = 1 - below_one["overlap"]
    late.plot(rest, below_one["half"], **POINT_STYLE, color="C1")
    late.plot(rest, below_one["law"].mean("seed"), **THEORY_STYLE, label="law for κ → 1")
    words = "1 − κ", "view 2 has half at $t/τ$", "the slower view is late"
    label_axes(late, *words, xscale="log", yscale="log")
    return figure
