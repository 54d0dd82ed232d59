"""What a student learns from a teacher instead of from labels."""

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
    """Return the same examples with a teacher's outputs, or features, as targets.

    **Arguments:**

    - `teacher`: one network, trained as far as it is.
    - `task`: the examples, with their weights and labels.
    - `through`: its "outputs"; or its "features", the activities of all its hidden units, which a
      student reproduces by a linear map of its own ones (feature matching); or "both", outputs
      first.
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
            raise ValueError("`teacher` has no hidden layer, and no features.")
        y += [np.asarray(each).reshape(len(x), -1) for each in hidden]
    return from_arrays(x, np.hstack(y), weight=task.weight, labels=task.labels)
