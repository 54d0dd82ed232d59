r"""One chain of weights learns one number: shallow, deep and infinitely deep.

Loss ½⟨(y − a x)²⟩ with a = b_D ⋯ b_1 and τ ḃ = −∂L/∂b. Depths are compared at the learning rate
1/D, on the clock τ_∞ = τ/D, on which the limit of infinite depth exists. Of the three solutions on
the slide the first and the last are misprinted in the exponent.
"""

import math
from typing import Annotated

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
from ..._frame import experiment, parameters_of
from ..._parameters import Parameters as BaseParameters
from ..._parameters import increasing
from ..._registry import Progress
from ...claims import Ledger, agree, apart, asserts, exponent
from ...figures import GUIDE, PALE, both, finish, sheet, styled

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

    depths: Annotated[tuple[int, ...], increasing(1, count=1)] = (1, 2, 3, 8, 32)
    """Depths to train, in increasing order."""

    @model_validator(mode="after")
    def _possible(self) -> "Parameters":
        if self.initial_strength >= self.target / 2:
            raise ValueError(
                f"`initial_strength` must lie below half the target s/λ_x = {self.target:g}, "
                f"got {self.initial_strength:g}: nothing would be left to learn."
            )
        return self

    @property
    def target(self) -> float:
        """What the chain learns, s/λ_x."""
        return self.correlation / self.input_variance

    @property
    def chain(self) -> dict[str, float]:
        """In the words of `chain_strength` and `learning_time`."""
        return self.model_dump(include={"correlation", "initial_strength", "input_variance"})


@experiment("linear/learning-curves")
def run(parameters: Parameters, key: PRNGKeyArray | None, say: Progress) -> dict[str, xr.Dataset]:
    """Train a chain of each depth and evaluate its closed form at the same times."""
    curves: list[xr.Dataset] = []
    for index, depth in enumerate(parameters.depths):
        say(f"a chain of depth {depth}", index / len(parameters.depths))
        times = _times(parameters, depth)
        table = {
            "time": ("sample", depth * times, {"long_name": "time in units of τ/D"}),
            "strength": ("sample", _train(parameters, depth, times)),
            "theory": ("sample", _theory(parameters, depth, times)),
            "half_time": ((), _half_time(parameters, depth)),
        }
        curves.append(xr.Dataset(table))
    times = _times(parameters, 2)
    printed = {
        "strength": ("time", _train(parameters, 2, times, loss="mean-square")),
        "theory": ("time", _theory(parameters, 2, 2 * times)),
    }
    return {
        "curves": xr.concat(curves, xr.Variable("depth", list(parameters.depths))),
        "limit": _limit(parameters),
        "convention": xr.Dataset(printed, {"time": times}),
    }


def _limit(parameters: Parameters) -> xr.Dataset:
    """No network is infinitely deep: the equation itself, τ_∞ ȧ = a² (s − λ_x a)."""
    from scipy.integrate import solve_ivp

    s, lam, times = parameters.correlation, parameters.input_variance, _times(parameters, math.inf)
    course = solve_ivp(
        lambda _, a: a**2 * (s - lam * a),
        (0.0, times[-1]),
        [parameters.initial_strength],
        method="DOP853",
        t_eval=times,
        rtol=1e-11,
        atol=1e-14,
    )
    return xr.Dataset(
        {
            "strength": ("time", course.y[0]),
            "theory": ("time", _theory(parameters, math.inf, times)),
            "half_time": ((), _half_time(parameters, math.inf)),
            "half_time_nearby": ("deep", [_half_time(parameters, depth) for depth in _DEEP]),
        },
        {"time": times, "deep": list(_DEEP)},
    )


def _train(
    parameters: Parameters, depth: int, times: np.ndarray, loss: Convention = "half"
) -> np.ndarray:
    """The product of the weights of a trained chain."""
    one = lambda value: np.full((1, 1), value)
    task = linear_teacher(one(parameters.target), one(parameters.input_variance))
    network = DeepLinear((one(parameters.initial_strength ** (1 / depth)),) * depth)
    trained = gradient_flow(network, task, times, loss=loss, rtol=1e-11)
    return np.asarray(trained.network.end_to_end())[:, 0, 0]


def _theory(parameters: Parameters, depth: int | float, times: np.ndarray) -> np.ndarray:
    return np.asarray(chain_strength(times, depth=depth, **parameters.chain))


def _times(parameters: Parameters, depth: int | float) -> np.ndarray:
    """From the start until nearly all is learned, on the clock of one layer."""
    end = learning_time(depth=depth, fraction=0.995, **parameters.chain)
    return np.linspace(0.0, float(end), _SAMPLES)


def _half_time(parameters: Parameters, depth: int | float) -> float:
    """When half of the target is reached, on the common clock."""
    tau = tau_at_depth(depth)
    return float(learning_time(depth=depth, fraction=0.5, tau=tau, **parameters.chain))


