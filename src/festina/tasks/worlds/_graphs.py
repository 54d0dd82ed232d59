"""Worlds from Gaussian Markov random fields, whose features vary little along a graph's edges."""

from collections.abc import Sequence

import numpy as np
from jaxtyping import Float

from ..._checks import number, real_array, whole_number
from ..._types import ArrayLike
from ._trees import contrasts
from ._world import ModeGroup, World, world

# Eigenvalues that differ by less than this fraction of the largest count as equal.
_DEGENERACY = 1e-9

# Ratio of edge weights to `precision` above which the covariance has fewer than four digits.
_STIFFEST = 1e12


def graph(
    weights: ArrayLike, *, precision: float = 1.0, items: Sequence[int] | None = None
) -> World:
    r"""Return a world whose items are nodes of a weighted graph, which may have hidden nodes.

    A feature $y$ is a draw from a Gaussian Markov random field on the graph,

    $$p(y) \propto \exp\Bigl(-\tfrac14\sum_{ij} w_{ij}(y_i - y_j)^2 - \tfrac g2\lVert y\rVert^2
      \Bigr),\qquad C = (\mathcal L + gI)^{-1},$$

    where $\mathcal L$ is the graph's Laplacian (Kemp & Tenenbaum 2008; Saxe, McClelland & Ganguli
    2019). The covariance of the items consists of the items' rows and columns of $C$, the
    covariance of all nodes. Parts of the graph without an edge between them have independent
    features. Eigenvalues and modes are computed numerically; `chain`, `ring`, `grid`, `torus` and
    `clusters` have closed forms.

    **Arguments:**

    - `weights`: edge weights $w_{ij} \ge 0$, a symmetric matrix with a zero diagonal.
    - `precision`: $g = 1/\sigma^2 > 0$, which bounds the overall level of a feature.
    - `items`: nodes that are items, by default all. Nodes that are not items are hidden.

    **Returns:**

    A `World`, whose `position` puts the items on a circle.

    **Example:**

    >>> from festina.tasks.worlds import graph
    >>> graph([[0.0, 1.0], [1.0, 0.0]]).eigenvalues  # 1/g and 1/(g + 2w)
    array([1.        , 0.33333333])
    """
    w = real_array("weights", weights)
    if w.ndim != 2 or w.shape[0] != w.shape[1] or not w.size:
        raise ValueError(f"`weights` must be a square matrix over nodes, got shape {w.shape}.")
    if not np.isfinite(w).all():
        raise ValueError(f"`weights` must be finite, {np.sum(~np.isfinite(w))} entries are not.")
    if (w < 0).any():
        raise ValueError(f"`weights` must not be negative, the smallest is {w.min():g}.")
    if np.abs(w - w.T).max() > 1e-12 * w.max():
        raise ValueError(
            "`weights` must be symmetric, the largest asymmetry is "
            f"{np.abs(w - w.T).max():.3g}. For the mean of both directions: (w + w.T) / 2."
        )
    w = (w + w.T) / 2  # removes asymmetry by rounding
    if np.diagonal(w).any():
        raise ValueError(
            "`weights` must be zero on the diagonal, because an edge from a node to itself has no "
            "effect. Call np.fill_diagonal(w, 0) first."
        )
    precision, _ = check_process(precision)
    chosen = np.arange(len(w)) if items is None else np.asarray(items)
    if (
        chosen.ndim != 1
        or not chosen.size
        or chosen.dtype.kind not in "iu"
        or not ((chosen >= 0) & (chosen < len(w))).all()
        or len(np.unique(chosen)) < len(chosen)
    ):
        raise ValueError(f"`items` must be different nodes from 0 to {len(w) - 1}, got {items!r}.")

    covariance = markov_covariance(w, precision)[np.ix_(chosen, chosen)]
    position = circle(2 * np.pi * np.arange(len(chosen)) / len(chosen))
    name = f"graph of {len(w)} nodes, g = {precision:g}"
    return world(name, covariance, _numerical_kinds(covariance), position=position)


