r"""A whole network learns like scalar chains, one for each mode; deep networks learn modes in turn.

The loss is ½⟨‖y − W_D ⋯ W_1 x‖²⟩ with τ Ẇ = −∂L/∂W and τ = 1. Decoupled weights have the same
directions in all layers and in the data. Decoupled weights follow the chains exactly, for white
inputs and for inputs with different variances along the modes. Small random weights follow the
chains approximately, and the exact balanced solution more closely.
"""

import warnings
from typing import Annotated

import jax
import numpy as np
import xarray as xr
from jaxtyping import Float
from matplotlib.figure import Figure
from pydantic import Field

from ...._types import Array
from ....diagnose import passage_time
from ....dynamics import gradient_flow
from ....experiments._frame import Progress, Tables, make_run, parameters_of_run
from ....experiments._keys import Key, keys_from_parameters
from ....experiments._parameters import Parameters as BaseParameters
from ....experiments._parameters import check_decreasing, check_increasing
from ....experiments.claims import (
    ClaimCollector,
    agree,
    all_below,
    claims_from_source,
    follows_power_law,
    join_numbers,
    max_error_below,
)
from ....experiments.figures import (
    POINT_STYLE,
    draw_pair,
    label_axes,
    panels,
    power_law_guide,
    shades,
    styled,
)
from ....networks import DeepLinear, decoupled, deep_linear, orthogonal
from ....tasks import AbstractTask, Task, from_moments, linear_teacher
from ....theory import linear
from ....theory.linear import Modes, map_from_modes, mode_strengths

_SAMPLES = 401


class Parameters(BaseParameters):
    """Parameters: a linear map with distinct singular values, learned at several depths."""

    seeds: int = Field(default=5, ge=1)
    """Number of networks with small random weights that are trained at each scale."""

    singular_values: tuple[float, ...] = (5.0, 3.0, 2.0, 1.0)
    """Singular values s of the input-output correlation, decreasing."""

    input_variances: tuple[float, ...] = (2.0, 0.5, 1.0, 0.7)
    """Input variance along each mode, for the inputs that are not white."""

    width: int = Field(default=5, ge=1, le=32)
    """Number of inputs, of outputs, and of hidden units in every hidden layer."""

    depths: Annotated[tuple[int, ...], check_increasing(2, count=1)] = (2, 3, 4)
    """Depths of the deep networks, increasing."""

    initial_strength: float = Field(default=1e-3, gt=0)
    """Initial strength a₀ of every mode of decoupled networks: the product over layers."""

    scales: Annotated[tuple[float, ...], check_decreasing(np.inf, 1e-12)] = (0.1, 0.01, 0.001)
    """Standard deviations of small random weights, decreasing."""

    def _check(self) -> None:
        s, variances = np.array(self.singular_values), np.array(self.input_variances)
        if len(s) < 2 or (s <= 0).any() or (s[1:] > 0.8 * s[:-1]).any():
            raise ValueError(
                "`singular_values` must be two or more positive numbers, each at least a fifth "
                f"below the previous one, got {self.singular_values}: similar modes mix."
            )
        if variances.shape != s.shape or (variances <= 0).any():
            raise ValueError(
                f"`input_variances` must be {len(s)} positive numbers, one for each singular "
                f"value, got {self.input_variances}."
            )
        if self.width < len(s):
            raise ValueError(
                f"`width` must be at least {len(s)}, the number of modes, got {self.width}."
            )
        least = min(s.min(), (s / variances).min())
        if self.initial_strength >= least / 4:
            raise ValueError(
                f"`initial_strength` must be below a quarter of the weakest target, {least:g}, "
                f"got {self.initial_strength:g}."
            )
        if self.width * self.scales[0] ** 2 > s[-1] / 8:
            raise ValueError(
                f"`scales` must start below {np.sqrt(s[-1] / 8 / self.width):.2g}, got "
                f"{self.scales[0]:g} first: random weights would then half contain the weakest "
                "mode."
            )


