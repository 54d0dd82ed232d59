r"""Relative scale in practice: when does a network grok modular addition?

The network has two layers of quadratic units, $f(n, m) = \sum_i v_i\,(u_i \cdot x)^2$, where x is
one-hot for n and m. Training is gradient flow on ½⟨‖y − f‖²⟩ over some of the pairs, without weight
decay, momentum or noise. Kunin et al. (2024) scale the embedding of a transformer by a factor g;
here the embedding u is scaled. The factor g changes the relative scale of the layers and also the
size of the initial function, $f \propto g^2$. Three further ways of scaling separate the two
effects:

    embedding   u → g u                      f → g² f    relative scale g
    both        u → g^⅔ u,   v → g^⅔ v       f → g² f    relative scale 1
    readout     v → g² v                     f → g² f    relative scale 1/g²
    exchange    u → g u,     v → v/g²        f → f       relative scale g³

A unit conserves |u|² − 2|v|², because it is of degree two in u. Weights with equal standard
deviations are therefore balanced, since the network has twice as many inputs as outputs.
"""

import itertools
from typing import Any

import jax
import jax.numpy as jnp
import numpy as np
import xarray as xr
from jaxtyping import Float
from matplotlib.axes import Axes
from matplotlib.figure import Figure
from matplotlib.ticker import MaxNLocator
from pydantic import Field, field_validator

from ...._types import Keys
from ....dynamics import Trajectory, gradient_flow
from ....experiments._frame import Progress, Tables, make_run, parameters_of_run, part_of
from ....experiments._keys import Key, keys_from_parameters
from ....experiments._parameters import Parameters as BaseParameters
from ....experiments.claims import (
    ClaimCollector,
    all_above,
    all_below,
    claims_from_source,
    decreasing,
    join_numbers,
    max_error_below,
    mean_agrees,
)
from ....experiments.figures import (
    GUIDE_STYLE,
    POINT_STYLE,
    draw_pair,
    label_axes,
    panels,
    shades,
    styled,
)
from ....networks import Layer, fully_connected
from ....tasks import Task, modular_addition

_POWERS = {"embedding": (1, 0), "both": (2 / 3, 2 / 3), "readout": (0, 2), "exchange": (1, -2)}
"""Powers of the factor g by which each way scales the embedding and the readout."""

_SAMPLES = 240
_NO_LESS = 1.2
"""Smallest factor between times that counts as a difference, given the spread over seeds."""
_ENOUGH = 5
"""Smallest number of seeds for which medians are compared."""


class Parameters(BaseParameters):
    """Parameters of modular addition, and of the scaling of the embedding."""

    seeds: int = Field(default=8, ge=1)
    """Number of initialisations, each with its own choice of training pairs."""

    modulus: int = Field(default=13, ge=3)
    """Modulus p of the addition; the network has 2p inputs and p outputs."""

    width: int = Field(default=50, ge=1)
    """Number of quadratic hidden units."""

    train_fraction: float = Field(default=0.85, gt=0, lt=1)
    """Fraction of the p² pairs used for training; a small modulus needs most of them."""

    scale: float = Field(default=0.12, gt=0)
    """Standard deviation of all weights at factor g = 1, where the two layers are balanced."""

    factors: tuple[float, ...] = (1.0, 0.4)
    """Factors g of the embedding, decreasing from 1."""

    fitted: float = Field(default=0.99, gt=0, le=1)
    """Accuracy on the training pairs at which these pairs count as fitted."""

    grokked: float = Field(default=0.95, gt=0, le=1)
    """Accuracy on the held-out pairs at which the network counts as having grokked."""

    t_end: float = Field(default=1200.0, gt=0)
    """Flow time at which training ends, whether or not the network has grokked."""

    rtol: float = Field(default=1e-4, gt=0, lt=0.1)
    """Relative error of gradient flow allowed per step."""

    @field_validator("factors")
    @classmethod
    def _falling(cls, factors: tuple[float, ...]) -> tuple[float, ...]:
        fall = all(a > b for a, b in itertools.pairwise(factors))
        if len(factors) < 2 or factors[0] != 1 or not fall or factors[-1] <= 0:
            raise ValueError(f"`factors` must decrease from 1 and stay positive, got {factors}.")
        return factors


PRESETS: dict[str, dict[str, Any]] = {"sweep": {"factors": (1.0, 0.7, 0.5, 0.35), "t_end": 1500.0}}


