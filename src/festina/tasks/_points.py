"""The small data sets on which ReLU networks show their rays."""

import numpy as np

from ._task import Task, task


def orthogonal_points() -> Task:
    """Two orthogonal inputs with targets +1 and −1 (Figure 1D, after Boursier et al. 2022)."""
    return task([[1.0, 0.5], [-1.0, 2.0]], [1.0, -1.0])


def kernel_points() -> Task:
    """The four inputs of Figure 1E, one along each axis, labelled by the teacher of Figure 1C."""
    x = np.diag([2.0, 2.0, 2.0 * np.sqrt(2.0), 2.0])
    return task(x, x @ np.array([1.0, 1.0, -1.0, 1.0]) / np.sqrt(5))
