r"""Exclusive or (XoR): a gated network with one pathway per example, and gates of ReLU networks.

Inputs are x = (±1, ±1), targets y = −x₁x₂, the loss is ½⟨(y − f)²⟩, and τ Ẇ = −∂L/∂W with τ = 1. A
pathway that is open for one example has correlation S = √2/4 and input variance D = ½, so the loss
is L = ½(1 − √2 π)² at pathway strength π. The initial gates of a ReLU unit are a half plane with
two examples. The half-plane gating is faster (S = ½) but not self-consistent: the weights that a
unit learns with it switch the unit on for other examples. Units turn until they are active for a
single example.
"""

import math
from typing import Annotated, Any

import numpy as np
import xarray as xr
from matplotlib.animation import FuncAnimation
from matplotlib.artist import Artist
from matplotlib.axes import Axes
from matplotlib.backends.backend_agg import FigureCanvasAgg
from matplotlib.figure import Figure
from pydantic import Field

from ...diagnose import passage_time
from ...dynamics import gradient_flow
from ...experiments._frame import Progress, Tables, make_run, parameters_of_run
from ...experiments._keys import Key, keys_from_parameters
from ...experiments._parameters import Parameters as BaseParameters
from ...experiments._parameters import check_decreasing
from ...experiments.claims import (
    ClaimCollector,
    agree,
    all_above,
    claims_from_source,
    equal_to,
    join_numbers,
    max_error_below,
    most_seeds,
)
from ...experiments.figures import (
    GUIDE_STYLE,
    POINT_STYLE,
    SIMULATION_STYLE,
    THEORY_STYLE,
    draw_pair,
    label_axes,
    panels,
    shades,
    styled,
)
from ...networks import fully_connected, gated_equivalent, gated_from, layer_from
from ...tasks import Task, xor
from ...theory.gated import path_statistics, race_of_gatings
from ...theory.linear import chain_strength, learning_time

_SAMPLES = 301
_HALF = 1 / 8
"""Loss of XoR when the pathway strength π has reached half of its final value."""
_SIZE, _TRACK = (7.2, 3.3), (0.6, 0.15, 0.67 * 3.3 / 7.2, 0.67)
_EVERY = 3
_ON = 0.2
"""Fraction of its largest activity above which a unit counts as active. A unit along one example is
orthogonal to two other examples, for which noise decides the sign of its small input."""


class Parameters(BaseParameters):
    """Gated network on XoR, and ReLU networks from initial weights of several scales."""

    seeds: int = Field(default=4, ge=1)
    """Number of ReLU networks that are trained at each scale."""

    width: int = Field(default=64, ge=16)
    """Number of hidden units of each ReLU network."""

    scales: Annotated[tuple[float, ...], check_decreasing(1e-2, 1e-8)] = (1e-2, 1e-3, 1e-4)
    """Standard deviations σ of the initial weights, decreasing, from 0.01 at most."""

    layer_strength: float = Field(default=1e-2, gt=0, le=0.1)
    """Initial weight b₀ of both layers of every pathway in the gated network."""


QUICK: dict[str, Any] = {"seeds": 2, "width": 32, "scales": (1e-2, 1e-4)}


