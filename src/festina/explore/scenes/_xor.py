"""Exclusive or, and the transition to nonlinearity: which pathways of a ReLU network win."""

import functools
import math
from collections.abc import Iterator
from typing import Literal

import numpy as np
from bokeh.plotting import figure

from ..._types import Array
from ...diagnose import passage_time
from ...dynamics import gradient_flow
from ...networks import Gated, Layer, fully_connected, gated_from, layer_from, seeds
from ...tasks import Task, xor
from ...theory.gated import Race, race_of_gatings
from ...theory.linear import learning_time
from .._plots import COLOURS, curves, dots, plot, words
from .._scene import Numbers, Progress, SceneKnobs, choice, slider

COMPARED = "the time until half is learned"
_SEEDS, _TIMES, _WIDEST, _ENOUGH = 4, 151, 128, 24
_HALF = 1 / 8
"""Loss at which the outputs have reached half of the targets; the initial loss is 1/2."""
_CROSSING = math.sqrt(2 / 3)
"""Margin Δ at which XoR pathways and linear pathways are equally fast."""
_MARGINS = np.linspace(0.2, 1.4, 61)

Racers = Literal[
    "ReLU units, with free gates",
    "fixed gates: XoR and linear",
    "fixed gates: only XoR",
    "fixed gates: only linear",
    "fixed gates: half planes",
]
_FREE, _MIXED, _EXAMPLES, _CLASSES, _PLANES = Racers.__args__


class Knobs(SceneKnobs):
    margin: float = slider("margin Δ: size of the third, linear input", 0.7, 0.2, 1.4, step=0.02)
    scale: float = slider("standard deviation σ of initial weights", 1e-4, 1e-5, 0.03, log=True)
    width: int = slider("hidden units of the ReLU networks", 64, 8, _WIDEST, step=8)
    racers: Racers = choice("units or pathways in the race", _FREE)


WARM = [Knobs(racers=racers) for racers in (_MIXED, _EXAMPLES, _CLASSES, _PLANES)]


def plots() -> list[figure]:
    """Return the plots: loss, XoR and linear parts of the output, units, and times by margin."""
    loss = plot("Loss", "time t/τ", "loss", time=True, y_range=(-0.02, 0.54))
    curves(loss, "gated", legend=("gated network",))
    orange, named = COLOURS[1:2], ("ReLU networks",)
    curves(loss, "relu", seeds=_SEEDS, legend=named, colours=orange, theory=False)
    title, box = "Output of XoR and linear pathways", {"y_range": (-0.1, 1.25)}
    parts = plot(title, "time t/τ", "share of the targets", time=True, **box)
    named = ("XoR, ReLU networks", "linear, ReLU networks")
    both = ("xor", "linear")
    curves(parts, "parts", seeds=_SEEDS, columns=both, legend=named, colours=COLOURS[2:4])
    parts.legend[0].location = "top_left"
    box = {"x_range": (-0.85, 0.85), "y_range": (-0.85, 0.85), "match_aspect": True}
    units = plot("Directions of ReLU units", "input weight u₁/|u|", "input weight u₂/|u|", **box)
    dots(units, "units", size="size", colour=COLOURS[1])
    dots(units, "units", seed="theory", size=20)
    words(units, "names", ("XoR", "linear"))
    title = "Time until half is learned"
    times = plot(title, "margin Δ", "time t/τ", y_axis_type="log")
    curves(times, "half_xor", training=False)
    curves(times, "half_linear", training=False)
    words(times, "alone", ("XoR pathways alone", "linear pathways alone"))
    for seed in range(_SEEDS):
        legend = "ReLU networks" if not seed else ""
        dots(times, "half_relu", seed=seed, size=9, colour=COLOURS[1], legend=legend)
    dots(times, "half_gated", size=9, legend="gated network")
    return [loss, parts, units, times]