@make_run("linear/chains")
def run(parameters: Parameters, key: Key, progress: Progress) -> Tables:
    """Train decoupled networks of each depth and random networks of each scale; add the theory."""
    keys, depths = keys_from_parameters(parameters, key), (1, *parameters.depths)
    # Directions of outputs, of inputs, and of the modes in each hidden layer.
    widths = (parameters.width,) * (depths[-1] + 2)
    left, right, *frames = orthogonal(widths, key=jax.random.fold_in(keys[0], 1)).weights
    white = (1.0,) * len(parameters.singular_values)
    exact: list[xr.Dataset] = []
    for index, depth in enumerate(depths):
        progress(f"training decoupled weights, depth {depth}", index / (len(depths) + 1))
        kinds = [
            _decoupled(parameters, *_data(parameters, left, right, variances), frames[: depth - 1])
            for variances in (white, parameters.input_variances)
        ]
        exact.append(xr.concat(kinds, xr.Variable("input", ["white", "coloured"])))
    progress("training small random weights", len(depths) / (len(depths) + 1))
    data, random = _data(parameters, left, right, white), []
    for scale in parameters.scales:
        network = deep_linear((parameters.width,) * 3, scale=scale, key=keys)
        random.append(_random(*data, network))
    small = xr.concat(random, xr.Variable("scale", list(parameters.scales)))
    return {
        "decoupled": xr.concat(exact, xr.Variable("depth", list(depths))),
        "random": small.assign_coords(seed=parameters.seed + np.arange(parameters.seeds)),
    }


def _data(
    parameters: Parameters, left: Array, right: Array, variances: tuple[float, ...]
) -> tuple[Modes, Task]:
    """Return the modes and a task with these modes; unused input directions have variance one."""
    s, lam = np.array(parameters.singular_values), np.array(variances)
    modes = Modes(left[:, : len(s)], s, right[:, : len(s)], lam)
    everywhere = np.append(lam, np.ones(parameters.width - len(s)))
    target = (modes.left * (s / lam)) @ modes.right.T
    return modes, linear_teacher(target, (right * everywhere) @ right.T)


def _decoupled(parameters: Parameters, modes: Modes, task: Task, frames: list[Array]) -> xr.Dataset:
    """Train one depth on one kind of input; return mode strengths and the part outside modes."""
    depth, a0 = 1 + len(frames), np.full(len(modes), parameters.initial_strength)
    times = np.linspace(0.0, float(_times(modes, a0, depth, 0.99).max()), _SAMPLES)
    half = _times(modes, a0, depth, 0.5)
    theory = mode_strengths(np.append(times, half), modes, a0, depth=depth)
    widths, inner = [parameters.width] * len(frames), [frame[:, : len(modes)] for frame in frames]
    network = decoupled(modes.left, modes.right, widths, initial_strength=a0, frames=inner)
    product = np.asarray(gradient_flow(network, task, times, rtol=1e-11).network.end_to_end())
    strength, target = _strengths(product, modes), modes.singular_values / modes.input_variance
    table = {
        "time": ("sample", times, {"long_name": "time in units of τ"}),
        "strength": (("sample", "mode"), strength),
        "theory": (("sample", "mode"), theory[:_SAMPLES]),
        "target": ("mode", target),
        # The share of the next mode that is learned when a mode is half learned.
        "overlap": ("earlier", np.diagonal(theory[_SAMPLES:] / target, 1)),
        "leak": ("sample", _norm(product - map_from_modes(strength, modes))),
    }
    return xr.Dataset(table)


