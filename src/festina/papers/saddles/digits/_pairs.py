"""Pairs of digits by name, and the singular values of their data."""

import re
from typing import Annotated

import numpy as np
from pydantic import AfterValidator

from ....tasks import Task

PRINTED = {"0/1": (4.20, 3.90), "0/8": (5.21, 5.21), "5/7": (4.13, 3.26), "3/5": (4.62, 1.38)}
"""Both rows of Table 1 of Zhang, Saxe & Latham."""


def digits(pair: str) -> tuple[int, int]:
    """The two digits of a pair that is written as `3/5`."""
    if not re.fullmatch(r"\d/\d", pair) or pair[0] == pair[2]:
        raise ValueError(f"expected two different digits such as 3/5, got '{pair}'")
    return int(pair[0]), int(pair[2])


def _known(pairs: tuple[str, ...]) -> tuple[str, ...]:
    """Each once, so that results can be looked up by it."""
    for pair in pairs:
        digits(pair)
    if not pairs or len(set(pairs)) < len(pairs):
        raise ValueError(f"expected each pair once, and at least one, got {' '.join(pairs)}")
    return pairs


Pairs = Annotated[tuple[str, ...], AfterValidator(_known)]


def correlations(task: Task) -> tuple[np.ndarray, np.ndarray]:
    """Σ_yx = ⟨y xᵀ⟩ and Σ_xx = ⟨x xᵀ⟩, neither of them centred."""
    weighted = task.weight[:, None] * task.x
    return task.y.T @ weighted, task.x.T @ weighted


def descent_rate(rate: np.ndarray | float, learning_rate: float) -> np.ndarray:
    """Growth per unit of t = 2ηn of what grows by 1 + 2ηs at each step: a little less than s."""
    return np.log1p(2 * learning_rate * np.asarray(rate)) / (2 * learning_rate)
