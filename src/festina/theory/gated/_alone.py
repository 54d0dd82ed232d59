"""Closed-form strength of a single path without the other paths."""

import numpy as np
from jaxtyping import Float

from ..._types import ArrayLike
from ..linear import chain_strength, unbalanced_strength
from ._common import CommonModes
from ._paths import Path

_BALANCED = 1e-9


def alone(
    times: ArrayLike,
    path: Path,
    group: CommonModes,
    initial: dict[str, Float[np.ndarray, " _"]],
    tau: float,
) -> Float[np.ndarray, "*time mode"]:
    """Return the strength of one path over time, in closed form and without the other paths."""
    k, depth = group.paths.index(path), len(path.edges)
    s, d = group.s[k], group.d[k, k]
    b = np.stack([initial[edge] for edge in path.edges])
    if depth == 2:
        return np.asarray(unbalanced_strength(times, b[0], b[1], s, input_variance=d, tau=tau))
    if (np.ptp(b**2, axis=0) > _BALANCED * np.max(b**2, axis=0)).any():
        raise ValueError(
            f"The edges of {path} differ in initial strength, and there is no closed form for "
            f"{depth} unequal edges. Give `times` to the reduction, to integrate it numerically."
        )
    a = np.prod(b, axis=0)
    return np.asarray(chain_strength(times, s, a, depth=depth, input_variance=d, tau=tau))
