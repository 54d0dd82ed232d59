r"""One chain of scalar weights learns one number: shallow, deep and infinitely deep.

The loss is ½⟨(y − a x)²⟩ with a = b_D ⋯ b_1 and τ ḃ = −∂L/∂b. Depths are compared at learning rate
1/D, in units of τ_∞ = τ/D, for which the limit of infinite depth exists. The slide gives solutions
for depths 1, 2 and infinity. The exponents for depths 1 and infinity are misprinted.
"""

import math
from typing import Annotated, Any

import numpy as np
import xarray as xr
from matplotlib.figure import Figure
from pydantic import Field

from ...._numerics._integrate import integrate
from ...._objective import LossConvention
from ....dynamics import gradient_flow
from ....experiments._frame import Progress, Tables, make_run, parameters_of_run
from ....experiments._keys import Key
from ....experiments._parameters import Parameters as BaseParameters
from ....experiments._parameters import check_increasing
from ....experiments.claims import (
    ClaimCollector,
    agree,
    claims_from_source,
    follows_power_law,
    max_error_below,
)
from ....experiments.figures import GUIDE_STYLE, draw_pair, label_axes, panels, styled
from ....networks import DeepLinear
from ....tasks import linear_teacher
from ....theory import linear

_SAMPLES = 201
_DEEP = (4096, 16384)
"""Depths at which the approach to infinite depth is measured."""


class Parameters(BaseParameters):
    """Parameters of one scalar chain at several depths; nothing is random."""

    seeds: int = Field(default=1, ge=1)
    """Not used, because nothing is random."""

    correlation: float = Field(default=1.5, gt=0)
    """Input-output correlation s."""

    input_variance: float = Field(default=0.8, gt=0)
    """Variance λ_x of the input."""

    initial_strength: float = Field(default=0.02, gt=0)
    """Initial strength a₀, the product of the initial weights."""

    depths: Annotated[tuple[int, ...], check_increasing(1, count=1)] = (1, 2, 3, 8, 32)
    """Depths D that are trained, increasing."""

    def _check(self) -> None:
        if self.initial_strength >= self.target / 2:
            raise ValueError(
                f"`initial_strength` must be below half the target s/λ_x = {self.target:g}, "
                f"got {self.initial_strength:g}."
            )

    @property
    def target(self) -> float:
        """Value s/λ_x that the chain learns."""
        return self.correlation / self.input_variance

    @property
    def chain(self) -> dict[str, Any]:
        """Return the arguments of `chain_strength` and `learning_time` by name."""
        return self.model_dump(include={"correlation", "initial_strength", "input_variance"})


@make_run("linear/learning-curves")
def run(parameters: Parameters, key: Key, progress: Progress) -> Tables:
    """Train a chain of each depth and evaluate its closed form at the same times."""
    curves: list[xr.Dataset] = []
    for index, depth in enumerate(parameters.depths):
        progress(f"training a chain of depth {depth}", index / len(parameters.depths))
        times = _times(parameters, depth)
        table = _curve(parameters, depth, times, _train(parameters, depth, times), "sample")
        clock = ("sample", depth * times, {"long_name": "time in units of τ/D"})
        curves.append(table.assign(time=clock))
    times, far = _times(parameters, 2), _times(parameters, math.inf)
    nearby = [_half_time(parameters, depth) for depth in _DEEP]
    limit = _curve(parameters, math.inf, far, _integrate(parameters, far), "time")
    limit = limit.assign_coords(time=far, deep=list(_DEEP))
    seen = _train(parameters, 2, times, loss="mean-square")
    return {
        "curves": xr.concat(curves, xr.Variable("depth", list(parameters.depths))),
        "limit": limit.assign(half_time_nearby=("deep", nearby)),
        "convention": _curve(parameters, 2, 2 * times, seen, "time"),
    }


def _curve(
    parameters: Parameters, depth: int | float, times: np.ndarray, seen: np.ndarray, axis: str
) -> xr.Dataset:
    """Return the trained strength, the closed form, and the time at half of the target."""
    theory = np.asarray(linear.chain_strength(times, depth=depth, **parameters.chain))
    half = _half_time(parameters, depth)
    return xr.Dataset({"strength": (axis, seen), "theory": (axis, theory), "half_time": half})


def _integrate(parameters: Parameters, times: np.ndarray) -> np.ndarray:
    """Integrate the equation of infinite depth, τ_∞ ȧ = a² (s − λ_x a)."""
    s, lam, start = parameters.correlation, parameters.input_variance, parameters.initial_strength
    slope = lambda _, a: a**2 * (s - lam * a)
    return integrate(slope, times, start, rtol=1e-11, atol=1e-14)


def _train(
    parameters: Parameters, depth: int, times: np.ndarray, loss: LossConvention = "half"
) -> np.ndarray:
    """Return the product of the weights of a trained chain over time."""
    one = lambda value: np.full((1, 1), value)
    task = linear_teacher(one(parameters.target), one(parameters.input_variance))
    network = DeepLinear((one(parameters.initial_strength ** (1 / depth)),) * depth)
    trained = gradient_flow(network, task, times, loss=loss, rtol=1e-11)
    return np.asarray(trained.network.end_to_end())[:, 0, 0]


