r"""One chain of weights learns one number: shallow, deep and infinitely deep.

Loss ½⟨(y − a x)²⟩ with a = b_D ⋯ b_1 and τ ḃ = −∂L/∂b. Depths are compared at the learning rate
1/D, on the clock τ_∞ = τ/D, on which the limit of infinite depth exists.
"""

import math
from typing import Any

import numpy as np
import xarray as xr
from jaxtyping import PRNGKeyArray
from matplotlib.axes import Axes
from matplotlib.figure import Figure
from pydantic import Field, model_validator

from ...._objective import Convention
from ....dynamics import gradient_flow
from ....networks import DeepLinear
from ....tasks import linear_teacher
from ....theory.linear import chain_strength, learning_time, tau_at_depth
from ..._frame import parameters_of
from ..._old import compare, experiment, run_tree
from ..._parameters import Parameters as BaseParameters
from ..._registry import Progress
from ...claims import Claim
from ...figures import PALE, THEORY, styled
from .._slides import sheet, slide

NAME = "linear/learning-curves"
_SLIDE = slide("Analytic learning trajectory")
_SAMPLES = 201
_DEEP = (4096, 16384)
"""Depths at which the approach to infinite depth is measured."""


class Parameters(BaseParameters):
    """One chain, at several depths. Nothing here is random: seeds make no difference."""

    seeds: int = Field(default=1, ge=1)
    """Makes no difference: nothing here is random."""

    correlation: float = Field(default=1.5, gt=0)
    """Input-output correlation s."""

    input_variance: float = Field(default=0.8, gt=0)
    """Variance λ_x of the input."""

    initial_strength: float = Field(default=0.02, gt=0)
    """Product a₀ of the initial weights."""

    depths: tuple[int, ...] = (1, 2, 3, 8, 32)
    """Depths to train, in increasing order."""

    @model_validator(mode="after")
    def _possible(self) -> "Parameters":
        target = self.correlation / self.input_variance
        if self.initial_strength >= target / 2:
            raise ValueError(
                f"`initial_strength` must lie below half the target s/λ_x = {target:g}, "
                f"got {self.initial_strength:g}: nothing would be left to learn."
            )
        if not self.depths or min(self.depths) < 1 or list(self.depths) != sorted(set(self.depths)):
            raise ValueError(f"`depths` must be increasing numbers from 1 up, got {self.depths}.")
        return self


PRESETS: dict[str, dict[str, Any]] = {}


@experiment
def run(parameters: Parameters, key: PRNGKeyArray | None, say: Progress) -> xr.DataTree:
    """Train a chain of each depth and evaluate its closed form at the same times."""
    tables: list[xr.Dataset] = []
    for index, depth in enumerate(parameters.depths):
        say(f"a chain of depth {depth}", index / len(parameters.depths))
        tables.append(_curve(parameters, depth))
    return run_tree(
        NAME,
        parameters,
        curves=xr.concat(tables, xr.Variable("depth", list(parameters.depths))),
        limit=_limit(parameters),
        convention=_without_the_half(parameters),
    )


def _curve(parameters: Parameters, depth: int) -> xr.Dataset:
    """Training and theory of one depth; samples are spread over the time that it needs."""
    times = _times(parameters, depth)
    return xr.Dataset(
        {
            "time": ("sample", depth * times, {"long_name": "time in units of τ/D"}),
            "strength": ("sample", _train(parameters, depth, times)),
            "theory": ("sample", _theory(parameters, depth, times)),
            "half_time": ((), _half_time(parameters, depth)),
        }
    )


def _limit(parameters: Parameters) -> xr.Dataset:
    """Infinite depth, and how the times of finite depths approach it."""
    times = _times(parameters, math.inf)
    return xr.Dataset(
        {
            "strength": ("time", _integrate(parameters, times)),
            "theory": ("time", _theory(parameters, math.inf, times)),
            "half_time": ((), _half_time(parameters, math.inf)),
            "half_time_nearby": ("deep", [_half_time(parameters, depth) for depth in _DEEP]),
        },
        {"time": times, "deep": list(_DEEP)},
    )


