"""Cluster units whose sets of examples nearly coincide."""

from collections.abc import Sequence
from dataclasses import dataclass

import numpy as np
from jaxtyping import Bool, Float, Int

_NONE, _LITTLE = 0.1, 0.2
"""Smallest mean silhouette of several clusters, and smallest reduction of unexplained entries.

The second condition is needed because a few odd units among many similar ones have a good
silhouette but explain little.
"""
_SLIGHT = 0.03
"""Share of the total weight below which a cluster is dissolved into other clusters."""
_ROUNDS = 10  # largest number of reassignment rounds


@dataclass(frozen=True, eq=False)
class Clusters:
    """Clusters of sets, the heaviest first.

    - `label`, `weight`: cluster and weight of each set.
    - `common`: majority of each cluster, by weight.
    - `share`: share of the total weight in each cluster.
    - `held`: fraction of entries, by weight, that equal the majority of their cluster.
    """

    label: Int[np.ndarray, " unit"]
    weight: Float[np.ndarray, " unit"]
    common: Bool[np.ndarray, "cluster example"]
    share: Float[np.ndarray, " cluster"]
    held: float


def cluster(
    on: Bool[np.ndarray, "unit example"],
    weight: Float[np.ndarray, " unit"],
    count: int | None,
    most: int,
) -> Clusters:
    """Return the requested number of clusters, or the number with the best mean silhouette."""
    from scipy.cluster.hierarchy import linkage
    from scipy.spatial.distance import squareform

    signs = np.where(on, np.float32(1), np.float32(-1))  # sums of products are exact up to 2²⁴
    off = _differences(signs)
    together = np.zeros(len(on), dtype=int)
    trials = [together]
    if count != 1 and len(on) > 1 and off.any():
        near = squareform(off, checks=False)
        sizes = range(2, 1 + min(most, len(on))) if count is None else [min(count, len(on))]
        for method, distance in (("average", near), ("ward", np.sqrt(near))):
            trials += _cuts(linkage(distance, method), sizes)
        trials = trials[1:] if count is not None else trials
    slight = 0.0 if count is not None else _SLIGHT * weight.sum()
    score = _silhouettes(off, weight, np.stack(trials), slight)
    label = _settled(signs, weight, trials[int(np.argmax(score))], slight)
    left = _unexplained(signs, weight, label) > (1 - _LITTLE) * _unexplained(
        signs, weight, together
    )
    if count is None and (left or score.max() < _NONE):
        label = together
    share = np.bincount(label, weight)
    order = np.argsort(-share, kind="stable")
    label = np.argsort(order)[label]
    held = 1 - _unexplained(signs, weight, label)
    common = _majority(signs, weight, label) > 0
    return Clusters(label, weight, common, share[order] / share.sum(), held)


def _cuts(
    tree: Float[np.ndarray, "merge 4"], sizes: Sequence[int]
) -> list[Int[np.ndarray, " unit"]]:
    """Cut a tree of merges into each number of clusters, or fewer if the cut would split a tie."""
    units, height = len(tree) + 1, np.append(tree[:, 2], np.inf)
    pairs, first, found = tree[:, :2].astype(int), units - max(sizes), {}
    root = np.arange(2 * units)
    for done in reversed(range(first)):  # pass the root of each merge on to its two parts
        root[pairs[done]] = root[units + done]
    nodes, label = np.unique(root[:units], return_inverse=True)
    nodes = nodes.tolist()
    for done in range(first, units):
        if done > first:
            one, other = sorted(map(nodes.index, pairs[done - 1]))
            joined = (label == one) | (label == other)
            label = np.where(joined, units - done - 1, label - (label > one) - (label > other))
            nodes = [*nodes[:one], *nodes[one + 1 : other], *nodes[other + 1 :], units + done - 1]
        if not (done and height[done] <= height[done - 1] * (1 + 1e-12)):
            found[units - done] = label
    wanted = {max(k for k in found if k <= size) for size in sizes}
    return [found[k] for k in sorted(wanted)]


def canonical(
    on: Bool[np.ndarray, "unit example"], weight: Float[np.ndarray, " unit"]
) -> Int[np.ndarray, " unit"]:
    """Return an order of units that does not depend on the order in which they are given.

    Units are sorted by the number of examples for which they are active, by the overlap with other
    units, by weight, and finally by the examples themselves.
    """
    shared = np.rint(np.asarray(on, np.float32) @ np.asarray(on, np.float32).T)
    keys = (weight, np.sum(shared**2, axis=1), shared.sum(axis=1), on.sum(axis=1))
    return np.lexsort((*on.T[::-1], *keys))


