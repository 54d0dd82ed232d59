"""A staircase in six architectures: small weights learn one direction after another."""

from collections.abc import Iterator
from functools import lru_cache
from typing import Any, Literal

import numpy as np
from bokeh.plotting import figure

from ...diagnose import passage_time
from ...dynamics import Trajectory, gradient_flow
from ...networks import (
    DeepLinear,
    Layer,
    attention,
    convolutional_1d,
    deep_linear,
    deep_linear_from,
    fully_connected,
    layer_from,
    seeds,
)
from ...tasks import (
    AbstractTask,
    from_arrays,
    in_context_regression,
    linear_teacher,
    quadratic_teacher,
)
from ...theory.saddles import blow_up_times, linear_saddle, mode_drop_times, narrow_minima
from .._plots import curves, dots, levels, plot
from .._scene import Numbers, Progress, SceneKnobs, choice, slider

Architecture = Literal[
    "linear", "linear convolution", "three linear layers", "ReLU", "quadratic", "linear attention"
]

COMPARED = "the time of a drop (or the plateau's loss, where no time is predicted)"
_kept: Any = lru_cache(64)  # theory, training and sentences use the same results
_SEEDS, _TIMES, _WIDEST = 3, 401, 30
_AXES = np.array([[0.8, 0.6], [-0.6, 0.8]])  # directions that are learned first and second
_RTOL = 1e-7
_FEW = 12  # with fewer ReLU units, one in a hundred networks cannot learn one of the points
_HALFWAY = 0.45  # relative distance from a level at which no plateau is left


class Knobs(SceneKnobs):
    architecture: Architecture = choice("architecture", "linear")
    scale: float = slider("initial scale ε", 2e-3, 2e-3, 0.05, log=True)
    width: int = slider("hidden units (kernels, heads)", 20, 4, _WIDEST)
    ratio: float = slider("second growth rate / first growth rate", 0.5, 0.2, 0.7, step=0.05)
    seed: int = slider("first random seed", 0, 0, 20)


WARM = [
    Knobs(architecture=each)
    for each in (
        "linear attention",
        "three linear layers",
        "quadratic",
        "ReLU",
        "linear convolution",
    )
]


def plots() -> list[figure]:
    """Return the plots: the loss over time, and the first-layer weights of one network."""
    loss = plot(
        "Loss, its levels and drops",
        "time t/τ",
        "loss ½⟨‖y − f‖²⟩",
        time=True,
    )
    curves(loss, "loss", seeds=_SEEDS, theory=False)
    levels(loss, "levels")
    dots(loss, "drops", seed="theory", size=11)
    weights = plot("First-layer weights", "weight u₁", "weight u₂", match_aspect=True)
    for each in ("first", "second"):
        curves(weights, each, training=False)
    dots(weights, "units")
    return [loss, weights]


def theory(knobs: Knobs) -> Numbers:
    """Return the levels of the plateaus, and the drop times where they have a closed form."""
    level, times = np.array(_levels(knobs)), _drop_times(knobs)
    middle = (level[:-1] + level[1:]) / 2
    back = 0.0 if knobs.architecture == "ReLU" else -1.0  # rays instead of lines
    path = np.array([back, 1.0])[:, None, None] * _reach(knobs)[:, None] * _AXES
    return Numbers(
        times[0] if times.size else level[1:2],
        {
            "levels": {"y": level},
            "drops": {"x": times.ravel(), "y": np.tile(middle[: times.shape[1]], _SEEDS)},
            "first": {"x": path[:, 0, 0], "y": path[:, 0, 1]},
            "second": {"x": path[:, 1, 0], "y": path[:, 1, 1]},
        },
    )


def train(knobs: Knobs, progress: Progress) -> Iterator[Numbers]:
    """Train three networks from different random weights."""
    times, task, network = _times(knobs), _task(knobs), _network(knobs)
    run = gradient_flow(network, task, times, rtol=_RTOL, atol=_atol(knobs), progress=progress)
    shown = slice(0, _shown(run.loss, _levels(knobs)))
    u = _units(run)[0, shown, : knobs.width]
    for seed in range(_SEEDS):
        yield Numbers(
            _measured(knobs, run, seed),
            {"loss": {"x": times[shown], "y": run.loss[seed, shown]}},
            {} if seed else {"units": {"x": u[..., 0], "y": u[..., 1]}},
            None if seed else times[shown],
        )