@make_run("linear/relative-scale")
def run(parameters: Parameters, key: Key, progress: Progress) -> Tables:
    """Train every seed with every way of scaling; record when it fits and when it groks."""
    count = parameters.seeds
    tables: list[xr.Dataset] = []
    for index, each in enumerate(keys_from_parameters(parameters, key)):
        progress(f"training seed {index + 1} of {count}", index / count)
        tables.append(_one_seed(parameters, each, part_of(progress, index / count, 1 / count)))
    numbers = xr.Variable("seed", parameters.seed + np.arange(count))
    return {"simulation": xr.concat(tables, numbers)}


def _one_seed(parameters: Parameters, key: Keys, progress: Progress) -> xr.Dataset:
    """Train with all ways and factors of scaling, on the same draw of weights and pairs."""
    pairs_key, weights_key = jax.random.split(key)
    train, test = modular_addition(parameters.modulus, parameters.train_fraction, key=pairs_key)
    network, scales = _scaled(parameters, weights_key), _scales(parameters)
    # All ways agree at factor 1, which is trained once.
    _, distinct, place = np.unique(scales, axis=0, return_index=True, return_inverse=True)
    batch = Layer(network.u[distinct], network.v[distinct], network.unit)
    times = np.append(0.0, np.geomspace(parameters.t_end / 300, parameters.t_end, _SAMPLES))
    trajectory = gradient_flow(batch, train, times, rtol=parameters.rtol, progress=progress)
    for ending in trajectory.endings:
        if ending.reason != "finished":
            raise ValueError(f"{ending.message} Use a smaller `rtol`.")
    measured = _measure(parameters, trajectory, train, test)
    measured["relative_scale"] = (scales[:, 0] / scales[:, 1])[distinct]
    over = (len(_POWERS), len(parameters.factors))
    folded = lambda values: values[place.ravel()].reshape(*over, *values.shape[1:])
    dims = lambda values: ("way", "factor", "time")[: values.ndim + 1]
    clock = {"long_name": "flow time of the loss ½⟨‖y − f‖²⟩"}
    coords = {"way": list(_POWERS), "factor": list(parameters.factors)}
    return xr.Dataset(
        {name: (dims(values), folded(values)) for name, values in measured.items()},
        {**coords, "time": ("time", times, clock)},
    ).set_coords("relative_scale")


def _scales(parameters: Parameters) -> np.ndarray:
    """Return the factors of embedding and readout, for every way and every factor g."""
    powers = np.array([*_POWERS.values()], float)[:, None]
    return (np.array(parameters.factors)[:, None] ** powers).reshape(-1, 2)


def _scaled(parameters: Parameters, key: Keys) -> Layer:
    """Return one draw of balanced weights, scaled in every way by every factor: (way × factor)."""
    p, (first, second) = parameters.modulus, _scales(parameters).T[:, :, None, None]
    # `jnp.square` instead of `power(2)`: a sum over the few pairs costs less than a sum over the
    # (2p)² products of inputs, in which `power(2)` units are linear.
    drawn = fully_connected(
        2 * p, parameters.width, p, activation=jnp.square, scale=parameters.scale, key=key
    )
    return Layer(first * np.asarray(drawn.u), second * np.asarray(drawn.v), drawn.unit)


def _measure(
    parameters: Parameters, trajectory: Trajectory, train: Task, test: Task
) -> dict[str, np.ndarray]:
    """Return accuracies over time, the times of fitting and grokking, and the balance's drift."""
    times, u, v = trajectory.time[0], trajectory.network.u, trajectory.network.v

    def accuracy(task: Task) -> Float[np.ndarray, "network time"]:
        answers = np.argmax(np.swapaxes(u @ task.x.T, -1, -2) ** 2 @ v, axis=-1)
        return np.mean(answers == task.labels["sum"], axis=-1)

    def reached(right: np.ndarray, level: float) -> Float[np.ndarray, " network"]:
        """Return the first time at which a level is reached, NaN if it is never reached."""
        there = right >= level
        return np.where(there.any(axis=1), times[np.argmax(there, axis=1)], np.nan)

    trained, held_out = accuracy(train), accuracy(test)
    embedding, readout = np.sum(u**2, axis=-1), 2 * np.sum(v**2, axis=-1)
    drift = np.abs(embedding - readout - (embedding - readout)[:, :1])
    return {
        "train_accuracy": trained,
        "test_accuracy": held_out,
        "train_loss": trajectory.loss,
        "fit_time": reached(trained, parameters.fitted),
        "grok_time": reached(held_out, parameters.grokked),
        "balance_drift": drift.max(axis=(1, 2)) / np.max(embedding + readout, axis=(1, 2)),
    }


