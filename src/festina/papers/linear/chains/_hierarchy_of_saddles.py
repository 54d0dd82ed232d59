r"""Learning passes near a sequence of saddles, in an order that depends on the initial weights.

Inputs are white and Σ = diag(s). The loss is ½⟨‖y − W₂W₁x‖²⟩ with τ Ẇ = −∂L/∂W and τ = 1. Each set
of learned modes is a stationary point, with loss ½ Σ s² over the modes not learned. Individual
networks differ in how much of each mode their initial weights contain, and therefore in when and in
which order they learn the modes.
"""

import itertools
from typing import Any

import jax
import jax.numpy as jnp
import numpy as np
import xarray as xr
from jaxtyping import Float
from matplotlib.figure import Figure
from pydantic import Field

from ...._types import Array
from ....diagnose import plateaus
from ....dynamics import gradient_flow
from ....experiments._frame import Progress, Tables, make_run, parameters_of_run
from ....experiments._keys import Key, keys_from_parameters
from ....experiments._parameters import Parameters as BaseParameters
from ....experiments.claims import (
    ClaimCollector,
    agree,
    claims_from_source,
    join_numbers,
    max_error_below,
    most_seeds,
)
from ....experiments.figures import (
    GUIDE_STYLE,
    SIMULATION_STYLE,
    THEORY_STYLE,
    label_axes,
    panels,
    styled,
)
from ....networks import DeepLinear, decoupled, deep_linear
from ....tasks import from_moments, linear_teacher
from ....theory.linear import (
    coupled_mode_strengths,
    effective_initial_strengths,
    initial_mode_overlaps,
)
from ....theory.saddles import mode_drop_times
from .._passage import half_times

_SAMPLES = 401
_NEARBY = (1e-3, 1e-6, 1e-10, 1e-16, 1e-24)
"""Initial strengths, over the smallest s, at which the closest approach to saddles is measured."""


class Parameters(BaseParameters):
    """Parameters: a few modes, and networks whose initial weights contain more or less of each."""

    seeds: int = Field(default=12, ge=1)
    """Number of individual networks that are trained."""

    singular_values: tuple[float, ...] = (3.0, 2.5, 1.2)
    """Two to six singular values s of the task, decreasing."""

    hidden: int = Field(default=12, ge=2)
    """Number of hidden units, at least two more than modes."""

    initial_strength: float = Field(default=1e-8, gt=0)
    """Mean initial strength a₀ of a mode in random weights, before `variability` is applied."""

    variability: float = Field(default=2.0, ge=0)
    """Standard deviation, over networks and modes, of the logarithm of the initial weights."""

    def _check(self) -> None:
        s = self.singular_values
        if not 2 <= len(s) <= 6 or min(s) <= 0 or max(np.diff(s)) >= 0:
            raise ValueError(
                "`singular_values` must be two to six positive numbers, each smaller than the "
                f"previous one, got {s}."
            )
        if self.hidden < len(s) + 2:
            raise ValueError(
                f"`hidden` must exceed the {len(s)} modes by two or more, got {self.hidden}: "
                "modes need free hidden units to leave a saddle."
            )
        # Strength of a mode two standard deviations above the mean.
        largest = self.initial_strength * float(np.exp(4 * self.variability))
        if largest > 0.01 * s[-1]:
            raise ValueError(
                "`initial_strength` · exp(4 · `variability`) must be below a hundredth of the "
                f"smallest singular value {s[-1]:g}, got {largest:.3g}."
            )


PRESETS: dict[str, dict[str, Any]] = {
    "alike": {"variability": 0.0},
    "two-modes": {"singular_values": (2.0, 1.6)},
}


