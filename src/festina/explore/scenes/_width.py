"""The effective width of a wide network while it learns: 0, 1, 2, … on successive plateaus."""

from collections.abc import Iterator
from functools import lru_cache
from typing import Any, Literal

import numpy as np
from bokeh.plotting import figure

from ...diagnose import effective_width
from ...dynamics import gradient_flow
from ...networks import Layer, fully_connected, layer_from, seeds
from ...tasks import Task, from_arrays, linear_teacher
from ...theory.linear import chain_strength
from ...theory.saddles import linear_saddle, mode_drop_times
from .._plots import COLOURS, curves, dots, levels, plot
from .._scene import Numbers, Progress, SceneKnobs, choice, slider

COMPARED = "the effective width on the plateaus"
_kept: Any = lru_cache(64)  # theory, training and sentences use the same results
_SEEDS, _TIMES, _WIDEST, _BETWEEN = 3, 201, 40, 6
_STRENGTHS = np.array([1.0, 0.5, 0.3])  # of the targets, one for each input
_HALF = 1 - 0.5**0.5  # strength at which a target's share of the loss has halved


class Knobs(SceneKnobs):
    activation: Literal["linear", "relu", "tanh"] = choice("activation", "relu")
    scale: float = slider("initial scale ε", 1e-3, 1e-4, 0.05, log=True)
    width: int = slider("hidden units", 30, 12, _WIDEST)
    rank: int = slider("units that the task needs (rank)", 3, 1, 3)
    tolerance: float = slider("tolerance (relative error)", 0.1, 0.05, 0.15, step=0.01)


WARM = [Knobs(activation="tanh"), Knobs(activation="linear")]


def plots() -> list[figure]:
    """Return the plots: loss and effective width over time, and the weights of one network."""
    loss = plot("Loss and its levels", "time t/τ", "loss ½⟨‖y − f‖²⟩", time=True)
    curves(loss, "loss", seeds=_SEEDS)
    levels(loss, "levels")
    width = plot("Effective width", "time t/τ", "units that would suffice", time=True)
    curves(width, "width", training=False)
    for seed in range(_SEEDS):
        legend = ("first network", "others")[seed] if seed < 2 else ""
        colour = COLOURS[1 if seed else 0]
        dots(width, "width", seed=seed, size=10, colour=colour, legend=legend)
    width.yaxis.ticker = [0, 1, 2, 3]
    width.legend[0].location = "bottom_right"
    ends: Any = {"x_range": (-1, 1), "y_range": (-1, 1)}
    weights = plot(
        "Units of the first network", "weight from input 1", "weight from input 2", **ends
    )
    dots(weights, "units")
    return [loss, width, weights]


def theory(knobs: Knobs) -> Numbers:
    """Return loss and width of the first network from its modes, and the levels of the loss."""
    times = _times(knobs)
    strengths = _strengths(knobs)[0]
    loss = np.sum((_targets(knobs) - strengths) ** 2, axis=1) / 2
    width = _widths(knobs, strengths)
    return Numbers(
        width[_rests(knobs)[0]],
        {
            "loss": {"x": times, "y": loss},
            "levels": {"y": np.array(_levels(knobs.rank))},
            "width": {"x": times, "y": width},
        },
    )


def train(knobs: Knobs, progress: Progress) -> Iterator[Numbers]:
    """Train three networks, and measure their effective width at saved times."""
    times, task = _times(knobs), _task(knobs.rank)
    run = gradient_flow(_network(knobs), task, times, rtol=1e-6, progress=progress)
    strengths, rests = _strengths(knobs), _rests(knobs)
    expected = _widths(knobs, strengths[0])[rests[0]]
    more = np.linspace(0, _TIMES - 1, _BETWEEN).round().astype(int)
    u = np.asarray(run.network.u)[0, :, : knobs.width]
    size = np.linalg.norm(run.network.predict(task.x), axis=(2, 3))
    for seed in range(_SEEDS):
        chosen = np.unique(np.append(rests[seed], [] if seed else more)).astype(int)
        found = np.zeros(_TIMES)
        for save in chosen:
            progress("measuring the effective width", 0.5)
            # `effective_width` takes errors relative to the outputs; here they are relative to y.
            within = knobs.tolerance * np.linalg.norm(task.y) / size[seed, save]
            lane = run.network.lane(seed, int(save))
            found[save] = effective_width(lane, task.x, tolerance=within, tune=False).width
        own = _widths(knobs, strengths[seed])[rests[seed]]
        yield Numbers(
            expected + found[rests[seed]] - own,
            {
                "loss": {"x": times, "y": run.loss[seed]},
                "width": {"x": times[chosen], "y": found[chosen]},
            },
            {} if seed else {"units": {"x": u[..., 0], "y": u[..., 1]}},
            None if seed else times,
        )