def allowed(knobs: Knobs) -> float | None:
    scale, width, ratio = knobs.scale, knobs.width, knobs.ratio
    if knobs.architecture in ("linear", "linear convolution"):
        # Decaying weights and the overlap of both drops grow with the initial strengths.
        strength = width * scale**2 / 2 / ratio
        return 1e-3 + 2.0 * strength + 1.6 * ratio**2 * strength**0.5
    if knobs.architecture == "quadratic":
        return 0.01 + 4.0 * scale  # Proposition 5 holds to first order in ε
    # Training passes the level at a distance, which grows with the weights of dormant units.
    if knobs.architecture == "ReLU":
        least = _FEW if width < _FEW else 0
        distance = 30.0 * (width * scale**2 / 4) ** (2 * (1 - ratio) / (2 + ratio)) + least
    else:
        size = scale * width**0.5
        deep = knobs.architecture == "three linear layers"
        distance = 0.01 + (5.0 if deep else 4.0) * ratio * size + 6.0 * deep * size**2
    return distance if distance < _HALFWAY else None


def notice(knobs: Knobs, theory: Numbers) -> str:
    times, count, ratio = theory.compared, knobs.width, knobs.ratio
    _, level, _ = _levels(knobs)
    rates = f"Two directions grow at the rates 1 and {ratio:g}"
    short = ""
    if allowed(knobs) is None and (knobs.architecture != "ReLU" or count >= _FEW):
        short = " Here the loss hardly rests at this level: lower ε or the second rate."
    if knobs.architecture in ("linear", "linear convolution"):
        first, second = times.tolist()
        what = "kernels" if knobs.architecture == "linear convolution" else "units"
        law = "From smaller weights, both plateaus last longer, as log(1/ε)."
        if second < 1.5 * first:
            law = "The second drop begins before the first ends: lower ε or the second rate."
        return (
            f"{rates}. The initial weights fix the times of the drops (circles): {first:.3g} and "
            f"{second:.3g} for the first network. All {what} grow together, along one direction "
            f"and then along a second. {law}"
        )
    if knobs.architecture == "three linear layers":
        return (
            f"{rates} times the weights of the other two layers. The length of plateaus is "
            "therefore proportional to 1/ε, instead of log(1/ε) with two layers. The theory gives "
            f"the levels (dashed); the best rank-one network has the loss {level:.3g}.{short}"
        )
    if knobs.architecture == "ReLU":
        few = " With few units, a network may lack a unit for one of the points." * (count < _FEW)
        return (
            f"Two data points attract the units at the rates 1 and {ratio:g}. Units align with the "
            "ray of the first point, then with that of the second. The theory gives both rays and "
            f"the levels; one unit reaches the loss {level:.3g} at best.{few}{short}"
        )
    if knobs.architecture == "quadratic":
        never = times[0] >= 1.0 / knobs.scale
        when = f"to escape at t/τ = {times[0]:.3g} (circle), a time proportional to 1/ε"
        when = "never to escape, because v is negative" if never else when
        return (
            f"Units compete: in the first network, the fastest of {count} units is predicted "
            f"{when}. The others stay small. One unit reaches the loss {level:.3g}; the "
            "second drop needs another unit."
        )
    if short:
        return (
            f"Heads compete, but from these weights several of {count} heads grow almost together. "
            f"The loss hardly rests at {level:.3g}, the best loss of one head: lower ε or the "
            "second rate. Dots are query weights."
        )
    return (
        f"Heads compete: of {count} heads, one grows first and lowers the loss to about "
        f"{level:.3g}, the best loss of one head. The second drop needs another head. The length "
        "of plateaus is proportional to 1/ε. Dots are query weights."
    )