@make_run("linear/hierarchy-of-saddles")
def run(parameters: Parameters, key: Key, progress: Progress) -> Tables:
    """Train individual networks and a shallow one; measure saddles and closest approaches."""
    s, hidden = np.array(parameters.singular_values), parameters.hidden
    keys = keys_from_parameters(parameters, key)
    progress("computing saddles", 0.0)
    tables = {"saddles": _saddles(s, hidden)}
    progress("training individual networks", 0.2)
    # Small random weights, times a factor for each network and mode.
    scale = float(np.sqrt(2 * parameters.initial_strength / hidden))
    network = deep_linear((len(s), hidden, len(s)), scale=scale, key=keys)
    draw = jax.vmap(lambda key: jax.random.normal(jax.random.fold_in(key, 1), s.shape))
    factor = np.exp(parameters.variability * np.asarray(draw(keys)))
    first, second = (np.asarray(weight) for weight in network.weights)
    weights = first * factor[:, None, :], factor[:, :, None] * second
    seed = {"seed": parameters.seed + np.arange(parameters.seeds)}
    tables["individuals"] = _individuals(s, *weights).assign_coords(seed)
    progress("measuring the closest approach to saddles", 0.7)
    tables["near"] = _near(s, hidden)
    progress("training a shallow network", 0.9)
    tables["shallow"] = _shallow(s, weights[1] @ weights[0]).assign_coords(seed)
    return tables


def _saddles(s: Float[np.ndarray, " mode"], hidden: int) -> xr.Dataset:
    """Return gradient and curvature at the stationary point of every set of learned modes."""
    sets = np.array(list(itertools.product((0, 1), repeat=len(s))))
    # Balanced weights of the learned modes, each in its own hidden unit.
    first = np.einsum("km,hm->khm", sets * np.sqrt(s), np.eye(hidden, len(s)))
    theta = np.concatenate([first.reshape(len(sets), -1)] * 2, axis=1)

    def loss(theta: Array) -> Array:
        w1, w2 = theta.reshape(2, hidden, len(s))
        return 0.5 * jnp.sum((jnp.diag(s) - w2.T @ w1) ** 2)

    of_all = lambda *functions: jax.jit(lambda points: [jax.vmap(f)(points) for f in functions])
    level, gradient, hessian = of_all(loss, jax.grad(loss), jax.hessian(loss))(theta)
    curvature = np.linalg.eigvalsh(np.asarray(hessian))
    table = {
        "loss": np.asarray(level),
        "gradient": np.linalg.norm(gradient, axis=1),
        "index": (curvature < -1e-9 * s[0]).sum(axis=1),
        "escape_rate": -curvature[:, 0],
    }
    learned = {"learned": (("set", "mode"), sets)}
    return xr.Dataset(learned | {name: ("set", values) for name, values in table.items()})


def _individuals(s: np.ndarray, first: np.ndarray, second: np.ndarray) -> xr.Dataset:
    """Train networks with individual initial strengths of modes; return their predictions."""
    axes = np.eye(len(s))
    network, data = DeepLinear((first, second)), from_moments(np.diag(s))
    drops = mode_drop_times(network, data)
    times = np.linspace(0.0, 1.1 * float(drops.max()) + 3 / s[-1], _SAMPLES)
    task = linear_teacher(np.diag(s))
    trained = gradient_flow(network, task, times, rtol=1e-10)
    gram = initial_mode_overlaps(first, second, axes, axes)
    predicted = coupled_mode_strengths(times, gram, s)
    error = np.diag(s) - predicted
    velocity = s[:, None] * predicted + predicted * s - 2 * predicted @ predicted
    loss, fall = (np.sum(error * other, axis=(-2, -1)) for other in (error / 2, velocity))
    learned = np.asarray(trained.network.end_to_end())
    strength, theory = (np.diagonal(a, axis1=-2, axis2=-1) for a in (learned, predicted))
    own = effective_initial_strengths(network, data)
    shared = gram / np.sqrt(own[:, :, None] * own[:, None, :])
    half = lambda a: half_times(times, np.moveaxis(a / s, -1, -2))
    sizes = np.sum(first**2, axis=1) + np.sum(second**2, axis=2)
    over = "seed", "time", "mode"
    table = {
        "loss": (over[:2], trained.loss),
        "loss_theory": (over[:2], loss),
        "strength": (over, strength),
        "strength_theory": (over, theory),
        "half_time": (over[::2], half(strength)),
        "half_time_theory": (over[::2], half(theory)),
        "half_time_simple": (over[::2], np.log(s / own - 1) / (2 * s)),
        "plateaus": ("seed", _plateaus(times, trained.loss, trained.squared_gradient)),
        "plateaus_theory": ("seed", _plateaus(times, loss, fall)),
        # Smallest eigenvalue of the modes' overlaps in hidden units: 1 if they share none.
        "independence": ("seed", np.linalg.eigvalsh(shared)[:, 0]),
        "initial_size": ("seed", sizes.max(axis=1)),
    }
    return xr.Dataset(table, {"time": ("time", times, {"long_name": "time in units of τ"})})


