r"""Training time against depth: small weights, greedy pretraining and orthogonal layers.

The loss is ½⟨‖y − W_D ⋯ W_1 x‖²⟩ on white inputs, with learning rate 1/D: τ Ẇ = −∂L/∂W with τ = D.
Chains of scalar weights are integrated weight by weight, whole networks by gradient flow. Three
statements of the slides need a correction. For small weights the slides give the training time of
infinite depth. For pretraining the slides give the time of modules with four layers. Orthogonal
layers learn in a time independent of depth only at learning rate 1/D.
"""

import math
from collections.abc import Sequence
from typing import Annotated

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
from ....experiments._parameters import check_increasing
from ....experiments.claims import (
    ClaimCollector,
    agree,
    all_above,
    claims_from_source,
    equal_to,
    follows_power_law,
    join_numbers,
    max_error_below,
)
from ....experiments.figures import POINT_STYLE, draw_pair, label_axes, panels, styled
from ....networks import DeepLinear, deep_linear, orthogonal
from ....tasks import from_moments, linear_teacher
from ....theory import linear

_MODULES = (2, 4)
"""Numbers of layers of an autoencoder module."""
_MODULE_FRACTION = 0.99
_ORTHOGONAL = (2, 4, 8, 16, 64, 256, math.inf)
_LEVEL = 0.02
"""Loss, relative to ½‖Σ‖², at which a whole network counts as trained."""
_LONGEST = 2e4
"""Time, with τ = D, after which training stops; the training time then counts as infinite."""
_LONGEST_WAIT = 1e8
_STRONGER = 8
"""Factor of the correlation s between the two runs that measure the dependence on s."""


class Parameters(BaseParameters):
    """Parameters: chains and whole networks from several kinds of initial weights."""

    seeds: int = Field(default=8, ge=1)
    """Number of networks with random matrices that are trained at each depth."""

    depths: Annotated[tuple[int, ...], check_increasing(3)] = (4, 6, 8, 10, 12)
    """Depths D of the chains, increasing."""

    layer_strength: float = Field(default=0.5, ge=0.1, le=0.9)
    """Initial weight b₀ of each layer of a chain with small weights."""

    correlation: float = Field(default=1.0, gt=0)
    """Input-output correlation s of chains with small weights."""

    fraction: float = Field(default=0.9, gt=0, lt=1)
    """Fraction of its target that a chain with small weights learns by its training time."""

    module_strength: float = Field(default=0.1, gt=0, le=0.3)
    """Initial weight b₀ of pretrained layers; half and a quarter of b₀ are also used."""

    orthogonal_correlation: float = Field(default=2.0, ge=1.2, le=20)
    """Input-output correlation s of chains with orthogonal layers, for which b₀ = 1."""

    size: int = Field(default=6, ge=2, le=16)
    """Number of inputs, of outputs, and of hidden units in every layer of a whole network."""

    network_depths: Annotated[tuple[int, ...], check_increasing(2)] = (2, 4, 8)
    """Depths of networks with orthogonal matrices, increasing."""

    gaussian_depths: Annotated[tuple[int, ...], check_increasing(2)] = (2, 3, 4)
    """Depths of networks with small Gaussian matrices, increasing."""

    gain: float = Field(default=0.7, gt=0, lt=1)
    """Gain g of Gaussian matrices: standard deviation times the square root of their size."""

    def _check(self) -> None:
        if self.layer_strength >= self.fraction * self.correlation:
            raise ValueError(
                f"`layer_strength` must be below `fraction` times `correlation`, "
                f"{self.fraction * self.correlation:g}, got {self.layer_strength:g}."
            )
        wait = self.layer_strength ** (2 - self.depths[-1]) / self.correlation
        if wait > _LONGEST_WAIT:
            raise ValueError(
                f"`depths` reach {self.depths[-1]}, where weights {self.layer_strength:g} need a "
                f"time of about {wait:.1g}: use fewer layers or a larger `layer_strength`."
            )


@make_run("linear/depth")
def run(parameters: Parameters, key: Key, progress: Progress) -> Tables:
    """Return integrated and closed-form training times for each kind of initial weights."""
    progress("integrating chains", 0.0)
    s, fraction, depths = parameters.orthogonal_correlation, 0.99, list(_ORTHOGONAL)
    theory = linear.learning_time_by_depth(depths, 1.0, correlation=s, fraction=fraction)
    times = [integrate(1.0, depth, s, fraction) for depth in depths]
    aligned = xr.Dataset({"time": ("depth", times), "theory": ("depth", theory)})
    return {
        "small": _small(parameters),
        **_pretrained(parameters),
        "orthogonal": aligned.assign_coords(depth=depths),
        **_networks(parameters, key, progress),
    }


