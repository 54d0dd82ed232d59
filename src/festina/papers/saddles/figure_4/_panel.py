"""What the panels of Figure 4 share: two-layer networks whose activation is not that of Figure 1.

The lowest term of φ around u = 0 decides how learning starts: directions separate at first order,
units at second and third. Unlike in Figure 1 the saddle of a width-1 network is not always visited,
so that each panel says where the loss rests and where that is no such level.

Times: flow of the loss ⟨|y − f|²⟩ in units of the paper's learning rate, t/η = n, unless `method`
asks for descent itself.
"""

import dataclasses
import functools
from collections.abc import Callable
from typing import Any, Literal, TypeAlias

import jax
import jax.numpy as jnp
import numpy as np
import xarray as xr
from jaxtyping import PRNGKeyArray
from matplotlib.figure import Figure
from pydantic import Field, PositiveFloat

from ...._types import Keys
from ....networks import AbstractUnit, Layer, Neuron, fully_connected, layer, measure_algebra
from ....networks._activations import Activation, activation
from ....tasks import AbstractTask, student_teacher
from ..._frame import part_of
from ..._registry import Progress
from ...claims import Ledger, apart, listed, most, same
from ...figures import THEORY, styled
from .. import panels
from ..panels import END, PLATEAU, Panel, PanelParameters, Reading
from ..panels._tables import Tables
from ._one_unit import population, width_one

Known: TypeAlias = Callable[[Any, AbstractTask, Layer], tuple[float, dict[str, Any]]]
"""`(parameters, task, network)` → the level to compare with, and more variables of `theory`."""

TEXT, EQ_5 = "Figure 4, text", "Theorem 1, Eq. (5)"

_FUNCTIONS: dict[str, tuple[Callable[..., Any], str]] = {
    "1-cos": (lambda z: 2 * jnp.sin(z / 2) ** 2, "1 − cos z"),  # without cancellation
    "squared-relu": (lambda z: jnp.where(z > 0, z, 0.0) ** 2, "ReLU(z)²"),
    "z-tanh": (lambda z: z * jnp.tanh(z), "z tanh z"),
    "z2-tanh": (lambda z: z**2 * jnp.tanh(z), "z² tanh z"),
    "z2-sin": (lambda z: z**2 * jnp.sin(z), "z² sin z"),
    "z3-rational": (lambda z: z**3 / (1 + z**2), "z³/(1 + z²)"),
}


class OtherParameters(PanelParameters):
    """Figure 4. The paper trains by descent; flow is the same here and takes less time."""

    learning_rate: float = Field(default=0.02, gt=0)
    """Learning rate η of gradient descent on the loss."""

    loss: Literal["mean-square"] = "mean-square"  # pyright: ignore[reportIncompatibleVariableOverride]
    """Loss convention: as Eq. 64 is printed."""

    method: Literal["descent", "flow"] = "flow"
    """Gradient descent at the learning rate, or gradient flow on the same axis of steps, t/η."""


class TeacherParameters(OtherParameters):
    """A student learns from a teacher with two units and the same activation."""

    teacher: tuple[PositiveFloat, PositiveFloat] = (1.0, 2.0)
    """Lengths of the teacher's two weight vectors u₁* and u₂*, which lie along the two axes."""

    spacing: float = Field(default=0.4, gt=0, le=1)
    """Distance of the grid points that population averages are taken over."""


class FewUnitsParameters(TeacherParameters):
    """Where units separate, as in Figures 1F and 1G: few of them, from larger weights."""

    width: int = Field(default=10, ge=2)
    """Number of units H."""

    scale: float = Field(default=5e-3, gt=0)
    """Standard deviation ε of the initial weights."""


@functools.cache
def named(name: str) -> Activation:
    """The activation itself; the algebra of one that the library does not name is measured."""
    if name not in _FUNCTIONS:
        return activation(name)
    return dataclasses.replace(activation(_FUNCTIONS[name][0]), name=name)