def python(knobs: Knobs) -> str:
    drawn, cut, task, compared = _code(knobs)
    return f"""\
import numpy as np
import festina

scale, width, ratio = {knobs.scale}, {knobs.width}, {knobs.ratio}
axes = np.array([[0.8, 0.6], [-0.6, 0.8]])  # directions of the task
task = festina.tasks.{task}
keys = festina.networks.seeds({_SEEDS}, first={knobs.seed})
drawn = festina.networks.{drawn}, scale=scale, key=keys)
used = np.arange({_WIDEST}) < width
{cut}
times = np.linspace(0, {_times(knobs)[-1]}, {_TIMES})
run = festina.gradient_flow(network, task, times, rtol={_RTOL}, atol={_atol(knobs)})
{compared}"""


def _code(knobs: Knobs) -> tuple[str, str, str, str]:
    """Return code for the network, its number of units, the task, and the comparison."""
    wide, teacher = _WIDEST, "linear_teacher(np.diag([1, ratio]) @ axes)"
    cut = """\
network = drawn.with_parts(
    *(np.where(used.reshape(-1, *(1,) * (part.ndim - 2)), part, 0) for part in drawn.parts)
)"""
    modes = """\
maps = np.swapaxes(run.network.v[0].reshape(-1, 30, 2), 1, 2) @ run.network.u[0] @ axes.T
left = 1 - np.diagonal(maps, axis1=1, axis2=2).T / np.array([[1], [ratio]])
measured = festina.diagnose.passage_time(run.time[0], left**2, [0.5, 0.5])
"""
    narrow = """\
zero = task.statistics(network.unit).power / 2  # loss without outputs
one = festina.theory.saddles.narrow_minima(network.unit, task, starts=4).loss[0]
"""
    level = """\
predicted = np.array([one])
loss, middle = run.loss[0], np.array([zero + one, one + run.floor]) / 2
between = (middle[1] < loss) & (loss < middle[0])
measured = loss[[np.argmin(np.where(between, run.squared_gradient[0], np.inf))]]
"""
    if knobs.architecture == "linear":
        found = "predicted = festina.theory.saddles.mode_drop_times(network, task)[0]\n"
        return f"fully_connected(2, {wide}, 2", cut, teacher, found + modes
    if knobs.architecture == "linear convolution":
        found = """\
# With white inputs, this is a fully-connected network from taps to positions.
same = festina.networks.layer_from("linear", network.u, network.v[:, :, 0])
dense = festina.tasks.linear_teacher(np.diag([1, ratio]) @ axes)
predicted = festina.theory.saddles.mode_drop_times(same, dense)[0]
"""
        teacher = "linear_teacher((np.diag([1, ratio]) @ axes).reshape(1, 4))"
        drawn = f"convolutional_1d(4, {wide}, kernel=2, stride=2"
        return drawn, cut, teacher, found + modes
    if knobs.architecture == "three linear layers":
        cut = """\
first, second, third = drawn.weights
layers = [first * used[:, None], second * np.outer(used, used), third * used]
network = festina.networks.deep_linear_from(layers)"""
        losses = """\
linear = festina.tasks.linear_teacher(np.diag([1, ratio]))
zero, one = (festina.theory.saddles.linear_saddle(linear, modes=m).loss for m in ([], [0]))
"""
        return f"deep_linear((2, {wide}, {wide}, 2)", cut, teacher, losses + level
    if knobs.architecture == "ReLU":
        drawn = f'fully_connected(2, {wide}, activation="relu"'
        return drawn, cut, "from_arrays(axes, [2, -2 * ratio])", narrow + level
    if knobs.architecture == "linear attention":
        teacher = (
            "in_context_regression(\n"
            "    2, 32, token_covariance=axes.T @ np.diag([1, ratio**0.5]) @ axes\n)"
        )
        return f"attention(2, {wide}", cut, teacher, narrow + level
    escape = """\
escape = festina.theory.saddles.blow_up_times(network, task)[0].min()
predicted = np.minimum([escape], 1 / scale)
middle = [(zero + one) / 2]
found = festina.diagnose.passage_time(run.time[0], run.loss[0], middle, slope=run.slope[0])
measured = np.where(np.isnan(found), 1 / scale, found)
"""
    drawn = f'fully_connected(2, {wide}, activation="quadratic"'
    return drawn, cut, "quadratic_teacher(np.diag([1, ratio**0.5]) @ axes)", narrow + escape