def _random(modes: Modes, task: Task, network: DeepLinear) -> xr.Dataset:
    """Train two layers of small random weights on white inputs; return errors of predictions."""
    s = np.asarray(modes.singular_values)
    data = from_moments((modes.left * s) @ modes.right.T)
    start = linear.effective_initial_strengths(network, data)[:, : len(s)]
    half = np.stack([_times(modes, a0, 2, 0.5) for a0 in start])
    end = 1.5 * float(half.max()) + 3.0 / float(s[-1])
    times = np.linspace(0.0, end, _SAMPLES + len(s))  # as many as in `_decoupled`: no recompilation
    product = np.asarray(gradient_flow(network, task, times, rtol=1e-11).network.end_to_end())
    strength = _strengths(product, modes)
    chains = np.stack([mode_strengths(times, modes, a0, depth=2) for a0 in start])
    balanced = _balanced_maps(network, data, times)
    error = lambda maps: _norm(np.stack(maps) - product).max(axis=1) / np.linalg.norm(s)
    halfway = passage_time(times, -np.moveaxis(strength / s, 1, -1), -0.5)
    table = {
        "time": ("sample", times, {"long_name": "time in units of τ"}),
        "singular_value": ("mode", s),
        "half_time": (("seed", "mode"), half),
        "half_time_trained": (("seed", "mode"), halfway),
        "chain_error": ("seed", error([map_from_modes(a, modes) for a in chains])),
        "balanced_error": ("seed", error(balanced)),
    }
    return xr.Dataset(table)


def _balanced_maps(
    networks: DeepLinear, task: AbstractTask, times: np.ndarray
) -> list[Float[np.ndarray, "time output input"]]:
    """Apply the exact solution for balanced weights to weights that are nearly balanced."""
    with warnings.catch_warnings():
        warnings.simplefilter("ignore", linear.BalanceWarning)
        flows = [
            linear.balanced_flow(networks.lane(k), task, tolerance=np.inf)
            for k in range(*networks.batch_shape)
        ]
    return [np.asarray(flow(times).map) for flow in flows]


def _times(modes: Modes, a0: np.ndarray, depth: int, fraction: float) -> np.ndarray:
    """Return when each chain has learned a fraction of its target."""
    how = {"fraction": fraction, "input_variance": modes.input_variance}
    return np.asarray(linear.learning_time(modes.singular_values, a0, depth=depth, **how))


def _strengths(product: np.ndarray, modes: Modes) -> Float[np.ndarray, "*batch mode"]:
    return np.einsum("om,...oi,im->...m", modes.left, product, modes.right)


def _norm(matrices: np.ndarray) -> np.ndarray:
    return np.linalg.norm(matrices, axis=(-2, -1))


@claims_from_source("Saxe, slides", "“Full networks act like several 1D chains”")
def claims(run: xr.DataTree, claim: ClaimCollector) -> None:
    """Check that decoupled weights follow chains exactly, and errors for small random weights."""
    exact, random = run["decoupled"].ds, run["random"].ds
    off = abs(exact["strength"] - exact["theory"]) / exact["target"]
    claim(
        "decoupled-chains",
        "decoupled weights: every mode learns like a scalar chain, on white and coloured inputs, "
        "at each depth (largest error relative to the target)",
        agree(off.max(("input", "sample", "mode")), 0.0, within=1e-7),
    )
    white, stages = exact.sel(input="white"), "“Depth introduces stage-like transitions”"
    seen = np.array([_next_fractions(white.sel(depth=depth)) for depth in white["depth"]])
    words = "white inputs: theory predicts how much of the next mode is learned at a half time"
    overlap = white["overlap"].transpose("depth", "earlier").values
    claim(
        "shallow-overlap",
        f"depth 1, {words}",
        agree(seen[0], overlap[0], within=1e-3),
        at=stages,
        note="one half: at depth 1 modes relax at the rate of their input variance",
    )
    claim(
        "deep-overlap",
        f"depth 2 and more, {words}",
        agree(seen[1:], overlap[1:], within=0.05, relative=True),
        at=stages,
    )
    none = max_error_below(exact["leak"], within=1e-7)  # rounding errors grow along the flow
    words = "decoupled weights stay decoupled: the part of the map outside the modes is zero"
    claim("no-leak", words, none)
    late, s = random["half_time_trained"] - random["half_time"], random["singular_value"]
    draws = "seed", "mode"
    delay, error = (late * s).mean(draws), abs(late / random["half_time"]).mean(draws)
    # Only for weights so small that even the weakest mode is absent at the start.
    if parameters_of_run(run, Parameters).width * random["scale"][-2] ** 2 <= 0.03 * s.min():
        claim(
            "delay-independent-of-scale",
            "small random weights: modes are delayed relative to their chains by a time (in τ/s) "
            "that does not depend on the scale of the weights",
            agree(delay[-1], delay[-2], within=0.15, relative=True),
            corrected="small weights follow chains only approximately: the relative error of the "
            "time at which a mode is half learned decreases as 1/ln(1/scale)",
            note=f"at the two smallest scales; relative errors {join_numbers(error, 2)}",
        )
    balanced, at = random["balanced_error"].median("seed"), "“Partitioned solution”"
    claim(
        "balanced-solution-error",
        "small random weights: the error of the balanced solution is proportional to the square "
        "of the scale of the weights (exponent of the scale)",
        follows_power_law(random["scale"], balanced, 2.0, within=0.2),
        at=at,
        note=f"median of the largest error of W₂W₁: {join_numbers(balanced, 2)}",
    )
    claim(
        "balanced-solution-nearer",
        "small random weights: the balanced solution is ten times more accurate than chains at "
        "every scale of the weights (median ratio of errors)",
        all_below((random["balanced_error"] / random["chain_error"]).median("seed"), 0.1),
        at=at,
    )


