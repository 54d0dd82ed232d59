"""Merge weighted directions, up to their sign, by Ward's rule."""

from typing import NamedTuple

import numpy as np
from jaxtyping import Float, Int


class Merges(NamedTuple):
    """Merges of clusters in order: cluster `second` was merged into `first` at a `cost`.

    `turned` is −1 if the sign of the second cluster was reversed, and 1 otherwise.
    """

    first: Int[np.ndarray, " merge"]
    second: Int[np.ndarray, " merge"]
    turned: Float[np.ndarray, " merge"]
    cost: Float[np.ndarray, " merge"]

    def clusters(self, count: int) -> tuple[Int[np.ndarray, " unit"], Float[np.ndarray, " unit"]]:
        """Return the cluster of each unit, from 0 to `count` − 1, and the sign of each unit."""
        units = len(self.cost) + 1
        label, sign = np.arange(units), np.ones(units)
        for a, b, turned, _ in zip(*(each[: units - count] for each in self), strict=True):
            sign[label == b] *= turned
            label[label == b] = a
        return np.unique(label, return_inverse=True)[1], sign


def ward(cosine: Float[np.ndarray, "unit unit"], weight: Float[np.ndarray, " unit"]) -> Merges:
    r"""Return the merges of weighted unit vectors, in the order of their cost.

    With weights $w_i$ and directions $p_i$ the cost is the increase of $\sum_i w_i |p_i - c|^2$,
    where c is the mean of the cluster,

    $$\frac{W_A W_B}{W_A + W_B}\, |c_A \mp c_B|^2,$$

    with the sign of lower cost, because the response of a unit is scaled later by any factor. In
    SciPy's `linkage` all points have the same weight; here merging a unit of zero weight costs
    nothing.

    **Arguments:**

    - `cosine`: $p_i \cdot p_j$.
    - `weight`: $w_i$, not negative.
    """
    units = len(weight)
    most = weight.max()
    w = np.maximum(weight / most, 1e-30) if most > 0 else np.ones(units)
    s = w[:, None] * cosine * w  # products of the sums Σ w p of clusters
    there = np.ones(units, bool)

    def row(a: int) -> np.ndarray:
        apart = s[a, a] / w[a] ** 2 + s.diagonal() / w**2 - 2 * np.abs(s[a]) / (w[a] * w)
        cost = w[a] * w / (w[a] + w) * np.maximum(apart, 0.0)
        cost[~there] = np.inf
        cost[a] = np.inf
        return cost

    costs = np.array([row(a) for a in range(units)])
    near = costs.argmin(1)
    least = costs[np.arange(units), near]
    merges = []
    for _ in range(units - 1):
        a = int(least.argmin())
        b, cost = int(near[a]), float(least[a])
        turned = -1.0 if s[a, b] < 0 else 1.0
        merges.append((a, b, turned, cost))
        s[a] += turned * s[b]
        s[:, a] += turned * s[:, b]
        w[a] += w[b]
        there[b] = False
        costs[b] = costs[:, b] = np.inf
        costs[a] = costs[:, a] = row(a)
        again = np.flatnonzero(there & ((near == a) | (near == b) | (costs[:, a] < least)))
        near[again] = costs[again].argmin(1)
        least[again] = costs[again, near[again]]
        least[b] = np.inf
    first, second, turn, cost = np.array(merges).T
    return Merges(first.astype(int), second.astype(int), turn, cost * most)
