"""Units that are alike, gathered around those that contribute most."""

import math
from collections.abc import Callable, Iterator
from typing import NamedTuple

import numpy as np
from jaxtyping import Bool, Float


def clusters(
    contribution: Float[np.ndarray, " unit"], alike: Callable[[int], Bool[np.ndarray, " unit"]]
) -> Iterator[tuple[int, Bool[np.ndarray, " unit"]]]:
    """From large to small contributions, each unit that is left gathers those like it."""
    left = contribution > 0
    for leader in np.argsort(-contribution, kind="stable").tolist():
        if left[leader]:
            members = left & alike(leader)
            members[leader] = True  # whatever rounding makes of a tiny angle
            left &= ~members
            yield leader, members


def directions(u: Float[np.ndarray, "unit input"]) -> Float[np.ndarray, "unit input"]:
    """u/|u|, zero where u is."""
    size = np.linalg.norm(u, axis=1, keepdims=True)
    return u / np.where(size > 0, size, 1.0)


class Ray(NamedTuple):
    """Units that share a direction, that direction, and on which side of it each of them is."""

    members: Bool[np.ndarray, " unit"]
    direction: Float[np.ndarray, " input"]
    side: Float[np.ndarray, " member"]


def rays_of(
    u: Float[np.ndarray, "unit input"],
    contribution: Float[np.ndarray, " unit"],
    angle: float,
    *,
    lines: bool = False,
) -> Iterator[Ray]:
    """Units whose u lie within `angle` of one ray, or of one line, from its largest unit on.

    A ray is the mean of its units, each with the weight of its contribution.
    """
    n = directions(u)
    cosine = lambda leader: n @ n[leader]
    near = lambda leader: np.abs(cosine(leader)) if lines else cosine(leader)
    for leader, members in clusters(contribution, lambda i: near(i) >= math.cos(angle)):
        side = np.where(lines & (cosine(leader)[members] < 0), -1.0, 1.0)
        mean = (side * contribution[members]) @ n[members]
        yield Ray(members, mean / np.linalg.norm(mean), side)
