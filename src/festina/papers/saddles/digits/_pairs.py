"""Names of pairs of digits, and the correlations of their images."""

import re
from typing import Annotated

import numpy as np
from pydantic import AfterValidator

from ....tasks import Task

PRINTED = {"0/1": (4.20, 3.90), "0/8": (5.21, 5.21), "5/7": (4.13, 3.26), "3/5": (4.62, 1.38)}
"""Both rows of Table 1 of Zhang, Saxe & Latham, for each pair of digits."""


def digits(pair: str) -> tuple[int, int]:
    """Return the two digits of a pair written as `3/5`."""
    if not re.fullmatch(r"\d/\d", pair) or pair[0] == pair[2]:
        raise ValueError(f"A pair must be two different digits such as 3/5, got '{pair}'.")
    return int(pair[0]), int(pair[2])


def _known(pairs: tuple[str, ...]) -> tuple[str, ...]:
    """Check that every pair is valid and occurs once, since results are indexed by pair."""
    for pair in pairs:
        digits(pair)
    if not pairs or len(set(pairs)) < len(pairs):
        raise ValueError(f"`pairs` must be one or more different pairs, got '{' '.join(pairs)}'.")
    return pairs


Pairs = Annotated[tuple[str, ...], AfterValidator(_known)]


def correlations(task: Task) -> tuple[np.ndarray, np.ndarray]:
    """Return Σ_yx = ⟨y xᵀ⟩ and Σ_xx = ⟨x xᵀ⟩, both uncentred."""
    weighted = task.weight[:, None] * task.x
    return task.y.T @ weighted, task.x.T @ weighted


def descent_rate(rate: np.ndarray | float, learning_rate: float) -> np.ndarray:
    """Return the rate ln(1 + 2ηs)/2η at which a mode with rate s grows under gradient descent."""
    return np.log1p(2 * learning_rate * np.asarray(rate)) / (2 * learning_rate)
