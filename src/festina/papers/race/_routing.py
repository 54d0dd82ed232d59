r"""Translation between domains: a network with one shared trunk learns abstract representations.

The task has M input and M output domains, and each input domain is trained with K output domains.
Items have the same features in all domains. Every domain has its own encoder and decoder, and all
pairs share the trunk between them. The loss is ½⟨‖y − f‖²⟩ over the examples of trained pairs, and
τ Ẇ = −∂L/∂W with τ = 1. From decoupled weights, three numbers describe each mode: the strengths b₁
of encoders, b₂ of the trunk and b₃ of decoders, with ḃ₁ = b₂b₃E/M, ḃ₂ = b₁b₃E, ḃ₃ = b₁b₂E/M. Here
E = S − D b₁b₂b₃, S = s/n and D = 1/n for n items and the singular value s of the features. The
source trains on another loss: the sum over pairs of the squared error averaged over items and
features.
"""

import itertools
import warnings
from typing import Annotated, Any

import numpy as np
import xarray as xr
from jaxtyping import Float
from matplotlib.figure import Figure
from pydantic import Field, PositiveFloat

from ...diagnose import passage_time
from ...dynamics import gradient_descent, gradient_flow
from ...experiments._frame import Progress, Tables, make_run, parameters_of_run
from ...experiments._keys import Key, keys_from_parameters
from ...experiments._parameters import Parameters as BaseParameters
from ...experiments._parameters import check_decreasing
from ...experiments.claims import (
    ClaimCollector,
    agree,
    all_below,
    claims_from_source,
    increasing,
    join_numbers,
    max_error_below,
)
from ...experiments.figures import (
    POINT_STYLE,
    SIMULATION_STYLE,
    THEORY_STYLE,
    draw_pair,
    label_axes,
    panels,
    shades,
    styled,
)
from ...networks import Gated, with_decoupled_weights
from ...tasks import Task, cyclic_domain_pairs, domain_routing, nested_tree_features
from ...theory import linear
from ...theory.gated import ReductionWarning, conserved_quantities, race_reduction
from ._translation import (
    basis,
    chain,
    pairs_of,
    rates,
    strengths,
    three_numbers,
    translator,
    with_random_weights,
)

_SAMPLES = 241
_FINER = 16
"""Factor by which the learning rate is reduced to approximate gradient flow by descent."""


class Parameters(BaseParameters):
    """Domains with the features of a tree, and the pairs of domains that are trained."""

    seeds: int = Field(default=6, ge=1)
    """Number of networks with random weights that are trained at each scale."""

    domains: int = Field(default=7, ge=2, le=16)
    """Number M of input domains, and of output domains."""

    trained: int = Field(default=4, ge=1)
    """Number K of output domains trained with each input domain i: cyclic neighbours from i − 1."""

    values: tuple[PositiveFloat, ...] = (6.0, 4.0, 3.0)
    """Values of features, one per level of the tree, from features of all items to single items."""

    width: int = Field(default=64, ge=8)
    """Number of hidden units before the trunk, and behind it."""

    strength: float = Field(default=0.08, gt=0, le=0.5)
    """Initial strength b of every mode in every layer of the decoupled network."""

    scales: Annotated[tuple[float, ...], check_decreasing(0.1, 1e-6)] = (0.025, 0.0025)
    """Standard deviations of random weights, decreasing. The source's weights, an orthogonal matrix
    times 0.2, have 0.2/√width."""

    learning_rate: float = Field(default=0.02, gt=0)
    """Learning rate of gradient descent on the source's loss."""

    def _check(self) -> None:
        if self.trained > self.domains:
            raise ValueError(f"`trained` must be at most `domains`, got {self.trained}.")
        if len(self.values) < 2 or 2 ** (len(self.values) - 1) > self.width:
            raise ValueError(
                "`values` must be two or more numbers, one for each level of a tree with "
                "2^(levels − 1) items. The number of items must not exceed "
                f"`width` = {self.width}, got {self.values}."
            )


PRESETS: dict[str, dict[str, Any]] = {
    "plain": {"domains": 5, "trained": 3, "values": (1.0, 1.0, 1.0), "strength": 0.05}
}
QUICK: dict[str, Any] = {"seeds": 3, "width": 16}