def shell(knobs: Knobs) -> str:
    panels = {
        "linear": "1b",
        "linear convolution": "1c",
        "three linear layers": "5a",
        "ReLU": "1d",
        "quadratic": "1g",
        "linear attention": "1f",
    }
    flags = f"--width {knobs.width} --scale {knobs.scale:g} --seed {knobs.seed} --seeds {_SEEDS}"
    if knobs.architecture == "linear":
        flags += f" --input-covariance 1 0 {knobs.ratio:g}"
    if knobs.architecture == "linear attention":
        flags += f" --token-variances 1 {knobs.ratio**0.5:.3g}"
    return f"festina run saddles/figure-{panels[knobs.architecture]} {flags}"


def _task(knobs: Knobs) -> AbstractTask:
    ratio, teacher = knobs.ratio, np.diag([1.0, knobs.ratio]) @ _AXES
    if knobs.architecture == "linear convolution":
        return linear_teacher(teacher.reshape(1, 4))
    if knobs.architecture == "ReLU":
        return from_arrays(_AXES, [2.0, -2.0 * ratio])
    if knobs.architecture == "quadratic":
        return quadratic_teacher(np.diag([1.0, ratio**0.5]) @ _AXES)
    if knobs.architecture == "linear attention":
        tokens = _AXES.T @ np.diag([1.0, ratio**0.5]) @ _AXES
        return in_context_regression(2, 32, token_covariance=tokens)
    return linear_teacher(teacher)


@_kept
def _network(knobs: Knobs) -> Layer | DeepLinear:
    """Return networks of the largest width; the weights of unused units are zero and stay zero."""
    how: Any = {"scale": knobs.scale, "key": seeds(_SEEDS, first=knobs.seed)}
    used = np.arange(_WIDEST) < knobs.width
    if knobs.architecture == "three linear layers":
        first, second, third = deep_linear((2, _WIDEST, _WIDEST, 2), **how).weights
        return deep_linear_from(
            [first * used[:, None], second * np.outer(used, used), third * used]
        )
    if knobs.architecture == "linear convolution":
        layer = convolutional_1d(4, _WIDEST, kernel=2, stride=2, **how)
    elif knobs.architecture == "linear attention":
        layer = attention(2, _WIDEST, **how)
    elif knobs.architecture == "linear":
        layer = fully_connected(2, _WIDEST, 2, **how)
    else:
        layer = fully_connected(2, _WIDEST, activation=knobs.architecture.lower(), **how)
    return layer.with_parts(
        *(np.where(used.reshape(-1, *(1,) * (part.ndim - 2)), part, 0.0) for part in layer.parts)
    )


def _atol(knobs: Knobs) -> float:
    return 0.1 * _RTOL * knobs.scale


def _levels(knobs: Knobs) -> tuple[float, float, float]:
    """Return the loss of zero output, of the best network with one unit, and the lowest loss."""
    return _levels_of(knobs.architecture, knobs.ratio)


@_kept
def _levels_of(architecture: Architecture, ratio: float) -> tuple[float, float, float]:
    knobs = Knobs(architecture=architecture, ratio=ratio)
    network, task = _network(knobs), _task(knobs)
    if isinstance(network, Layer) and architecture not in ("linear", "linear convolution"):
        seen, best = task.statistics(network.unit), narrow_minima(network.unit, task, starts=4)
        return seen.power / 2, float(best.loss[0]), seen.floor
    linear = linear_teacher(np.diag([1.0, ratio]))
    zero, one, two = (linear_saddle(linear, modes=modes).loss for modes in ([], [0], [0, 1]))
    return float(zero), float(one), float(two)