def _plateaus(times: np.ndarray, loss: np.ndarray, fall: np.ndarray) -> np.ndarray:
    """Return the number of plateaus of each loss curve, including the first and the last."""
    curves = zip(loss, fall, strict=True)
    return np.array([len(plateaus(times, one, rate, slope=-rate)) for one, rate in curves])


def _near(s: Float[np.ndarray, " mode"], hidden: int) -> xr.Dataset:
    """Return how close decoupled networks come to each saddle, from smaller and smaller weights."""
    strengths, axes = s[-1] * np.array(_NEARBY), np.eye(len(s))
    equal = np.repeat(strengths[:, None], len(s), 1)
    network = decoupled(axes, axes, (hidden,), initial_strength=equal)
    # The time at which one mode is as far from its end as the next from its start.
    passing = np.log(s[:-1, None] / strengths) / (s[:-1] + s[1:])[:, None]
    around = np.multiply.outer(passing, 1 + np.linspace(-0.2, 0.2, 81))
    times = np.unique(np.append(0.0, around))
    trained = gradient_flow(network, linear_teacher(np.diag(s)), times, rtol=1e-10)
    learned = np.asarray(trained.network.end_to_end())
    stages = np.array([np.diag(s * (np.arange(len(s)) <= k)) for k in range(len(s) - 1)])
    away = np.linalg.norm(learned[:, :, None] - stages, axis=(-2, -1))
    level = np.take_along_axis(trained.loss, away.argmin(axis=1), axis=1)
    over = "initial_strength", "stage"
    table = {"closest": (over, away.min(axis=1)), "loss": (over, level)}
    return xr.Dataset(table, {"initial_strength": strengths})


def _shallow(s: np.ndarray, start: Float[np.ndarray, "seed output input"]) -> xr.Dataset:
    """Train one layer that starts from the product of the two layers of each network."""
    times = np.linspace(0.0, 6.0, _SAMPLES)
    trained = gradient_flow(DeepLinear((start,)), linear_teacher(np.diag(s)), times, rtol=1e-10)
    learned = np.asarray(trained.network.end_to_end())
    theory = 0.5 * np.sum((np.diag(s) - start) ** 2, axis=(-2, -1))[:, None] * np.exp(-2 * times)
    table = {
        "loss": (("seed", "time"), trained.loss),
        "loss_theory": (("seed", "time"), theory),
        "strength": (("seed", "time", "mode"), np.diagonal(learned, axis1=-2, axis2=-1)),
        "plateaus": ("seed", _plateaus(times, trained.loss, trained.squared_gradient)),
    }
    return xr.Dataset(table, {"time": times})


