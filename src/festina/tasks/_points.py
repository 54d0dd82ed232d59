"""Small data sets: ReLU networks learn their rays on them, and pathways race."""

import numpy as np

from .._checks import number
from ._task import Task, from_arrays


def two_orthogonal_points() -> Task:
    """Return two orthogonal inputs, targets +1 and −1 (Figure 1D, after Boursier et al. 2022)."""
    return from_arrays([[1.0, 0.5], [-1.0, 2.0]], [1.0, -1.0])


def figure_1e_points() -> Task:
    """Return the inputs of Figure 1E, one along each axis, labelled by the teacher of Figure 1C."""
    x = np.diag([2.0, 2.0, 2.0 * np.sqrt(2.0), 2.0])
    return from_arrays(x, x @ np.array([1.0, 1.0, -1.0, 1.0]) / np.sqrt(5))


def xor(delta: float | None = None) -> Task:
    r"""Return exclusive or: $y = -x_1 x_2$ for the four inputs $x_1, x_2 = \pm 1$.

    With `delta` there is a third input, $\Delta\, y$, from which a linear network could tell the
    targets: each class is a margin Δ from the plane between. At Δ = 0 it says nothing, but
    networks for other Δ fit. The label `example` counts the inputs.
    """
    x = np.array([[-1.0, -1.0], [-1.0, 1.0], [1.0, -1.0], [1.0, 1.0]])
    y = -np.prod(x, axis=1)
    if delta is not None:
        x = np.column_stack((x, number("delta", delta) * y))
    return from_arrays(x, y, labels={"example": np.arange(4)})
