r"""Translation between domains: how a network with one trunk for all pairs becomes abstract.

M input and M output domains, K trained outputs for each input; items have the same features in all
domains. Encoders and decoders belong to a domain, the trunk between them to all. Loss ½⟨‖y − f‖²⟩
over the examples of trained pairs, τ Ẇ = −∂L/∂W with τ = 1. From decoupled weights every mode is
three numbers, ḃ₁ = b₂b₃E/M, ḃ₂ = b₁b₃E, ḃ₃ = b₁b₂E/M with E = S − D b₁b₂b₃, S = s/n and D = 1/n for
n items. The source trains on the sum over pairs of a mean over items and features.
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
"""How much smaller steps of descent are where they stand for a flow."""


class Parameters(BaseParameters):
    """Domains with the features of a tree, some pairs of which are trained."""

    seeds: int = Field(default=6, ge=1)
    """How many networks with random weights are trained at each scale."""

    domains: int = Field(default=7, ge=2, le=16)
    """Number M of domains on either side."""

    trained: int = Field(default=4, ge=1)
    """Number K of outputs that are trained with each input, neighbours from one before it on."""

    values: tuple[PositiveFloat, ...] = (6.0, 4.0, 3.0)
    """Values of the features that all items have, half of them, and so on to single items."""

    width: int = Field(default=64, ge=8)
    """Units before and behind the trunk."""

    strength: float = Field(default=0.08, gt=0, le=0.5)
    """Every number b of a decoupled network at the start."""

    scales: Annotated[tuple[float, ...], check_decreasing(0.1, 1e-6)] = (0.025, 0.0025)
    """Standard deviations of random weights; an orthogonal matrix times 0.2 has 0.2/√width."""

    learning_rate: float = Field(default=0.02, gt=0)
    """Of descent on the source's loss."""

    def _check(self) -> None:
        if self.trained > self.domains:
            raise ValueError(f"`trained` must be at most `domains`, got {self.trained}.")
        if len(self.values) < 2 or 2 ** (len(self.values) - 1) > self.width:
            raise ValueError(
                "`values` must be two or more numbers, one for each level of a tree with no more "
                f"items than `width`, got {self.values}."
            )


PRESETS: dict[str, dict[str, Any]] = {
    "plain": {"domains": 5, "trained": 3, "values": (1.0, 1.0, 1.0), "strength": 0.05}
}
QUICK: dict[str, Any] = {"seeds": 3, "width": 16}


@make_run("race/routing")
def run(parameters: Parameters, key: Key, progress: Progress) -> Tables:
    """Train from decoupled weights, by flow and descent, and from random ones, beside theory."""
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
    """The whole network, the race reduction of its weights, and three numbers for each mode."""
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
    """Until the weakest mode is learned, from balanced weights as small as the smallest."""
    m, n = parameters.domains, len(s)
    how = {"depth": 3, "fraction": 0.999, "input_variance": 1 / n, "tau": m ** (2 / 3)}
    return 1.3 * float(linear.learning_time(s[-1] / n, parameters.strength**3, **how))


