r"""Several views of one class: the contribution of each view with early and with late fusion.

Inputs x = (a₁e_k, …, a_Ve_k) are V views of one of K classes, with amplitudes a_v. Targets are
y = e_k, the loss is ½⟨‖y − f‖²⟩, and τ Ẇ = −∂L/∂W with τ = 1. View v contributes c_v = ⟨y·f(x with
view v alone)⟩, and the first view's share in the output, c₁/Σc_v, is the *dominance*. The lab's
notes found a dominance of 0.379 ± 0.000 in ten seeds, and concluded that views of a single task do
not race. The reason for the constant dominance is the architecture. If all views enter one layer
(early fusion), they form one mode with shares a_v²/Σa². If each view has its own pathway (late
fusion), the strengths π_v = π_v(0) e^{2a_vθ} do race for the same task, and the fastest view wins.
"""

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
from ...experiments._parameters import check_decreasing, check_increasing
from ...experiments.claims import (
    ClaimCollector,
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
    diagonal,
    draw_pair,
    label_axes,
    panels,
    shades,
    styled,
)
from ...networks import AbstractNetwork, Gated, fully_connected, gated
from ...tasks import Task, multi_view_classes
from ...theory.gated import early_fusion_shares, late_fusion_strengths
from ...theory.linear import chain_strength

_SAMPLES = 101
_EARLY = "one layer", "one layer, ReLU"
_LATE = "own pathways"
_ONE_TASK = (
    "in the notes all views enter one layer, where they form a single mode; views with separate "
    "pathways also race for a single task"
)


class Parameters(BaseParameters):
    """Views of one class: the first has a larger amplitude, all others have amplitude 1."""

    seeds: int = Field(default=10, ge=2)
    """Number of networks of each kind that are trained from each scale."""

    classes: int = Field(default=5, ge=2, le=20)
    """Number K of classes."""

    others: int = Field(default=2, ge=1, le=5)
    """Number of views of amplitude 1."""

    close: float = Field(default=1.105, gt=1, le=1.3)
    """Amplitude of the first view if all amplitudes are close; the notes use 1.105."""

    far: float = Field(default=2.0, ge=1.6, le=4)
    """Amplitude of the first view in a second task, much larger than all other amplitudes."""

    hidden: int = Field(default=20, ge=8)
    """Number H of hidden units per view."""

    scales: Annotated[tuple[float, ...], check_decreasing(0.03, 1e-6)] = (1e-2, 1e-3, 1e-4)
    """Standard deviations σ of the initial weights, decreasing; most claims use the second."""

    widths: Annotated[tuple[int, ...], check_increasing(8)] = (20, 80, 320)
    """Numbers of hidden units per view, increasing to 150 or more, for the effect of width at equal
    initial strength σ²H."""

    def _check(self) -> None:
        if self.widths[-1] < 150:
            raise ValueError(f"The last of `widths` must be 150 or more, got {self.widths[-1]}.")


QUICK: dict[str, Any] = {"seeds": 5, "scales": (1e-2, 1e-3), "widths": (20, 320)}


@make_run("haste/views")
def run(parameters: Parameters, key: Key, progress: Progress) -> Tables:
    """Train early and late fusion on views with equal, close and very different amplitudes."""
    keys, found = keys_from_parameters(parameters, key), list[xr.Dataset]()
    amplitudes = np.array([1.0, parameters.close, parameters.far])
    for k, first in enumerate(amplitudes):
        progress(f"first view of amplitude {first:g}", 0.8 * k / len(amplitudes))
        found.append(_fused(parameters, first, keys))
    progress("wider pathways", 0.85)
    return {
        "shares": xr.concat(found, xr.Variable("first", amplitudes)),
        "widths": _wider(parameters, keys),
    }