@make_run("race/xor")
def run(parameters: Parameters, key: Key, progress: Progress) -> Tables:
    """Train a gated network, ReLU networks and their copies with fixed gates; solve the race."""
    task = xor()
    progress("gated network", 0.0)
    tables = {"gated": _gated(parameters, task)}
    progress("ReLU networks", 0.2)
    network = fully_connected(
        2,
        parameters.width,
        activation="relu",
        scale=np.array(parameters.scales)[:, None],
        key=keys_from_parameters(parameters, key),
    )
    s = float(tables["gated"]["s"])
    last = np.log(1 / parameters.scales[-1]) / s + 4 / s
    times = np.linspace(0.0, float(last), _SAMPLES)
    trained = gradient_flow(network, task, times)
    shown = trained.network
    u, v = (np.asarray(part)[-1, 0] for part in (shown.u, shown.v))
    tables["units"] = xr.Dataset(
        {"u": (("time", "unit", "input"), u), "v": (("time", "unit"), v[..., 0])}, {"time": times}
    )
    progress("fixed gates", 0.7)
    x = np.asarray(task.x, float)
    before, after = (np.asarray(each.u) @ x.T for each in (network, trained.final))
    ends = after > _ON * after.max(axis=-1, keepdims=True)
    ends &= after > 0
    strength = np.linalg.norm(trained.final.u, axis=-1) * np.abs(trained.final.v[..., 0])
    along = after.max(axis=-1) / np.linalg.norm(trained.final.u, axis=-1) / math.sqrt(2)
    # One batch, so that one program trains the networks with either gates.
    twice = layer_from("relu", *(np.stack((part, part)) for part in (network.u, network.v)))
    fixed = gated_equivalent(twice, task.x, gates=np.stack((ends, before > 0)))
    loss = np.concatenate((trained.loss[None], gradient_flow(fixed, task, times).loss))
    half = lambda loss: passage_time(times, loss, _HALF)
    over = "gates", "scale", "seed"
    part = lambda which: np.sum(which * strength, axis=-1) / strength.sum(axis=-1)
    tables["relu"] = xr.Dataset(
        {
            "loss": ((*over, "time"), loss),
            "half_time": (over, half(loss)),
            "aligned": (over[1:], part(along > 0.99)),
            "single": (over[1:], part(ends.sum(axis=-1) == 1)),
        },
        {
            "gates": ["relu", "final", "initial"],
            "scale": list(parameters.scales),
            "seed": parameters.seed + np.arange(parameters.seeds),
            "time": times,
        },
    )
    progress("the race", 0.95)
    return tables | {"race": _race(parameters, task)}


def _gated(parameters: Parameters, task: Task) -> xr.Dataset:
    """Train one pathway per example, aligned with the example; add the closed form."""
    x, y, b = np.asarray(task.x, float), np.asarray(task.y, float), parameters.layer_strength
    inward, outward = b * x / np.linalg.norm(x, axis=1, keepdims=True), b * y
    edges: dict[str, np.ndarray] = {}
    for i in range(4):
        edges |= {f"x-h{i}": inward[i : i + 1], f"h{i}-y": outward[i : i + 1]}
    gates = {f"h{i}": task.labels["example"] == i for i in range(4)}
    network = gated_from(edges, gates=gates, x=x)
    seen = path_statistics(network, task)
    s = np.array([np.linalg.norm(each) for each in seen.correlation])
    d = [np.trace(seen.covariance(p, p)) for p in range(4)]
    chain = {"correlation": s[0], "initial_strength": b**2, "input_variance": d[0], "depth": 2}
    times = np.linspace(0.0, float(learning_time(fraction=0.999, **chain)), _SAMPLES)
    loss = gradient_flow(network, task, times, rtol=1e-10).loss
    # A ReLU unit along one example has exactly zero activity for the two orthogonal examples.
    rectified = gradient_flow(layer_from("relu", inward, outward), task, times, rtol=1e-10).loss
    strength = np.asarray(chain_strength(times, **chain))
    return xr.Dataset(
        {
            "loss": ("time", loss),
            "rectified": ("time", rectified),
            "theory": ("time", 0.5 * (1 - math.sqrt(2) * strength) ** 2),
            "s": float(s.mean()),
            "half_time": passage_time(times, loss, _HALF),
            "half_time_theory": float(learning_time(fraction=0.5, **chain)),
        },
        {"time": times},
    )


def _race(parameters: Parameters, task: Task) -> xr.Dataset:
    """Solve the race of the gatings of a ReLU unit: half planes and single examples."""
    x = np.asarray(task.x, float)
    turn = np.pi / 2 * np.arange(4)
    planes = x @ np.stack((np.cos(turn), np.sin(turn))) > 0
    gatings = {f"example {i}": np.eye(4)[i] for i in range(4)}
    gatings |= {f"half plane {k}": plane * 1.0 for k, plane in enumerate(planes.T)}
    found = race_of_gatings(
        task, gatings, initial_strength=parameters.scales[-1] ** 2 * parameters.width / 8
    )
    kind = [name.rpartition(" ")[0] for name in found.names]
    table = {"rate": found.rate, "consistent": found.consistent, "share": found.share}
    return xr.Dataset({name: ("gating", each) for name, each in table.items()}, {"gating": kind})


