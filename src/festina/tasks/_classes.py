"""Tasks of classification by regression: y₊ for the class itself, y₋ for others."""

from collections.abc import Sequence

import numpy as np
from jaxtyping import Float

from .._checks import finite_array, number, whole_number
from .._types import ArrayLike
from ._task import Task, from_arrays


def targets_per_class(
    classes: int, *, own: float = 1.0, other: float = 0.0
) -> Float[np.ndarray, "group output"]:
    """Return targets of as many outputs as classes: `own` for the class itself, `other` for the
    rest.

    Codes depend on `other`: 0 is one-hot, −1/(classes − 1) makes targets of a class sum to zero.
    """
    classes = whole_number("classes", classes)
    own, other = number("own", own), number("other", other)
    if own == other:
        raise ValueError(f"`own` and `other` are both {own:g}: targets would tell no class apart.")
    return np.full((classes, classes), float(other)) + (own - other) * np.eye(classes)


def classification(
    x: ArrayLike, classes: ArrayLike, *, own: float = 1.0, other: float = 0.0
) -> Task:
    """Return a task of examples and classes, as targets `own` (y₊) and `other` (y₋).

    **Arguments:**

    - `x`: `(sample, …)`.
    - `classes`: a whole number from 0 up for each sample, of which every one up to the largest must
      have examples; or a name for each, which are then numbered in the order of the alphabet.
    """
    given = np.asarray(classes)
    if given.dtype.kind in "US":
        given = np.unique(given, return_inverse=True)[1]
    found = finite_array("classes", given)
    if found.shape != np.shape(x)[:1] or (found % 1 != 0).any() or (found < 0).any():
        raise ValueError(
            f"`classes` must be a whole number from 0 up for each sample of {np.shape(x)}, got "
            f"shape {found.shape} with values from {found.min():g} to {found.max():g}."
        )
    if found.max() >= len(found):
        raise ValueError(
            f"`classes` goes up to {found.max():g} for {len(found)} samples, so that some classes "
            "have no example. Number the classes without gaps: "
            "np.unique(classes, return_inverse=True)[1]."
        )
    which = found.astype(int)
    sizes = np.bincount(which)
    if empty := np.nonzero(sizes == 0)[0].tolist():
        raise ValueError(
            f"`classes` has no example of {', '.join(map(str, empty[:5]))}"
            f"{f' and {len(empty) - 5} more' * (len(empty) > 5)}, though there are classes up to "
            f"{len(sizes) - 1}: their outputs would learn {other:g} for every input. "
            "Number the classes without gaps: np.unique(classes, return_inverse=True)[1]."
        )
    targets = targets_per_class(len(sizes), own=own, other=other)
    return from_arrays(x, targets[which], labels={"class": which})


def orthogonal_inputs(sizes: Sequence[int], *, own: float = 1.0, other: float = 0.0) -> Task:
    """Return classes of orthogonal inputs, K₀ = XXᵀ/D = 1: as many inputs as examples."""
    if isinstance(sizes, int | np.integer):
        raise ValueError(f"`sizes` must be examples of each class, [{sizes}, {sizes}] say.")
    counts = [whole_number("sizes", size) for size in sizes]
    if not counts:
        raise ValueError("`sizes` must have a number for each class, got none.")
    samples = sum(counts)
    which = np.repeat(np.arange(len(counts)), counts)
    return classification(np.sqrt(samples) * np.eye(samples), which, own=own, other=other)


def examples_of(given: object) -> tuple[Float[np.ndarray, "sample input"], np.ndarray]:
    """Return inputs and targets of a finite task; raises unless all examples weigh the same."""
    if not isinstance(given, Task) or given.population or given.x.ndim != 2:
        raise ValueError(
            "`task` must be a task of examples, with vectors as inputs: the posterior is about "
            f"these. `festina.tasks.from_arrays(x, y)` makes one. Got {type(given).__name__}."
        )
    if np.ptp(given.weight) > 1e-12:
        raise ValueError("`task` must weigh its examples alike: the posterior sums over them.")
    return np.asarray(given.x, dtype=float), np.asarray(given.y, dtype=float)
