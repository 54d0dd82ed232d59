"""Tasks of classification by regression: y₊ for the class itself, y₋ for others."""

from collections.abc import Sequence

import numpy as np
from jaxtyping import Float

from .._types import ArrayLike
from ..networks._given import finite_array, whole_number
from ._task import Task, task


def class_targets(
    classes: int, *, own: float = 1.0, other: float = 0.0
) -> Float[np.ndarray, "group output"]:
    """Targets of as many outputs as classes: `own` for the class itself, `other` for the rest.

    Codes depend on `other`: 0 is one-hot, −1/(classes − 1) makes targets of a class sum to zero.
    """
    return np.full((classes, classes), float(other)) + (own - other) * np.eye(classes)


def classification(
    x: ArrayLike, classes: ArrayLike, *, own: float = 1.0, other: float = 0.0
) -> Task:
    """Examples and the classes they are of, as targets `own` (y₊) and `other` (y₋).

    **Arguments:**

    - `x`: `(sample, …)`.
    - `classes`: a whole number from 0 up for each sample; every class up to the largest must have
      examples.
    """
    found = finite_array("classes", classes)
    if found.ndim != 1 or (found % 1 != 0).any() or (found < 0).any():
        raise ValueError(
            "`classes` must be a whole number from 0 up for each sample, got shape "
            f"{found.shape} with values from {found.min():g} to {found.max():g}."
        )
    which = found.astype(int)
    sizes = np.bincount(which)
    if empty := np.nonzero(sizes == 0)[0].tolist():
        raise ValueError(
            f"`classes` has no example of {', '.join(map(str, empty))}, though there are classes "
            f"up to {len(sizes) - 1}: their outputs would learn to say {other:g} to everything. "
            "Number the classes without gaps: np.unique(classes, return_inverse=True)[1]."
        )
    targets = class_targets(len(sizes), own=own, other=other)
    return task(x, targets[which], labels={"class": which})


def orthogonal_classes(sizes: Sequence[int], *, own: float = 1.0, other: float = 0.0) -> Task:
    """Classes of orthogonal inputs, K₀ = XXᵀ/D = 1: as many inputs as there are examples."""
    counts = [whole_number("sizes", size) for size in sizes]
    if not counts:
        raise ValueError("`sizes` must have a number for each class, got none.")
    samples = sum(counts)
    which = np.repeat(np.arange(len(counts)), counts)
    return classification(np.sqrt(samples) * np.eye(samples), which, own=own, other=other)


def examples_of(given: object) -> tuple[Float[np.ndarray, "sample input"], np.ndarray]:
    """Inputs and targets of a finite task whose examples all count alike."""
    if not isinstance(given, Task) or given.population or given.x.ndim != 2:
        raise ValueError(
            "`task` must be finite, with vectors as inputs: the posterior is about these examples. "
            "`festina.tasks.task(x, y)` makes one."
        )
    if np.ptp(given.weight) > 1e-12:
        raise ValueError("`task` must weigh its examples alike: the posterior sums over them.")
    return np.asarray(given.x, dtype=float), np.asarray(given.y, dtype=float)