def allowed(knobs: Knobs) -> float | None:
    """Return 0, or `None` if a plateau is shorter than the errors of the predicted times."""
    window = {"linear": 4, "relu": 6, "tanh": 10}[knobs.activation]
    for strengths, rests in zip(_strengths(knobs), _rests(knobs), strict=True):
        width = _widths(knobs, strengths)
        for number, rest in enumerate(rests.tolist()):
            if (width[max(rest - window, 0) : rest + window + 1] != number).any():
                return None
    return 0.0


def notice(knobs: Knobs, theory: Numbers) -> str:
    rank = knobs.rank
    level = ", ".join(f"{each:.3g}" for each in _levels(rank))
    if allowed(knobs) is None:
        return (
            "The plateaus are short: one target is still being learned when the next one grows, "
            "and the width in between depends on the tolerance. Lower the initial scale ε. The "
            f"levels (dashed) are the losses of the best networks with 0 to {rank} units: {level}."
        )
    seen = ", then ".join(str(number) for number in range(rank + 1))
    more = " Tanh units saturate and learn slightly later than predicted."
    more *= knobs.activation == "tanh"
    return (
        f"On successive plateaus, the {knobs.width} units compute what {seen} units could compute "
        f"(dots). The levels {level} are the losses of the best networks with so many units. Many "
        f"units grow together, so the number of active units is not the effective width.{more}"
    )


def python(knobs: Knobs) -> str:
    times = _times(knobs)
    gates = (
        ""
        if knobs.activation != "relu"
        else """\
open = (u > 0) & (u + v > 0)  # a unit learns an input only if it is active there
u, v = u * open, v * open
"""
    )
    return f"""\
import numpy as np
import festina

width, rank, tolerance = {knobs.width}, {knobs.rank}, {knobs.tolerance}
strengths = np.array({_STRENGTHS.tolist()}) * (np.arange(3) < rank)
task = festina.tasks.from_arrays(3**0.5 * np.eye(3), 3**0.5 * np.diag(strengths))
keys = festina.networks.seeds({_SEEDS})
drawn = festina.networks.fully_connected(
    3, {_WIDEST}, 3, activation="{knobs.activation}", scale={knobs.scale}, key=keys
)
used = (np.arange({_WIDEST}) < width)[:, None]
network = drawn.with_parts(drawn.u * used, drawn.v * used)

u, v = network.u[0], network.v[0]
{gates}linear = festina.networks.layer_from("linear", u, v)
drops = festina.theory.saddles.mode_drop_times(linear, task)[:rank]
times = np.linspace(0, {times[-1]}, {_TIMES})
edges = np.sort([0, *drops, times[-1]])
rests = [int(np.argmin(np.abs(times - t))) for t in (edges[1:] + edges[:-1]) / 2]
odds = {_HALF / (1 - _HALF)} * np.exp(-2 * strengths[:rank] * drops)
modes = [
    festina.theory.linear.chain_strength(times, s, s * q / (1 + q), depth=2)
    for s, q in zip(strengths, odds)
]
left = np.cumsum(np.sort(modes, axis=0)[:, rests] ** 2, axis=0) ** 0.5
predicted = np.sum(left > tolerance * np.linalg.norm(strengths), axis=0)

run = festina.gradient_flow(network, task, times, rtol=1e-6)
size = np.linalg.norm(run.network.predict(task.x)[0], axis=(1, 2))
within = tolerance * np.linalg.norm(task.y) / size  # relative to the outputs instead of targets
measured = np.array([
    festina.effective_width(run.network.lane(0, k), task.x, tolerance=within[k], tune=False).width
    for k in rests
])
"""