def theory(knobs: Knobs) -> Numbers:
    """Return the race of the chosen pathways, and the learning time of each kind alone."""
    raced, times = _race(knobs), _times(knobs)
    at = lambda values: np.interp(times, raced.time, values)
    along = raced.strength * raced.rate  # mean output along the targets
    linear = np.array([name in _CLASS_NAMES for name in raced.names])
    parts = {
        "xor": at(along[:, ~linear].sum(axis=1)),
        "linear": at(along[:, linear].sum(axis=1)),
    }
    x = np.asarray(xor(knobs.margin).x)
    ways = np.concatenate((x / np.linalg.norm(x, axis=1, keepdims=True), np.zeros((1, 3))))
    alone = _alone(knobs, _MARGINS)
    return Numbers(
        np.array([_half(raced)]),
        {
            "gated": {"x": times, "y": at(raced.loss)},
            "parts": {"x": times, **parts},
            "units": {"x": ways[:, 0], "y": ways[:, 1]},
            "names": {"x": ways[[3, 4], 0] + 0.04, "y": ways[[3, 4], 1]},
            "half_xor": {"x": _MARGINS, "y": alone[:, 0]},
            "half_linear": {"x": _MARGINS, "y": alone[:, 1]},
            "alone": {"x": np.array([1.2, 0.6]), "y": np.array([1.12 * alone[50, 0], alone[5, 1]])},
        },
    )


def train(knobs: Knobs, progress: Progress) -> Iterator[Numbers]:
    """Train ReLU networks from random weights, and a gated network along the pathways."""
    task, times = xor(knobs.margin), _times(knobs)
    gated = gradient_flow(_gated(knobs, task), task, times, rtol=1e-7, progress=progress)
    relu = gradient_flow(_relu(knobs), task, times, rtol=1e-4, progress=progress)
    u, v = (
        np.asarray(part, float)[0, :, : knobs.width] for part in (relu.network.u, relu.network.v)
    )
    length = np.linalg.norm(u, axis=2)
    strength = length * np.abs(v[..., 0])
    units = {
        "x": u[..., 0] / length,
        "y": u[..., 1] / length,
        "size": 3 + 15 * np.sqrt(strength / strength.max(axis=1, keepdims=True)),
    }
    x, y = np.asarray(task.x), np.asarray(task.y)[:, 0]
    along = lambda x: np.mean(relu.network.predict(x)[..., 0] * y, axis=-1)
    nonlinear = (2 + knobs.margin**2) / 2 * along(x * [1, 1, 0])
    linear = along(x) - nonlinear
    reached = passage_time(times, relu.loss, _HALF, slope=relu.slope)
    reached = np.nan_to_num(reached, nan=times[-1])  # too few units may never get there
    own = float(passage_time(times, gated.loss, _HALF, slope=gated.slope))
    margin = np.array([knobs.margin])
    for seed in range(_SEEDS):
        half = np.array([reached[seed]])
        columns = {
            "relu": {"x": times, "y": relu.loss[seed]},
            "parts": {"x": times, "xor": nonlinear[seed], "linear": linear[seed]},
            "half_relu": {"x": margin, "y": half},
        }
        compared = half if knobs.racers == _FREE else np.array([own])
        if seed:
            yield Numbers(compared, columns)
            continue
        columns["gated"] = {"x": times, "y": gated.loss}
        columns["half_gated"] = {"x": margin, "y": np.array([own])}
        yield Numbers(compared, columns, {"units": units}, times)


def allowed(knobs: Knobs) -> float | None:
    if knobs.racers != _FREE:
        return 1e-4
    if knobs.width < _ENOUGH:
        return None
    # The theory starts from equal pathways. Randomness, and the time that units need to align,
    # change the initial strengths by a factor of up to about e^1.3, and thus the time by 1.3/2S.
    raced = _race(knobs)
    return float(1.3 / (2 * raced.rate.max() * _half(raced)))