@make_run("race/routing")
def run(parameters: Parameters, key: Key, progress: Progress) -> Tables:
    """Train decoupled weights by flow and by descent, random weights by flow; add the theory."""
    keys, m = keys_from_parameters(parameters, key), parameters.domains
    items = nested_tree_features(len(parameters.values) - 1, values=list(parameters.values))
    how: dict[str, Any] = {"items": items, "key": keys[0]}
    data = domain_routing(m, cyclic_domain_pairs(m, parameters.trained, first=-1), **how)
    everything = domain_routing(m, **how)
    frames, _ = basis(everything)
    network = translator(data, everything, width=parameters.width)
    network = with_decoupled_weights(network, frames, initial_strength=parameters.strength)
    progress("decoupled weights", 0.1)
    tables = {"decoupled": _decoupled(parameters, network, data, everything)}
    progress("descent", 0.3)
    tables["descent"] = _descent(parameters, network, data, everything)
    progress("random weights", 0.5)
    start = with_random_weights(network, parameters.scales, keys)
    tables["random"] = _random(parameters, start, data)
    return tables


def _decoupled(parameters: Parameters, network: Gated, data: Task, everything: Task) -> xr.Dataset:
    """Return mode strengths of the full network, its race reduction, and three numbers per mode."""
    frames, s = basis(everything)
    m, trained = parameters.domains, pairs_of(data)
    times = np.linspace(0.0, _end(parameters, s), _SAMPLES)
    flow = gradient_flow(network, data, times, rtol=1e-11)
    pairs = list(itertools.product(range(m), repeat=2))
    paths = [chain("shared", i, j) for i, j in pairs]
    found = race_reduction(network, data)(times)
    numbers = _numbers(parameters, s, times)
    kept = conserved_quantities(flow.network)["shared_in"]
    modes = np.arange(len(s))  # hidden units are the modes, in order
    return xr.Dataset(
        {
            "strength": (("pair", "time", "mode"), strengths(flow.network, frames, paths)),
            "reduced": (("pair", "time", "mode"), strengths(found.network, frames, paths)),
            "theory": (("time", "mode"), numbers.prod(axis=1)),
            "conserved": (("time", "mode"), kept[:, modes, modes]),
            "trained": ("pair", [pair in trained for pair in pairs]),
            "loss": ("time", flow.loss),
            "loss_reduced": ("time", found.loss),
        },
        {
            "time": ("time", times, {"long_name": "time in units of τ"}),
            "singular_value": ("mode", s),
        },
    )


def _numbers(
    parameters: Parameters, s: np.ndarray, times: np.ndarray
) -> Float[np.ndarray, "time edge mode"]:
    way = rates("shared", parameters.domains, parameters.trained)
    return three_numbers(times, [way], parameters.strength, s / len(s), 1 / len(s))[:, 0]


def _end(parameters: Parameters, s: np.ndarray) -> float:
    """Return a time by which the weakest mode is learned, from balanced weights."""
    m, n = parameters.domains, len(s)
    how = {"depth": 3, "fraction": 0.999, "input_variance": 1 / n, "tau": m ** (2 / 3)}
    return 1.3 * float(linear.learning_time(s[-1] / n, parameters.strength**3, **how))


def _descent(parameters: Parameters, network: Gated, data: Task, everything: Task) -> xr.Dataset:
    """Run gradient descent on the source's loss, and the source's equations in their own time."""
    frames, s = basis(everything)
    m, k, n = parameters.domains, parameters.trained, len(s)
    features = everything.outputs // m
    # The source's loss is this factor times ½⟨‖y − f‖²⟩.
    factor = 2 * m * k / features
    rate = parameters.learning_rate / np.array([1, _FINER])
    steps = int(_end(parameters, s) / (factor * rate[-1])) + 1
    lanes = with_decoupled_weights(
        network, frames, initial_strength=np.full((2, 1), parameters.strength)
    )
    descent = gradient_descent(lanes, data, factor * rate, steps)
    seen = strengths(descent.network, frames, [chain("shared", *pairs_of(data)[0])])[0]
    half = passage_time(descent.time, -seen[..., 0], -s[0] / 2)
    # The source has ḃ₂ = (K/M) b₁b₃(s − π), which is b₁b₃(s − π)/n in the time of this module.
    times = np.linspace(0.0, _end(parameters, s), 4 * _SAMPLES)
    theory, clock = _numbers(parameters, s, times).prod(axis=1), m / (k * n) * times
    return xr.Dataset(
        {
            "updates": (("rate", "save"), descent.time),
            "strength": (("rate", "save", "mode"), seen),
            "half_updates": ("rate", half),
            "theory": (("time", "mode"), theory),
            "half_time": ((), passage_time(clock, -theory[:, 0], -s[0] / 2)),
        },
        {"rate": rate, "time": ("time", clock, {"long_name": "time of the source's equations"})},
    )