def _integrate(parameters: Parameters, times: np.ndarray) -> np.ndarray:
    """No network is infinitely deep: the equation itself, τ_∞ ȧ = a² (s − λ_x a)."""
    from scipy.integrate import solve_ivp

    s, lam, a0 = parameters.correlation, parameters.input_variance, parameters.initial_strength
    solution = solve_ivp(
        lambda _, a: a**2 * (s - lam * a),
        (0.0, times[-1]),
        [a0],
        method="DOP853",
        t_eval=times,
        rtol=1e-11,
        atol=1e-14,
    )
    return solution.y[0]


def _without_the_half(parameters: Parameters) -> xr.Dataset:
    """Two layers on the loss as the slides print it, without the half."""
    times = _times(parameters, 2)
    return xr.Dataset(
        {
            "strength": ("time", _train(parameters, 2, times, loss="mean-square")),
            "theory": ("time", _theory(parameters, 2, 2 * times)),
        },
        {"time": times},
    )


def _train(
    parameters: Parameters, depth: int, times: np.ndarray, loss: Convention = "half"
) -> np.ndarray:
    """The product of the weights of a trained chain."""
    variance = parameters.input_variance
    target = np.array([[parameters.correlation / variance]])
    task = linear_teacher(target, np.array([[variance]]))
    weight = np.full((1, 1), parameters.initial_strength ** (1 / depth))
    trained = gradient_flow(DeepLinear((weight,) * depth), task, times, loss=loss, rtol=1e-11)
    return np.asarray(trained.network.end_to_end())[:, 0, 0]


def _theory(parameters: Parameters, depth: int | float, times: np.ndarray) -> np.ndarray:
    chain = parameters.correlation, parameters.initial_strength
    variance = parameters.input_variance
    return np.asarray(chain_strength(times, *chain, depth=depth, input_variance=variance))


def _times(parameters: Parameters, depth: int | float) -> np.ndarray:
    """From the start until nearly all is learned, on the clock of one layer."""
    chain = parameters.correlation, parameters.initial_strength
    variance = parameters.input_variance
    end = learning_time(*chain, depth=depth, fraction=0.995, input_variance=variance)
    return np.linspace(0.0, float(end), _SAMPLES)


def _half_time(parameters: Parameters, depth: int | float) -> float:
    """When half of the target is reached, on the common clock."""
    chain = parameters.correlation, parameters.initial_strength
    variance, tau = parameters.input_variance, tau_at_depth(depth)
    return float(learning_time(*chain, depth=depth, fraction=0.5, input_variance=variance, tau=tau))


def claims(run: xr.DataTree) -> list[Claim]:
    """The closed forms against training, and what the slides misprint."""
    curves = run["curves"].to_dataset()
    return [
        *(_curve_claim(curves.sel(depth=depth)) for depth in curves["depth"].values),
        *_misprints(run),
        _limit_claim(run["limit"].to_dataset()),
        _convention_claim(run["convention"].to_dataset()),
    ]


def _curve_claim(curve: xr.Dataset) -> Claim:
    depth = int(curve["depth"])
    apart = np.abs(curve["strength"] - curve["theory"]).max()
    return compare(
        experiment=NAME,
        claim=f"depth {depth}: the trained chain follows the closed form (largest difference)",
        source=_SLIDE,
        predicted=0.0,
        measured=float(apart),
        tolerance=1e-6,
        note="" if depth in (1, 2) else "a depth between those of the slides",
    )


def _misprints(run: xr.DataTree) -> list[Claim]:
    """The printed exponents against the right ones, where they differ most."""
    parameters = parameters_of(run, Parameters)
    s, lam, a0 = parameters.correlation, parameters.input_variance, parameters.initial_strength
    limit = run["limit"].to_dataset()
    found = []
    curves = run["curves"].to_dataset()
    if 1 in parameters.depths:
        shallow = curves.sel(depth=1)
        decay = np.exp(-shallow["time"].values)
        printed = s / lam * (1 - decay) + a0 * decay
        found.append(
            _misprint(
                "shallow: a(t) relaxes as exp(−t/τ)",
                shallow["strength"].values,
                shallow["theory"].values,
                printed,
                "the exponent is −λ_x t/τ",
            )
        )
    u0 = s / (lam * a0)
    # Lambert's W of an exponential, by the logarithm of its argument.
    omega = _wright_omega(np.log(u0 - 1) + u0 - 1 - limit["time"].values)
    found.append(
        _misprint(
            "infinitely deep: Lambert's function of an exponential that falls as exp(−t/τ)",
            limit["strength"].values,
            limit["theory"].values,
            s / lam / (1 + omega),
            "the exponent is −s²t/(λ_x τ_∞), and τ_∞ = τ/D is not the clock of the other two",
        )
    )
    return found


