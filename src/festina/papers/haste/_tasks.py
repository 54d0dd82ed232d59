r"""From one task to two: views compete for one target, and independent targets end the competition.

*Two tasks.* View 1 shows one class and view 2 another, and each has its own output head:
x = (a₁e_i, a₂e_j), y = (e_i, e_j), for all K² pairs of classes. The notes expected a race between
the views. With 2K − 1 hidden units or more the views do not race: each head is learned as if it
were alone. With fewer units some modes cannot be learned. Many choices of modes have the same loss,
and training leaves out modes of the slower view.

*Overlapping tasks.* Views x_v = a_vl_v are signs l_v with correlation κ, and each view has its own
pathway to one output. The contributions c_v of both views to the output obey
ċ_v = 2a_vc_v(m − c_v − κc_u). At κ = 1, a single task, there is a line of fixed points and the
faster view wins. At any κ < 1 both contributions converge to m/(1 + κ), and the slower view is late
by a time proportional to 1/(1 − κ).

The loss is ½⟨‖y − f‖²⟩, and τ Ẇ = −∂L/∂W with τ = 1.
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
"""Largest 1 − κ at which the limit for the slower view is tested."""


class Parameters(BaseParameters):
    """Two views with one task each, and two views of overlapping tasks."""

    seeds: int = Field(default=6, ge=2)
    """Number of networks of each kind that are trained."""

    classes: int = Field(default=5, ge=3, le=8)
    """Number K of classes of each view."""

    amplitude: float = Field(default=1.5, ge=1.2, le=3)
    """Amplitude a₁ of the first view in the case of two tasks; the second view has amplitude 1."""

    narrow: Annotated[tuple[int, ...], check_increasing(2, count=1)] = (4, 5)
    """Numbers of hidden units that are too few for two tasks, increasing, below 2K − 1."""

    enough: Annotated[tuple[int, ...], check_increasing(5, count=1)] = (9, 64)
    """Numbers of hidden units that suffice for two tasks, increasing, 2K − 1 or more. The last is
    compared with the theory."""

    scales: Annotated[tuple[float, ...], check_decreasing(0.1, 1e-8)] = (1e-2, 1e-4, 1e-6)
    """Standard deviations σ of the initial weights in the case of two tasks, decreasing."""

    ahead: float = Field(default=1.2, ge=1.2, le=2)
    """Amplitude a₁ of the first view in the case of overlapping tasks."""

    overlaps: Annotated[tuple[float, ...], check_increasing(0, 0.9999, count=3)] = (
        *(0.0, 0.5, 0.8, 0.9, 0.95),
        *(0.98, 0.99, 0.995),
    )
    """Overlaps κ of tasks, below 1, increasing, two or more above 0.9. κ = 1 is always run."""

    hidden: int = Field(default=20, ge=4)
    """Number H of hidden units of each pathway in the case of overlapping tasks."""

    strength: float = Field(default=1e-6, gt=1e-20, le=1e-5)
    """Initial strength σ²H/2 of pathways in the case of overlapping tasks."""

    def _check(self) -> None:
        least = 2 * self.classes - 1
        if self.narrow[-1] >= least or self.enough[0] < least:
            raise ValueError(
                f"`narrow` must be below 2K − 1 = {least} units and `enough` at least {least}, got "
                f"{self.narrow} and {self.enough}."
            )
        if sum(each > 1 - _FEW for each in self.overlaps) < 2:
            raise ValueError(
                f"`overlaps` must have two or more entries above {1 - _FEW:g}, got {self.overlaps}."
            )


QUICK: dict[str, Any] = {
    "seeds": 3,
    "narrow": (5,),
    "enough": (64,),
    "overlaps": (0.0, 0.5, 0.95, 0.99),
    "scales": (1e-2, 1e-4),
}


@make_run("haste/tasks")
def run(parameters: Parameters, key: Key, progress: Progress) -> Tables:
    """Train networks of several widths on two tasks, and pathways on overlapping tasks."""
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
    """Train networks with two heads, and return their losses and those of heads trained alone."""
    a, k = np.array([parameters.amplitude, 1.0]), parameters.classes
    data, scales = views_of_independent_classes(a, k), np.array(parameters.scales)
    times = np.linspace(0.0, 1.5 * k * (3 - np.log(scales[-1] ** 2)), _SAMPLES)
    network = fully_connected(2 * k, width, 2 * k, scale=scales[:, None], key=keys)
    trained = gradient_flow(network, data, times, rtol=1e-6)
    square = (trained.network.predict(data.x) - data.y) ** 2
    loss = 0.5 * square.mean(axis=-2).reshape(*square.shape[:-2], 2, k).sum(axis=-1)
    # Modes: classes of the first view, classes of the second view, joint mean of both views.
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
    """Return initial mode strengths |(W₁v + W₂ᵀu)/2|²: classes of each view (mean), joint mode."""
    u = np.asarray(network.u)
    first = u.reshape(*u.shape[:-1], len(a), -1)
    second = np.asarray(network.v).reshape(first.shape)
    centre = lambda part: part - part.mean(axis=-1, keepdims=True)
    classes = np.sum((centre(first) + centre(second)) ** 2, axis=(-3, -1)) / (first.shape[-1] - 1)
    means = [part.mean(axis=-1) * math.sqrt(first.shape[-1]) for part in (first, second)]
    joint = means[0] @ a / np.linalg.norm(a) + means[1].sum(axis=-1) / math.sqrt(len(a))
    return np.concatenate((classes, np.sum(joint**2, axis=-1)[..., None]), axis=-1) / 4


def _best(classes: int, width: int) -> float:
    """Return the least loss of both heads: each mode that is not learned costs 1/2K."""
    return max(2 * classes - 1 - width, 0) * 0.5 / classes


def _overlapping(parameters: Parameters, overlap: float, target: str, keys: Keys) -> xr.Dataset:
    """Train two views at one overlap, and predict their contributions from initial weights."""
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
    """Check two tasks with enough and with too few units, and overlapping tasks."""
    parameters = parameters_of_run(run, Parameters)
    heads = run["heads"].ds
    final = heads["loss"].isel(time=-1)
    wide = heads.sel(width=parameters.enough[-1])
    least = 2 * parameters.classes - 1
    claim(
        "competition-of-tasks",
        "view 1 for task A and view 2 for task B compete, so head B is not learned",
        all_above(final.sel(width=parameters.enough[-1], view=1), 0.01),
        wrong="errors of independent targets do not overlap, so each task is learned as if alone",
        instead=max_error_below(wide["loss"], wide["alone"], within=0.05, over=0.5),
        note=f"{parameters.enough[-1]} units, in units of the initial loss of a head",
    )
    claim(
        "enough-units",
        f"networks with 2K − 1 = {least} hidden units or more, for K classes per view, learn both "
        "tasks",
        all_below(final.sel(width=list(parameters.enough)), 5e-3),
        note="2K − 1 and not 2K, because the means of both views form one joint mode",
    )
    tight = final.sel(width=list(parameters.narrow))
    claim(
        "too-few-units",
        "with fewer than 2K − 1 hidden units for K classes per view, the final loss of both heads "
        "together is the least possible",
        agree(tight.sum("view").mean(("scale", "seed")), heads["best"][: len(tight)], within=2e-3),
        note=f"{join_numbers(parameters.narrow)} hidden units",
    )
    claim(
        "faster-view-kept",
        "with too few hidden units networks learn the faster view, although other solutions have "
        "the same loss",
        most_seeds(tight.isel(scale=-1, view=0) < tight.isel(scale=-1, view=1), of="networks"),
        note="final losses of heads A and B: "
        f"{join_numbers(tight.isel(scale=-1).mean('seed').values, 3)}",
    )
    claim(
        "smaller-weights",
        "with too few hidden units, the final loss of the faster view's head falls as initial "
        "weights get smaller",
        decreasing(tight.isel(view=0).mean(("width", "seed"))),
        note=f"σ = {join_numbers(parameters.scales)}",
    )
    for target, words in (("sum", "signs with target y = l₁ + l₂"), ("common", "one noisy target")):
        data = run[target].ds
        claim(
            f"{target}-contributions",
            f"contributions c_v of two views of {words} obey ċ_v = 2a_vc_v(m − c_v − κc_u) from "
            "initial weights, a_v the amplitudes, κ the overlap of errors",
            max_error_below((data["contribution"] - data["theory"]) / data["target"], within=0.02),
            at="IDEA-003",
            note="m is the contribution of a view that learns alone; errors in units of m, "
            f"κ = {join_numbers(data['overlap'].values)}",
        )
    data = run["sum"].ds
    kappa = data["overlap"].values
    end = data["contribution"].isel(sample=-1)
    share = (end.isel(view=0) / end.sum("view")).mean("seed")
    claim(
        "winner-takes-all",
        "views learn everything in a single task, and the winner takes all in several tasks",
        all_above(share[0] - share[-1], 0.1),
        at="IDEA-003",
        wrong="the opposite holds: views race for one target, and separate targets end the race",
        instead=all_above(share[-1] - share[:-1].max(), 0.1),
        headline=True,
        note=f"final share of the faster view in the output: {join_numbers(share)}",
    )
    claim(
        "final-contributions",
        "at every overlap κ < 1 of tasks, the contributions of both views converge to "
        "m/(1 + κ), with m the contribution of a view alone",
        max_error_below((end - data["target"] / (1 + data["overlap"]))[:-1], within=0.02),
        at="IDEA-003",
    )
    near = data.isel(overlap=(kappa > 1 - _FEW) & (kappa < 1))
    off = abs(near["half"] / near["law"] - 1).mean("seed", skipna=False)
    last = 1 - float(near["overlap"][-1])
    claim(
        "late-view",
        "as the overlap κ of tasks approaches 1, the slower view is learned after "
        "t = [F(m/4) − F(c₂*)]τ/(1 − κ), c₂* its contribution after the race at κ = 1 (relative "
        "error)",
        # The formula neglects the duration ln(1/π₀) of the race, compared with 1/(1 − κ).
        max_error_below(off[-1], within=last * math.log(1 / parameters.strength)),
        at="IDEA-003",
        note="F is the function of `festina.theory.gated.latecomer_delay`; half time at "
        f"κ = {1 - last:g}: t = {join_numbers(near['half'][-1].mean().values)}; relative errors "
        f"{join_numbers(off.values, 2)} at κ = {join_numbers(near['overlap'].values)}",
    )
    claim(
        "late-view-limit",
        "the relative error of the predicted delay of the slower view falls as the overlap κ of "
        "tasks approaches 1",
        decreasing(off),
        at="IDEA-003",
    )


@styled
def draw(run: xr.DataTree) -> Figure:
    """Plot losses of heads, contributions at three overlaps, shares and half times."""
    parameters = parameters_of_run(run, Parameters)
    heads, data = run["heads"].ds, run["sum"].ds
    title = "Views compete for one target, not for separate targets"
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
    words = "overlap κ of tasks", "output share of the faster view", "after training"
    label_axes(shares, *words, ylim=(0.4, 1))
    below_one = data.isel(overlap=kappa < 1)
    rest = 1 - below_one["overlap"]
    late.plot(rest, below_one["half"], **POINT_STYLE, color="C1")
    late.plot(rest, below_one["law"].mean("seed"), **THEORY_STYLE, label="law for κ → 1")
    words = "1 − κ", "half time $t/τ$ of view 2", "delay of the slower view"
    label_axes(late, *words, xscale="log", yscale="log")
    return figure