def notice(knobs: Knobs, theory: Numbers) -> str:
    raced, half = _race(knobs), theory.compared[0]
    decade = math.log(100) / (2 * raced.rate.max())
    time = f"Half is learned at t/τ = {half:.3g}; for σ ten times smaller it is {decade:.2g} later."
    nonlinear = math.hypot(math.sqrt(2), knobs.margin) / 4
    rates = f"{nonlinear:.2g} against {knobs.margin / 2:.2g}"
    if knobs.racers in (_FREE, _MIXED):
        share = 100 * theory.columns["parts"]["xor"][-1]
        winner, other = "XoR", "linear"
        if knobs.margin > _CROSSING:
            share, winner, other = 100 - share, "Linear", winner
            rates = " against ".join(reversed(rates.split(" against ")))
        said = (
            f"{winner} pathways grow faster than {other} ones, at rates {rates}, and give "
            f"{share:.0f} % of the output. "
        )
        if knobs.racers == _FREE and knobs.width < _ENOUGH:
            return said + (
                f"With only {knobs.width} units, chance decides which pathways start ahead. A "
                "network may lack a unit for an example: its loss then stays at 1/8."
            )
        if winner == "XoR" and share > 50:
            said += "The networks compute XoR, although a linear solution exists. "
        return said + time
    fast = (
        f"Half planes grow fastest, at the rate {raced.rate.max():.2g}, but only with fixed gates. "
        "A ReLU unit that learns a half plane becomes active for other examples, so ReLU networks "
        "(orange) learn later. "
    )
    only = {
        _EXAMPLES: f"Each pathway is open for one example and grows at the rate {nonlinear:.2g}. ",
        _CLASSES: "Each pathway is open for one class and grows at the rate Δ/2 = "
        f"{knobs.margin / 2:.2g}: a smaller margin makes it slower. ",
        _PLANES: fast,
    }
    return only[knobs.racers] + time


def python(knobs: Knobs) -> str:
    pathways = {
        _EXAMPLES: "list(np.eye(4))",
        _CLASSES: "[y > 0, y < 0]",
        _PLANES: "[x[:, 0] > 0, x[:, 0] < 0, x[:, 1] > 0, x[:, 1] < 0]",
    }.get(knobs.racers, "[*np.eye(4), y > 0, y < 0]")
    relu = f"""\
network = festina.networks.fully_connected(
    3, {_WIDEST}, activation="relu", scale={knobs.scale}, key=festina.networks.seeds({_SEEDS})
)
used = np.arange({_WIDEST})[:, None] < {knobs.width}  # the other units stay zero
network = festina.networks.layer_from("relu", network.u * used, network.v * used)
run = festina.gradient_flow(network, task, times, rtol=1e-4)
measured = passage_time(times, run.loss[0], 1 / 8, slope=run.slope[0])
measured = np.nan_to_num([measured], nan=times[-1])
"""
    gated = """\
edges = {}
for k, gate in enumerate(gatings.values()):
    way = (gate * y) @ x
    edges[f"x-h{k}"] = np.sqrt(start) * way[None] / np.linalg.norm(way)
    edges[f"h{k}-y"] = [[np.sqrt(start)]]
network = festina.networks.gated_from(edges, gates=gatings, x=x)
run = festina.gradient_flow(network, task, times, rtol=1e-7)
measured = [passage_time(times, run.loss, 1 / 8, slope=run.slope)]
"""
    return f"""\
import numpy as np
import festina
from festina.diagnose import passage_time

task, start = festina.tasks.xor({knobs.margin}), {knobs.scale}**2 * {knobs.width} / 12
x, y = np.asarray(task.x), np.asarray(task.y)[:, 0]
gatings = {{f"h{{k}}": 1.0 * gate for k, gate in enumerate({pathways})}}
race = festina.theory.gated.race_of_gatings(
    task, gatings, initial_strength=start, only_self_consistent=False, rtol=1e-6
)
predicted = [passage_time(race.time, race.loss, 1 / 8)]

times = np.linspace(0, {float(_times(knobs)[-1])!r}, {_TIMES})
{relu if knobs.racers == _FREE else gated}"""


