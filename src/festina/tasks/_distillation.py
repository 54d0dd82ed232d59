"""Distillation: tasks whose targets are the outputs or features of a teacher network."""

from typing import Literal

import jax
import numpy as np

from .._checks import check_alone, check_type
from .._precision import float64
from ..networks import AbstractNetwork
from ._task import Task, from_arrays


@float64
def distillation(
    teacher: AbstractNetwork,
    task: Task,
    *,
    through: Literal["outputs", "features", "both"] = "outputs",
) -> Task:
    """Return a task with the same inputs and the outputs or features of a teacher as targets.

    **Arguments:**

    - `teacher`: a single network.
    - `task`: task with a finite number of examples, which keep their inputs, weights and labels.
    - `through`: the targets. "outputs" are the teacher's outputs, "features" the activities of all
      its hidden units (feature matching), and "both" the outputs followed by the features.

    **Example:**

    >>> from festina.networks import deep_linear_from
    >>> from festina.tasks import distillation, xor
    >>> teacher = deep_linear_from([[[1.0, 1.0]], [[2.0]]])
    >>> distillation(teacher, xor(), through="both").y.T
    array([[-4.,  0.,  0.,  4.],
           [-2.,  0.,  0.,  2.]])
    """
    check_type("teacher", teacher, AbstractNetwork)
    check_type("task", task, Task)
    check_alone(teacher.batch_shape, "teacher")
    if through not in ("outputs", "features", "both"):
        raise ValueError(f'`through` must be "outputs", "features" or "both", got {through!r}.')
    x, y = np.asarray(task.x, float), []
    if through != "features":
        y.append(teacher.predict(x))
    if through != "outputs":
        hidden = jax.vmap(teacher.hidden)(x)
        if not hidden:
            raise ValueError(
                "`teacher` has no hidden layer, hence no features. Use `through='outputs'`."
            )
        y += [np.asarray(each).reshape(len(x), -1) for each in hidden]
    return from_arrays(x, np.hstack(y), weight=task.weight, labels=task.labels)