def _fused(parameters: Parameters, first: float, keys: Keys) -> xr.Dataset:
    """Train early and late fusion of the same views, from every scale."""
    a = np.append(first, np.ones(parameters.others))
    data, scales = multi_view_classes(a, parameters.classes), np.array(parameters.scales)
    strength = scales**2 * parameters.hidden / 2
    times = np.linspace(0.0, parameters.classes * (3 - np.log(strength[-1])), _SAMPLES)
    inputs, width = data.x.shape[1], parameters.hidden * len(a)
    networks: dict[str, AbstractNetwork] = {
        name: fully_connected(
            inputs, width, parameters.classes, activation=unit, scale=scales[:, None], key=keys
        )
        for name, unit in zip(_EARLY, ("linear", "relu"), strict=True)
    }
    own_pathways = pathways(parameters.hidden, data, scales[:, None], keys)
    networks[_LATE] = own_pathways
    trained = {
        name: gradient_flow(network, data, times, rtol=1e-6) for name, network in networks.items()
    }
    seen = [contributions(each.network, data, len(a)) for each in trained.values()]
    raced = [late_fusion_strengths(times, a, each, classes=parameters.classes) for each in strength]
    whole = float(np.linalg.norm(a))
    k, begun = parameters.classes, strength * len(a)  # early fusion: all units form one pathway
    mode = chain_strength(times, whole / k, begun, depth=2, input_variance=whole**2 / k)
    starts = growing(own_pathways, len(a))
    own = np.apply_along_axis(lambda start: a * late_fusion_strengths(None, a, start), -1, starts)
    over = "fusion", "scale", "seed", "time", "view"
    return xr.Dataset(
        {
            "contribution": (over, np.stack(seen)),
            "one_mode": ((over[3], over[1]), whole * np.asarray(mode)),
            "raced": ((over[1], *over[3:]), a * np.stack(raced)),
            "own_start": ((*over[1:3], over[4]), a * starts),
            "own": ((*over[1:3], over[4]), own),
            "squares": ("view", early_fusion_shares(a)),
            "amplitude": ("view", a),
        },
        {
            "fusion": [*trained],
            "scale": scales,
            "seed": parameters.seed + np.arange(len(keys)),
            "time": ("time", times, {"long_name": "time in units of τ"}),
        },
    )


def _wider(parameters: Parameters, keys: Keys) -> xr.Dataset:
    """Train late fusion of equal and close views in wider pathways of equal initial strength."""
    strength = parameters.scales[1] ** 2 * parameters.hidden
    last = np.array([parameters.classes * (3 - np.log(strength / 2))])
    firsts, off = [1.0, parameters.close], []
    for width in parameters.widths:
        for first in firsts:
            a = np.append(first, np.ones(parameters.others))
            data = multi_view_classes(a, parameters.classes)
            network = pathways(width, data, np.sqrt(strength / width), keys)
            final = gradient_flow(network, data, last, rtol=1e-6).final
            own = [a * late_fusion_strengths(None, a, start) for start in growing(network, len(a))]
            off.append(contributions(final, data, len(a)) - own)
    shape = len(parameters.widths), len(firsts), len(keys), -1
    return xr.Dataset(
        {"off": (("width", "first", "seed", "view"), np.reshape(off, shape))},
        {"width": [*parameters.widths], "first": firsts},
    )


def pathways(hidden: int, data: Task, scale: Any, keys: Keys) -> Gated:
    """Return a network with a two-layer pathway per view; their outputs are summed."""
    classes = data.outputs
    count = data.x.shape[1] // classes
    nodes = {f"x{v}": classes for v in range(count)} | {f"h{v}": hidden for v in range(count)}
    chains = [f"x{v}-h{v}-y" for v in range(count)]
    return gated(nodes | {"y": classes}, chains, scale=scale, key=keys)


