"""Learning one task after another, and reversal: how a second task raises the loss of the first."""

import math
from collections.abc import Iterator
from typing import Any

import numpy as np
from bokeh.plotting import figure

from ..._types import Array
from ...diagnose import passage_time
from ...dynamics import gradient_flow
from ...networks import DeepLinear, deep_linear_from, lambda_balanced, seeds
from ...tasks import from_moments, linear_teacher
from ...theory.linear import continual_learning, interference, reversal_time
from .._plots import COLOURS, curves, dots, guide, paths, plot
from .._scene import Columns, Numbers, Progress, SceneKnobs, choice, slider

COMPARED = "the loss on both tasks"
_SEEDS, _FIRST, _SECOND = 4, 81, 121
_MODES = (1.5, 0.8)
"""Singular values of task A. Task B has the same singular values."""
_NOISE = 0.05
_ANGLES = np.arange(0.0, 181.0, 5.0)
_INPUTS = COLOURS[2:4]
_WHOLE = sum(s**2 for s in _MODES)
"""‖Σ‖² of each task: twice the loss of a network whose output is zero."""


class Knobs(SceneKnobs):
    angle: float = slider("angle between tasks A and B (180°: reversed)", 180, 0, 180, step=5)
    first: float = slider("time spent on task A", 4.0, 1.0, 5.0, step=0.25)
    balance: float = slider("balance λ of the layers", 0.1, 0.0, 4.0, step=0.05)
    scale: float = slider("scale of the initial map", 0.05, 1e-3, 1.0, log=True)
    noise: bool = choice(f"add noise to the initial weights (σ = {_NOISE})", False)


def plots() -> list[figure]:
    """Return the plots: losses, modes of task A, outputs in their plane, and forgetting."""
    box: dict[str, Any] = {"y_range": (-0.2, 2.5 * _WHOLE)}
    losses = plot("Loss: first task A, then task B", "time t/τ", "loss", time=True, **box)
    curves(losses, "loss", seeds=_SEEDS, columns=("a", "b"), legend=("task A", "task B"))
    guide(losses, "switch")
    losses.legend[0].orientation = "horizontal"
    box = {"y_range": (-1.2 * _MODES[0], 1.2 * _MODES[0])}
    modes = plot("Strength of task A's modes", "time t/τ", "strength", time=True, **box)
    legend = tuple(f"s = {s:g}" for s in _MODES)
    how = {"columns": ("first", "second"), "legend": legend, "colours": _INPUTS}
    curves(modes, "modes", seeds=_SEEDS, **how)
    guide(modes, "zero")
    dots(modes, "crossing", seed="theory")
    modes.legend[0].location = "bottom_left"
    box = {"x_range": (-1.8, 3.4), "y_range": (-1.4, 1.8)}
    outputs = plot("Outputs for two inputs", "output 1", "output 2", **box)
    for seed in range(_SEEDS):
        paths(outputs, "path", 2, seed=seed, colour=COLOURS[5])
    paths(outputs, "path", 2, seed="theory")
    for task, colour in zip("ab", COLOURS, strict=False):
        words = f"target {task.upper()}"
        dots(outputs, f"target_{task}", seed="theory", size=14, hollow=colour, legend=words)
    for seed in range(_SEEDS):
        for k, colour in enumerate(_INPUTS):
            words = f"input {k + 1}" if not seed else ""
            dots(outputs, f"output_{k}", seed=seed, size=9, colour=colour, legend=words)
    title = "Increase of the loss on A by learning B"
    cost = plot(title, "angle between tasks (degrees)", "increase of loss")
    curves(cost, "cost", training=False)
    for seed in range(_SEEDS):
        dots(cost, "forgotten", seed=seed, size=9)
    dots(cost, "forgotten", seed="theory", size=9)
    return [losses, modes, outputs, cost]


