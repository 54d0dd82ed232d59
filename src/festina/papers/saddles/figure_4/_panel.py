"""Shared code of the panels of Figure 4: two-layer networks with activations not in Figure 1.

The order of the lowest term of φ around u = 0 determines how learning starts. At order one,
directions separate; at orders two and three, units separate. Unlike in Figure 1, the saddle of a
width-1 network is not always visited. Each panel therefore says at which level the loss rests and
whether a fixed point has this level.

Unless `method` selects gradient descent, training is gradient flow on the loss ⟨|y − f|²⟩. A time
t of gradient flow is plotted as the number of steps t/η, where η is the paper's learning rate.
"""

import dataclasses
import functools
from collections.abc import Callable
from typing import Any, Literal, TypeAlias

import jax
import jax.numpy as jnp
import numpy as np
import xarray as xr
from matplotlib.axes import Axes
from matplotlib.figure import Figure
from pydantic import Field, PositiveFloat

from ...._types import Keys
from ....experiments._frame import Progress, Run, Tables, part_of
from ....experiments._keys import Key
from ....experiments.claims import (
    Claim,
    ClaimCollector,
    agree,
    join_numbers,
    max_error_below,
    most_seeds,
)
from ....experiments.figures import THEORY_STYLE, styled
from ....networks import Layer, NeuronUnit, fully_connected, layer_from
from ....networks._activations import Activation, activation
from ....networks._algebra import measure_algebra
from ....tasks import AbstractTask, student_teacher
from .. import panels
from ..panels import END, PLATEAU, Panel, PanelParameters, Reading
from ._one_unit import population, width_one

Levels: TypeAlias = tuple[float, dict[str, Any]]
"""Plateau level to compare with, and further variables of the group `theory`."""

TEXT, EQ_5 = "Figure 4, text", "Theorem 1, Eq. (5)"

_FUNCTIONS: dict[str, tuple[Callable[..., Any], str]] = {
    "1-cos": (lambda z: 2 * jnp.sin(z / 2) ** 2, "1 − cos z"),  # avoids cancellation
    "squared-relu": (lambda z: jnp.where(z > 0, z, 0.0) ** 2, "ReLU(z)²"),
    "z-tanh": (lambda z: z * jnp.tanh(z), "z tanh z"),
    "z2-tanh": (lambda z: z**2 * jnp.tanh(z), "z² tanh z"),
    "z2-sin": (lambda z: z**2 * jnp.sin(z), "z² sin z"),
    "z3-rational": (lambda z: z**3 / (1 + z**2), "z³/(1 + z²)"),
}


class OtherParameters(PanelParameters):
    """Parameters of Figure 4. Gradient flow gives the curves of gradient descent in less time."""

    learning_rate: float = Field(default=0.02, gt=0)
    """Learning rate η of gradient descent on the loss."""

    loss: Literal["mean-square"] = "mean-square"  # pyright: ignore[reportIncompatibleVariableOverride]
    """Loss: mean over samples ⟨‖y − f‖²⟩, as in Eq. 64."""

    method: Literal["descent", "flow"] = "flow"
    """Training by gradient descent, or by gradient flow with time t plotted in steps t/η."""


class TeacherParameters(OtherParameters):
    """Parameters of a student that learns a teacher with two units and the same activation."""

    teacher: tuple[PositiveFloat, PositiveFloat] = (1.0, 2.0)
    """Lengths of the teacher's weight vectors u₁* and u₂*, which lie along the two axes."""

    spacing: float = Field(default=0.4, gt=0, le=1)
    """Spacing of the grid points over which population averages are taken."""


class FewUnitsParameters(TeacherParameters):
    """Parameters of panels whose units grow one by one, as in Figures 1F and 1G."""

    width: int = Field(default=10, ge=2)
    """Number H of hidden units."""

    scale: float = Field(default=5e-3, gt=0)
    """Standard deviation ε of the initial weights."""


@functools.cache
def named(name: str) -> Activation:
    """Return the activation with this name; for custom functions, its algebra is measured."""
    function, _ = _FUNCTIONS.get(name, (name, ""))
    return dataclasses.replace(activation(function), name=name)


