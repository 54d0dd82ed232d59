"""Gaussian Markov random fields: features that vary little along the edges of a graph."""

from collections.abc import Sequence

import numpy as np
from jaxtyping import Float

from ..._checks import number, real_array, whole_number
from ..._types import ArrayLike
from ._trees import contrasts
from ._world import ModeGroup, World, world

# Eigenvalues closer than this fraction of the largest are one.
_DEGENERACY = 1e-9

# Edges beside `precision` from which on the inverse has less than about four digits.
_STIFFEST = 1e12


def graph(
    weights: ArrayLike, *, precision: float = 1.0, items: Sequence[int] | None = None
) -> World:
    r"""Return items on a weighted graph of any form, with hidden nodes or without.

    $$p(y) \propto \exp\Bigl(-\tfrac14\sum_{ij} w_{ij}(y_i - y_j)^2 - \tfrac g2\lVert y\rVert^2
      \Bigr),\qquad C = (\mathcal L + gI)^{-1},$$

    $\mathcal L$ the graph's Laplacian; nodes that are not items are integrated out, which leaves
    the items' rows and columns of $C$. The processes of Kemp & Tenenbaum (2008), as used by Saxe,
    McClelland & Ganguli (2019). Graphs may fall apart: parts without an edge between them have
    independent features. Eigenvalues and modes are computed numerically; `chain`, `ring`, `grid`,
    `torus` and `clusters` have them in closed form.

    **Arguments:**

    - `weights`: $w_{ij} \ge 0$, symmetric, zero on the diagonal.
    - `precision`: $g = 1/\sigma^2$. Without it the overall level of a feature would be free.
    - `items`: the nodes that are items, all by default; the others are hidden.

    **Returns:**

    A `World`. Items are drawn on a circle.
    """
    w = real_array("weights", weights)
    if w.ndim != 2 or w.shape[0] != w.shape[1] or not w.size:
        raise ValueError(f"`weights` must be a square matrix over nodes, got shape {w.shape}.")
    if not np.isfinite(w).all():
        raise ValueError(f"`weights` must be finite, {np.sum(~np.isfinite(w))} are not.")
    if (w < 0).any():
        raise ValueError(f"`weights` must not be negative, the smallest is {w.min():g}.")
    if np.abs(w - w.T).max() > 1e-12 * w.max():
        raise ValueError(
            "`weights` must be symmetric, the largest asymmetry is "
            f"{np.abs(w - w.T).max():.3g}. For the mean of both directions: (w + w.T) / 2."
        )
    w = (w + w.T) / 2  # of what is rounding
    if np.diagonal(w).any():
        raise ValueError(
            "`weights` must be zero on the diagonal: a node does not differ from itself. "
            "np.fill_diagonal(w, 0) leaves the process as it is."
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
    r"""Return items in separate clusters, each tied to a hidden centre of its own.

    The Markov random field of `graph` on stars. A cluster of $n$ items has one uniform mode and
    $n - 1$ contrasts within it,

    $$c_\mathrm{uniform} = \frac{nw + g}{g\,((n+1)w + g)},\qquad c_\mathrm{within} = \frac1{w+g}.$$

    Larger clusters are learned before smaller ones, and what is shared before what is not.

    **Arguments:**

    - `sizes`: items of each cluster.
    - `coupling`: $w$, of every item to its centre.
    - `precision`: $g = 1/\sigma^2$.

    **Returns:**

    A `World`; `groups[0]` is each item's cluster.
    """
    if np.ndim(sizes) != 1:
        raise ValueError(
            f"`sizes` must be a list, the items of each cluster, got {sizes!r}. For a single one: "
            f"[{sizes}]."
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
    # Small circles on a large one.
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
    """Return (𝓛 + gI)⁻¹."""
    degree = weights.sum(axis=1)
    if degree.max() > _STIFFEST * precision:
        raise ValueError(
            f"`precision` {precision:g} is lost beside edges that sum up to {degree.max():g} at a "
            "node: the level that neighbours share would be rounding. Use a larger `precision` or "
            "weaker edges."
        )
    laplacian = np.diag(degree) - weights
    covariance = np.linalg.inv(laplacian + precision * np.eye(len(weights)))
    return (covariance + covariance.T) / 2


def circle(angle: Float[np.ndarray, " item"]) -> Float[np.ndarray, "item 2"]:
    """Return points of the unit circle."""
    return np.stack([np.cos(angle), np.sin(angle)], axis=1)


def check_process(precision: float, coupling: float = 1.0) -> tuple[float, float]:
    """Return both in float64; raises unless both are positive."""
    precision = number("precision", precision)
    coupling = number("coupling", coupling)
    if coupling <= 0:
        raise ValueError(f"`coupling` must be positive, got {coupling}.")
    if precision <= 0:
        raise ValueError(
            f"`precision` must be positive, got {precision:g}: without it the graph's Laplacian is "
            "singular, and the overall level of a feature has no finite variance."
        )
    return precision, coupling


def _numerical_kinds(covariance: Float[np.ndarray, "item item"]) -> list[ModeGroup]:
    values, modes = np.linalg.eigh(covariance)
    values, modes = values[::-1], modes[:, ::-1]
    # Signs are a choice: the largest entry is positive.
    peak = np.abs(modes).argmax(axis=0)
    modes = modes * np.sign(modes[peak, np.arange(len(values))])
    cuts = np.flatnonzero(-np.diff(values) > _DEGENERACY * values[0]) + 1
    groups = np.split(np.arange(len(values)), cuts)
    names = [f"mode {g[0]}" if len(g) == 1 else f"modes {g[0]} to {g[-1]}" for g in groups]
    return [
        ModeGroup(name, float(values[group].mean()), modes[:, group])
        for name, group in zip(names, groups, strict=True)
    ]
