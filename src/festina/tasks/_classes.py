"""Classification by regression, with the targets y₊ for the own class and y₋ for other classes."""

from collections.abc import Sequence

import numpy as np
from jaxtyping import Float

from .._checks import finite_array, number, whole_number
from .._types import ArrayLike
from ._task import Task, from_arrays


def targets_per_class(
    classes: int, *, own: float = 1.0, other: float = 0.0
) -> Float[np.ndarray, "group output"]:
    """Return the targets of each class as rows: `own` for the class's output, `other` elsewhere.

    The default targets are one-hot. With `other` = −1/(classes − 1) the targets of a class sum to
    zero. The coding scheme of a Bayesian network depends on `other`.

    **Example:**

    >>> from festina.tasks import targets_per_class
    >>> targets_per_class(3, other=-0.5)
    array([[ 1. , -0.5, -0.5],
           [-0.5,  1. , -0.5],
           [-0.5, -0.5,  1. ]])
    """
    classes = whole_number("classes", classes)
    own, other = number("own", own), number("other", other)
    if own == other:
        raise ValueError(
            f"`own` and `other` are both {own:g}, so all classes would have the same targets. Give "
            "different numbers."
        )
    return np.full((classes, classes), float(other)) + (own - other) * np.eye(classes)


def classification(
    x: ArrayLike, classes: ArrayLike, *, own: float = 1.0, other: float = 0.0
) -> Task:
    """Return a classification task with the target `own` for the sample's class, `other` elsewhere.

    **Arguments:**

    - `x`: inputs, `(sample, …)`.
    - `classes`: class of each sample, as whole numbers from 0 up without gaps, or as names. Names
      are numbered in alphabetical order.
    - `own`, `other`: targets y₊ of the output of a sample's class and y₋ of the other outputs.

    **Returns:**

    A `Task` with one output for each class and the label `class`.

    **Example:**

    >>> from festina.tasks import classification
    >>> task = classification([[1.0], [2.0], [3.0]], ["cat", "dog", "cat"])
    >>> task.y
    array([[1., 0.],
           [0., 1.],
           [1., 0.]])
    """
    given = np.asarray(classes)
    if given.dtype.kind in "US":
        given = np.unique(given, return_inverse=True)[1]
    found = finite_array("classes", given)
    if found.shape != np.shape(x)[:1] or (found % 1 != 0).any() or (found < 0).any():
        raise ValueError(
            "`classes` must be one whole number from 0 up for each sample of `x`, which has the "
            f"shape {np.shape(x)}, got shape {found.shape} with values from {found.min():g} to "
            f"{found.max():g}."
        )
    if found.max() >= len(found):
        raise ValueError(
            f"`classes` goes up to {found.max():g} for {len(found)} samples, so some classes have "
            "no sample. Number the classes without gaps: "
            "np.unique(classes, return_inverse=True)[1]."
        )
    which = found.astype(int)
    sizes = np.bincount(which)
    if empty := np.nonzero(sizes == 0)[0].tolist():
        raise ValueError(
            f"`classes` has no sample of class {', '.join(map(str, empty[:5]))}"
            f"{f' and {len(empty) - 5} more' * (len(empty) > 5)}, but goes up to class "
            f"{len(sizes) - 1}. The output of a class without samples would learn {other:g} for "
            "every input. Number the classes without gaps: "
            "np.unique(classes, return_inverse=True)[1]."
        )
    targets = targets_per_class(len(sizes), own=own, other=other)
    return from_arrays(x, targets[which], labels={"class": which})


def orthogonal_inputs(sizes: Sequence[int], *, own: float = 1.0, other: float = 0.0) -> Task:
    """Return a classification task with orthogonal inputs, whose kernel XXᵀ/D is the identity.

    The number D of inputs equals the number of samples.

    **Arguments:**

    - `sizes`: number of samples of each class.
    - `own`, `other`: targets y₊ of the output of a sample's class and y₋ of the other outputs.

    **Example:**

    >>> from festina.tasks import orthogonal_inputs
    >>> task = orthogonal_inputs([2, 1])
    >>> task
    Task(3 samples, inputs (3,), 2 outputs)
    >>> (task.x @ task.x.T / 3).round(3)
    array([[1., 0., 0.],
           [0., 1., 0.],
           [0., 0., 1.]])
    """
    if isinstance(sizes, int | np.integer):
        raise ValueError(
            "`sizes` must list the number of samples of each class, such as "
            f"[{sizes}, {sizes}], got {sizes}."
        )
    counts = [whole_number("sizes", size) for size in sizes]
    if not counts:
        raise ValueError("`sizes` must list the number of samples of each class, got none.")
    samples = sum(counts)
    which = np.repeat(np.arange(len(counts)), counts)
    return classification(np.sqrt(samples) * np.eye(samples), which, own=own, other=other)


def examples_of(given: object) -> tuple[Float[np.ndarray, "sample input"], np.ndarray]:
    """Return the inputs and targets of a task; raise unless its samples have equal weights."""
    if not isinstance(given, Task) or given.population or given.x.ndim != 2:
        raise ValueError(
            "`task` must have a finite number of samples, because the posterior is given these "
            f"samples, and vectors as inputs, got {type(given).__name__}. Make the task with "
            "`festina.tasks.from_arrays(x, y)`."
        )
    if np.ptp(given.weight) > 1e-12:
        raise ValueError(
            "`task` must have equal weights for all samples, because the loss of the posterior is "
            "a plain sum over samples."
        )
    return np.asarray(given.x, dtype=float), np.asarray(given.y, dtype=float)