def teacher_task(
    phi: Activation, parameters: TeacherParameters, key: PRNGKeyArray | None
) -> AbstractTask:
    """y = φ(x; u₁*) + φ(x; u₂*) for x from N(0, I) in the plane: a sample, or the population."""
    unit = Neuron(phi)
    teacher = layer(unit, np.diag(parameters.teacher), np.ones(2))
    if parameters.samples is None and not unit.fixed_features:
        return population(teacher, parameters.spacing)
    # Of a polynomial as few nodes as it needs (None) average exactly.
    return student_teacher(teacher, np.eye(2), nodes=None, samples=parameters.samples, key=key)


def student(phi: Activation, parameters: TeacherParameters, keys: Keys) -> Layer:
    """A fully-connected network with small weights and the teacher's activation."""
    return fully_connected(2, parameters.width, activation=phi, scale=parameters.scale, key=keys)


def teacher_panel(
    number: str,
    title: str,
    parameters: type[TeacherParameters],
    tables: Tables,
    asserts: Callable[[Reading, Ledger], None],
    activation: str = "",
) -> Panel:
    """A student and its teacher; the parameters name the activation if it is left out."""
    phi = lambda parameters: named(activation or parameters.activation)
    return Panel(
        number,
        title,
        parameters,
        lambda parameters, key: teacher_task(phi(parameters), parameters, key),
        lambda parameters, keys: student(phi(parameters), parameters, keys),
        tables,
        asserts,
    )


def fixed_points(
    parameters: TeacherParameters, task: AbstractTask, network: Layer
) -> tuple[float, dict[str, Any]]:
    """Levels of a width-1 network's fixed points; the one to compare with is the lowest."""
    del parameters
    points = width_one(network.unit, task)
    _, levels = points["width_one_level"]
    if not len(levels):
        raise ValueError(
            "A network with one unit has no fixed point with weights up to 5 on these data. "
            "Take a `teacher` with shorter weights, or a finer `spacing`."
        )
    return float(levels[0]), points


def tables(known: Known = fixed_points, *, merge: float = 1e-3) -> Tables:
    """Train every seed, find its plateaus, and the levels that they are compared with.

    `merge` is the smallest drop of the loss that counts, as a fraction of the initial one.
    """

    def tables(
        parameters: OtherParameters, task: AbstractTask, network: Layer, keys: Keys, say: Progress
    ) -> dict[str, xr.Dataset]:
        del keys
        say("fixed points of one unit", 0.02)
        rest, more = known(parameters, task, network)
        order = _order(network.unit, task.statistics(network.unit).psi)
        trajectory = panels.train(parameters, network, task, part_of(say, 0.1, 0.85))
        more = {"order": ((), order), **more}
        theory = panels.theory(parameters, task, network, rest, trajectory.floor, more)
        found = panels.records(parameters, trajectory, theory["level"].values, merge=merge)
        if order < 2:
            # Right after a drop, where the paper looks at the weights: on a plateau that is no
            # fixed point they have moved on by the time that they are slowest.
            plateaus, step = found["plateaus"], found["simulation"]["step"]
            start = (step < plateaus["start"]).sum("save")
            found["plateaus"] = plateaus.assign(save=np.minimum(plateaus["save"], start))
        return {**found, "theory": theory}

    return tables