def theory(knobs: Knobs) -> Numbers:
    """Return the exact flow on task A and then on task B, and the forgetting once B is learned."""
    tasks = [from_moments(sigma) for sigma in _tasks(knobs)]
    exact = continual_learning(_networks(knobs).lane(0), tasks, _stages(knobs))
    turned = _turned(_ANGLES)
    rise = interference(np.concatenate((np.diag(_MODES)[None], turned)))[1:, 0]
    after = _ends(knobs)
    crossing = np.zeros((0,))
    if knobs.angle == 180 and knobs.balance:
        crossing = knobs.first + reversal_time(_MODES, knobs.balance)
        crossing = crossing[crossing < after]
    top = float(exact.losses.max())
    switch = {"x": np.full(2, knobs.first), "y": np.array([0.0, top])}
    targets = {
        f"target_{name}": {"x": sigma[0], "y": sigma[1]}
        for name, sigma in zip("ab", _tasks(knobs), strict=True)
    }
    columns = {
        "cost": {"x": _ANGLES, "y": rise},
        "crossing": {"x": crossing, "y": np.zeros_like(crossing)},
        "switch": switch,
        "zero": {"x": np.array([0.0, after]), "y": np.zeros(2)},
        **targets,
    }
    return _numbers(knobs, exact.time, exact.map, exact.losses, columns)


def train(knobs: Knobs, progress: Progress) -> Iterator[Numbers]:
    """Train networks with randomly rotated hidden layers on task A and then on task B."""
    networks, stages, maps = _networks(knobs), _stages(knobs), []
    if knobs.noise:
        rng = np.random.default_rng(1)
        noisy = [w + _NOISE * rng.standard_normal(w.shape) for w in networks.weights]
        networks = deep_linear_from(noisy)
    for sigma, times in zip(_tasks(knobs), stages, strict=True):
        run = gradient_flow(networks, linear_teacher(sigma), times, rtol=1e-10, progress=progress)
        maps.append(np.asarray(run.network.end_to_end()))
        networks = run.final
    time = np.concatenate((stages[0], knobs.first + stages[1]))
    for product in np.concatenate(maps, axis=1):
        losses = [np.sum((product - sigma) ** 2, axis=(1, 2)) / 2 for sigma in _tasks(knobs)]
        yield _numbers(knobs, time, product, np.stack(losses, axis=1))


def allowed(knobs: Knobs) -> float | None:
    # A reversal at balance 0 starts from weights of order e^(-2sT) and amplifies the errors of the
    # integrator by the inverse, up to 10⁷.
    return None if knobs.noise else 1e-5 if knobs.angle == 180 else 1e-7


def notice(knobs: Knobs, theory: Numbers) -> str:
    learned, rise = theory.compared[_FIRST - 1, 0], theory.compared[-1, 0]
    rise = rise - learned
    noise = (
        " With noise the layers are not balanced, so the closed form (dashed) is approximate."
        if knobs.noise
        else ""
    )
    if learned > 0.1 * _WHOLE / 2:
        return (
            f"At time {knobs.first:g} task A is not learned yet: its loss is {learned:.2g}; zero "
            f"output has {_WHOLE / 2:.3g}. Spend more time on A, or start from a larger "
            f"scale.{noise}"
        )
    if knobs.angle == 0:
        return (
            "Both tasks are the same: the network goes on as if nothing had happened. Increase the "
            f"angle, and learning B raises the loss on A.{noise}"
        )
    if knobs.angle == 180:
        if knobs.noise and not knobs.balance and knobs.first >= 4:
            noise = " The noise unbalances the layers, so trained modes (pale) reverse earlier."
        return _reversed(knobs, theory) + noise
    full = _WHOLE * (1 - math.cos(math.radians(knobs.angle)))
    done = theory.compared[-1, 1] < 0.02 * _WHOLE
    words = f"Learning B raises the loss on A by {rise:.2f}" + (
        ", as ½‖Σ_A − Σ_B‖² predicts for any balance and scale. "
        if done
        else f" so far, and by {full:.2f} once B is learned. "
    )
    untrained = _WHOLE / 2
    words += (
        f"Then the loss on A exceeds that of an untrained network, {untrained:.3g}, as for every "
        "angle beyond 60°."
        if full > untrained + 1e-9
        else f"An untrained network has the loss {untrained:.3g}, so part of A is kept."
    )
    return words + noise


def _reversed(knobs: Knobs, theory: Numbers) -> str:
    """Return the sentences about a reversed task."""
    time, slow = theory.columns["modes"]["x"], theory.columns["modes"]["second"]
    crossing = float(passage_time(time[_FIRST:], slow[_FIRST:], 0.0)) - knobs.first
    when = f"{crossing:.2g} after the switch" if crossing > 0 else "after the time shown"
    words = f"Reversal: the slower mode changes sign {when}; a single layer needs ln 2 = 0.69. "
    if not knobs.balance:
        return words + (
            "At balance 0 the weights that must grow have decayed like e^(−2sT) during the time "
            f"T = {knobs.first:g} on task A: the longer A is trained, the slower is its reversal."
        )
    least = float(reversal_time(_MODES[1], knobs.balance))
    return words + (
        f"Balance λ = {knobs.balance:g} preserves some of the weights that must grow: even after "
        f"infinitely long training on A, reversal takes t/τ = {least:.2g} (circles). For small λ "
        "this time grows like ln(1/λ)."
    )