@asserts("Saxe, slides", "“Analytic learning trajectory”")
def claims(run: xr.DataTree, say: Ledger) -> None:
    """The closed forms against training, and what the slides misprint."""
    from scipy.special import wrightomega

    parameters = parameters_of(run, Parameters)
    a0, target = parameters.initial_strength, parameters.target
    curves, limit, convention = (run[name].ds for name in ("curves", "limit", "convention"))
    for depth in parameters.depths:
        curve = curves.sel(depth=depth)
        say(
            f"depth {depth}: the trained chain follows the closed form",
            apart(curve["strength"], curve["theory"], within=1e-6),
            note="" if depth in (1, 2) else "a depth between those of the slides",
        )
    u0 = target / a0
    # Lambert's W of an exponential, by the logarithm of its argument.
    omega = np.real(wrightomega(np.log(u0 - 1) + u0 - 1 - limit["time"].values))
    prints = [
        (
            "infinitely deep: Lambert's function of an exponential that falls as exp(−t/τ)",
            limit,
            target / (1 + omega),
            "the exponent is −s²t/(λ_x τ_∞), and τ_∞ = τ/D is not the clock of the other two",
        )
    ]
    if 1 in parameters.depths:
        shallow = curves.sel(depth=1)
        decay = np.exp(-shallow["time"].values)
        printed = target * (1 - decay) + a0 * decay
        words = "shallow: a(t) relaxes as exp(−t/τ)"
        prints.insert(0, (words, shallow, printed, "the exponent is −λ_x t/τ"))
    for words, curve, printed, correction in prints:
        seen, right = curve["strength"].values, curve["theory"].values
        worst = int(np.argmax(np.abs(printed - right)))
        say(
            words,
            agree(seen[worst], right[worst], within=1e-6),
            corrected=correction,
            note=f"as printed it gives {printed[worst]:.4g} there",
        )
    say(
        "the limit of infinite depth is approached as 1/D (exponent of the half-rise time)",
        exponent(
            limit["deep"], abs(limit["half_time_nearby"] / limit["half_time"] - 1), -1, within=0.02
        ),
        note="at fixed a₀, learning rate 1/D",
    )
    say(
        "depth 2 on the loss as printed: the closed form",
        apart(convention["strength"], convention["theory"], within=1e-6),
        "“Gradient descent”",
        corrected="the printed loss has no ½ and its flow no factor 2: absorbed in τ",
    )


@styled
def draw(run: xr.DataTree) -> Figure:
    """Shallow, deep and very deep, side by side."""
    parameters = parameters_of(run, Parameters)
    curves, limit = run["curves"].ds, run["limit"].ds
    titles = {1: "shallow, $D = 1$", 2: "deep, $D = 2$", math.inf: "deeper, $D$ as written on top"}
    shown = [depth for depth in titles if depth in (*parameters.depths, math.inf)]
    title, size = "A chain of weights learns one number", {"width": 9 / len(shown), "height": 3.2}
    figure, row = sheet(title, len(shown), **size, sharey=True, squeeze=False)
    axes = dict(zip(shown, row[0], strict=True))
    deepest, halves = axes[math.inf], {"∞": float(limit["half_time"])}
    for depth in parameters.depths:
        curve = curves.sel(depth=depth)
        ax = axes.get(depth, deepest)
        both(ax, curve["time"], curve["strength"], curve["theory"], color="C0", alpha=0.5)
        if ax is deepest:
            halves[f"{depth}"] = float(curve["half_time"])
    both(deepest, limit["time"], limit["strength"], limit["theory"], color="0.6", alpha=0.5)
    row[0, 0].plot([], [], **PALE, color="C0", alpha=0.5, label="training")
    row[0, 0].plot([], [], **PALE, color="0.6", alpha=0.5, label="integration ($D = ∞$)")
    for depth, ax in axes.items():
        ax.axhline(parameters.target, **GUIDE)
        words = ("closed form", "strength $a(t)$") if ax is row[0, 0] else ("", "")
        finish(
            ax,
            "time $t$ in units of $τ/D$",
            words[1],
            titles[depth],
            theory=words[0],
            legend="lower right",
            ylim=(0, 1.12 * parameters.target),
        )
        ax.set_xlim(left=0)
    _label(deepest, halves, 1.03 * parameters.target)
    return figure


def _label(ax: Axes, places: dict[str, float], height: float) -> None:
    """Words above the curves, together where there is no room for each."""
    room = 0.06 * ax.get_xlim()[1]
    groups: list[tuple[list[str], float]] = []
    for word, place in sorted(places.items(), key=lambda item: item[1]):
        if groups and place - groups[-1][1] < room:
            groups[-1][0].append(word)
        else:
            groups.append(([word], place))
    for words, place in groups:
        ax.text(place, height, ", ".join(words), ha="center")
