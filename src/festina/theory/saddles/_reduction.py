"""Reduction: the narrower network that computes the same function (Zhang, Saxe & Latham, F.3)."""

import numpy as np
from jaxtyping import Float

from ...networks import Layer
from ._hidden import combine, only_layer
from ._manifolds import ManifoldConstraint


def reduce_width(
    network: Layer, *constraints: ManifoldConstraint, same_flow: bool = False
) -> Layer:
    r"""Remove one unit for each constraint; the remaining units compute the same function.

    On the manifold where the constraints hold, the responses of all units are combinations
    $\phi(z; u_i) = \sum_j B_{ij}\,\phi(z; u_j)$ of the responses of the remaining units. The output
    weights $v_j^\text{new} = \sum_i B_{ij} v_i$ therefore give the same function (Zhang, Saxe &
    Latham, F.3). With one constraint the new output weights are $2v_j$ for equal units,
    $(1 + \gamma^2)v_j$ for proportional units, and those of Eq. (28) for linear units; a zero unit
    is left out. The result is an approximation if the weights are off the manifold, or if φ lacks
    the property that a `ManifoldConstraint` requires.

    **Arguments:**

    - `network`: one network, or a batch that shares the constraints (such as a trajectory).
    - `constraints`: one constraint for each unit to remove. A constraint may refer to units that
      another constraint removes. Constraints that determine each other in a circle raise
      `ValueError`.
    - `same_flow`: if True, rescale u and v of the remaining units,
      $\theta^\text{new} = (B^\top B)^{1/2}\theta$, instead of only v. The narrow network then
      computes the same function and *learns* it at the same speed. With `same_flow=False` (the form
      in F.3) the first layer learns $1 + \gamma^2$ times as fast and the second layer slower by the
      same factor. `same_flow` is available for homogeneous and linear units only.

    **Returns:** the network without the removed units; the remaining units keep their order.

    **Example:**

    >>> from festina.networks import layer_from
    >>> from festina.theory.saddles import ManifoldConstraint, reduce_width
    >>> wide = layer_from("relu", [[1.0, -1.0], [2.0, -2.0]], [0.5, 1.0])
    >>> narrow = reduce_width(wide, ManifoldConstraint("proportional", 1, (0,), (2.0,)))
    >>> narrow.u, narrow.v
    (array([[ 1., -1.]]), array([[2.5]]))
    >>> wide.predict([[0.3, 0.1]]), narrow.predict([[0.3, 0.1]])
    (array([[0.5]]), array([[0.5]]))
    """
    removed = [constraint.unit for constraint in constraints]
    if len(set(removed)) < len(removed):
        raise ValueError(f"Each constraint must remove a different unit, got units {removed}.")
    if len(removed) >= only_layer(network).width:
        raise ValueError(
            f"{len(removed)} constraints would remove all {network.width} units of `network`. "
            "Give fewer constraints than units."
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
                f"`same_flow` rescales u, which changes the function of {network.unit} for "
                f"constraints of kind {', '.join(sorted(refused))}. Leave out `same_flow`: the "
                "narrow network then computes the same function, but learns at another speed."
            )
        root = _square_root(b.T @ b)
        return network.with_parts(*(combine(root, part.take(kept, axis), axis) for part in (u, v)))
    return network.with_parts(u.take(kept, axis), combine(b.T, v, axis))


def _combinations(
    constraints: tuple[ManifoldConstraint, ...], kept: np.ndarray, width: int
) -> Float[np.ndarray, "unit kept"]:
    """Return B, which expresses all responses as combinations of the responses of kept units."""
    removed = [constraint.unit for constraint in constraints]
    b = np.zeros((width, len(kept)))
    b[kept, np.arange(len(kept))] = 1.0
    if removed:
        c = np.array([constraint.row("response", width) for constraint in constraints])
        if np.linalg.matrix_rank(c[:, removed]) < len(removed):
            raise ValueError(
                f"The constraints on units {removed} go in a circle: each of these units is "
                "defined by the others. Leave one constraint out."
            )
        b[removed] = -np.linalg.solve(c[:, removed], c[:, kept])
    return b


def _square_root(gram: Float[np.ndarray, "n n"]) -> Float[np.ndarray, "n n"]:
    if not np.any(gram - np.diag(np.diag(gram))):  # diagonal, as for rays: keeps factors ≥ 0
        return np.diag(np.sqrt(np.diag(gram)))
    variances, axes = np.linalg.eigh(gram)
    return (axes * np.sqrt(variances)) @ axes.T
