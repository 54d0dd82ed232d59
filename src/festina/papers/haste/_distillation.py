r"""Distillation: whether a student inherits the selectivity of its teacher.

The task has objects in three contexts. Two kinds of teachers learn the task: a ReLU network, whose
units end up active in two contexts (mixed), and a gated network with one pathway per context
(modular). Students are ReLU networks with other initial weights. Students learn the outputs of a
teacher or its features, which are the activities of its hidden units. A student matches features
unit by unit, or by a linear map of its own units. The loss is ½⟨‖y − f‖²⟩ with the teacher's
outputs or features y, and a descent step η is a flow time η.

The notes on the source ask whether a student inherits mixed selectivity. Teachers that have learned
the task have equal outputs, so outputs do not transfer selectivity. Features transfer selectivity
if units are matched one by one. An early-stopped teacher also passes on its state: units of its
students are active in all contexts.
"""

from typing import Any

import jax
import numpy as np
import xarray as xr
from matplotlib.figure import Figure
from pydantic import Field

from ..._types import Keys
from ...diagnose import selectivity
from ...dynamics import gradient_descent
from ...experiments._frame import Progress, Tables, make_run
from ...experiments._keys import Key, keys_from_parameters
from ...experiments._parameters import Parameters as BaseParameters
from ...experiments._parameters import PowerOfTwo
from ...experiments.claims import (
    ClaimCollector,
    agree,
    all_above,
    all_below,
    claims_from_source,
    join_numbers,
    max_error_below,
)
from ...experiments.figures import GUIDE_STYLE, label_axes, panels, styled
from ...networks import AbstractNetwork, Layer, fully_connected, layer_from
from ...tasks import Task, distillation, objects_in_contexts
from .._pathways import context_pathways

_CONTEXTS = 3
_TEACHERS = "labels", "mixed", "modular", "early"
_LESSONS = (
    ("labels", "outputs"),
    ("mixed", "outputs"),
    ("modular", "outputs"),
    ("early", "outputs"),
    ("mixed", "units"),
    ("modular", "units"),
    ("modular", "maps"),
)
"""Pairs of a teacher and the medium of teaching: its outputs, features matched unit by unit
(`units`), or features matched by a linear map of the student's units (`maps`)."""
_STIFF = 100.0
"""Readout weight of a student that matches units one by one, so large that it stays constant."""
_COLORS = "0.6", "C3", "C0", "C1"


class Parameters(BaseParameters):
    """Objects in three contexts, teachers, and students of each teacher."""

    seeds: int = Field(default=2, ge=1)
    """Number of students of each teacher."""

    objects: PowerOfTwo = Field(default=8, ge=4, le=16)
    """Number N of objects, a power of two."""

    width: int = Field(default=120, ge=30, multiple_of=_CONTEXTS)
    """Number of hidden units of teachers and students, a multiple of three."""

    scale: float = Field(default=1e-3, gt=0, le=0.1)
    """Standard deviation σ of all initial weights."""

    learning_rate: float = Field(default=0.25, gt=0, le=0.5)
    """Learning rate η of gradient descent."""

    t_end: float = Field(default=200.0, ge=50)
    """Training time of teachers and students, in units of τ."""

    early: float = Field(default=30.0, gt=0)
    """Time at which the early-stopped teacher ends training, in units of τ."""


QUICK: dict[str, Any] = {"seeds": 2, "objects": 4, "width": 60, "t_end": 110.0, "early": 16.0}