def _descent(parameters: Parameters, network: Gated, data: Task, everything: Task) -> xr.Dataset:
    """Gradient descent on the source's loss, and the source's equations on their own clock."""
    frames, s = basis(everything)
    m, k, n = parameters.domains, parameters.trained, len(s)
    features = everything.outputs // m
    # A sum over pairs of mean squares over n items and all features is this times ½⟨‖y − f‖²⟩.
    factor = 2 * m * k / features
    rate = parameters.learning_rate / np.array([1, _FINER])
    steps = int(_end(parameters, s) / (factor * rate[-1])) + 1
    lanes = with_decoupled_weights(
        network, frames, initial_strength=np.full((2, 1), parameters.strength)
    )
    descent = gradient_descent(lanes, data, factor * rate, steps)
    seen = strengths(descent.network, frames, [chain("shared", *pairs_of(data)[0])])[0]
    half = passage_time(descent.time, -seen[..., 0], -s[0] / 2)
    # The source has ḃ₂ = (K/M) b₁b₃(s − π), where we have b₁b₃(s − π)/n.
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
    """Random weights at several scales, and the reduction from what of them grows."""
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
    """The reduction against the whole network, the source's clock, and random weights."""
    parameters = parameters_of_run(run, Parameters)
    data, descent, random = (run[name].ds for name in ("decoupled", "descent", "random"))
    m, s = parameters.domains, data["singular_value"]
    at = "“Reduction and (occasionally) exact solutions”"
    claim(
        "reduction",
        "decoupled weights: the whole network is its race reduction, on every pair (of s)",
        max_error_below((data["strength"] - data["reduced"]) / s, within=1e-8),
        at=at,
    )
    trained = data["trained"].values
    off = (data["strength"] - data["theory"]) / s
    claim(
        "three-numbers",
        "every mode is three numbers, an encoder, the trunk and a decoder; K drops out",
        max_error_below(off[trained], within=1e-8),
        note="on trained pairs, of s",
        headline=True,
    )
    claim(
        "conserved-strength",
        "M b₁² − b₂² is conserved",
        max_error_below(data["conserved"], (m - 1) * parameters.strength**2, within=1e-7),
        note="(M − 1) b₀² from weights that are all b₀",
    )
    order = np.unique(np.round(s.values, 9))[::-1]
    halves = [_half_time(data, value) for value in order]
    claim(
        "order-of-modes",
        "broad distinctions come first: when modes are half learned",
        increasing(halves),
        at="“Dataset”",
    )
    items, features = len(s), 2 * len(s) - 1
    clock = descent["half_time"] / (descent["half_updates"] * descent["rate"])
    claim(
        "clock",
        "time of the source's equations in units of its learning rate times updates",
        agree(clock[-1], 2 * m**2 / (items * features), within=0.01, relative=True),
        note="2M²/(items × features), which stands there without a reason: 3.5 for M = 7. The loss "
        f"is a sum over pairs of mean squares; {float(clock[0]):.3g} at a learning rate of "
        f"{parameters.learning_rate:g}, with which updates are no flow any more",
    )
    off = abs(random["half_time"] / random["half_time_theory"] - 1).median("seed")
    # Hidden directions of different modes overlap by 1/√width, and disturb each other by less.
    claim(
        "random-half-times",
        "random weights: half of the loss is gone when the reduction says, from what of them "
        "grows (relative error, median over seeds)",
        all_below(off, parameters.width**-0.5),
        at="“Assumptions & caveats”",
        note=f"by scale {join_numbers(off, 2)}; early growth looks the same at every scale",
    )


def _half_time(data: xr.Dataset, value: float) -> float:
    mode = int(np.argmin(np.abs(data["singular_value"].values - value)))
    curve = data["strength"][int(np.argmax(data["trained"].values)), :, mode]
    return passage_time(data["time"].values, -curve.values, -value / 2)


@styled
def draw(run: xr.DataTree) -> Figure:
    """Modes over time, the clock of the source, and the losses of random weights."""
    data, descent, random = (run[name].ds for name in ("decoupled", "descent", "random"))
    parameters = parameters_of_run(run, Parameters)
    m, k = parameters.domains, parameters.trained
    title = f"One trunk for {m} × {m} domains, {k} outputs trained with each input"
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
    words = "time $t$ in units of $τ$", "mode strength $b_1b_2b_3$", "decoupled weights"
    top = 1.45 * s[0]  # room for the legend
    how = {"legend": "upper right", "xlim": (0, 1.3 * end), "ylim": (0, top)}
    label_axes(modes, *words, theory="theory", **how)
    clock.plot([], [], **POINT_STYLE, color="0.4", label="descent, as published")
    scale = float(descent["time"][-1]) / float(data["time"][-1])
    how = {"legend": "upper right", "xlim": (0, 1.3 * end * scale), "ylim": (0, top)}
    words = "time of the source's equations", "mode strength $b_1b_2b_3$", "the source's clock"
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
    words = "time $t$ in units of $τ$", "loss, of that at the start"
    words = *words, f"random weights, σ = {float(random['scale'][-1]):g}"
    right = 3 * float(smallest["half_time"].median())
    label_axes(losses, *words, theory="reduction", xlim=(0, right), ylim=(0, 1.05))
    return figure