def shell(knobs: Knobs) -> str:
    if knobs.racers in (_FREE, _MIXED):
        scales = (
            f"{max(min(knobs.scale, 0.01), 2e-8):.3g} {max(min(knobs.scale, 0.01), 2e-8) / 10:.3g}"
        )
        return f"festina run race/transition --width {max(knobs.width, 16)} --scales {scales}"
    return f"festina run race/xor --width {max(knobs.width, 16)}"


_CLASS_NAMES = ("class +1", "class -1")


def _gates(knobs: Knobs, task: Task) -> dict[str, np.ndarray]:
    """Return the gates of the pathways in the race, one number for each example."""
    x, y = np.asarray(task.x), np.asarray(task.y)[:, 0]
    examples = {f"example {i}": np.eye(4)[i] for i in range(4)}
    classes = dict(zip(_CLASS_NAMES, ((y > 0) * 1.0, (y < 0) * 1.0), strict=True))
    planes = {f"x{i + 1} {s:+d}": (s * x[:, i] > 0) * 1.0 for i in range(2) for s in (1, -1)}
    chosen = {_EXAMPLES: examples, _CLASSES: classes, _PLANES: planes}
    return chosen.get(knobs.racers, examples | classes)


def _start(knobs: Knobs) -> float:
    """Return the initial strength of a pathway that has a sixth of the units."""
    return knobs.scale**2 * knobs.width / 12


def _race(knobs: Knobs) -> Race:
    return _raced(knobs.margin, knobs.scale, knobs.width, knobs.racers)


@functools.lru_cache(maxsize=16)
def _raced(margin: float, scale: float, width: int, racers: Racers) -> Race:
    knobs = Knobs(margin=margin, scale=scale, width=width, racers=racers)
    task = xor(margin)
    how = {"only_self_consistent": False, "rtol": 1e-6}
    return race_of_gatings(task, _gates(knobs, task), initial_strength=_start(knobs), **how)


def _half(raced: Race) -> float:
    return float(passage_time(raced.time, raced.loss, _HALF))


def _alone(knobs: Knobs, margins: Array) -> np.ndarray:
    """Return the times until half is learned: first XoR pathways alone, then linear ones."""
    square = np.stack((2 + margins**2, margins**2), axis=-1)  # |x|² along a pathway
    part = np.array([0.25, 0.5])  # of the examples
    found = learning_time(
        part * np.sqrt(square), _start(knobs), depth=2, fraction=0.5, input_variance=part * square
    )
    return np.asarray(found)


def _times(knobs: Knobs) -> np.ndarray:
    alone = float(_alone(knobs, np.array([knobs.margin])).min())
    return np.linspace(0, max(1.7 * alone, 1.4 * _half(_race(knobs))), _TIMES)


def _gated(knobs: Knobs, task: Task) -> Gated:
    """Return a gated network whose pathways start along their fastest directions."""
    x, y = np.asarray(task.x), np.asarray(task.y)[:, 0]
    gates = {f"h{k}": gate for k, gate in enumerate(_gates(knobs, task).values())}
    b, edges = math.sqrt(_start(knobs)), {}
    for node, gate in gates.items():
        way = (gate * y) @ x
        edges |= {f"x-{node}": b * way[None] / np.linalg.norm(way), f"{node}-y": [[b]]}
    return gated_from(edges, gates=gates, x=x)


def _relu(knobs: Knobs) -> Layer:
    """Return ReLU networks of the largest width; surplus units are zero and stay zero."""
    how = {"activation": "relu", "scale": knobs.scale, "key": seeds(_SEEDS)}
    drawn = fully_connected(3, _WIDEST, **how)
    used = np.arange(_WIDEST)[:, None] < knobs.width
    return layer_from("relu", drawn.u * used, drawn.v * used)