@make_run("haste/distillation")
def run(parameters: Parameters, key: Key, progress: Progress) -> Tables:
    """Train teachers, train students of each teacher, and measure the selectivity of all units."""
    keys = keys_from_parameters(parameters, key)
    task = objects_in_contexts(parameters.objects, _CONTEXTS)
    progress("teachers", 0.0)
    teachers = _teachers(parameters, task, keys[:1])
    shares, losses = [], []
    for k, (name, through) in enumerate(_LESSONS):
        progress(f"{through} of {name}", (k + 1) / (len(_LESSONS) + 1))
        what = "outputs" if through == "outputs" else "features"
        data = task if name == "labels" else distillation(teachers[name], task, through=what)
        start = _student(parameters, data, _others(keys))
        flow = (_matched if through == "units" else _trained)(parameters, start, data)
        shares.append([_shares(flow.lane(seed), data) for seed in range(len(keys))])
        error = np.sum((data.y - flow.predict(data.x)) ** 2, axis=(-2, -1))
        losses.append(error / np.sum(data.y**2))
    lesson = [f"{through} of {name}" for name, through in _LESSONS]
    looks = {name: selectivity(each, task, anova=None) for name, each in teachers.items()}
    says = np.stack([each.predict(task.x) for each in teachers.values()])
    error = np.sum((says - task.y) ** 2, axis=(-2, -1)) / np.sum(task.y**2)
    baseline = looks["mixed"].random
    assert baseline is not None
    coordinates = {"contexts_on": np.arange(_CONTEXTS + 1)}
    return {
        "students": xr.Dataset(
            {
                "share": (("lesson", "seed", "contexts_on"), np.array(shares)),
                "loss": (("lesson", "seed"), np.array(losses)),
            },
            {"lesson": lesson, "seed": parameters.seed + np.arange(len(keys)), **coordinates},
        ),
        "teachers": xr.Dataset(
            {
                "share": (
                    ("teacher", "contexts_on"),
                    np.stack([each.shares for each in looks.values()]),
                ),
                "random": ("contexts_on", baseline.shares),
                "loss": ("teacher", error),
            },
            {"teacher": list(teachers), **coordinates},
        ),
    }