@claims_from_source("Saxe, slides", "“Impact of relative scale initializations in practice”")
def claims(run: xr.DataTree, claim: ClaimCollector) -> None:
    """Check grokking, and how the relative scale changes its time, seed by seed.

    A network that has not grokked by the end counts as grokking at the end. Factors by which a
    network is later than another are therefore lower bounds.
    """
    data, parameters = run["simulation"].ds, parameters_of_run(run, Parameters)
    kunin = f"{claim.at}; Kunin et al. (2024), grokking in modular arithmetic"
    # Thousands of steps, each with an error of `rtol` of either sign.
    claim(
        "conserved-balance",
        "every quadratic unit conserves |u|² − 2|v|² (drift over the largest |u|² + 2|v|²)",
        max_error_below(data["balance_drift"], within=100 * parameters.rtol),
        at=kunin,
    )
    fit, reached = data["fit_time"], data["grok_time"].sel(way="embedding").notnull()
    # Training must last much longer than fitting, and most networks with a much smaller embedding
    # must grok, so that there is something to compare.
    long = bool((3 * fit.median("seed", skipna=False) <= parameters.t_end).all())
    small = data["factor"][-1] <= 0.5 and float(reached.isel(factor=-1).mean()) > 0.5
    if not (long and small and fit.sizes["seed"] >= _ENOUGH):
        return
    # Held-out pairs may be right by chance at the start; that counts as the first sample.
    grok = data["grok_time"].fillna(parameters.t_end).clip(min=float(data["time"][1]))
    start = grok.sel(way="embedding", factor=1.0, drop=True)
    smallest, seeds = grok.isel(factor=-1, drop=True), start.size
    balanced = data.sel(way="embedding", factor=1.0)
    then = balanced["test_accuracy"].where(balanced["time"] == balanced["fit_time"]).max("time")
    claim(
        "held-out-accuracy-when-fitted",
        "balanced networks have not generalised when they fit the training pairs (median accuracy "
        "on held-out pairs)",
        all_below(then.median(), 0.5),
    )
    late = (grok / fit).sel(way="embedding").median("seed")
    claim(
        "late-grokking",
        "balanced networks grok late (median time, in units of the time to fit)",
        all_above(late[0], 2),
        note=f"{int(reached.sel(factor=1.0).sum())} of {seeds} networks have grokked by the end",
    )
    sooner = (start / grok.sel(way="embedding", drop=True)).isel(factor=slice(1, None))
    claim(
        "smaller-embedding-sooner",
        "networks with the smallest embedding grok sooner (median ratio of times)",
        all_above(sooner.isel(factor=-1).median(), 1),
        at=kunin,
        corrected="the initial function is smaller too; if both layers are scaled instead, which "
        "keeps the balance, networks grok about as soon",
        note=f"sooner in {int((sooner.isel(factor=-1) > 1).sum())} of {seeds} seeds; median ratios "
        f"{join_numbers(sooner.median('seed'), 2)}",
        headline=True,
    )
    claim(
        "smaller-embedding-shorter-delay",
        "with the smallest embedding grokking is less delayed (median time, in units of the time "
        "to fit)",
        decreasing(late.isel(factor=[0, -1])),
        at=kunin,
        note="the effect is therefore not a mere change of time scale",
    )
    later = smallest / smallest.sel(way="embedding", drop=True)
    readout, equal = (np.log(later.sel(way=way).values) for way in ("readout", "both"))
    middle, spread = readout.mean(), 2 * readout.std(ddof=1) / seeds**0.5
    claim(
        "embedding-or-readout",
        "at equal initial function, networks with a small embedding grok no later than those with "
        "a small readout (mean ratio of times plus two standard errors)",
        all_above(np.exp(middle + spread), 1),
        at=kunin,
        note=f"geometric mean {np.exp(middle):.3g}, two standard errors a factor of "
        f"{np.exp(spread):.3g}; sooner in {int((readout > 0).sum())} of {seeds} seeds",
    )
    claim(
        "embedding-or-both",
        "at equal initial function, networks with a small embedding grok sooner than balanced "
        "networks (median ratio of times)",
        all_above(np.median(np.exp(equal)), _NO_LESS),
        wrong="balanced networks with as small an initial function grok about as soon",
        instead=mean_agrees(equal, 0.0, equal.std(ddof=1)),
        note="instead: mean logarithm of the ratio",
    )
    exchanged = smallest.sel(way="exchange", drop=True)
    kept = (start / exchanged).where(np.minimum(start, exchanged) < parameters.t_end, drop=True)
    if kept.size < _ENOUGH:  # pairs in which neither network has grokked are not compared
        return
    claim(
        "relative-scale-alone",
        "at the same initial function, networks with a small embedding and a large readout grok "
        "sooner (median ratio of times)",
        all_above(kept.median(), 1),
        wrong="networks with a small embedding and a large readout fit sooner but grok later",
        instead=all_below(kept.median(), 1 / _NO_LESS),
        note=f"sooner in {int((kept > 1).sum())} of {kept.size} seeds",
    )