@claims_from_source("Saxe, slides", "“XoR dynamics”")
def claims(run: xr.DataTree, claim: ClaimCollector) -> None:
    """Check the closed form, its validity for ReLU networks, and the winner of the race."""
    parameters = parameters_of_run(run, Parameters)
    data, relu, raced = (run[name].ds for name in ("gated", "relu", "race"))
    claim(
        "closed-form-loss",
        "with one pathway per example the loss is ½(1 − √2 π)², π the strength of a pathway",
        max_error_below(data["loss"], data["theory"], within=1e-8),
    )
    claim(
        "half-time",
        f"from layer weights b₀ = {parameters.layer_strength:g} a pathway reaches half of its "
        "final strength at t = τ/2S ln(S/Dπ₀ − 1), π₀ = b₀², for correlation S and variance D",
        agree(data["half_time"], data["half_time_theory"], within=1e-4),
        headline=True,
    )
    claim(
        "decoupled-relu",
        "the closed form of the loss is also exact for a ReLU network with decoupled weights",
        max_error_below(data["rectified"], data["theory"], within=1e-8),
        at="“Assumptions & caveats”",
    )
    claim(
        "aligned-units",
        "hidden units of ReLU networks from small random weights end along one of the four "
        "examples",
        all_above(relu["aligned"], 0.99),
        at="“Which gating structures?”",
        note="share of the total |u||v| in units whose cosine with an example is above 0.99",
    )
    half = relu["half_time"]
    rate = {kind: float(each.max()) for kind, each in raced["rate"].groupby("gating")}
    for gates, kind, words in (
        ("relu", "example", "ReLU networks learn later"),
        ("final", "example", "networks with the final gates of ReLU units learn later"),
        ("initial", "half plane", "networks with the initial gates of ReLU units learn later"),
    ):
        words += f" by ln 100/2S per decade of smaller weights σ, S the correlation of one {kind}"
        seen = half.sel(gates=gates).median("seed")
        slope = -np.polyfit(np.log10(seen["scale"]), seen, 1)[0]
        law = math.log(100) / (2 * rate[kind])
        claim(
            f"{gates}-time-per-decade",
            words,
            agree(slope, law, within=0.1),
            at="“Assumptions & caveats”",
        )
    off = abs(half / half.sel(gates="relu", drop=True) - 1)
    near = off.sel(gates="final", drop=True)
    claim(
        "fixed-gates-half-times",
        "fixing the final gates reproduces the half time of a ReLU network, fixing the initial "
        "gates does not",
        most_seeds(near < off.sel(gates="initial", drop=True) / 2, of="networks"),
        at="“Assumptions & caveats”",
        note="relative error of the half time with final gates: "
        f"{join_numbers(near.median('seed'), 2)}; less than half of the error with initial gates",
    )
    ends = "example" if float(relu["single"].min()) > 0.5 else "half plane"
    kind, rates = raced["gating"].values, raced["rate"].values
    allowed = np.where(raced["consistent"], rates, 0.0)
    claim(
        "fastest-gating",
        "the gating which learns fastest dominates the solution",
        equal_to(ends, str(kind[rates.argmax()])),
        at="“Neural Race Reduction”",
        wrong="only self-consistent gatings race: the weights that a unit learns with the "
        "half-plane gating switch it on for other examples, so units leave this fastest gating",
        instead=equal_to(ends, str(kind[allowed.argmax()])),
    )


@styled
def draw(run: xr.DataTree) -> Figure:
    """Plot losses of gated and ReLU networks, half times against scale, and directions of units."""
    data, relu, units = (run[name].ds for name in ("gated", "relu", "units"))
    title = "Exclusive or: pathways of single examples win"
    figure, (form, curves, laws, ends) = panels(title, 4, width=3.4, height=3.4)
    draw_pair(form, data["time"], data["loss"], data["theory"], color="C0", label="gated", lw=6)
    dots = {**POINT_STYLE, "markevery": 12, "label": "ReLU, decoupled"}
    form.plot(data["time"], data["rectified"], **dots, color="C1")
    words = "time $t/τ$", "loss", "one gate per example"
    label_axes(form, *words, theory=r"½$(1 - \sqrt{2}\,π)^2$")
    curve = relu["loss"].isel(seed=0)
    for scale, shade, label in shades(relu["scale"].values, "σ ="):
        one = curve.sel(scale=scale)
        draw_pair(curves, one["time"], *one.sel(gates=["relu", "final"]), color=shade, label=label)
        curves.plot(one["time"], one.sel(gates="initial"), color=shade, lw=1, ls=":")
    curves.plot([], [], color="0.4", lw=1, ls=":", label="initial gates")
    words = "time $t/τ$", "loss", "ReLU and fixed gates"
    label_axes(curves, *words, theory="final gates")
    s = run["race"].ds["rate"].groupby("gating").max()
    for gates, color, label, kind in (
        ("relu", "C0", "ReLU", "example"),
        ("final", "0.3", "final gates", "example"),
        ("initial", "C3", "initial gates", "half plane"),
    ):
        seen = relu["half_time"].sel(gates=gates)
        laws.plot(relu["scale"], seen, **{**POINT_STYLE, "alpha": 0.5}, color=color)
        laws.plot([], [], **POINT_STYLE, color=color, label=label)
        if gates != "final":
            scale, last = relu["scale"].values, float(seen[-1].median())
            law = last - np.log(scale / scale[-1]) / float(s.sel(gating=kind))
            laws.plot(scale, law, **THEORY_STYLE)
    words = "initial weights σ", "half time $t/τ$", "time against scale"
    laws.set_ylim(top=1.3 * laws.get_ylim()[1])  # room for the legend
    label_axes(laws, *words, theory="slope ln 100/2S", legend="upper right", xscale="log")
    _track(ends)
    for time, color, size in ((0, "0.7", 3), (-1, "C0", 5)):
        ends.plot(*_places(units).isel(time=time).T, **{**POINT_STYLE, "ms": size}, color=color)
    ends.set_title("units before and after")
    return figure