def python(knobs: Knobs) -> str:
    noise = (
        f"""
rng = np.random.default_rng(1)
noisy = [w + {_NOISE} * rng.standard_normal(w.shape) for w in networks.weights]
networks = festina.networks.deep_linear_from(noisy)"""
        if knobs.noise
        else ""
    )
    return f"""\
import numpy as np
import festina

angle, first, balance, scale = np.deg2rad({knobs.angle}), {knobs.first}, {knobs.balance}, \
{knobs.scale}
a = np.diag({list(_MODES)})
b = np.array([[np.cos(angle), -np.sin(angle)], [np.sin(angle), np.cos(angle)]]) @ a
stages = [np.linspace(0, first, {_FIRST}), np.linspace(0, 2 * first + {_MORE}, {_SECOND})]
networks = festina.networks.lambda_balanced(
    (2, 2, 2), balance=balance, product=scale * np.array({_MAP.tolist()}),
    key=festina.networks.seeds({_SEEDS}),
)
tasks = [festina.tasks.from_moments(sigma) for sigma in (a, b)]
predicted = festina.theory.linear.continual_learning(networks.lane(0), tasks, stages).losses
{noise}
maps = []
for sigma, times in zip((a, b), stages):
    run = festina.gradient_flow(networks, festina.tasks.linear_teacher(sigma), times, rtol=1e-10)
    maps.append(run.network.end_to_end()[0])
    networks = run.final
errors = [np.concatenate(maps) - sigma for sigma in (a, b)]
measured = np.stack([np.sum(error**2, axis=(1, 2)) / 2 for error in errors], axis=1)
"""


def shell(knobs: Knobs) -> str:
    balance = max(knobs.balance, 0.01)
    if knobs.angle == 180:
        return f"festina run linear/reversal --balances {balance:g} {10 * balance:g}"
    return f"festina run linear/continual --balance {balance:g} --other-balances {10 * balance:g}"


_MORE = 4.0
# At balance 0 the sign of a determinant is conserved: that of the initial map is positive, like
# those of both tasks.
_MAP = np.array([[0.8, 0.5], [-0.3, 0.6]])


def _turned(degrees: Array) -> np.ndarray:
    """Return task A with its outputs rotated by these angles."""
    angle = np.deg2rad(degrees)
    turn = np.array([[np.cos(angle), -np.sin(angle)], [np.sin(angle), np.cos(angle)]])
    return np.moveaxis(turn, (0, 1), (-2, -1)) @ np.diag(_MODES)


def _tasks(knobs: Knobs) -> tuple[np.ndarray, np.ndarray]:
    return np.diag(_MODES), _turned(np.asarray(knobs.angle))


def _stages(knobs: Knobs) -> list[np.ndarray]:
    second = 2 * knobs.first + _MORE
    return [np.linspace(0, knobs.first, _FIRST), np.linspace(0, second, _SECOND)]


def _ends(knobs: Knobs) -> float:
    return 3 * knobs.first + _MORE


def _networks(knobs: Knobs) -> DeepLinear:
    """Return networks with the same initial map and random rotations of the hidden layer."""
    return lambda_balanced(
        (2, 2, 2), balance=knobs.balance, product=knobs.scale * _MAP, key=seeds(_SEEDS)
    )


def _numbers(
    knobs: Knobs, time: Array, product: Array, losses: Array, more: Columns | None = None
) -> Numbers:
    """Return losses, modes of task A, outputs over time and forgetting, of theory or training."""
    forgotten = losses[-1, 0] - losses[_FIRST - 1, 0]
    columns = {
        "loss": {"x": time, "a": losses[:, 0], "b": losses[:, 1]},
        "modes": {"x": time, "first": product[:, 0, 0], "second": product[:, 1, 1]},
        "path": {f"{axis}{k}": product[:, j, k] for k in range(2) for j, axis in enumerate("xy")},
        "forgotten": {"x": np.array([knobs.angle]), "y": np.array([forgotten])},
    }
    now = {f"output_{k}": {"x": product[:, :1, k], "y": product[:, 1:, k]} for k in range(2)}
    return Numbers(losses, columns | dict(more or {}), {} if more else now, None if more else time)