def clusters(sizes: Sequence[int], *, coupling: float = 1.0, precision: float = 1.0) -> World:
    r"""Return a world of items in separate clusters, linked to the hidden centre of their cluster.

    The process is the Markov random field of `graph` on one star for each cluster. A cluster of $n$
    items has one uniform mode and $n - 1$ contrasts, with the eigenvalues

    $$c_\mathrm{uniform} = \frac{nw + g}{g\,((n+1)w + g)},\qquad c_\mathrm{within} = \frac1{w+g}.$$

    The uniform modes of large clusters are learned first, the contrasts within clusters last.

    **Arguments:**

    - `sizes`: number of items in each cluster.
    - `coupling`: weight $w$ of the edge from an item to its centre.
    - `precision`: $g = 1/\sigma^2 > 0$, which bounds the overall level of a feature.

    **Returns:**

    A `World`; `groups[0]` has the number of each item's cluster.

    **Example:**

    >>> from festina.tasks.worlds import clusters
    >>> world = clusters([3, 2])
    >>> [(kind.name, round(kind.eigenvalue, 3)) for kind in world.kinds]
    [('cluster 0', 0.8), ('cluster 1', 0.75), ('within clusters', 0.5)]
    """
    if np.ndim(sizes) != 1:
        raise ValueError(
            f"`sizes` must be a list, the items of each cluster, got {sizes!r}. For a single "
            f"cluster give [{sizes}]."
        )
    sizes = [whole_number("sizes", size, 1) for size in sizes]
    if not sizes:
        raise ValueError("`sizes` must name at least one cluster, got none.")
    precision, coupling = check_process(precision, coupling)
    w, g = coupling, precision
    member = np.repeat(np.arange(len(sizes)), sizes)
    items = len(member)

    star = w * (member[:, None] == np.arange(len(sizes)))
    weights = np.block([[np.zeros((items, items)), star], [star.T, np.zeros((len(sizes),) * 2)]])
    covariance = markov_covariance(weights, g)[:items, :items]

    kinds, within, angles, start = [], [], [], 0
    for cluster, n in enumerate(sizes):
        part = slice(start, start + n)
        uniform, inner = np.zeros((items, 1)), np.zeros((items, n - 1))
        uniform[part], inner[part] = n**-0.5, contrasts(n)
        value = (n * w + g) / g / ((n + 1) * w + g)
        kinds.append(ModeGroup(f"cluster {cluster}", value, uniform))
        within.append(inner)
        angles.append(2 * np.pi * np.arange(n) / n)
        start += n
    kinds.append(ModeGroup("within clusters", 1 / (w + g), np.concatenate(within, axis=1)))
    # The items of a cluster lie on a small circle, the centres of the clusters on a large one.
    centre = circle(2 * np.pi * np.arange(len(sizes)) / len(sizes))
    small = 0.6 * np.sin(np.pi / max(len(sizes), 3))
    return world(
        f"clusters {sizes}, w = {w:g}, g = {g:g}",
        covariance,
        kinds,
        position=centre[member] + small * circle(np.concatenate(angles)),
        groups=member[None],
    )


def markov_covariance(
    weights: Float[np.ndarray, "node node"], precision: float
) -> Float[np.ndarray, "node node"]:
    """Return the covariance (𝓛 + gI)⁻¹ of a Gaussian Markov random field."""
    degree = weights.sum(axis=1)
    if degree.max() > _STIFFEST * precision:
        raise ValueError(
            f"`precision` {precision:g} is too small for edges that sum up to {degree.max():g} at "
            "a node: rounding errors would dominate the common level of neighbours. Use a larger "
            "`precision` or weaker edges."
        )
    laplacian = np.diag(degree) - weights
    covariance = np.linalg.inv(laplacian + precision * np.eye(len(weights)))
    return (covariance + covariance.T) / 2


def circle(angle: Float[np.ndarray, " item"]) -> Float[np.ndarray, "item 2"]:
    """Return the points of the unit circle at these angles."""
    return np.stack([np.cos(angle), np.sin(angle)], axis=1)


def check_process(precision: float, coupling: float = 1.0) -> tuple[float, float]:
    """Return `precision` and `coupling` in float64; raise unless both are positive."""
    precision = number("precision", precision)
    coupling = number("coupling", coupling)
    if coupling <= 0:
        raise ValueError(f"`coupling`, the weight of the edges, must be positive, got {coupling}.")
    if precision <= 0:
        raise ValueError(
            f"`precision` must be positive, got {precision:g}. Without it the graph's Laplacian is "
            "singular, and the overall level of a feature has no finite variance."
        )
    return precision, coupling


def _numerical_kinds(covariance: Float[np.ndarray, "item item"]) -> list[ModeGroup]:
    values, modes = np.linalg.eigh(covariance)
    values, modes = values[::-1], modes[:, ::-1]
    # The sign of a mode is arbitrary; its largest entry is made positive.
    peak = np.abs(modes).argmax(axis=0)
    modes = modes * np.sign(modes[peak, np.arange(len(values))])
    cuts = np.flatnonzero(-np.diff(values) > _DEGENERACY * values[0]) + 1
    groups = np.split(np.arange(len(values)), cuts)
    names = [f"mode {g[0]}" if len(g) == 1 else f"modes {g[0]} to {g[-1]}" for g in groups]
    return [
        ModeGroup(name, float(values[group].mean()), modes[:, group])
        for name, group in zip(names, groups, strict=True)
    ]