def _teachers(parameters: Parameters, task: Task, key: Keys) -> dict[str, AbstractNetwork]:
    """Train one teacher of each kind."""
    start = _student(parameters, task, key)
    sets = [(c,) for c in range(_CONTEXTS)]
    modular = context_pathways(task, sets, parameters.width // _CONTEXTS, parameters.scale, key)
    late = parameters.t_end
    ends = (start, late), (modular, late), (start, parameters.early)
    trained = [_trained(parameters, each, task, t).lane(0) for each, t in ends]
    return dict(zip(_TEACHERS[1:], trained, strict=True))


def _others(keys: Keys) -> Keys:
    """Return other keys, so that students and teachers have different initial weights."""
    return jax.vmap(lambda key: jax.random.fold_in(key, 1))(keys)


def _student(parameters: Parameters, task: Task, keys: Keys) -> Layer:
    return fully_connected(
        np.shape(task.x)[1],
        parameters.width,
        np.shape(task.y)[1],
        activation="relu",
        scale=parameters.scale,
        key=keys,
    )


def _trained(
    parameters: Parameters, network: AbstractNetwork, task: Task, t_end: float | None = None
) -> AbstractNetwork:
    steps = round((parameters.t_end if t_end is None else t_end) / parameters.learning_rate)
    return gradient_descent(network, task, parameters.learning_rate, steps, converged=1e-12).final


def _matched(parameters: Parameters, network: Layer, task: Task) -> AbstractNetwork:
    """Train unit i of the student to match unit i of the teacher, with a fixed diagonal readout."""
    width = network.width
    stiff = np.broadcast_to(_STIFF * np.eye(width), (*network.batch_shape, width, width))
    start = layer_from("relu", np.asarray(network.u) / _STIFF, stiff)
    rate, steps = 2.0, round(parameters.t_end)  # a single layer is stable at larger steps
    return gradient_descent(start, task, rate / _STIFF**2, steps, converged=1e-12).final


def _shares(network: AbstractNetwork, task: Task) -> np.ndarray:
    return selectivity(network, task, anova=None, random=0).shares


@claims_from_source("Jarvis, Klein, Rosman & Saxe", "notes on distillation")
def claims(run: xr.DataTree, claim: ClaimCollector) -> None:
    """Check which selectivity students inherit through outputs, and through features."""
    students, teachers = run["students"].ds, run["teachers"].ds
    share = students["share"]
    mixed, modular, always = (share.sel(contexts_on=k) for k in (2, 1, 3))
    of = lambda values, name: values.sel(lesson=name)
    claim(
        "teachers-learn",
        "the mixed teacher, a ReLU network, and the modular teacher, a gated network, both learn "
        "the task (squared error relative to the targets)",
        all_below(teachers["loss"].sel(teacher=["mixed", "modular"]), 0.01),
        note=f"mixed share {float(teachers['share'].sel(teacher='mixed', contexts_on=2)):.3f}, "
        f"modular share {float(teachers['share'].sel(teacher='modular', contexts_on=1)):.3f}",
    )
    shown = [name for name in students["lesson"].values if not name.startswith("units")]
    claim(
        "students-learn",
        "students learn the outputs of their teacher, or a linear map to its features (squared "
        "error relative to the targets)",
        all_below(students["loss"].sel(lesson=shown), 0.01),
    )
    plain = of(mixed, "outputs of labels")
    claim(
        "students-of-labels",
        "students of labels are mixed: a larger share of units than of random features is active "
        "in two of three contexts",
        all_above(plain.mean(), float(teachers["random"].sel(contexts_on=2)) + 0.2),
        note=f"share of strength {float(plain.mean()):.3f}, of random features "
        f"{float(teachers['random'].sel(contexts_on=2)):.3f}",
    )
    claim(
        "modularity-through-outputs",
        "a student inherits the modularity of its teacher from outputs (share of modular units)",
        all_above(of(modular, "outputs of modular").mean(), 0.5),
        wrong="teachers that have learned the task have equal outputs, so their students have the "
        "same mixed units as students of labels",
        instead=max_error_below(
            of(mixed, "outputs of modular").mean(),
            of(mixed, "outputs of labels").mean(),
            within=0.06,
        ),
        note="share of mixed units: " + join_numbers(mixed.mean("seed").isel(lesson=slice(3)), 3),
        headline=True,
    )
    claim(
        "mixed-through-outputs",
        "students of the outputs of a mixed teacher are as mixed as students of labels",
        max_error_below(of(mixed, "outputs of mixed").mean(), plain.mean(), within=0.06),
    )
    claim(
        "early-teacher",
        "students of a teacher that was stopped early have units that are active in all contexts, "
        "like their teacher",
        all_above(of(always, "outputs of early"), 0.5),
        note="share of units active in all contexts "
        f"{float(of(always, 'outputs of early').mean()):.3f}, in two "
        f"{float(of(mixed, 'outputs of early').mean()):.3f}",
    )
    copied = of(share, "units of modular")
    claim(
        "modularity-through-features",
        "students that match a modular teacher unit by unit are modular: hardly any unit is active "
        "in two contexts or more",
        all_below(copied.sel(contexts_on=slice(2, None)).sum("contexts_on"), 0.05),
        note=f"share of units active in one context {float(copied.sel(contexts_on=1).mean()):.3f}; "
        "other units are active for fewer than half of the objects in this context, because a ReLU "
        "unit cannot match negative activity",
    )
    claim(
        "mixed-through-features",
        "students that match a mixed teacher unit by unit have the same share of mixed units as "
        "the teacher",
        agree(
            of(mixed, "units of mixed").mean(),
            teachers["share"].sel(teacher="mixed", contexts_on=2),
            within=0.1,
        ),
    )
    claim(
        "linear-map-between",
        "students that match the features of a modular teacher by a linear map of their units do "
        "not become modular",
        all_below(of(modular, "maps of modular").mean(), 0.5),
        note=f"share of mixed units {float(of(mixed, 'maps of modular').mean()):.3f}",
    )


@styled
def draw(run: xr.DataTree) -> Figure:
    """Plot shares of strength in teachers and students, by the number of open contexts."""
    students, teachers = run["students"].ds, run["teachers"].ds
    figure, (left, right) = panels(
        "Students inherit selectivity from features, not from outputs",
        2,
        width=4.6,
        height=3.6,
        sharey=True,
        gridspec_kw={"width_ratios": (3, 6)},
    )
    for ax, table, names in (
        (left, teachers["share"], teachers["teacher"].values),
        (right, students["share"].mean("seed"), students["lesson"].values),
    ):
        below_ = np.zeros(len(names))
        for k, color in enumerate(_COLORS):
            height = table.sel(contexts_on=k).values
            ax.bar(np.arange(len(names)), height, 0.7, bottom=below_, color=color, label=f"{k}")
            below_ = below_ + height
        shown = [str(name).replace(" of ", "\nof ") for name in names]
        ax.set_xticks(np.arange(len(names)), shown, fontsize="small")
        ax.axhline(1.0, **GUIDE_STYLE)
    label_axes(left, "", "share of strength", "teachers", legend=None)
    left.set_xlabel("teacher")
    label_axes(right, "lesson", "", "students", legend="beside", legend_title="contexts on")
    return figure
