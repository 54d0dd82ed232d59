"""Ward's merging of weighted directions up to sign, which no library has."""

from typing import NamedTuple

import numpy as np
from jaxtyping import Float, Int


class Merges(NamedTuple):
    """Merges of clusters in order: `second` went into `first`, at a `cost`.

    `turned` is −1 where the second had to be turned around.
    """

    first: Int[np.ndarray, " merge"]
    second: Int[np.ndarray, " merge"]
    turned: Float[np.ndarray, " merge"]
    cost: Float[np.ndarray, " merge"]

    def clusters(self, count: int) -> tuple[Int[np.ndarray, " unit"], Float[np.ndarray, " unit"]]:
        """Return for `count` clusters the cluster of each unit, counted from zero, and its sign."""
        units = len(self.cost) + 1
        label, sign = np.arange(units), np.ones(units)
        for a, b, turned, _ in zip(*(each[: units - count] for each in self), strict=True):
            sign[label == b] *= turned
            label[label == b] = a
        return np.unique(label, return_inverse=True)[1], sign


def ward(cosine: Float[np.ndarray, "unit unit"], weight: Float[np.ndarray, " unit"]) -> Merges:
    r"""Merge weighted unit vectors, the two clusters with the cheapest merge first.

    With weights $w_i$ and directions $p_i$ the cost is the rise of $\sum_i w_i |p_i - c|^2$, c the
    mean of the cluster,

    $$\frac{W_A W_B}{W_A + W_B}\, |c_A \mp c_B|^2,$$

    where the sign is the better one: a unit's response is scaled afterwards, by any factor. SciPy's
    `linkage` counts all points alike; here a unit that contributes nothing costs nothing.

    **Arguments:**

    - `cosine`: $p_i \cdot p_j$.
    - `weight`: $w_i$, not negative.
    """
    units = len(weight)
    most = weight.max()
    w = np.maximum(weight / most, 1e-30) if most > 0 else np.ones(units)
    s = w[:, None] * cosine * w  # products of the clusters' sums Σ w p
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
