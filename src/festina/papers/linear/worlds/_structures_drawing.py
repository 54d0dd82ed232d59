"""Where to draw the lines between the items of a world."""

import numpy as np
from jaxtyping import Float

from ....theory.linear import World


def edges(name: str, world: World) -> Float[np.ndarray, "line end 2"]:
    """Lines from point to point; on a torus, half of a line on each side where it wraps."""
    if name == "tree":
        return _branches(world)
    if name == "clusters":
        centres = _centres(world.position, world.groups[0])
        return np.stack([world.position, centres[world.groups[0]]], axis=1)
    return _neighbours(world)


def _branches(world: World) -> Float[np.ndarray, "line end 2"]:
    """Every node above the middle of its leaves, as high as there are levels below it."""
    levels = len(world.groups)
    height = np.ptp(world.position[:, 0]) / (2 * max(levels - 1, 1))
    lines = []
    above = _centres(world.position, world.groups[0]) + np.array([0.0, (levels - 1) * height])
    for level in range(1, levels):
        nodes = _centres(world.position, world.groups[level])
        nodes = nodes + np.array([0.0, (levels - 1 - level) * height])
        first = np.unique(world.groups[level], return_index=True)[1]
        lines.append(np.stack([above[world.groups[level - 1][first]], nodes], axis=1))
        above = nodes
    return np.concatenate(lines)


def _neighbours(world: World) -> Float[np.ndarray, "line end 2"]:
    """Items that are tied to each other: where the precision is not zero."""
    precision = np.linalg.inv(world.covariance)
    tied = np.triu(np.abs(precision) > 1e-9 * np.abs(precision).max(), k=1)
    start, end = world.position[np.nonzero(tied)[0]], world.position[np.nonzero(tied)[1]]
    step = end - start
    length = np.linalg.norm(step, axis=1)
    long = length > 1.5 * length.min()
    wraps = step[long] / length[long, None]
    stubs = [
        np.stack([start[long], start[long] - 0.5 * wraps], axis=1),
        np.stack([end[long], end[long] + 0.5 * wraps], axis=1),
    ]
    return np.concatenate([np.stack([start, end], axis=1)[~long], *stubs])


def _centres(
    position: Float[np.ndarray, "item 2"], group: np.ndarray
) -> Float[np.ndarray, "group 2"]:
    return np.array([position[group == g].mean(axis=0) for g in np.unique(group)])