def shell(knobs: Knobs) -> str:
    panel = {"linear": "1b", "relu": "1d", "tanh": "4d"}[knobs.activation]
    return (
        f"festina run saddles/figure-{panel} --width {knobs.width} --scale {knobs.scale:g} "
        f"--seeds {_SEEDS}"
    )


def _targets(knobs: Knobs) -> np.ndarray:
    return _STRENGTHS * (np.arange(3) < knobs.rank)


@_kept
def _task(rank: int) -> Task:
    """Return a task of three inputs with one target each, of which `rank` are not zero."""
    strengths = _STRENGTHS * (np.arange(3) < rank)
    return from_arrays(3**0.5 * np.eye(3), 3**0.5 * np.diag(strengths))


@_kept
def _levels(rank: int) -> list[float]:
    """Return the losses of the best networks with 0 to `rank` units.

    The outputs of h units on three examples have at most rank h. All three activations reach the
    best matrix of this rank, which contains the h strongest targets.
    """
    linear = linear_teacher(np.diag(_STRENGTHS[:rank]))
    losses = [float(linear_saddle(linear, modes=range(h)).loss) for h in range(rank)]
    return [*losses, 0.0]


@_kept
def _network(knobs: Knobs) -> Layer:
    """Return networks of the largest width; the weights of unused units are zero and stay zero."""
    how: Any = {"activation": knobs.activation, "scale": knobs.scale, "key": seeds(_SEEDS)}
    drawn = fully_connected(3, _WIDEST, 3, **how)
    used = (np.arange(_WIDEST) < knobs.width)[:, None]
    return drawn.with_parts(drawn.u * used, drawn.v * used)


@_kept
def _drop_times(knobs: Knobs) -> np.ndarray:
    """Return when each network learns each target, `(seed, target)`.

    Near zero, tanh units are linear. A ReLU unit learns an input if it is active for this input and
    remains active; then it is linear too.
    """
    network = _network(knobs)
    u, v = np.asarray(network.u), np.asarray(network.v)
    if knobs.activation == "relu":
        active = (u > 0) & (u + v > 0)
        u, v = u * active, v * active
    times = mode_drop_times(layer_from("linear", u, v), _task(knobs.rank))
    return times[:, : knobs.rank]


def _times(knobs: Knobs) -> np.ndarray:
    last = float(_drop_times(knobs).max())
    return np.linspace(0.0, 1.3 * last + 1.0 / _STRENGTHS[knobs.rank - 1], _TIMES)


@_kept
def _strengths(knobs: Knobs) -> np.ndarray:
    """Return the predicted strength of each target in the outputs, `(seed, time, target)`."""
    times, drops = _times(knobs), _drop_times(knobs)
    found = np.zeros((_SEEDS, _TIMES, 3))
    for k, s in enumerate(_STRENGTHS[: knobs.rank].tolist()):
        odds = _HALF / (1 - _HALF) * np.exp(-2 * s * drops[:, k])
        for seed, initial in enumerate((s * odds / (1 + odds)).tolist()):
            found[seed, :, k] = chain_strength(times, s, initial, depth=2)
    return found


@_kept
def _rests(knobs: Knobs) -> np.ndarray:
    """Return the time index at the middle of every predicted plateau, `(seed, plateau)`."""
    times, drops = _times(knobs), _drop_times(knobs)
    ends = np.zeros((_SEEDS, 1)), np.full((_SEEDS, 1), times[-1])
    edges = np.sort(np.hstack((ends[0], drops, ends[1])), axis=1)
    middle = (edges[:, 1:] + edges[:, :-1]) / 2
    return np.abs(times - middle[..., None]).argmin(axis=-1)


def _errors(knobs: Knobs, strengths: np.ndarray) -> np.ndarray:
    """Return the relative error of the best network with 0, 1, 2 units, `(time, units)`."""
    left = np.cumsum(np.sort(strengths, axis=1) ** 2, axis=1) ** 0.5
    return left[:, ::-1] / np.linalg.norm(_targets(knobs))


def _widths(knobs: Knobs, strengths: np.ndarray) -> np.ndarray:
    """Return the smallest number of units with an error within the tolerance, at every time."""
    return np.sum(_errors(knobs, strengths) > knobs.tolerance, axis=1).astype(float)