def _order(unit: AbstractUnit, psi: np.ndarray) -> np.ndarray:
    """Order of φ's lowest term around u = 0, from responses to some of the data; NaN if none."""
    some = psi[:: max(1, len(psi) // 64)]
    inputs = some.shape[1:] if unit.degree is None else some.shape[1:2]  # or powers of them
    draws = np.random.default_rng(0).normal(size=(4, *unit.weight_shape(inputs)))
    response = jax.jit(lambda u: unit.response(some, u[..., None]))
    return np.array(measure_algebra(lambda u: np.asarray(response(u)), draws).order, float)


def order(reading: Reading, say: Ledger, stated: int) -> None:
    """The lowest order of φ, which the paper states for every panel."""
    words = "order of the lowest term of φ around zero weights, measured on responses"
    note = ("", "directions separate", "units separate", "units separate")[stated]
    say(words, same(float(reading.theory["order"]), float(stated)), TEXT, note=note)


def directions(reading: Reading, say: Ledger) -> None:
    """φ of order one, not homogeneous: rank one after the first drop, at no width-1 fixed point."""
    order(reading, say, 1)
    _stops(reading, say, 1)
    seeds = np.flatnonzero(reading.counts >= 3).tolist()
    if not seeds:
        return
    after, end = np.array(
        [[_second_singular_value(reading, k, stage) for k in seeds] for stage in (PLATEAU, END)]
    )
    say(
        "right after the first drop the weights have rank one: second over first singular value, "
        "median",
        apart(np.median(after), within=0.01),
        f"{TEXT}; Theorem 4",
        note=f"at most {after.max():.2g}",
    )
    say(
        "rank one does not last, for it is no invariant manifold: the second singular value ends "
        "above a tenth of the first",
        most(end > 0.1, 0.9),
        f"{TEXT}; Theorem 3",
        note=f"median {np.median(end):.2g}",
    )
    away, note = _from_one_unit(reading)
    words = "the level after the first drop is that of no width-1 fixed point: more than 2 % away"
    say(f"{words} from each", most(away > 0.02, 0.9), TEXT, note=note)


def units(reading: Reading, say: Ledger, stated: int, share: float, corrected: str = "") -> None:
    """φ of order two or three: one active unit, then two; at a width-1 fixed point if any."""
    order(reading, say, stated)
    _stops(reading, say, share, corrected)
    if "width_one_level" in reading.theory and (reading.counts >= 3).any():
        away, note = _from_one_unit(reading)
        words = "after the first drop the loss rests within 2 % of the level of a width-1 fixed"
        say(f"{words} point", most(away <= 0.02, share), EQ_5, note=note)
    panels.active(reading, say, share)


def unnamed(parameters: Any) -> str:
    """The correction where the text gives the order of φ alone, and the parameters name it."""
    return f"the text names no activation; here φ = {_FUNCTIONS[parameters.activation][1]}"


def _stops(reading: Reading, say: Ledger, share: float, corrected: str = "") -> None:
    words, note = "after the first drop the loss rests before it drops again", reading.counts
    rests = most(reading.counts >= 3, share)
    say(words, rests, corrected=corrected, note=f"plateaus by seed {listed(note)}")


def _from_one_unit(reading: Reading) -> tuple[np.ndarray, str]:
    """How far each level after the first drop is from that of the nearest fixed point, relative."""
    points = reading.theory["width_one_level"].values
    levels = reading.plateaus["level"].values[reading.counts >= 3, PLATEAU]
    note = f"median {np.median(levels):.6g}; fixed points at {listed(points, 6)}"
    return np.abs(levels[:, None] / points - 1).min(axis=1), note


def _second_singular_value(reading: Reading, seed: int, stage: int) -> float:
    """Of Θ = [V, U], in units of the first."""
    u, v = reading.weights(seed, stage)
    s = np.linalg.svd(np.concatenate((v.values, u.values), axis=1), compute_uv=False)
    return float(s[1] / s[0])


@styled
def draw_other(panel: Panel, run: xr.DataTree, x: str = "linear", y: str = "linear") -> Figure:
    """As Figure 1, with the weights after the first drop; axes of time and loss on these scales."""
    reading, title = panel.reading(run), panel.heading(run)
    if chosen := getattr(reading.parameters, "activation", ""):
        title = f"{panel.number}   {panel.title}; here {_FUNCTIONS[chosen][1]}"
    figure = panels.draw_panel(reading, title, panel.drawn, panel.symbol)
    loss, after, _ = figure.axes
    if after.get_title():
        after.set_title("after the first drop")
    if "width_one_level" in reading.theory:
        # The lowest of them is among the panel's three levels.
        minimum = reading.theory["width_one_minimum"].values
        for level in reading.theory["width_one_level"].values[minimum][1:]:
            loss.axhline(level, **THEORY)
    if x == "log":
        loss.set(xscale="log", xlim=(0.1, float(reading.simulation["step"].max()) or 1.0))
    if y == "log":
        top, lowest = float(reading.theory["level"][0]), float(reading.simulation["loss"].min())
        loss.set(yscale="log", ylim=(0.5 * max(lowest, 1e-6 * top), 2 * top))
    return figure