def _small(parameters: Parameters) -> xr.Dataset:
    """Return training times for b₀ < 1, at given depths and where the asymptotic formula holds."""
    b0, s, fraction = parameters.layer_strength, parameters.correlation, parameters.fraction
    depths = list(parameters.depths)
    # The formula neglects a constant relative to 1/b₀^(D−2), which is here a thousandth.
    far = max(4, math.ceil(2 + math.log(1000 * max(1.0, 1 / s)) / math.log(1 / b0)))
    measure = lambda depth, s: integrate(b0, depth, s, fraction)
    table = {
        "time": ("depth", [measure(depth, s) for depth in depths]),
        "theory": (
            "depth",
            linear.learning_time_by_depth(depths, b0, correlation=s, fraction=fraction),
        ),
        "far_time": ("far", [measure(depth, s) for depth in (far, far + 2)]),
        "far_time_stronger": measure(far, _STRONGER * s),
    }
    return xr.Dataset(table, {"depth": depths, "far": [far, far + 2]})


def _pretrained(parameters: Parameters) -> Tables:
    """Return times to pretrain all modules and tune the stack, and to train a single module.

    A module is an autoencoder that learns the identity, at τ = 1.
    """
    p, depths, part = parameters, list(parameters.depths), _MODULE_FRACTION
    strengths, stacks, modules = [p.module_strength / factor for factor in (1, 2, 4)], [], []
    for module in _MODULES:
        how = {"module_depth": module, "module_fraction": part, "correlation": p.correlation}
        stack = linear.pretrained_learning_time_by_depth(
            depths, p.module_strength, **how, fraction=p.fraction
        )
        theory = linear.learning_time(1.0, np.power(strengths, module), depth=module, fraction=part)
        each = [integrate(b0, module, 1.0, part) / module for b0 in strengths]
        tuning = [integrate(part ** (1 / module), d, p.correlation, p.fraction) for d in depths]
        whole = np.multiply(depths, each[0]) + tuning
        stacks.append(xr.Dataset({"time": ("depth", whole), "theory": ("depth", stack)}))
        one = {"time": ("strength", each), "theory": ("strength", np.asarray(theory))}
        modules.append(xr.Dataset(one))
    axis = xr.Variable("module", list(_MODULES))
    return {
        "pretrained": xr.concat(stacks, axis).assign_coords(depth=depths),
        "modules": xr.concat(modules, axis).assign_coords(strength=strengths),
    }


def integrate(b0: float, depth: int | float, s: float, fraction: float) -> float:
    """Return the time until a chain is within `1 − fraction` of s, by integration with τ = D.

    At infinite depth the equation of the product is integrated: ȧ = a²(s − a).
    """
    from scipy.integrate import solve_ivp

    infinite = math.isinf(depth)
    start = np.array([1.0]) if infinite else np.full(int(depth), b0)
    level = (fraction if np.prod(start) <= s else 2 - fraction) * s
    if abs(np.prod(start) - s) <= abs(level - s):
        return 0.0

    def slope(_: float, b: Float[np.ndarray, " layer"]) -> Float[np.ndarray, " layer"]:
        a = np.prod(b)
        return a**2 * (s - b) if infinite else a / b * (s - a) / depth

    def learned(_: float, b: Float[np.ndarray, " layer"]) -> float:
        return float(np.prod(b)) - level

    learned.terminal = True  # pyright: ignore[reportFunctionMemberAccess]
    how = {"method": "DOP853", "rtol": 1e-10, "atol": 1e-13}
    course = solve_ivp(slope, (0.0, 1e9 / s), start, events=learned, **how)
    return float(course.t_events[0][0])