def contributions(
    network: AbstractNetwork, data: Task, count: int
) -> Float[np.ndarray, "*batch view"]:
    """Return the contribution c_v = ⟨y·f(x with view v alone)⟩ of each view."""
    alone = np.repeat(np.eye(count), data.x.shape[1] // count, axis=1)[:, None] * data.x
    said = [np.sum(network.predict(x) * data.y, axis=-1) @ data.weight for x in alone]
    return np.stack(said, axis=-1)


def growing(network: Gated, count: int) -> Float[np.ndarray, "*batch view"]:
    """Return π_v(0) of the growing part (W₁ + W₂ᵀ)/2 of the weights, averaged over classes."""
    part = dict(zip(network.part_axes, map(np.asarray, network.parts), strict=True))
    grows = [(part[f"x{v}-h{v}"] + part[f"h{v}-y"].swapaxes(-1, -2)) / 2 for v in range(count)]
    return np.stack([np.mean(np.sum(each**2, axis=-2), axis=-1) for each in grows], axis=-1)


def _share(contribution: xr.DataArray) -> xr.DataArray:
    """Return the share of the first view in the sum of final contributions."""
    final = contribution.isel(time=-1) if "time" in contribution.dims else contribution
    return final.isel(view=0) / final.sum("view")


@claims_from_source("Notes on Jarvis et al. (2025)", "why our setup doesn't show winner-take-all")
def claims(run: xr.DataTree, claim: ClaimCollector) -> None:
    """Check contributions with early and late fusion, and the conclusions of the notes."""
    parameters = parameters_of_run(run, Parameters)
    data = run["shares"].ds
    first, sigma = data["first"].values, data["scale"].values
    share, squares = _share(data["contribution"]), data["squares"].isel(view=0)
    early, late = share.sel(fusion=list(_EARLY)), share.sel(fusion=_LATE)
    at = dict(zip(("equal", "close", "far"), range(3), strict=True))
    middle = early.isel(scale=1)
    claim(
        "dominance",
        "if all views enter one layer, the first view's share in the output is a₁²/Σa² in all "
        f"seeds, with amplitudes a of the views: {float(squares[at['close']]):.3f} ± 0.000",
        agree(middle.isel(first=at["close"]).mean("seed"), squares[at["close"]], within=1e-3),
        headline=True,
        note=f"linear and ReLU networks, σ = {sigma[1]:g}; standard deviation over seeds "
        f"{join_numbers(middle.isel(first=at['close']).std('seed').values, 2)}",
    )
    claim(
        "one-layer-share",
        "if all views enter one layer, the first view's share in the output is a₁²/Σa² for all "
        "amplitudes a of the views and all initial scales, in linear and ReLU networks",
        # Weights orthogonal to the one direction of the first layer stay constant, of order σ.
        max_error_below((early - squares) / data["scale"], within=1.0),
        note=f"in units of σ, a₁ = {join_numbers(first)}",
    )
    claim(
        "multi-task-needed",
        "winner-take-all between views requires several tasks, not just several views (the "
        "first view's share in the output)",
        agree(late[at["far"], 1].mean(), squares[at["far"]], within=0.05),
        wrong=_ONE_TASK,
        instead=agree(
            late[at["far"], 1].mean(), data["own"][at["far"], 1].isel(view=0).mean(), within=5e-3
        ),
    )
    spread = lambda share: share[at["close"], 1].std("seed", ddof=1)
    claim(
        "no-race-without-tasks",
        "the first view's share in the output is equal in all seeds, because views of a single "
        "task do not race (standard deviation over seeds, separate pathways)",
        all_below(spread(late), 1e-3),
        wrong="the share is equal in all seeds because one layer has one mode; with separate "
        "pathways the share varies with the initial weights",
        instead=all_above(spread(late) / spread(early.isel(fusion=0)), 10),
    )
    off = abs(run["widths"].ds["off"])
    widest = off.isel(width=-1).max(("seed", "view"))
    claim(
        "wide-pathways",
        "with wide separate pathways, the race π_v(0) e^{2a_vθ} from its initial weights predicts "
        "the final contributions c_v of each network",
        max_error_below(widest[1], within=0.02),
        note=f"a₁ = {parameters.close:g}, {parameters.widths[-1]} units per view",
    )
    claim(
        "narrow-pathways",
        "the error of the race from initial weights falls with the width of the pathways",
        decreasing(off.isel(first=1).mean(("seed", "view"))),
        note="the cause of the error is the overlap of classes in few units",
    )
    claim(
        "equal-views",
        "views of equal amplitude in separate pathways keep their initial shares of the output",
        max_error_below(widest[0], within=0.02),
        note=f"{parameters.widths[-1]} units per view",
    )
    claim(
        "smaller-weights",
        "with separate pathways the fastest view's share in the output grows as initial weights "
        "get smaller",
        increasing(late[at["close"]].mean("seed")),
        note=f"σ = {join_numbers(sigma)}",
    )
    final = data["contribution"].sel(fusion=_LATE).isel(first=at["far"], scale=1, time=-1)
    grown = final / data["own_start"][at["far"], 1]
    clock = xr.DataArray(np.log(grown)) / data["amplitude"][at["far"]]
    claim(
        "lotka-volterra",
        "competing modes follow the Lotka–Volterra equation dsₘ/dt = rₘsₘ(1 − Σs²/K) with rates "
        "rₘ, so ln(sₘ/sₘ(0))/rₘ is equal for all modes",
        max_error_below(clock / clock.mean("view"), 1.0, within=0.05),
        at="the Lotka–Volterra connection",
        corrected="neither paper contains this equation; it holds for s = √c, c the contributions "
        "of views of one task with separate pathways, so this race needs no second task, contrary "
        "to the notes. The neural race reduction is linear in strengths, with overlaps D(j, p)",
    )


@styled
def draw(run: xr.DataTree) -> Figure:
    """Plot contributions with early and late fusion, dominance against scale, and every seed."""
    data = run["shares"].ds
    close, sigma = data.isel(first=1), data["scale"].values
    figure, (one, own, scales, seeds) = panels("One class, several views", 4, width=3.4, height=3.2)
    theory = (close["squares"] * close["one_mode"]).isel(scale=1), close["raced"].isel(scale=1)
    for ax, name, expected in zip((one, own), (_EARLY[0], _LATE), theory, strict=True):
        seen = close["contribution"].sel(fusion=name).isel(scale=1)
        for member in seen["seed"].values:
            lines = seen.sel(seed=member)
            ax.plot(close["time"], lines.isel(view=0), color="C0", lw=0.5, alpha=0.5)
        for view in range(2):
            label = "first view" if view == 0 else "others"
            curves = seen.isel(view=view).mean("seed"), expected.isel(view=view)
            draw_pair(ax, close["time"], *curves, color=f"C{view}", label=label)
        title = f"{name}, $a_1$ = {float(close['first']):g}"
        label_axes(ax, "time $t/τ$", "contribution $c_v$", title, legend="upper left", ylim=(0, 1))
    for first, shade, label in shades(data["first"].values[1:], "$a_1$ ="):
        each = data.sel(first=first)
        share = _share(each["contribution"])
        for name, marker in ((_LATE, "o"), (_EARLY[0], "s")):
            dots = share.sel(fusion=name)
            how = {**POINT_STYLE, "marker": marker, "color": shade}
            scales.errorbar(
                sigma, dots.mean("seed"), dots.std("seed"), **how, label=f"{label},\n{name}"
            )
        scales.plot(sigma, _share(each["raced"]), **THEORY_STYLE)
        scales.plot(sigma, 0 * sigma + float(each["squares"][0]), **THEORY_STYLE)
        seeds.plot(
            _share(each["own"])[1],
            share.sel(fusion=_LATE)[1],
            **POINT_STYLE,
            color=shade,
            label=label,
        )
    words = "initial weights σ", "dominance", "share of the first view"
    label_axes(scales, *words, theory="theory", xscale="log", ylim=(0.3, 1.05), legend="beside")
    both_ways = [_share(data["own"])[1:, 1].min(), 1.0]
    diagonal(seeds, both_ways)
    words = "race from initial weights", "dominance of a network", "every seed, own pathways"
    label_axes(seeds, *words)
    return figure