@claims_from_source("Saxe, slides", "“Depth introduces a hierarchy of saddle points”")
def claims(run: xr.DataTree, claim: ClaimCollector) -> None:
    """Check stationary points by automatic differentiation, and training near them."""
    parameters = parameters_of_run(run, Parameters)
    s, stages = np.array(parameters.singular_values), "“Depth introduces stage-like transitions”"
    saddles, people, shallow = (run[name].ds for name in ("saddles", "individuals", "shallow"))
    has = saddles["learned"].values.astype(bool)
    claim(
        "stationary-points",
        "every set of learned modes is a stationary point of the loss (norm of the gradient)",
        max_error_below(saddles["gradient"], within=float(1e-12 * s[0] ** 1.5)),
    )
    weaker = has.astype(int) @ (s[:, None] < s)  # number of learned modes weaker than each mode
    free = parameters.hidden - has.sum(axis=1, keepdims=True)
    claim(
        "saddle-index",
        "every set of learned modes but the full one is a saddle (number of directions of negative "
        "curvature)",
        agree(saddles["index"], np.sum((free + weaker) * ~has, axis=1)),
        note="each mode not learned has one negative direction in every free hidden unit and in "
        "the unit of every weaker mode that is learned",
    )
    rates, largest = saddles["escape_rate"].values[:-1], (s * ~has).max(axis=1)[:-1]
    claim(
        "escape-rate",
        "training leaves a saddle at the rate of the largest singular value that is not learned",
        agree(rates, largest, within=1e-9, relative=True),
    )
    _approach(claim, run["near"].ds, s, stages)

    individuals, start = "“Individual variability amidst structure”", 0.5 * s @ s
    size, share = people["initial_size"], people["independence"]
    second_order = min(float((size / (s[-1] * share)).max()) + 1e-5, 0.02)
    claim(
        "individual-loss",
        "half the sum of both layers' initial weights predicts the loss of every network over time "
        "(relative to the initial loss)",
        max_error_below(people["loss"], people["loss_theory"], within=second_order, over=start),
        at=individuals,
        note="neglected terms are of second order in the weights",
    )
    claim(
        "individual-plateaus",
        "stage-like transitions: the number of plateaus of each network's loss is as predicted",
        agree(people["plateaus"], people["plateaus_theory"]),
        at=stages,
        note=f"{len(s) + 1} with the first and the last, unless two modes are learned together",
    )
    half, theory = people["half_time"].values, people["half_time_theory"].values
    near = max_error_below(half, theory, within=second_order, relative=True)
    words = "the initial weights of each network predict when each mode is half learned"
    claim("individual-times", words, near, at=individuals, headline=True)
    chains = np.median(np.abs(people["half_time_simple"].values / half - 1))
    claim(
        "effective-strengths",
        "scalar chains with effective initial strengths predict when each mode is half learned "
        "(median relative error)",
        agree(chains, 0.0, within=float(1 / np.log(s[-1] / np.median(size)))),
        at=individuals,
        note="modes share hidden units, which delays them by a time of order 1/s",
    )
    tied = (np.diff(np.sort(theory, axis=1)) < 2 * second_order * theory.max()).any(axis=1)
    if not tied.all():
        order, expected = np.argsort(half, axis=1), np.argsort(theory, axis=1)
        others = int((np.diff(expected, axis=1) < 0).any(axis=1).sum())
        claim(
            "individual-orders",
            "networks learn modes in individual orders, as their initial weights predict",
            most_seeds((order == expected)[~tied].all(axis=1), of="networks"),
            at=individuals,
            note=f"{others} of {len(half)} networks do not learn modes in the order of s",
        )
    claim(
        "shallow-exponential",
        "shallow network: without saddles the loss decreases as exp(−2t/τ) from every start",
        max_error_below(shallow["loss"], shallow["loss_theory"], within=1e-5, relative=True),
        at=stages,
    )
    claim(
        "shallow-plateaus",
        "shallow network: the loss has no plateau between the start and the end (number of "
        "plateaus)",
        agree(shallow["plateaus"].max() - 2, 0),
        at=stages,
    )


def _approach(claim: ClaimCollector, near: xr.Dataset, s: np.ndarray, stages: str) -> None:
    """Check how near paths come to saddles, and the level of the plateaus.

    A path is closest to a saddle where the remainder s − a ∝ e^{−2st}/a₀ of the last learned mode
    equals the strength a′ ∝ a₀ e^{2s′t} of the next mode.
    """
    closest, strength = near["closest"].values, near["initial_strength"].values
    power = (s[:-1] - s[1:]) / (s[:-1] + s[1:])
    law = s[:-1] * (strength[:, None] / s[:-1]) ** power
    # The two smallest a₀ whose distance is well above the integration error.
    last, stage = np.maximum((law > 1e-8 * s[:-1]).sum(axis=0) - 1, 1), np.arange(len(s) - 1)
    nearer = np.log(closest[last - 1, stage] / closest[last, stage])
    claim(
        "closest-approach",
        "smaller initial strengths a₀ bring the path closer to each saddle: the closest distance "
        "is proportional to a₀^p with p = (s − s′)/(s + s′)",
        agree(nearer / np.log(strength[last - 1] / strength[last]), power, within=0.02),
        note="s: singular value of the mode learned last; s′: the next singular value",
    )
    distance, following = law[last, stage], s[1:]
    left = np.cumsum(s[:0:-1] ** 2)[::-1] / 2
    # For similar singular values the plateau is not flat at any feasible a₀.
    flat = distance < 0.1 * following
    if flat.any():
        level, unit = near["loss"].values[last, stage], following * distance
        claim(
            "plateau-levels",
            "the loss on an intermediate plateau is half the sum of s² over the modes not learned "
            "(error over s′ times the predicted closest distance)",
            max_error_below(level[flat], left[flat], over=unit[flat], within=2),
            at=stages,
            note=f"for a₀ = {join_numbers(strength[last][flat])}",
        )