def _times(parameters: Parameters, depth: int | float) -> np.ndarray:
    """Return times from the start until nearly all is learned, in units of τ."""
    end = linear.learning_time(depth=depth, fraction=0.995, **parameters.chain)
    return np.linspace(0.0, float(end), _SAMPLES)


def _half_time(parameters: Parameters, depth: int | float) -> float:
    """Return the time at half of the target, in units of τ_∞."""
    tau = linear.depth_scaled_time_constant(depth)
    return float(linear.learning_time(depth=depth, fraction=0.5, tau=tau, **parameters.chain))


@claims_from_source("Saxe, slides", "“Analytic learning trajectory”")
def claims(run: xr.DataTree, claim: ClaimCollector) -> None:
    """Check the closed forms, and the misprints of the slides."""
    from scipy.special import wrightomega

    parameters = parameters_of_run(run, Parameters)
    a0, target = parameters.initial_strength, parameters.target
    curves, limit, convention = (run[name].ds for name in ("curves", "limit", "convention"))
    off = abs(curves["strength"] - curves["theory"]).max("sample")
    claim(
        "closed-form",
        "the strength of a trained chain follows the closed form at each depth (largest error)",
        agree(off, 0.0, within=1e-6),
        note="the slides give depths 1, 2 and infinity only" * (parameters.depths[-1] > 2),
    )
    # Lambert's W of an exponential, computed from the logarithm of its argument.
    u0, time = target / a0 - 1, limit["time"].values
    omega = np.real(wrightomega(np.log(u0) + u0 - time))
    words = (
        "infinite depth: the strength is given by Lambert's W of an exponential that decreases as "
        "exp(−t/τ)"
    )
    right = "the exponent is −s²t/(λ_x τ_∞), with τ_∞ = τ/D, unlike at finite depth"
    prints = [("infinite-depth", words, limit, target / (1 + omega), right)]
    if 1 in parameters.depths:
        shallow, words = curves.sel(depth=1), "depth 1: the strength a(t) relaxes as exp(−t/τ)"
        printed = target + (a0 - target) * np.exp(-shallow["time"].values)
        prints.insert(0, ("shallow", words, shallow, printed, "the exponent is −λ_x t/τ"))
    for name, words, curve, printed, right in prints:
        worst = int(np.argmax(np.abs(printed - curve["theory"].values)))
        claim(
            f"{name}-as-printed",
            words,
            agree(curve["strength"][worst], curve["theory"][worst], within=1e-6),
            corrected=right,
            note=f"the printed form gives {printed[worst]:.4g} at this time",
        )
    distance = abs(limit["half_time_nearby"] / limit["half_time"] - 1)
    claim(
        "approach-to-infinite-depth",
        "with depth D chains approach the limit of infinite depth as 1/D (exponent of D, for the "
        "time at which half is learned)",
        follows_power_law(limit["deep"], distance, -1, within=0.02),
        note="at fixed initial strength a₀ and learning rate 1/D",
    )
    claim(
        "loss-as-printed",
        "depth 2: training on the loss as printed follows the closed form",
        max_error_below(convention["strength"], convention["theory"], within=1e-6),
        at="“Gradient descent”",
        corrected="the printed loss lacks a factor ½ and its flow a factor 2, absorbed in τ",
    )


@styled
def draw(run: xr.DataTree) -> Figure:
    """Plot shallow, deep and very deep chains side by side."""
    parameters = parameters_of_run(run, Parameters)
    curves, limit = run["curves"].ds, run["limit"].ds
    titles = {1: "shallow, $D = 1$", 2: "deep, $D = 2$", math.inf: "deeper, $D$ as labelled"}
    shown = [depth for depth in titles if depth in (*parameters.depths, math.inf)]
    title, width = "A chain of weights learns one number", 9 / len(shown)
    how = {"sharey": True, "squeeze": False}
    figure, row = panels(title, len(shown), width=width, height=3.2, **how)
    axes, first = dict(zip(shown, row[0], strict=True)), row[0, 0]
    deepest, halves = axes[math.inf], {"∞": float(limit["half_time"])}
    for depth in parameters.depths:
        curve, ax = curves.sel(depth=depth), axes.get(depth, deepest)
        draw_pair(ax, curve["time"], curve["strength"], curve["theory"], color="C0", alpha=0.5)
        if ax is deepest:
            halves[f"{depth}"] = float(curve["half_time"])
    draw_pair(deepest, limit["time"], limit["strength"], limit["theory"], color="0.6", alpha=0.5)
    for label, color in (("training", "C0"), ("integration ($D = ∞$)", "0.6")):
        draw_pair(first, [], [], color=color, alpha=0.5, label=label)
    label_axes(first, ylabel="strength $a(t)$", theory="closed form", legend=None)
    for depth, ax in axes.items():
        ax.axhline(parameters.target, **GUIDE_STYLE)
        ax.set(ylim=(0, 1.12 * parameters.target), xlim=(0, None))
        label_axes(ax, "time $D\\,t/τ$", "", titles[depth], legend="lower right")
    # Labels above the curves; labels that would overlap are joined.
    groups, room = [], 0.06 * deepest.get_xlim()[1]
    for word, place in sorted(halves.items(), key=lambda item: item[1]):
        if groups and place - groups[-1][1] < room:
            groups[-1][0] += f", {word}"
        else:
            groups.append([word, place])
    for words, place in groups:
        deepest.text(place, 1.03 * parameters.target, words, ha="center")
    return figure