@styled
def animate(run: xr.DataTree) -> FuncAnimation:
    """Animate the loss of one network, and its units turning to the four examples.

    The distance of a unit from the centre is the logarithm of its strength |u||v|.
    """
    data, units = run["relu"].ds, run["units"].ds
    time, loss = data["time"].values, data["loss"].sel(gates="relu").isel(scale=-1, seed=0).values
    places = _places(units).values
    figure = Figure(figsize=_SIZE)
    FigureCanvasAgg(figure)
    title = f"ReLU units race for exclusive or, σ = {float(data['scale'][-1]):g}"
    figure.suptitle(title, x=0.02, y=0.97, ha="left", weight="bold")
    curve, track = figure.add_axes((0.085, 0.15, 0.42, 0.67)), figure.add_axes(_TRACK)
    curve.plot(time, loss, color="0.85", lw=1)
    curve.set(xlabel="time $t/τ$", ylabel="loss", xlim=(0, time[-1]), ylim=(-0.02, 0.54))
    _track(track)
    (travelled,) = curve.plot([], [], **SIMULATION_STYLE, color="C0", alpha=0.7)
    trails = track.plot(*np.moveaxis(places[:1], -1, 0), color="C0", lw=1, alpha=0.3)
    (dots,) = track.plot([], [], **{**POINT_STYLE, "ms": 4}, color="black")

    def show(frame: int) -> tuple[Artist, ...]:
        travelled.set_data(time[: frame + 1], loss[: frame + 1])
        dots.set_data(*places[frame].T)
        for trail, way in zip(trails, np.moveaxis(places[: frame + 1], 1, 0), strict=True):
            trail.set_data(*way.T)
        return travelled, dots, *trails

    frames = [*range(0, len(time), _EVERY), *[len(time) - 1] * 12]
    return FuncAnimation(figure, show, frames=frames, interval=60, blit=False)


def _places(units: xr.Dataset) -> xr.DataArray:
    """Return the position of each unit: in the direction of u, at a distance of log |u||v|."""
    size = np.sqrt((units["u"] ** 2).sum("input"))
    strength = np.log10(np.maximum(size * abs(units["v"]), 1e-300))
    least = float(np.log10((units["u"][0] ** 2).mean())) - 2  # few units start with less strength
    out = np.clip((strength - least) / (float(strength.max()) - least), 0.0, None)
    return (units["u"] / size * out).transpose("time", "unit", "input")


def _track(ax: Axes) -> None:
    """Draw the four examples as rays."""
    for x in (-1, 1):
        for y in (-1, 1):
            ax.plot([0, 0.8 * x], [0, 0.8 * y], **GUIDE_STYLE)
            color = "C3" if x * y > 0 else "C2"
            ax.text(
                0.86 * x,
                0.86 * y,
                f"{'−' if x * y > 0 else '+'}1",
                color=color,
                ha="center",
                va="center",
            )
    ax.set(xlim=(-1.05, 1.05), ylim=(-1.05, 1.05), aspect="equal", xticks=[], yticks=[])
    ax.set(xlabel="direction of $u$", ylabel="radius: log |$u$||$v$|")