def teacher_task(phi: Activation, parameters: Any, key: Key) -> AbstractTask:
    """Return the task y = φ(x; u₁*) + φ(x; u₂*), x from N(0, I): a sample or the population."""
    teacher = layer_from(NeuronUnit(phi), np.diag(parameters.teacher), np.ones(2))
    if parameters.samples is None and not teacher.unit.fixed_features:
        return population(teacher, parameters.spacing)
    # For a polynomial, `nodes=None` selects as many quadrature nodes as exact averages need.
    return student_teacher(teacher, np.eye(2), nodes=None, samples=parameters.samples, key=key)


def student(phi: Activation, parameters: TeacherParameters, keys: Keys) -> Layer:
    """Return a fully-connected network with small weights and the teacher's activation."""
    return fully_connected(2, parameters.width, activation=phi, scale=parameters.scale, key=keys)


def fixed_points(parameters: TeacherParameters, task: AbstractTask, network: Layer) -> Levels:
    """Return the levels of the fixed points of a width-1 network, and the lowest of them."""
    points = width_one(network.unit, task)
    _, levels = points["fixed_point"]
    if not len(levels):
        raise ValueError(
            "A network with one unit has no fixed point with weights up to 5 on these data. "
            "Use a `teacher` with shorter weights, or a smaller `spacing`."
        )
    return float(levels[0]), points