@_kept
def _drop_times(knobs: Knobs) -> np.ndarray:
    """Return the predicted drop times, `(seed, drop)`; without a prediction there are 0 drops."""
    network, task = _network(knobs), _task(knobs)
    if knobs.architecture == "linear":
        return mode_drop_times(network, task)
    if knobs.architecture == "linear convolution":
        # With white inputs, this is a fully-connected network from taps to positions.
        assert isinstance(network, Layer)
        layer = layer_from("linear", network.u, np.asarray(network.v)[:, :, 0])
        return mode_drop_times(layer, linear_teacher(np.diag([1.0, knobs.ratio]) @ _AXES))
    if knobs.architecture == "quadratic":
        times = blow_up_times(network, task).min(axis=-1, keepdims=True)
        return np.minimum(times, 1.0 / knobs.scale)  # infinite if no unit ever grows
    return np.empty((_SEEDS, 0))


def _times(knobs: Knobs) -> np.ndarray:
    """Return times until most networks have learned everything."""
    scale, width, ratio = knobs.scale, knobs.width, knobs.ratio
    if knobs.architecture in ("linear", "linear convolution"):
        end = 1.3 * float(_drop_times(knobs).max()) + 2.0
    elif knobs.architecture == "ReLU":
        end = 1.4 * (np.log(1 / scale) + 3.0) / ratio
    elif knobs.architecture == "three linear layers":
        end = (4.0 / (scale * width**0.5) + 5.0) / ratio
    elif knobs.architecture == "quadratic":
        end = 1.3 * (1.0 + 1.0 / ratio) * float(_drop_times(knobs).max()) + 10.0 / ratio
    else:
        end = (3.0 / (scale * width**0.5) + 60.0) / ratio
    return np.linspace(0.0, end, _TIMES)


def _shown(loss: np.ndarray, level: tuple[float, float, float]) -> int:
    """Return the number of times until shortly after the last drop."""
    low = (loss < level[2] + 0.02 * (level[0] - level[2])).all(axis=0)
    return min(_TIMES, round(1.25 * int(np.argmax(low))) + 3) if low.any() else _TIMES


def _units(run: Trajectory[Any]) -> np.ndarray:
    """Return the two shown weights of every unit, `(seed, time, unit, 2)`."""
    network = run.network
    u = np.asarray(network.weights[0] if isinstance(network, DeepLinear) else network.u)
    return u[:, :, :, 1, 0, :2] if u.ndim > 4 else u  # queries of attention heads


def _reach(knobs: Knobs) -> np.ndarray:
    """Return about how far the weights of units reach along both directions."""
    strength, share = np.array([1.0, knobs.ratio]), 2.5 / knobs.width**0.5
    if knobs.architecture in ("quadratic", "linear attention"):
        return 1.15 * strength ** (1 / 3)
    if knobs.architecture == "three linear layers":
        return min(1.0, share) * strength ** (1 / 3)
    if knobs.architecture == "ReLU":
        return min(1.0, 1.7 * share) * (2 * strength) ** 0.5
    return min(1.0, share) * strength**0.5


def _measured(knobs: Knobs, run: Trajectory[Any], seed: int) -> np.ndarray:
    """Return the compared quantity; a time is the first network's prediction plus its own error."""
    time, loss, level = run.time[seed], run.loss[seed], _levels(knobs)
    middle, predicted = [(level[0] + level[1]) / 2, (level[1] + level[2]) / 2], _drop_times(knobs)
    if not predicted.size:
        between = (middle[1] < loss) & (loss < middle[0])
        rest = np.argmin(np.where(between, run.squared_gradient[seed], np.inf))
        return loss[rest : rest + 1]
    if knobs.architecture == "quadratic":
        found = passage_time(time, loss, middle[:1], slope=run.slope[seed])
    else:
        u, v = np.asarray(run.network.u)[seed], np.asarray(run.network.v)[seed]
        maps = np.swapaxes(v.reshape(*v.shape[:2], 2), 1, 2) @ u @ _AXES.T
        left = 1.0 - np.diagonal(maps, axis1=1, axis2=2).T / np.array([[1.0], [knobs.ratio]])
        found = passage_time(time, left**2, [0.5, 0.5])
    found = np.where(np.isnan(found), 1.0 / knobs.scale, found)
    return predicted[0] + (found - predicted[seed])
