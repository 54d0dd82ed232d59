"""Second moments of a task's features, the only thing that early dynamics depends on."""

import numpy as np

from ...networks import AbstractUnit
from ...tasks import AbstractTask


def correlation(task: AbstractTask, unit: AbstractUnit) -> np.ndarray:
    """⟨y ψᵀ⟩, shape `(output, *feature)`."""
    statistics = task.statistics(unit)
    return np.einsum("k,ko,k...->o...", statistics.weight, statistics.y, statistics.psi)


def covariance(task: AbstractTask, unit: AbstractUnit) -> np.ndarray:
    """⟨ψψᵀ⟩ over flattened features."""
    statistics = task.statistics(unit)
    psi = statistics.psi.reshape(len(statistics.psi), -1)
    return (psi * statistics.weight[:, None]).T @ psi
