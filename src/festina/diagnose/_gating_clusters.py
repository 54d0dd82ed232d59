"""Sets that are nearly the same, as clusters."""

from collections.abc import Sequence
from dataclasses import dataclass

import numpy as np
from jaxtyping import Bool, Float, Int

_NONE, _LITTLE = 0.1, 0.2
"""A mean silhouette, and a share of what one cluster leaves unexplained, below which there is one.

A few odd units among many that are alike have a good silhouette by themselves, but explain little.
"""
_SLIGHT = 0.03
"""Of all weight, below which a cluster is a few odd units, which join another."""
_ROUNDS = 10


@dataclass(frozen=True, eq=False)
class Clusters:
    """Sets by cluster, the heaviest first.

    - `label`: of each set, and its `weight`.
    - `common`: what is on in most of a cluster, by weight.
    - `share`: of all weight that a cluster has.
    - `held`: share of entries, by weight, that are as in most of the cluster.
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

    signs = np.where(on, np.float32(1), np.float32(-1))  # products are whole: exact up to 2²⁴
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
    """Cut a tree of merges into each number of clusters, or fewer where that would cut a tie."""
    units, height = len(tree) + 1, np.append(tree[:, 2], np.inf)
    pairs, first, found = tree[:, :2].astype(int), units - max(sizes), {}
    root = np.arange(2 * units)
    for done in reversed(range(first)):  # from each merge to the two that it is made of
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
    """Return an order of units that does not depend on the order they are given in.

    By how many examples they are on for and share with others, by weight, and at last by examples.
    """
    shared = np.rint(np.asarray(on, np.float32) @ np.asarray(on, np.float32).T)
    keys = (weight, np.sum(shared**2, axis=1), shared.sum(axis=1), on.sum(axis=1))
    return np.lexsort((*on.T[::-1], *keys))


def _unexplained(
    signs: Float[np.ndarray, "unit example"],
    weight: Float[np.ndarray, " unit"],
    label: Int[np.ndarray, " unit"],
) -> float:
    """Return the share of entries, by weight, that differ from the majority of their cluster."""
    off = np.mean(signs != _majority(signs, weight, label)[label], axis=1)
    return float(np.average(off, weights=weight))


def _majority(
    signs: Float[np.ndarray, "unit example"],
    weight: Float[np.ndarray, " unit"],
    label: Int[np.ndarray, " unit"],
) -> Float[np.ndarray, "cluster example"]:
    """Return 1 where most of the weight of a cluster is on, else −1."""
    member = ((np.arange(label.max() + 1)[:, None] == label) * weight).astype(signs.dtype)
    return np.where(member @ signs > 0, signs.dtype.type(1), signs.dtype.type(-1))


def rand_index(
    one: Int[np.ndarray, " unit"],
    other: Int[np.ndarray, " unit"],
    weight: Float[np.ndarray, " unit"],
) -> float:
    """Return the adjusted Rand index, a pair of units counting by the product of their weights.

    1 if both are the same but for names, 0 on average if they have nothing to do with each other.
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
    """Return the share of examples for which one unit is on and the other is not."""
    off = (0.5 - 0.5 / signs.shape[1] * (signs @ signs.T)).astype(float)
    np.fill_diagonal(off, 0.0)
    return np.maximum((off + off.T) / 2, 0.0)


def _silhouettes(
    off: Float[np.ndarray, "unit unit"],
    weight: Float[np.ndarray, " unit"],
    label: Int[np.ndarray, "trial unit"],
    slight: float,
) -> Float[np.ndarray, " trial"]:
    """The mean of (b − a)/max(a, b): a is the distance to one's own cluster, b to the next.

    0 for units in slight clusters, which are no others' next either: else it would be best to take
    the oddest unit by itself. 0 if there is but one cluster.
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
    """Every unit in the cluster whose majority it is closest to, if that is none of the slight."""
    for _ in range(_ROUNDS):
        like = signs @ _majority(signs, weight, label).T
        like[:, np.bincount(label, weight) < slight] = -np.inf
        like[np.arange(len(label)), label] += 0.5  # stays where it is, of two that are as close
        _, new = np.unique(np.argmax(like, axis=1), return_inverse=True)
        if np.array_equal(new, label):
            break
        label = new
    return label