@styled
def draw(run: xr.DataTree) -> Figure:
    """Plot individual networks, coloured by the mode that they learn first."""
    s = np.array(parameters_of_run(run, Parameters).singular_values)
    saddles, people, shallow = (run[name].ds for name in ("saddles", "individuals", "shallow"))
    title = "Depth introduces saddles, and each network passes them in its own order"
    size = {"width": 11 / 3, "height": 3.9, "width_ratios": (1.3, 1, 1)}
    figure, (loss, plane, times) = panels(title, 3, **size)
    first, end = people["half_time_theory"].values.argmin(axis=1), float(people["time"][-1])
    for level in saddles["loss"].values:
        loss.axhline(level, **GUIDE_STYLE)
    one = shallow.isel(seed=0)
    loss.plot(one["time"], one["loss"].where(one["time"] <= end), **SIMULATION_STYLE, color="0.75")
    # Strengths of the first two modes; the corners are stationary points.
    plane.plot(*(one["strength"].values / s).T[:2], **SIMULATION_STYLE, color="0.75")
    thin = {**THEORY_STYLE, "lw": 0.7}
    for mode, seed in zip(first, people["seed"], strict=True):
        one, wide = people.sel(seed=seed), {**SIMULATION_STYLE, "color": f"C{mode}", "alpha": 0.4}
        loss.plot(one["time"], one["loss"], **wide)
        loss.plot(one["time"], one["loss_theory"], **thin)
        plane.plot(*(one["strength"].values / s).T[:2], **wide)
        plane.plot(*(one["strength_theory"].values / s).T[:2], **thin)
    dot = {"ls": "none", "marker": "o", "ms": 9, "mec": "black", "clip_on": False, "zorder": 5}
    plane.plot([0, 1, 0], [0, 0, 1], **dot, mfc="white")
    plane.plot(1, 1, **dot, mfc="black")
    for mode in np.unique(first):
        label = f"learns mode {mode + 1} first"
        loss.plot([], [], **SIMULATION_STYLE, color=f"C{mode}", alpha=0.6, label=label)
    loss.plot([], [], **SIMULATION_STYLE, color="0.75", label="shallow")
    title, how = "loss, and the levels of all saddles", {"legend": None, "xlim": (0, end)}
    label_axes(loss, "time $t/τ$", "loss $L$", title, theory="theory, from initial weights", **how)
    loss.set_ylim(bottom=0)
    square = {"xlim": (-0.06, 1.06), "ylim": (-0.06, 1.06), "xticks": (0, 0.5, 1)}
    words = "mode 1 learned, $a_1/s_1$", "mode 2 learned, $a_2/s_2$", "paths past the saddles (○)"
    label_axes(plane, *words, **square, yticks=(0, 0.5, 1), aspect="equal")
    measured, theory = people["half_time"].values, people["half_time_theory"].values
    reach, colors = (0.92 * theory.min(), 1.05 * theory.max()), [f"C{mode}" for mode in first]
    times.plot(reach, reach, **THEORY_STYLE)
    for mode, marker in zip(range(len(s)), "osD^vP", strict=False):
        dots = {"s": 32, "marker": marker, "linewidths": 0}
        times.scatter(theory[:, mode], measured[:, mode], c=colors, alpha=0.6, **dots)
        times.scatter([], [], c="0.4", label=f"mode {mode + 1}", **dots)
    words = "predicted time $t/τ$", "time in training $t/τ$", "when a mode is half learned"
    label_axes(times, *words, legend="upper left", xlim=reach, ylim=reach, aspect="equal")
    figure.legend(*loss.get_legend_handles_labels(), loc="outside lower center", ncols=5)
    return figure