def _measured_order(network: Layer, task: AbstractTask) -> float:
    """Measure the order of the lowest term of φ around u = 0, on some of the data."""
    psi = task.statistics(network.unit).psi
    some, shape = psi[:: max(1, len(psi) // 64)], network.u.shape[len(network.batch_shape) + 1 :]
    response = jax.jit(lambda u: network.unit.response(some, u[..., None]))
    draws = np.random.default_rng(0).normal(size=(4, *shape))
    order = measure_algebra(lambda u: np.asarray(response(u)), draws).order
    return np.nan if order is None else float(order)


def other(
    number: str,
    title: str,
    parameters: type[OtherParameters],
    order: int,
    asserts: Callable[[Reading, ClaimCollector], None] = lambda *_: None,
    known: Callable[[Any, AbstractTask, Layer], Levels] = fixed_points,
    *,
    activation: str = "",
    share: float = 1.0,
    merge: float = 1e-3,
    scales: tuple[str, str] = ("linear", "linear"),
    **more: Any,
) -> tuple[Run[Any], Callable[..., list[Claim]], Callable[..., Figure]]:
    """Return `run`, `claims` and `draw` of a panel, by default with a student and a teacher.

    - `order`: lowest order of φ stated in the paper; its consequences are claimed before `asserts`.
    - `activation`: name of the activation; if empty, the parameters name the activation.
    - `share`: share of seeds that are expected to have an intermediate plateau.
    - `merge`: smallest drop of the loss that counts, as a fraction of the initial loss.
    - `scales`: scales of the time and loss axes, `"linear"` or `"log"`.
    """
    phi = lambda parameters: named(activation or parameters.activation)

    def tables(
        parameters: Any, task: AbstractTask, network: Layer, keys: Keys, progress: Progress
    ) -> Tables:
        progress("searching for the fixed points of one unit", 0.02)
        rest, points = known(parameters, task, network)
        points["order"] = ((), _measured_order(network, task))
        trajectory = panels.train(parameters, network, task, part_of(progress, 0.1, 0.85))
        theory = panels.theory(parameters, task, network, rest, trajectory.floor, points)
        found = panels.records(parameters, trajectory, theory["level"].values, merge=merge)
        if order < 2:
            # Take the weights right after a drop, as the paper does. Where the plateau is not at a
            # fixed point, the weights have already moved on when the loss is slowest.
            plateaus, step = found["plateaus"], found["simulation"]["step"]
            start = (step < plateaus["start"]).sum("save")
            found["plateaus"] = plateaus.assign(save=np.minimum(plateaus["save"], start))
        return {**found, "theory": theory}

    def claimed(reading: Reading, claim: ClaimCollector) -> None:
        words = f"the expansion of the activation φ in small weights u starts at order {order}"
        claim("lowest-order", words, agree(reading.theory["order"], order), at=TEXT)
        if order:
            chosen = getattr(reading.parameters, "activation", "")
            unnamed = chosen and f"the paper names no activation; here φ = {_FUNCTIONS[chosen][1]}"
            claim(
                "rests-between-drops",
                "the loss rests on a plateau between the first and the second drop",
                most_seeds(reading.counts >= 3, share),
                corrected=unnamed,
                note=f"number of plateaus by seed: {join_numbers(reading.counts)}",
                headline=True,
            )
        if order == 1:
            _directions(reading, claim)
        if order > 1:
            if "fixed_point" in reading.theory:
                panels.level(reading, claim, order=order)
            panels.active(reading, claim, share)
        asserts(reading, claim)

    made: Any = {
        "task": lambda parameters, key: teacher_task(phi(parameters), parameters, key),
        "network": lambda parameters, keys: student(phi(parameters), parameters, keys),
        **more,
    }
    panel = Panel(number, title, parameters, tables=tables, asserts=claimed, **made)
    return panel.run, panel.claims, functools.partial(_draw, panel, scales)


def _directions(reading: Reading, claim: ClaimCollector) -> None:
    """Check for rank one without a width-1 fixed point: φ of order one, not homogeneous."""
    seeds = np.flatnonzero(reading.counts >= 3).tolist()
    if not seeds:
        return
    theta = [[np.hstack(reading.weights(k, stage)) for k in seeds] for stage in (PLATEAU, END)]
    s = np.linalg.svd(np.array(theta), compute_uv=False)
    after, end = s[..., 1] / s[..., 0]
    words = "right after the first drop the weights have rank one (second over first singular value"
    rank_one, note = max_error_below(np.median(after), within=0.01), f"at most {after.max():.2g}"
    claim("rank-one-after-drop", f"{words}, median)", rank_one, at=f"{TEXT}; Theorem 4", note=note)
    words = (
        "weights of rank one are not an invariant manifold and do not keep their rank: the final "
        "ratio of the second to the first singular value exceeds 0.1"
    )
    grown, note = most_seeds(end > 0.1, 0.9), f"median ratio {np.median(end):.2g}"
    claim("rank-one-does-not-last", words, grown, at=f"{TEXT}; Theorem 3", note=note)
    levels = reading.plateaus["level"].values[seeds, PLATEAU]
    points = reading.theory["fixed_point"].values
    away = np.abs(levels[:, None] / points - 1).min(axis=1)
    words = "the loss after the first drop differs by more than 2 % from every width-1 fixed point"
    note = f"median loss {np.median(levels):.6g}; fixed points at {join_numbers(points, 6)}"
    claim("no-fixed-point", words, most_seeds(away > 0.02, 0.9), at=TEXT, note=note)


@styled
def _draw(panel: Panel, scales: tuple[str, str], run: xr.DataTree) -> Figure:
    """Draw the panel as in Figure 1, with the weights after the first drop."""
    reading, title = panel.reading(run), panel.heading(run)
    if chosen := getattr(reading.parameters, "activation", ""):
        title = f"{panel.number}   φ(z) = {_FUNCTIONS[chosen][1]}, {panel.title}"
    figure = panels.draw_panel(reading, title, panel.drawn, panel.symbol)
    loss, after, _ = figure.axes
    if after.get_title():
        after.set_title("after the first drop")
    if "fixed_point" in reading.theory:
        _draw_fixed_points(reading, loss)
    if scales[0] == "log":
        loss.set(xscale="log", xlim=(0.1, float(reading.simulation["step"].max()) or 1.0))
    if scales[1] == "log":
        top, lowest = float(reading.theory["level"][0]), float(reading.simulation["loss"].min())
        loss.set(yscale="log", ylim=(0.5 * max(lowest, 1e-6 * top), 2 * top))
    return figure


def _draw_fixed_points(reading: Reading, ax: Axes) -> None:
    """Draw the fixed points of one unit; those at which the loss of no seed rests are dotted."""
    points, minimum = (reading.theory[name].values for name in ("fixed_point", "minimum"))
    rest = float(reading.theory["level"][1])
    lowest = [line for line in ax.lines if set(np.asarray(line.get_ydata()).tolist()) == {rest}]
    others = [ax.axhline(level, **THEORY_STYLE) for level in points[minimum][1:]]
    seen = reading.plateaus["level"].values[reading.counts >= 3, PLATEAU]
    # Activations of order zero rest close to a fixed point, and those of order one nowhere near.
    within = 0.1 if reading.theory["order"] == 0 else 0.02
    label = "fixed points of one unit, not visited"
    for line in lowest + others:
        level = np.asarray(line.get_ydata(), float)[0]
        if not (abs(seen / level - 1) < within).any():
            line.set(ls=":", color="0.5", zorder=1, label=label)
            label = None
    panels.loss_legend(ax)
