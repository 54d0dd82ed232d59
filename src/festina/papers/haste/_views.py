r"""One class seen from several sides: who contributes what, and why ten seeds were all alike.

Views x = (a₁e_k, …, a_Ve_k) of one of K classes, targets y = e_k, loss ½⟨‖y − f‖²⟩, τ Ẇ = −∂L/∂W
with τ = 1. View v contributes c_v = ⟨y·f(x with view v alone)⟩; the largest share is the dominance.
The lab's notes found 0.379 ± 0.000 in ten seeds, saw no race, and put that down to there being but
one task. It is the layer: where all views enter the same one (early fusion) they are one mode, with
shares a_v²/Σa². Given pathways of their own (late fusion), π_v = π_v(0) e^{2a_vθ}, the same views
of the same class do race, and the fastest wins.
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
    "all views entered one layer, where they are a single mode; in pathways of their own they race "
    "for the same single task"
)


class Parameters(BaseParameters):
    """Views of one class, the first of them clearer than the others, whose amplitude is 1."""

    seeds: int = Field(default=10, ge=2)
    """How many networks of each kind are trained from each scale."""

    classes: int = Field(default=5, ge=2, le=20)
    """Number K of classes."""

    others: int = Field(default=2, ge=1, le=5)
    """Number of views of amplitude 1."""

    close: float = Field(default=1.105, gt=1, le=1.3)
    """Amplitude of the first view, close to the others: 1.105 is that of the notes."""

    far: float = Field(default=2.0, ge=1.6, le=4)
    """Its amplitude in another task, where it is far ahead."""

    hidden: int = Field(default=20, ge=8)
    """Units for each view."""

    scales: Annotated[tuple[float, ...], check_decreasing(0.03, 1e-6)] = (1e-2, 1e-3, 1e-4)
    """Standard deviations σ of the initial weights, falling; the second is looked at closely."""

    widths: Annotated[tuple[int, ...], check_increasing(8)] = (20, 80, 320)
    """Units for each view, from weights of equal strength σ²H, to see what width does: increasing
    to 150 or more."""

    def _check(self) -> None:
        if self.widths[-1] < 150:
            raise ValueError(f"`widths` must go up to 150 or more, got {self.widths[-1]}.")


QUICK: dict[str, Any] = {"seeds": 5, "scales": (1e-2, 1e-3), "widths": (20, 320)}


@make_run("haste/views")
def run(parameters: Parameters, key: Key, progress: Progress) -> Tables:
    """Train networks of one layer and of pathways on views that are alike, close and far apart."""
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
    """Early and late fusion of the same views, from every scale."""
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
    k, begun = parameters.classes, strength * len(a)  # all units are one pathway
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
    """Late fusion of views that are alike or close, in wider pathways that start as strong."""
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
    """A pathway of two layers for each view, whose outputs are summed."""
    classes = data.outputs
    count = data.x.shape[1] // classes
    nodes = {f"x{v}": classes for v in range(count)} | {f"h{v}": hidden for v in range(count)}
    chains = [f"x{v}-h{v}-y" for v in range(count)]
    return gated(nodes | {"y": classes}, chains, scale=scale, key=keys)


def contributions(
    network: AbstractNetwork, data: Task, count: int
) -> Float[np.ndarray, "*batch view"]:
    """c_v = ⟨y·f(x with view v alone)⟩."""
    alone = np.repeat(np.eye(count), data.x.shape[1] // count, axis=1)[:, None] * data.x
    said = [np.sum(network.predict(x) * data.y, axis=-1) @ data.weight for x in alone]
    return np.stack(said, axis=-1)


def growing(network: Gated, count: int) -> Float[np.ndarray, "*batch view"]:
    """π_v(0) of what grows, (W₁ + W₂ᵀ)/2, on average over classes."""
    part = dict(zip(network.part_axes, map(np.asarray, network.parts), strict=True))
    grows = [(part[f"x{v}-h{v}"] + part[f"h{v}-y"].swapaxes(-1, -2)) / 2 for v in range(count)]
    return np.stack([np.mean(np.sum(each**2, axis=-2), axis=-1) for each in grows], axis=-1)


def _share(contribution: xr.DataArray) -> xr.DataArray:
    """Of the first view, in what all say in the end."""
    final = contribution.isel(time=-1) if "time" in contribution.dims else contribution
    return final.isel(view=0) / final.sum("view")


@claims_from_source("Notes on Jarvis et al. (2025)", "why our setup doesn't show winner-take-all")
def claims(run: xr.DataTree, claim: ClaimCollector) -> None:
    """One layer, pathways, and what the notes made of the former."""
    parameters = parameters_of_run(run, Parameters)
    data = run["shares"].ds
    first, sigma = data["first"].values, data["scale"].values
    share, squares = _share(data["contribution"]), data["squares"].isel(view=0)
    early, late = share.sel(fusion=list(_EARLY)), share.sel(fusion=_LATE)
    at = dict(zip(("equal", "close", "far"), range(3), strict=True))
    middle = early.isel(scale=1)
    claim(
        "dominance",
        f"one dominance in all seeds, {float(squares[at['close']]):.3f} ± 0.000: it is a₁²/Σa²",
        agree(middle.isel(first=at["close"]).mean("seed"), squares[at["close"]], within=1e-3),
        headline=True,
        note=f"networks of one linear and of one ReLU layer, σ = {sigma[1]:g}; standard deviation "
        f"over seeds {join_numbers(middle.isel(first=at['close']).std('seed').values, 2)}",
    )
    claim(
        "one-layer-share",
        "in one layer the share is a₁²/Σa² for every amplitude and scale, with either unit",
        # What a first layer has across its one direction never changes, and is of order σ.
        max_error_below((early - squares) / data["scale"], within=1.0),
        note=f"in units of σ, a₁ = {join_numbers(first)}",
    )
    claim(
        "multi-task-needed",
        "winner-take-all requires multi-task competition, not just multi-view data",
        agree(late[at["far"], 1].mean(), squares[at["far"]], within=0.05),
        wrong=_ONE_TASK,
        instead=agree(
            late[at["far"], 1].mean(), data["own"][at["far"], 1].isel(view=0).mean(), within=5e-3
        ),
    )
    spread = lambda share: share[at["close"], 1].std("seed", ddof=1)
    claim(
        "no-race-without-tasks",
        "seeds are alike because without several tasks there is no race",
        all_below(spread(late), 1e-3),
        wrong="they are alike because one layer has one mode; between pathways of one task they "
        "differ as their initial weights do",
        instead=all_above(spread(late) / spread(early.isel(fusion=0)), 10),
    )
    off = abs(run["widths"].ds["off"])
    widest = off.isel(width=-1).max(("seed", "view"))
    claim(
        "wide-pathways",
        "in wide pathways every network ends where the orbit π_v(0) e^{2a_vθ} from its own weights "
        "does",
        max_error_below(widest[1], within=0.02),
        note=f"a₁ = {parameters.close:g}, {parameters.widths[-1]} units for each view",
    )
    claim(
        "narrow-pathways",
        "what is off there is the overlap of classes in few units: it falls with the width",
        decreasing(off.isel(first=1).mean(("seed", "view"))),
    )
    claim(
        "equal-views",
        "views that are alike keep the contributions that they started with",
        max_error_below(widest[0], within=0.02),
        note=f"{parameters.widths[-1]} units for each view",
    )
    claim(
        "smaller-weights",
        "the smaller the weights, the more the fastest has",
        increasing(late[at["close"]].mean("seed")),
        note=f"σ = {join_numbers(sigma)}",
    )
    final = data["contribution"].sel(fusion=_LATE).isel(first=at["far"], scale=1, time=-1)
    grown = final / data["own_start"][at["far"], 1]
    clock = xr.DataArray(np.log(grown)) / data["amplitude"][at["far"]]
    claim(
        "lotka-volterra",
        "both papers have competing modes as dsₘ/dt = rₘsₘ(1 − Σs²/K)",
        max_error_below(clock / clock.mean("view"), 1.0, within=0.05),
        at="the Lotka–Volterra connection",
        corrected="neither has; it is s = √c of views of one task in pathways of their own, where "
        "ln(s/s₀)/r is one clock for all, and so the very race that the notes held to need several "
        "tasks. The neural race reduction is linear in strengths, with overlaps D(j, p)",
    )


@styled
def draw(run: xr.DataTree) -> Figure:
    """One layer, pathways, dominance against the scale, and every seed against its own race."""
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
    words = "initial weights σ", "dominance", "who has how much"
    label_axes(scales, *words, theory="theory", xscale="log", ylim=(0.3, 1.05), legend="beside")
    both_ways = [_share(data["own"])[1:, 1].min(), 1.0]
    diagonal(seeds, both_ways)
    words = "from its own weights", "dominance of a network", "every seed, own pathways"
    label_axes(seeds, *words)
    return figure
