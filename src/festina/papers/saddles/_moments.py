"""Second moments of a task's features, the only thing that early dynamics depends on."""

import numpy as np

from ...networks import AbstractUnit
from ...tasks import AbstractTask


def correlation(task: AbstractTask, unit: AbstractUnit) -> np.ndarray:
    """⟨y ψᵀ⟩, shape `(output, *feature)`."""
    return task.statistics(unit).correlation


def covariance(task: AbstractTask, unit: AbstractUnit) -> np.ndarray:
    """⟨ψψᵀ⟩ over flattened features."""
    return task.statistics(unit).covariance
