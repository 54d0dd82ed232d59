"""Reduction: the narrower network that computes the same function (F.3)."""

import numpy as np
from jaxtyping import Float

from ...networks import Layer
from ._hidden import combine, only_layer
from ._manifolds import ManifoldConstraint


def reduce_width(
    network: Layer, *constraints: ManifoldConstraint, same_flow: bool = False
) -> Layer:
    r"""Remove one unit for each constraint and let the others do what it did.

    On the manifold where the constraints hold, the responses of all units are combinations
    $\phi(z; u_i) = \sum_j B_{ij}\,\phi(z; u_j)$ of those that are kept, so that
    $v_j^\text{new} = \sum_i B_{ij} v_i$ makes the same function (Zhang, Saxe & Latham, F.3). With
    one constraint that is $2v_j$ for equal units, $(1 + \gamma^2)v_j$ for proportional ones, and
    Eq. (28) for linear ones; a zero unit is left out. Off the manifold, and for a unit that lacks
    the property that a `ManifoldConstraint` names, it is an approximation.

    **Arguments:**

    - `network`: one network, or a batch that shares the constraints (a trajectory's, say).
    - `constraints`: as many as units are to be removed. One may refer to units that another one
      removes; in a circle they determine nothing, which is refused.
    - `same_flow`: split the factor between both layers,
      $\theta^\text{new} = (B^\top B)^{1/2}\theta$ over the kept units, instead of putting all of it
      into v. The narrow network then not only computes the same but *learns* the same, at the same
      speed. F.3's own form does not: its first layer is $1 + \gamma^2$ times as fast, its second as
      much slower. For homogeneous and linear units only; a copy of any other unit has no such
      form.

    **Returns:** the network with fewer units, in the order they had.
    """
    removed = [constraint.unit for constraint in constraints]
    if len(set(removed)) < len(removed):
        raise ValueError(f"Each constraint removes another unit, got units {removed}.")
    if len(removed) >= only_layer(network).width:
        raise ValueError(
            f"{len(removed)} constraints leave nothing of a network with {network.width} units."
        )
    network.check_finite()
    axis = len(network.batch_shape)
    kept = np.setdiff1d(np.arange(network.width), removed)
    u, v = (np.asarray(part, dtype=float) for part in network.parts)
    b = _combinations(constraints, kept, network.width)
    if same_flow:
        refused = {constraint.kind for constraint in constraints} - {
            "zero",
            *(("proportional", "equal") if network.unit.algebra.homogeneous else ()),
            *(("linear",) if network.unit.algebra.linear else ()),
        }
        if refused:
            raise ValueError(
                f"`same_flow` needs a factor that can be split between the layers, which "
                f"{network.unit} does not allow for {', '.join(sorted(refused))} units. Without it "
                "the narrow network computes the same function."
            )
        root = _square_root(b.T @ b)
        return network.with_parts(*(combine(root, part.take(kept, axis), axis) for part in (u, v)))
    return network.with_parts(u.take(kept, axis), combine(b.T, v, axis))


def _combinations(
    constraints: tuple[ManifoldConstraint, ...], kept: np.ndarray, width: int
) -> Float[np.ndarray, "unit kept"]:
    """B: every response by those kept, solving the constraints for those removed."""
    removed = [constraint.unit for constraint in constraints]
    b = np.zeros((width, len(kept)))
    b[kept, np.arange(len(kept))] = 1.0
    if removed:
        c = np.array([constraint.row("response", width) for constraint in constraints])
        if np.linalg.matrix_rank(c[:, removed]) < len(removed):
            raise ValueError(
                f"The constraints on units {removed} go in a circle: none of them can be removed "
                "before another. Leave one constraint out."
            )
        b[removed] = -np.linalg.solve(c[:, removed], c[:, kept])
    return b


def _square_root(gram: Float[np.ndarray, "n n"]) -> Float[np.ndarray, "n n"]:
    if not np.any(gram - np.diag(np.diag(gram))):  # as for rays, whose factors stay ≥ 0
        return np.diag(np.sqrt(np.diag(gram)))
    variances, axes = np.linalg.eigh(gram)
    return (axes * np.sqrt(variances)) @ axes.T
