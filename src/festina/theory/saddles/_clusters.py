"""Clusters of similar units, each around the unit with the largest contribution."""

import math
from collections.abc import Callable, Iterator
from typing import NamedTuple

import numpy as np
from jaxtyping import Bool, Float


def clusters(
    contribution: Float[np.ndarray, " unit"], alike: Callable[[int], Bool[np.ndarray, " unit"]]
) -> Iterator[tuple[int, Bool[np.ndarray, " unit"]]]:
    """Yield clusters of similar units as pairs of the leader's index and a mask of the members.

    The leader of each cluster is the unit with the largest contribution among the units that are
    not yet in a cluster. The members of the cluster are all units, not yet in a cluster, for which
    `alike(leader)` is True. Units with zero contribution belong to no cluster.
    """
    left = contribution > 0
    for leader in np.argsort(-contribution, kind="stable").tolist():
        if left[leader]:
            members = left & alike(leader)
            members[leader] = True  # rounding may make the angle of a unit to itself nonzero
            left &= ~members
            yield leader, members


def directions(u: Float[np.ndarray, "unit input"]) -> Float[np.ndarray, "unit input"]:
    """Return u/|u| for each unit, and zero where u is zero."""
    size = np.linalg.norm(u, axis=1, keepdims=True)
    return u / np.where(size > 0, size, 1.0)


class Ray(NamedTuple):
    """Units near one ray or line: mask, mean direction, and sign of each unit along the line."""

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
    """Yield groups of units whose u lie within `angle` of one ray, largest contribution first.

    The direction of a group is the mean direction of its units, weighted by contribution. With
    `lines`, opposite directions count as equal, and `side` is −1 for units opposite to the leader.
    """
    n = directions(u)
    cosine = lambda leader: n @ n[leader]
    near = lambda leader: np.abs(cosine(leader)) if lines else cosine(leader)
    for leader, members in clusters(contribution, lambda i: near(i) >= math.cos(angle)):
        side = np.where(lines & (cosine(leader)[members] < 0), -1.0, 1.0)
        mean = (side * contribution[members]) @ n[members]
        yield Ray(members, mean / np.linalg.norm(mean), side)
