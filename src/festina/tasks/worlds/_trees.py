"""Worlds on trees, whose features are inherited from the root to the leaves and flip at random."""

import contextlib
from collections.abc import Sequence

import jax
import numpy as np
from jaxtyping import Float, PRNGKeyArray

from ..._checks import real_array, whole_numbers
from ..._types import ArrayLike
from ._world import ModeGroup, World, world


def tree(branching: Sequence[int], flip: ArrayLike) -> World:
    r"""Return a world whose items are the leaves of a tree, with ±1 features that are inherited.

    The process is the branching diffusion of Saxe, McClelland & Ganguli (2019). A feature is +1 or
    −1 at the root with equal probability. On each edge into level $k$ the feature changes its sign
    with probability $\epsilon_k$. There are $M_k$ nodes at level $k = 0, \dots, L$ and $P = M_L$
    items. Two leaves whose last common ancestor is at level $k$ have the covariance

    $$q_k = \prod_{m > k} (1 - 2\epsilon_m)^2,\qquad q_{-1} := 0.$$

    The eigenvalues of the covariance are

    $$c_m = \sum_{k=m}^{L} (q_k - q_{k-1})\,\frac{P}{M_k}.$$

    The mode with eigenvalue $c_0$ is uniform. The $M_m - M_{m-1}$ modes with eigenvalue $c_m$ are
    contrasts between the children of the nodes at level $m - 1$. Since $c_0 \ge c_1 \ge \dots$,
    networks learn broad distinctions before fine ones (progressive differentiation). Edges that
    never flip, $\epsilon_m = 0$, give $c_m = c_{m+1}$; edges with $\epsilon_m = 1/2$ give $c_0 =
    \dots = c_m$.

    **Arguments:**

    - `branching`: number of children of each node, level by level from the root. `[2, 2, 2]` gives
      8 leaves.
    - `flip`: $\epsilon$, one probability for all edges or one for each level, from 0 to 1/2.

    **Returns:**

    A `World` with one kind of modes for each level that branches. `groups[k]` has the number of
    each leaf's ancestor at level $k$.

    **Example:**

    >>> from festina.tasks.worlds import tree
    >>> [(kind.name, round(kind.eigenvalue, 3)) for kind in tree([2, 2], 0.1).kinds]
    [('level 0', 2.459), ('level 1', 0.821), ('level 2', 0.36)]
    """
    sizes = np.zeros(0, dtype=int)
    with contextlib.suppress(ValueError):
        sizes = np.array(whole_numbers("branching", branching), dtype=int)
    if not sizes.size:
        raise ValueError(
            "`branching` must list the number of children of a node for each level, whole numbers "
            f"from 1 up, such as [2, 2, 2]; got {branching!r}."
        )
    levels = len(sizes)
    epsilon = real_array("flip", flip)
    if epsilon.shape not in ((), (levels,)):
        raise ValueError(
            f"`flip` must be one probability, or one for each of the {levels} levels below the "
            f"root, got shape {epsilon.shape}."
        )
    if not ((epsilon >= 0) & (epsilon <= 0.5)).all():
        raise ValueError(
            f"`flip` must lie between 0 and 1/2, got {flip}. For ε above 1/2 give 1 − ε, which has "
            "the same covariance of the leaves."
        )
    epsilon = np.broadcast_to(epsilon, levels)

    nodes = np.concatenate(([1], np.cumprod(sizes)))  # M_k for k = 0, …, L
    items = int(nodes[-1])
    # q_k for k = −1, 0, …, L
    q = np.concatenate(([0.0], np.cumprod((1 - 2 * epsilon[::-1]) ** 2)[::-1], [1.0]))
    c = np.cumsum((np.diff(q) * items / nodes)[::-1])[::-1]

    ancestor = np.arange(items) // (items // nodes)[:, None]
    same = ancestor[:, :, None] == ancestor[:, None, :]
    covariance = np.einsum("k,kij->ij", np.diff(q), same.astype(float))
    kinds = [ModeGroup("level 0", float(c[0]), np.full((items, 1), items**-0.5))]
    for m in range(1, levels + 1):
        modes = _level_contrasts(int(nodes[m - 1]), int(sizes[m - 1]), items)
        kinds.append(ModeGroup(f"level {m}", float(c[m]), modes))

    odds = np.repeat([0.5, *epsilon], nodes)  # probability of −1 at the root, then of each flip

    def draw(features: int, key: PRNGKeyArray) -> Float[np.ndarray, "feature item"]:
        flips = np.asarray(jax.random.uniform(key, (features, len(odds)))) < odds
        value, *edges = np.split(1.0 - 2.0 * flips, np.cumsum(nodes)[:-1], axis=1)
        for signs, b in zip(edges, sizes, strict=True):
            value = np.repeat(value, b, axis=1) * signs
        return value

    shown = ", ".join(f"{e:g}" for e in np.atleast_1d(flip))
    return world(
        f"tree {sizes.tolist()}, flip {shown}",
        covariance,
        kinds,
        position=np.stack([np.arange(items) - (items - 1) / 2, np.zeros(items)], axis=1),
        groups=ancestor,
        draw=draw,
    )


def contrasts(size: int) -> Float[np.ndarray, "size less"]:
    """Return orthonormal contrasts, as columns, of each item against the mean of earlier items."""
    columns = np.triu(np.ones((size, size - 1)))
    columns[np.arange(1, size), np.arange(size - 1)] = -np.arange(1.0, size)
    return columns / np.linalg.norm(columns, axis=0)


def _level_contrasts(parents: int, children: int, items: int) -> Float[np.ndarray, "item mode"]:
    """Return contrasts between the children of each node of one level, as modes over the leaves."""
    leaves = items // (parents * children)
    one = np.kron(contrasts(children), np.full((leaves, 1), leaves**-0.5))
    return np.kron(np.eye(parents), one)