def _unexplained(
    signs: Float[np.ndarray, "unit example"],
    weight: Float[np.ndarray, " unit"],
    label: Int[np.ndarray, " unit"],
) -> float:
    """Return the fraction of entries, by weight, that differ from the majority of their cluster."""
    off = np.mean(signs != _majority(signs, weight, label)[label], axis=1)
    return float(np.average(off, weights=weight))


def _majority(
    signs: Float[np.ndarray, "unit example"],
    weight: Float[np.ndarray, " unit"],
    label: Int[np.ndarray, " unit"],
) -> Float[np.ndarray, "cluster example"]:
    """Return 1 where most of the weight of a cluster is active, else −1."""
    member = ((np.arange(label.max() + 1)[:, None] == label) * weight).astype(signs.dtype)
    return np.where(member @ signs > 0, signs.dtype.type(1), signs.dtype.type(-1))


def rand_index(
    one: Int[np.ndarray, " unit"],
    other: Int[np.ndarray, " unit"],
    weight: Float[np.ndarray, " unit"],
) -> float:
    """Return the adjusted Rand index, in which a pair of units counts by its weights' product.

    The index is 1 if both clusterings are the same up to names, and 0 on average if they are
    independent.
    """
    w = weight / weight.sum()
    table = np.zeros((one.max() + 1, other.max() + 1))
    np.add.at(table, (one, other), w)
    alone = np.sum(w**2)
    pairs = lambda mass: np.sum(mass**2) - alone
    both, first, second, total = (
        pairs(mass) for mass in (table, table.sum(axis=1), table.sum(axis=0), np.ones(1))
    )
    chance = first * second / total if total > 0 else 0.0
    largest = (first + second) / 2
    return 1.0 if largest - chance <= 1e-12 else float((both - chance) / (largest - chance))


def _differences(signs: Float[np.ndarray, "unit example"]) -> Float[np.ndarray, "unit unit"]:
    """Return the fraction of examples for which one unit is active and the other is not."""
    off = (0.5 - 0.5 / signs.shape[1] * (signs @ signs.T)).astype(float)
    np.fill_diagonal(off, 0.0)
    return np.maximum((off + off.T) / 2, 0.0)


def _silhouettes(
    off: Float[np.ndarray, "unit unit"],
    weight: Float[np.ndarray, " unit"],
    label: Int[np.ndarray, "trial unit"],
    slight: float,
) -> Float[np.ndarray, " trial"]:
    """Return the mean silhouette (b − a)/max(a, b) of each trial of cluster labels.

    The distance a is a unit's mean distance to its own cluster, and b that to the nearest other
    cluster. Units in clusters lighter than `slight` count as 0, and such clusters are never the
    nearest one; without this rule the best cut would separate the oddest unit. The silhouette of a
    single cluster is 0.
    """
    member = (label[..., None] == np.arange(label.max() + 1)) * weight[:, None]
    whole = member.sum(axis=1, keepdims=True)
    mass = whole - member  # without the unit itself
    mean = off @ member / np.where(mass > 0, mass, 1.0)
    pick = lambda each: np.take_along_axis(each, label[..., None], axis=-1)[..., 0]
    own, few = pick(mean), whole < max(slight, np.finfo(float).tiny)
    alone = (pick(mass) <= 1e-12 * weight.sum()) | pick(np.broadcast_to(few, mass.shape))
    np.put_along_axis(mean, label[..., None], np.inf, axis=-1)
    other = np.where(few, np.inf, mean).min(axis=-1)
    alone |= ~np.isfinite(other) | (np.maximum(own, other) <= 0)
    own, other = np.where(alone, 1.0, own), np.where(alone, 1.0, other)
    return (other - own) / np.maximum(own, other) @ weight / weight.sum()


def _settled(
    signs: Float[np.ndarray, "unit example"],
    weight: Float[np.ndarray, " unit"],
    label: Int[np.ndarray, " unit"],
    slight: float,
) -> Int[np.ndarray, " unit"]:
    """Return labels that put every unit into the cluster with the closest majority.

    Units of clusters lighter than `slight` join heavier clusters.
    """
    for _ in range(_ROUNDS):
        like = signs @ _majority(signs, weight, label).T
        like[:, np.bincount(label, weight) < slight] = -np.inf
        like[np.arange(len(label)), label] += 0.5  # in a tie a unit keeps its cluster
        _, new = np.unique(np.argmax(like, axis=1), return_inverse=True)
        if np.array_equal(new, label):
            break
        label = new
    return label