def _random(parameters: Parameters, start: Gated, data: Task) -> xr.Dataset:
    """Train random weights at several scales, and solve the reduction from their growing part."""
    tables: list[xr.Dataset] = []
    for number in range(len(parameters.scales)):
        lanes = start.with_parts(*(part[number] for part in start.parts))
        found = []
        for seed in range(parameters.seeds):
            with warnings.catch_warnings():
                warnings.simplefilter("ignore", ReductionWarning)
                one = lanes.with_parts(*(part[seed] for part in lanes.parts))
                found.append(race_reduction(one, data))
        rough = [each(rtol=1e-6) for each in found]
        half = [passage_time(each.time, each.loss, each.loss[0] / 2) for each in rough]
        times = np.linspace(0.0, 4 * max(half), _SAMPLES)
        flow = gradient_flow(lanes, data, times)
        theory = np.stack([each(times, rtol=1e-8).loss for each in found])
        level = flow.loss[0, 0] / 2
        table = {
            "time": ("sample", times, {"long_name": "time in units of τ"}),
            "loss": (("seed", "sample"), flow.loss),
            "theory": (("seed", "sample"), theory),
            "half_time": ("seed", passage_time(times, flow.loss, level)),
            "half_time_theory": ("seed", passage_time(times, theory, level)),
        }
        tables.append(xr.Dataset(table))
    return xr.concat(tables, xr.Variable("scale", list(parameters.scales)))


@claims_from_source("Saxe, slides", "“Dynamics of abstraction”")
def claims(run: xr.DataTree, claim: ClaimCollector) -> None:
    """Check the reduction against the full network, the source's time, and random weights."""
    parameters = parameters_of_run(run, Parameters)
    data, descent, random = (run[name].ds for name in ("decoupled", "descent", "random"))
    m, s = parameters.domains, data["singular_value"]
    at = "“Reduction and (occasionally) exact solutions”"
    claim(
        "reduction",
        "from decoupled weights the race reduction gives the mode strengths of the full network on "
        "every pair of domains",
        max_error_below((data["strength"] - data["reduced"]) / s, within=1e-8),
        at=at,
        note="in units of the singular value s",
    )
    trained = data["trained"].values
    off = (data["strength"] - data["theory"]) / s
    claim(
        "three-numbers",
        "three numbers, the strengths of encoders, trunk and decoders, describe each mode, and "
        "their equations do not contain the number K of outputs trained with each input",
        max_error_below(off[trained], within=1e-8),
        note="on trained pairs, in units of the singular value s",
        headline=True,
    )
    claim(
        "conserved-strength",
        "training conserves M b₁² − b₂², with the strengths b₁ and b₂ of a mode in encoders and "
        "trunk, and the number M of domains",
        max_error_below(data["conserved"], (m - 1) * parameters.strength**2, within=1e-7),
        note="the value is (M − 1) b₀² if all initial strengths are b₀",
    )
    order = np.unique(np.round(s.values, 9))[::-1]
    halves = [_half_time(data, value) for value in order]
    claim(
        "order-of-modes",
        "broad distinctions between items are learned first: half times of modes rise from the "
        "largest to the smallest singular value",
        increasing(halves),
        at="“Dataset”",
    )
    items, features = len(s), 2 * len(s) - 1
    clock = descent["half_time"] / (descent["half_updates"] * descent["rate"])
    claim(
        "clock",
        "time in the source's equations is learning rate × updates × 2M²/(items × features), with "
        "M the number of domains",
        agree(clock[-1], 2 * m**2 / (items * features), within=0.01, relative=True),
        note="the source gives a factor of 3.5 for M = 7 without a reason; the factor follows from "
        "its loss, a sum over pairs of mean squares; gradient descent at a learning rate of "
        f"{parameters.learning_rate:g} has a factor of {float(clock[0]):.3g}, because its steps "
        "are too large for gradient flow",
    )
    off = abs(random["half_time"] / random["half_time_theory"] - 1).median("seed")
    # Hidden directions of different modes overlap by 1/√width, which bounds the error.
    claim(
        "random-half-times",
        "from random weights the reduction, started from the growing part of the weights, predicts "
        "when half of the loss is gone",
        all_below(off, parameters.width**-0.5),
        at="“Assumptions & caveats”",
        note=f"relative error, median over seeds: {join_numbers(off, 2)}",
    )