def _next_fractions(data: xr.Dataset) -> np.ndarray:
    """Return the share of the next mode when each mode is half learned, from training curves."""
    time, curves = data["time"].values, (data["strength"] / data["target"]).transpose("mode", ...)
    halves = [np.interp(0.5, curve, time) for curve in curves.values[:-1]]
    later = zip(halves, curves.values[1:], strict=True)
    return np.array([np.interp(half, time, curve) for half, curve in later])


@styled
def draw(run: xr.DataTree) -> Figure:
    """Plot a shallow and a deep network, and the errors for small random weights."""
    data, random = run["decoupled"].ds.sel(input="white"), run["random"].ds
    title = "A network learns its modes like separate chains; a deep one in stages"
    figure, (shallow, deep, errors) = panels(title, 3, width=3.0, height=3.2)
    draw_pair(shallow, [], [], color="0.5", alpha=0.6, label="training")
    deep.sharey(shallow)
    for ax, index, words in ((shallow, 0, "shallow"), (deep, -1, "deep")):
        shown = data.isel(depth=index)
        time, targets = shown["time"].values, shown["target"].values
        for mode, (target, color, label) in enumerate(shades(targets, "$s$ =")):
            curve = shown.isel(mode=mode)
            draw_pair(ax, time, curve["strength"], curve["theory"], color=color, alpha=0.6)
            ax.text(1.03 * time[-1], target, label, color=color, va="center")
        words = "time $t/τ$", "", f"{words}, $D = {int(shown['depth'])}$"
        ax.set(xlim=(0, time[-1]), ylim=(0, 1.25 * targets.max()))
        label_axes(ax, *words, legend=None)
    label_axes(shallow, ylabel="mode strength $a(t)$", theory="chains", legend=None)
    shallow.legend(loc="upper left", ncols=2)
    scale = random["scale"].values
    for label, name, color in (("chains", "chain", "C0"), ("balanced solution", "balanced", "C1")):
        error = random[f"{name}_error"].transpose("scale", "seed")  # error of the whole map
        middle = error.median("seed").values
        errors.plot(scale, error, **POINT_STYLE, color=color, alpha=0.35)
        draw_pair(errors, scale, middle, color=color, alpha=0.35, label=label)
    power_law_guide(errors, scale[::-1], middle[0], 2, "scale²")
    words = "scale of small random weights", "largest error of $W_2 W_1$", "random weights, $D = 2$"
    label_axes(errors, *words, legend="upper left", xscale="log", yscale="log")
    errors.set_ylim(top=100)
    return figure