def _networks(parameters: Parameters, key: Key, progress: Progress) -> Tables:
    """Train whole networks with three kinds of initial matrices.

    The matrices are orthogonal layers whose product is aligned with the task, orthogonal layers
    with a random product that is the same at every depth, or Gaussian matrices with entries of
    variance g²/N. The task has singular values from 3 to 1.5 along the axes.
    """
    size, keys = parameters.size, keys_from_parameters(parameters, key)
    straight, small = list(parameters.network_depths), list(parameters.gaussian_depths)
    target, over = np.diag(np.linspace(3.0, 1.5, size)), ("depth", "seed")
    turns = orthogonal((size,) * (straight[-1] + 1), key=keys).weights
    rotations, rotated = [np.asarray(weight) for weight in turns], []
    for index, depth in enumerate(straight):
        progress(f"training orthogonal matrices, depth {depth}", 0.1 + 0.6 * index / len(straight))
        inner = rotations[: depth - 1]
        first = with_product([w[:1] for w in inner], np.eye(size)[None])
        pairs = zip(first, with_product(inner, proper(rotations[-1])), strict=True)
        rotated.append(_learned([np.concatenate(pair) for pair in pairs], target))
    aligned, rotated = np.array(rotated)[:, 0], np.array(rotated)[:, 1:]
    guesses = zip(straight, aligned, strict=True)
    table = {
        "aligned": ("depth", aligned),
        "aligned_theory": ("depth", [_aligned_time(target, *guess) for guess in guesses]),
        "rotated": (over, rotated),
    }
    progress("training Gaussian matrices", 0.7)
    widths, scale = (size,) * (small[-1] + 1), parameters.gain / size**0.5
    weights = deep_linear(widths, scale=scale, key=keys).weights
    gaussian = {"time": (over, [_learned(weights[:depth], target) for depth in small])}
    seed = parameters.seed + np.arange(parameters.seeds)
    return {
        "networks": xr.Dataset(table, {"depth": straight, "seed": seed}),
        "gaussian": xr.Dataset(gaussian, {"depth": small, "seed": seed}),
    }


def with_product(
    inner: list[Float[np.ndarray, "seed size size"]], product: Float[np.ndarray, "seed size size"]
) -> list[Float[np.ndarray, "seed size size"]]:
    """Add an orthogonal last layer so that the product is P: W_D = P W₁ᵀ ⋯ W_{D−1}ᵀ."""
    for weight in inner:
        product = product @ weight.swapaxes(-1, -2)
    return [*inner, product]


def proper(turns: Float[np.ndarray, "seed size size"]) -> Float[np.ndarray, "seed size size"]:
    """Return rotations; training cannot turn a reflection, whose determinant keeps its sign."""
    turns = turns.copy()
    turns[..., 0] *= np.sign(np.linalg.det(turns))[:, None]
    return turns


def _learned(weights: Sequence[Array], target: np.ndarray) -> Float[np.ndarray, " seed"]:
    """Return when the loss falls below that of a trained network, with τ = D."""
    depth, network = len(weights), DeepLinear(tuple(weights))
    how = {"t_end": _LONGEST / depth, "converged": _LEVEL / 10, "max_steps": 200_000}
    trained = gradient_flow(network, linear_teacher(target), rtol=1e-7, **how)
    level, found = np.log(_LEVEL * np.sum(target**2) / 2), []
    for lane in (trained.lane(k) for k in range(len(trained.saves))):
        slope = -lane.squared_gradient / lane.loss
        found.append(passage_time(lane.time, np.log(lane.loss), level, slope=slope))
    return depth * np.nan_to_num(found, nan=np.inf)


def _aligned_time(target: np.ndarray, depth: int, guess: float) -> float:
    """Return the time in closed form: every mode is a chain that starts at one.

    `guess` only sets the range of the time grid.
    """
    data, times = linear.modes(from_moments(target)), np.linspace(0.0, 1.5 * guess, 2001)
    strengths = linear.mode_strengths(times, data, 1.0, depth=depth, tau=depth)
    loss = np.asarray(linear.mode_loss(strengths, data))
    return float(np.interp(-np.log(_LEVEL), -np.log(loss / (np.sum(target**2) / 2)), times))