def _half_time(data: xr.Dataset, value: float) -> float:
    mode = int(np.argmin(np.abs(data["singular_value"].values - value)))
    curve = data["strength"][int(np.argmax(data["trained"].values)), :, mode]
    return passage_time(data["time"].values, -curve.values, -value / 2)


@styled
def draw(run: xr.DataTree) -> Figure:
    """Plot mode strengths (time in τ, or as published), and losses from random weights."""
    data, descent, random = (run[name].ds for name in ("decoupled", "descent", "random"))
    parameters = parameters_of_run(run, Parameters)
    m, k = parameters.domains, parameters.trained
    title = f"One trunk for {m} × {m} domains, {k} output domains trained with each input"
    figure, (modes, clock, losses) = panels(title, 3, width=3.2, height=3.2)
    trained, s = data["trained"].values, data["singular_value"].values
    values, first = np.unique(np.round(s, 9), return_index=True)
    shown = [int(np.argmax(trained)), *([] if trained.all() else [int(np.argmin(trained))])]
    for mode, (value, color, _) in zip(first[::-1], shades(values[::-1]), strict=True):
        for pair, alpha in zip(shown, (0.55, 0.25), strict=False):
            curve = data["strength"][pair, :, mode]
            draw_pair(modes, data["time"], curve, data["theory"][:, mode], color=color, alpha=alpha)
        modes.plot([], [], **SIMULATION_STYLE, color=color, alpha=0.6, label=f"$s$ = {value:.3g}")
        clock.plot(descent["time"], descent["theory"][:, mode], **THEORY_STYLE)
        seen = descent.isel(rate=0)
        at = seen["updates"] * float(seen["rate"]) * 2 * m**2 / (len(s) * (2 * len(s) - 1))
        clock.plot(at, seen["strength"][:, mode], **{**POINT_STYLE, "ms": 3}, color=color)
    end = 1.15 * _half_time(data, values[0])
    words = "time $t/τ$", "mode strength $b_1b_2b_3$", "decoupled weights"
    top = 1.45 * s[0]  # room for the legend
    how = {"legend": "upper right", "xlim": (0, 1.3 * end), "ylim": (0, top)}
    label_axes(modes, *words, theory="theory", **how)
    clock.plot([], [], **POINT_STYLE, color="0.4", label="descent, as published")
    scale = float(descent["time"][-1]) / float(data["time"][-1])
    how = {"legend": "upper right", "xlim": (0, 1.3 * end * scale), "ylim": (0, top)}
    words = "time of the source's equations", "mode strength $b_1b_2b_3$", "the source's time"
    label_axes(clock, *words, theory="its equations", **how)
    smallest = random.isel(scale=-1)
    first = float(smallest["loss"][0, 0])
    for number, color, label in shades(range(smallest.sizes["seed"]), "seed"):
        one = smallest.isel(seed=number)
        losses.plot(
            one["time"],
            one["loss"] / first,
            **SIMULATION_STYLE,
            color=color,
            alpha=0.4,
            label=label,
        )
        losses.plot(
            one["time"], one["theory"] / first, **{**THEORY_STYLE, "color": color, "lw": 1.4}
        )
    words = "time $t/τ$", "loss / initial loss"
    words = *words, f"random weights, σ = {float(random['scale'][-1]):g}"
    right = 3 * float(smallest["half_time"].median())
    label_axes(losses, *words, theory="reduction", xlim=(0, right), ylim=(0, 1.05))
    return figure