@styled
def draw(run: xr.DataTree) -> Figure:
    """Plot accuracies with a smaller embedding, with the function kept, and times to grok."""
    data, parameters = run["simulation"].ds, parameters_of_run(run, Parameters)
    title = f"Addition modulo {parameters.modulus}: when a network groks"
    ratios = (1, 1, 1.2)
    figure, (smaller, kept, times) = panels(title, 3, width=3.2, height=3.3, width_ratios=ratios)
    factors = list(shades(data["factor"].values[::-1], "$g$ ="))[::-1]  # the smallest is dark
    means = data.mean("seed").isel(time=slice(1, None))
    ends, dotted = means["time"].values[[0, -1]], {"lw": 1.2, "ls": ":"}
    for ax, way, title in (
        (smaller, "embedding", "smaller embedding: $u$ times a factor $g$"),
        (kept, "exchange", "function kept: embedding $g\\,u$, readout $v/g^2$"),
    ):
        for factor, color, label in factors:
            curve = means.sel(way=way, factor=factor)
            ax.plot(curve["time"], curve["train_accuracy"], color=color, **dotted)
            how = {"color": color, "label": label, "alpha": 0.8}
            draw_pair(ax, curve["time"], curve["test_accuracy"], **how)
        label_axes(ax, "time $t/τ$", title=title, legend=None, xscale="log", xlim=ends)
    smaller.plot([], [], color="0.3", **dotted, label="training pairs")
    draw_pair(smaller, [], [], color="0.3", alpha=0.8, label="held-out pairs")
    label_axes(smaller, ylabel="accuracy, mean over seeds", legend="upper left", ylim=(-0.03, 1.05))
    kept.sharey(smaller)
    kept.tick_params(labelleft=False)
    _draw_times(times, data["grok_time"], [color for _, color, _ in factors], parameters.t_end)
    return figure


def _draw_times(ax: Axes, grok: xr.DataArray, colors: list[Any], end: float) -> None:
    """Plot the time to grok of every seed, with the median as a bar; "not yet" at the top."""
    never, room = 1.15 * end, 0.8 / (len(colors) - 1)
    ax.axhline(end, **GUIDE_STYLE)
    columns = [(0.0, 0.7, "embedding", 0)] + [
        (column - 0.4 + room * (index - 0.5), 0.85 * room, way, index)
        for column, way in enumerate(_POWERS, start=1)
        for index in range(1, len(colors))
    ]
    for place, width, way, index in columns:
        times = np.nan_to_num(grok.sel(way=way).isel(factor=index), nan=never)
        beside = place + 0.35 * width * np.linspace(-1, 1, len(times))
        ax.plot(beside, times, **POINT_STYLE, color=colors[index], alpha=0.6)
        ends = [place - width / 2, place + width / 2]
        draw_pair(ax, ends, [np.median(times)] * 2, color=colors[index], alpha=1.0)
    words = "what is scaled", "time $t/τ$ to grok", "every seed, and the median"
    label_axes(ax, *words, xlim=(-0.6, len(_POWERS) + 0.6), ylim=(0, 1.22 * end))
    ways = ["smaller\nembedding", "both\nsmaller", "smaller\nreadout", "function\nkept"]
    ax.set_xticks(range(len(ways) + 1), ["$g$ = 1", *ways], fontsize=8)
    ax.tick_params(axis="x", length=0)
    ticks = [tick for tick in MaxNLocator(6).tick_values(0, end) if 0 <= tick <= end]
    ax.set_yticks([*ticks, never], [*(f"{tick:g}" for tick in ticks), "not yet"])