@claims_from_source("Saxe, slides", "“Effect of initialization”")
def claims(run: xr.DataTree, claim: ClaimCollector) -> None:
    """Check closed forms, the statements of the slides, and times of whole networks."""
    parameters = parameters_of_run(run, Parameters)
    small, pretrained, modules = (run[name].ds for name in ("small", "pretrained", "modules"))
    aligned, networks, gaussian = (run[name].ds for name in ("orthogonal", "networks", "gaussian"))
    for name, which, data in (
        ("small-weights", "chains with small weights", small),
        ("pretrained", "chains pretrained in modules of two and four layers", pretrained),
        ("module", "modules of two and four layers", modules),
        ("orthogonal", "chains of orthogonal layers, up to infinite depth", aligned),
    ):
        exact = max_error_below(data["time"], data["theory"], within=1e-5, relative=True)
        words = f"{which} learn in the time of the closed form"
        claim(f"{name}-closed-form", words, exact)
    b0, s = parameters.layer_strength, parameters.correlation
    far, time = small["far"].values, small["far_time"].values
    depth, speed = int(far[0]), "“Training speed”"  # deep enough for the asymptotic formula
    rate = np.diff(np.log(time * (far - 2) / far))[0] / 2
    claim(
        "exponential-in-depth",
        "small weights: the training time grows exponentially with depth D, at the rate ln(1/b₀), "
        "for initial weights b₀ of the layers",
        agree(rate, math.log(1 / b0), within=0.02, relative=True),
        note=f"at depth {depth}, after division by D/(D − 2)",
    )
    claim(
        "small-weights-time",
        f"small weights, depth D = {depth}: the training time is 1/(s b₀ᴰ), for correlation s and "
        "initial weights b₀",
        agree(time[0], depth / (depth - 2) / (s * b0 ** (depth - 2)), within=0.03, relative=True),
        at=speed,
        corrected="the time is D/(D − 2) · 1/(s b₀ᴰ⁻²); the slides insert a₀ = b₀ᴰ into the "
        "formula of infinite depth",
        note=f"the printed formula gives {1 / (s * b0**depth):.4g}",
    )
    claim(
        "small-weights-correlation",
        f"small weights, depth {depth}: the training time is inversely proportional to the "
        "correlation s (exponent of s)",
        follows_power_law([1, _STRONGER], [time[0], small["far_time_stronger"]], -1.0, within=0.02),
        at=speed,
    )
    # Only where pretraining dominates: tuning the stack may take long.
    tuning = 1 - pretrained["depth"] * modules["theory"].isel(strength=0) / pretrained["theory"]
    if float(tuning.max()) < 0.05:
        claim(
            "pretraining-linear-in-depth",
            "pretraining in modules of two and four layers takes a time proportional to depth "
            "(exponent of depth)",
            follows_power_law(pretrained["depth"], pretrained["time"].T, 1.0, within=0.15),
            note=f"one module per layer; tuning takes up to {float(tuning.max()):.1%} of the time",
        )
    b, cost = modules["strength"].values[1:], modules["time"].transpose("module", ...).values[:, 1:]
    claim(
        "pretraining-with-initial-strength",
        "pretraining depth D takes a time O(D/b₀²), for initial weights b₀ (exponent of b₀ in the "
        "time of one module)",
        follows_power_law(b, cost[1], -2.0, within=0.05),
        corrected="the statement holds for modules of four layers; modules of two layers, as in an "
        "autoencoder, take O(D ln(1/b₀))",
    )
    claim(
        "module-logarithm",
        "the training time of a module of two layers grows as ln(1/b₀), for initial weights b₀ "
        "(slope against ln(1/b₀))",
        agree((cost[0, 1] - cost[0, 0]) / math.log(b[0] / b[1]), 1.0, within=0.05),
    )
    deep, time = aligned["depth"][-3:-1], aligned["time"]
    claim(
        "orthogonal-limit",
        "orthogonal layers: the training time tends to a constant as depth grows (exponent of "
        "depth in the distance from the constant)",
        follows_power_law(deep, time[-3:-1] - time[-1], -1.0, within=0.05),
        corrected="the time is independent of depth at learning rate 1/D, in the limit, and for "
        "layers that are aligned with the task",
        note=f"from {float(time[0]):.4g} at depth 2 to {float(time[-1]):.4g} at infinite depth",
    )
    seen, theory = networks["aligned"], networks["aligned_theory"]
    claim(
        "aligned-matrices",
        "orthogonal matrices aligned with the task learn in the predicted time at each depth",
        agree(seen, theory, within=0.002, relative=True),
    )
    middle = networks["rotated"].median("seed")
    powers = np.diff(np.log(middle)) / np.diff(np.log(networks["depth"]))
    if powers.size > 1:  # two depths cannot show whether the time levels off
        # The local exponent decreases towards zero, until only noise is left.
        levels = powers[-1] < 1 and bool((np.diff(np.abs(powers)) < 0.1).all())
        claim(
            "rotated-levels-off",
            "random orthogonal matrices with the same product at all depths: the training time "
            "levels off with depth",
            equal_to("levels off" if levels else "keeps growing", "levels off"),
            note=f"local exponents of depth {join_numbers(powers, 2)}; median over seeds",
        )
    words = (
        "random orthogonal matrices learn more slowly than aligned matrices at every depth (ratio "
        "of median times)"
    )
    claim("rotated-slower", words, all_above(middle / seen, 1.0))
    middle, gain = gaussian["time"].median("seed").values, parameters.gain
    layers = int(gaussian["depth"][-1] - gaussian["depth"][0])
    claim(
        "gaussian-growth",
        f"Gaussian matrices of gain g = {gain:g}: each further layer multiplies the training time "
        "by at least 1/g on average",
        all_above((middle[-1] / middle[0]) ** (1 / layers), 1 / gain),
        note="median over seeds",
    )


