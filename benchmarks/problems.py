"""Networks and tasks of four panels of Figure 1, with finite data."""

from collections.abc import Callable
from dataclasses import dataclass

import jax
import numpy as np

from festina.networks import Layer, attention, fully_connected
from festina.tasks import (
    AbstractTask,
    in_context_regression,
    linear_teacher,
    quadratic_teacher,
    two_orthogonal_points,
)


@dataclass(frozen=True)
class Problem:
    """Network, task and learning rate of a panel of the paper."""

    name: str
    network: Callable[[jax.Array], Layer]
    task: Callable[[int], AbstractTask]
    learning_rate: float
    has_moments: bool = True


KEY = jax.random.fold_in(jax.random.key(7), 1)  # differs from the keys of all seeds

PROBLEMS = (
    Problem(
        "1B",
        lambda key: fully_connected(2, 50, 2, scale=1e-6, key=key),
        lambda p: linear_teacher(np.eye(2), np.array([[1.0, 1.0], [1.0, 4.0]]), samples=p, key=KEY),
        0.01,
    ),
    Problem(
        "1D",
        lambda key: fully_connected(2, 50, activation="relu", scale=1e-6, key=key),
        lambda p: two_orthogonal_points(),
        0.01,
        has_moments=False,
    ),
    Problem(
        "1F",
        lambda key: attention(2, 10, scale=5e-3, key=key),
        lambda p: in_context_regression(2, 32, samples=p, key=KEY),
        0.02,
    ),
    Problem(
        "1G",
        lambda key: fully_connected(2, 10, activation="quadratic", scale=5e-3, key=key),
        lambda p: quadratic_teacher(np.eye(2), samples=p, key=KEY),
        0.04,
    ),
)