def _misprint(
    claim: str, measured: np.ndarray, right: np.ndarray, printed: np.ndarray, correction: str
) -> Claim:
    worst = int(np.argmax(np.abs(printed - right)))
    return compare(
        experiment=NAME,
        claim=claim,
        source=_SLIDE,
        predicted=float(right[worst]),
        measured=float(measured[worst]),
        tolerance=1e-6,
        correction=correction,
        note=f"as printed it gives {printed[worst]:.4g} there",
    )


def _wright_omega(x: np.ndarray) -> np.ndarray:
    from scipy.special import wrightomega

    return np.real(wrightomega(x))


def _limit_claim(limit: xr.Dataset) -> Claim:
    distance = np.abs(limit["half_time_nearby"].values / float(limit["half_time"]) - 1)
    order = np.diff(np.log(distance)) / np.diff(np.log(limit["deep"].values))
    return compare(
        experiment=NAME,
        claim="the limit of infinite depth is approached as 1/D (exponent of the half-rise time)",
        source=_SLIDE,
        predicted=-1.0,
        measured=float(order[-1]),
        tolerance=0.02,
        note="at fixed a₀, learning rate 1/D",
    )


def _convention_claim(both: xr.Dataset) -> Claim:
    return compare(
        experiment=NAME,
        claim="depth 2 on the loss as printed: the closed form (largest difference)",
        source=slide("Gradient descent"),
        predicted=0.0,
        measured=float(np.abs(both["strength"] - both["theory"]).max()),
        tolerance=1e-6,
        correction="the printed loss has no ½ and its flow no factor 2: absorbed in τ",
    )


@styled
def draw(run: xr.DataTree) -> Figure:
    """Shallow, deep and very deep, side by side."""
    parameters = parameters_of(run, Parameters)
    curves, limit = run["curves"].to_dataset(), run["limit"].to_dataset()
    target = parameters.correlation / parameters.input_variance
    figure = sheet("A chain of weights learns one number")
    titles = {1: "shallow, $D = 1$", 2: "deep, $D = 2$", math.inf: "deeper, $D$ as written on top"}
    shown = [depth for depth in titles if depth in (*parameters.depths, math.inf)]
    axes = dict(zip(shown, np.atleast_1d(figure.subplots(1, len(shown), sharey=True)), strict=True))
    for depth, ax in axes.items():
        ax.axhline(target, color="0.85", lw=1, zorder=0)
        ax.set(title=titles[depth], xlabel="time $t$ in units of $τ/D$", ylim=(0, 1.12 * target))
    deepest = axes[math.inf]
    for depth in parameters.depths:
        _draw_curve(axes.get(depth, deepest), curves.sel(depth=depth), "C0")
    _draw_curve(deepest, limit, "0.6")
    for ax in axes.values():
        ax.set_xlim(left=0)
    halves = {depth: curves["half_time"].sel(depth=depth) for depth in parameters.depths}
    labels = {f"{depth}": half for depth, half in halves.items() if depth not in axes}
    _label(deepest, labels | {"∞": limit["half_time"]}, 1.03 * target)
    first = axes[shown[0]]
    first.set_ylabel("strength $a(t)$")
    first.plot([], [], **PALE, color="C0", alpha=0.5, label="training")
    first.plot([], [], **PALE, color="0.6", alpha=0.5, label="integration ($D = ∞$)")
    first.plot([], [], **THEORY, label="closed form")
    first.legend(loc="lower right")
    return figure


def _label(ax: Axes, places: dict[str, xr.DataArray], height: float) -> None:
    """Words above the curves, together where there is no room for each."""
    room = 0.06 * ax.get_xlim()[1]
    groups: list[tuple[list[str], float]] = []
    for word, place in sorted(places.items(), key=lambda item: float(item[1])):
        if groups and float(place) - groups[-1][1] < room:
            groups[-1][0].append(word)
        else:
            groups.append(([word], float(place)))
    for words, place in groups:
        ax.text(place, height, ", ".join(words), ha="center")


def _draw_curve(ax: Axes, curve: xr.Dataset, color: str) -> None:
    ax.plot(curve["time"], curve["strength"], **PALE, color=color, alpha=0.5)
    ax.plot(curve["time"], curve["theory"], **THEORY)