@styled
def draw(run: xr.DataTree) -> Figure:
    """Plot training times of chains, of whole networks, and of one pretraining module."""
    parameters, dots = parameters_of_run(run, Parameters), {**POINT_STYLE, "ms": 9, "alpha": 0.5}
    title = "Training time against depth, at a learning rate of 1/D"
    wide = {"width": 3.0, "height": 3.8, "width_ratios": (1.2, 1.2, 1)}
    figure, (chains, networks, modules) = panels(title, 3, **wide)
    figure.set_layout_engine("constrained", h_pad=0.12)
    pretrained, orthogonal = run["pretrained"].ds, run["orthogonal"].ds
    words, last = f"layers, $b_0$ = {parameters.module_strength:g}", parameters.depths[-1]
    for data, label, color in (
        (run["small"].ds, f"small, $b_0$ = {parameters.layer_strength:g}", "C3"),
        (pretrained.sel(module=4), f"pretrained by 4 {words}", "C1"),
        (pretrained.sel(module=2), f"pretrained by 2 {words}", "C2"),
        (orthogonal.where(orthogonal["depth"] <= last, drop=True), "orthogonal, $b_0$ = 1", "C0"),
    ):
        look = dots | {"color": color, "label": label}
        draw_pair(chains, data["depth"], data["time"], data["theory"], **look)
    data, gain = run["networks"].ds, parameters.gain
    for times, label, color in (
        (run["gaussian"].ds["time"], f"Gaussian, gain {gain:g} (median)", "C3"),
        (data["rotated"], "random orthogonal, one product (median)", "C4"),
    ):
        # An untrained network has no dot; the median counts it as infinitely slow.
        seen = times.where(np.isfinite(times)).transpose("depth", "seed")
        networks.plot(times["depth"], seen, **{**POINT_STYLE, "ms": 4}, color=color, alpha=0.35)
        middle = times.median("seed")
        draw_pair(networks, times["depth"], middle, color=color, alpha=0.5, label=label)
    look = dots | {"color": "C0", "label": "orthogonal, aligned"}
    draw_pair(networks, data["depth"], data["aligned"], data["aligned_theory"], **look)
    for module, color, law in ((4, "C1", "$1/2b_0^2$"), (2, "C2", "$\\ln 1/b_0$")):
        part, label = run["modules"].ds.sel(module=module), f"{module} layers, about {law}"
        look = dots | {"color": color, "label": label}
        draw_pair(modules, 1 / part["strength"], part["time"], part["theory"], **look)
    how = {"theory": "closed form", "legend": None, "yscale": "log"}
    size = f"networks of {parameters.size} × {parameters.size} matrices"
    label_axes(chains, "depth $D$", "training time, $D\\,t/τ$", "one chain", **how)
    label_axes(networks, "depth $D$", "training time, $D\\,t/τ$", size, **how)
    words = "$1/b_0$", "time $t/τ$ of one module", "cost of pretraining"
    label_axes(modules, *words, **how, xscale="log")
    chains.locator_params(axis="x", integer=True)
    places = 1 / run["modules"].ds["strength"].values
    modules.set_xticks(places, [f"{place:g}" for place in places])
    modules.set_xticks([], minor=True)
    modules.margins(x=0.12)
    for ax in (chains, networks, modules):
        ax.legend(loc="upper center", bbox_to_anchor=(0.45, -0.2))
    return figure
