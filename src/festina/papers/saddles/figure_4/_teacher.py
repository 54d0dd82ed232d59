"""Panels of Figure 4 in which a student learns from a teacher of two units like its own."""

from typing import Any

import numpy as np
from jaxtyping import PRNGKeyArray
from pydantic import Field, PositiveFloat

from ....networks import Layer, Neuron, fully_connected, layer
from ....networks._activations import Activation
from ....networks._seeds import Keys
from ....tasks import AbstractTask, student_teacher
from ..panels._panel import Panel
from ._activations import named
from ._panel import Levels, OtherParameters
from ._population import population
from ._width_one import width_one


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


def teacher_panel(*, activation: str | None = None, **options: Any) -> Panel:
    """A `Panel` of a student and its teacher; the parameters name the activation if it is None."""

    def chosen(parameters: Any) -> Activation:
        return named(activation or parameters.activation)

    return Panel(
        task=lambda parameters, key: teacher_task(chosen(parameters), parameters, key),
        network=lambda parameters, keys: student(chosen(parameters), parameters, keys),
        **options,
    )


def teacher_task(
    activation: Activation, parameters: TeacherParameters, key: PRNGKeyArray | None
) -> AbstractTask:
    """y = φ(x; u₁*) + φ(x; u₂*) for x from N(0, I) in the plane: a sample, or the population."""
    unit = Neuron(activation)
    teacher = layer(unit, np.diag(parameters.teacher), np.ones(2))
    if parameters.samples is None and not unit.fixed_features:
        return population(teacher, parameters.spacing)
    # Of a polynomial as few nodes as it needs (None) average exactly.
    return student_teacher(teacher, np.eye(2), nodes=None, samples=parameters.samples, key=key)


def student(activation: Activation, parameters: TeacherParameters, keys: Keys) -> Layer:
    """A fully-connected network with small weights and the teacher's activation."""
    return fully_connected(
        2, parameters.width, activation=activation, scale=parameters.scale, key=keys
    )


def fixed_points(parameters: TeacherParameters, task: AbstractTask, network: Layer) -> Levels:
    """Levels of a width-1 network's fixed points; the one to compare with is the lowest."""
    del parameters
    points = width_one(network.unit, task)
    if not len(points.level):
        raise ValueError(
            "A network with one unit has no fixed point with weights up to 5 on these data. "
            "Take a `teacher` with shorter weights, or a finer `spacing`."
        )
    return Levels(
        rest=float(points.level[0]),
        tables={
            "width_one_level": ("point", points.level),
            "width_one_u": (("point", "input"), points.u),
            "width_one_minimum": ("point", points.minimum),
        },
    )
