"""Invariant manifolds: relations between units that gradient flow preserves (Theorem 3)."""

from collections.abc import Sequence
from dataclasses import dataclass
from typing import Literal, get_args

import numpy as np
from jaxtyping import Bool, Float

from ..._checks import check_alone, check_type, finite, number, whole_number
from ..._objective import LossConvention, objective
from ..._precision import float64
from ..._types import ArrayLike
from ...networks import Layer
from ...networks._units import UnitLike, unit_of
from ...tasks import AbstractTask
from ._hidden import only_layer
from ._kinds import admissible
from ._loss_function import velocity

ManifoldKind = Literal["equal", "zero", "proportional", "linear", "mirrored"]
Side = Literal["u", "v", "response"]
Rows = Float[np.ndarray, "*batch unit _"]


@dataclass(frozen=True)
class ManifoldConstraint:
    r"""One linear relation between the weights of unit $i$ and the weights of other units.

    A constraint on $\theta_i = [u_i, v_i]$ has one of five kinds. Gradient flow preserves the first
    four kinds under the conditions (i) to (iv) of Theorem 3 of Zhang, Saxe & Latham:

    - `"equal"`: $\theta_i = \theta_j$, for any φ;
    - `"zero"`: $\theta_i = 0$, if $\phi(z; 0) = 0$;
    - `"proportional"`: $\theta_i = \gamma\theta_j$, if φ is homogeneous; with γ ≥ 0 if φ is
      homogeneous for positive factors only;
    - `"linear"`: $\theta_i = \sum_j \gamma_j\theta_j$, if φ is linear;
    - `"mirrored"`: $u_i = -u_j$ and $v_i = v_j$, if φ is even.

    The theorem does not list `"mirrored"`. Mirrored units respond alike, so that
    $\dot v_i = \dot v_j$, and $\dot u_i = -\dot u_j$ because the derivative of an even function is
    odd. The theorem does not list `"proportional"` with γ = −1 for an odd φ either:
    $\theta_i = -\theta_j$ is preserved although φ need not be homogeneous.

    A constraint can be created for units with any φ. `flow_keeps_constraint` tells whether gradient
    flow preserves the constraint.

    **Arguments:**

    - `kind`: one of the five kinds.
    - `unit`: the index $i$ of the unit that the other units determine.
    - `others`: the indices $j$ of the other units.
    - `gamma`: the coefficients $\gamma_j$, one for each other unit, for the kinds `"proportional"`
      and `"linear"`.

    **Example:**

    >>> from festina.theory.saddles import ManifoldConstraint
    >>> twice = ManifoldConstraint("proportional", unit=1, others=(0,), gamma=(2.0,))
    >>> twice.row("u", width=3)  # θ₁ − 2θ₀ = 0
    array([-2.,  1.,  0.])
    """

    kind: ManifoldKind
    unit: int
    others: tuple[int, ...] = ()
    gamma: tuple[float | int, ...] = ()

    def __post_init__(self) -> None:
        object.__setattr__(self, "unit", whole_number("unit", self.unit, least=0))
        if self.kind not in get_args(ManifoldKind):
            raise ValueError(
                f"`kind` must be one of {', '.join(get_args(ManifoldKind))}, got '{self.kind}'."
            )
        for name in ("others", "gamma"):
            if not isinstance(getattr(self, name), tuple):
                raise ValueError(
                    f"`{name}` must be a tuple with one entry for each other unit, such as (1,), "
                    f"got {getattr(self, name)!r}."
                )
        wanted = {"zero": "no other unit", "linear": "at least one other unit"}
        fits = {"zero": not self.others, "linear": bool(self.others)}
        if not fits.get(self.kind, len(self.others) == 1):
            raise ValueError(
                f"A constraint of kind '{self.kind}' relates a unit to "
                f"{wanted.get(self.kind, 'one other unit')}, got `others` {self.others}."
            )
        if self.unit in self.others or len(set(self.others)) < len(self.others):
            raise ValueError(
                f"`others` must be different units, none of them unit {self.unit} itself, got "
                f"{self.others}."
            )
        needed = len(self.others) if self.kind in ("proportional", "linear") else 0
        if len(self.gamma) != needed or not np.isfinite(self.gamma).all():
            raise ValueError(
                f"A constraint of kind '{self.kind}' with {len(self.others)} `others` needs "
                f"{needed} finite `gamma`, got {self.gamma}."
            )

    def row(self, side: Side, width: int) -> Float[np.ndarray, " {width}"]:
        """Return the coefficients c_k of the constraint Σ_k c_k w_k = 0, one for each unit k.

        `side` selects w: the input weights `u`, the output weights `v`, or the responses φ(z; u).
        """
        units = (self.unit, *self.others)
        unknown = [unit for unit in units if not 0 <= unit < width]
        if unknown:
            raise ValueError(
                f"The constraint refers to unit {unknown[0]}, but the network has units 0 to "
                f"{width - 1}."
            )
        sign = -1.0 if self.kind == "mirrored" and side == "u" else 1.0
        row = np.zeros(width)
        row[self.unit] = 1.0
        for j, gamma in zip(self.others, self.gamma or (sign,) * len(self.others), strict=True):
            row[j] = -gamma
        return row


def flow_keeps_constraint(unit: UnitLike, constraint: ManifoldConstraint) -> bool:
    """Return whether gradient flow preserves a relation between units with this φ.

    The answer follows from the algebra of φ. `unit` is a unit, the name of an activation, or a
    scalar JAX function φ. The conditions are those of Theorem 3 of Zhang, Saxe & Latham, extended
    by mirrored units for even φ and opposite units for odd φ (see `ManifoldConstraint`).

    **Example:**

    >>> from festina.theory.saddles import ManifoldConstraint, flow_keeps_constraint
    >>> twice = ManifoldConstraint("proportional", unit=1, others=(0,), gamma=(2.0,))
    >>> flow_keeps_constraint("relu", twice), flow_keeps_constraint("quadratic", twice)
    (True, False)
    """
    algebra = unit_of(unit).algebra
    if constraint.kind == "mirrored":
        return algebra.even
    allowed = constraint.kind in admissible(algebra)
    if constraint.kind != "proportional":
        return allowed
    # γ = 1 (a copy), 0 (a silent unit) and −1 (an opposite unit) need weaker conditions.
    factor = constraint.gamma[0]
    less = {1.0: True, 0.0: algebra.zero, -1.0: algebra.odd}.get(factor, False)
    return less or (allowed and (algebra.homogeneous == "real" or factor >= 0))


def manifold_distance(
    network: Layer, *constraints: ManifoldConstraint
) -> Float[np.ndarray, "*batch"]:
    r"""Return the distance of the weights from the manifold on which all constraints hold.

    Each constraint is linear in the weights, so the manifold is a subspace. With the constraints as
    rows of $C$, the component of the weights $\Theta$ normal to the subspace is $C^+ C\Theta$. For
    one constraint the distance is $|\theta_i - \sum_j\gamma_j\theta_j| / \sqrt{1 + |\gamma|^2}$.

    **Returns:** one distance for each network of a batch; zero on the manifold.

    **Example:**

    >>> from festina.networks import layer_from
    >>> from festina.theory.saddles import ManifoldConstraint, manifold_distance
    >>> network = layer_from("relu", [[1.0, 0.0], [1.0, 0.2]], [1.0, 1.0])
    >>> float(manifold_distance(network, ManifoldConstraint("equal", 1, (0,))))  # 0.2/√2
    0.1414
    """
    normal = _normal(network, constraints)
    squares = [np.sum(rows**2, axis=(-1, -2)) for rows in normal]
    return np.asarray(np.sqrt(np.sum(squares, axis=0)))


def is_on_manifold(
    network: Layer, *constraints: ManifoldConstraint, tolerance: float = 1e-10
) -> Bool[np.ndarray, "*batch"]:
    """Return whether the constraints hold to within `tolerance` times the norm of all weights.

    **Example:**

    >>> from festina.networks import layer_from
    >>> from festina.theory.saddles import ManifoldConstraint, is_on_manifold
    >>> network = layer_from("relu", [[1.0, 0.0], [2.0, 0.0]], [1.0, 2.0])
    >>> bool(is_on_manifold(network, ManifoldConstraint("equal", 1, (0,))))
    False
    >>> bool(is_on_manifold(network, ManifoldConstraint("proportional", 1, (0,), (2.0,))))
    True
    """
    tolerance = number("tolerance", tolerance)
    size = np.sqrt(np.sum([np.sum(rows**2, axis=(-1, -2)) for rows in unit_rows(network)], axis=0))
    return np.asarray(manifold_distance(network, *constraints) <= tolerance * size)


def project_on_manifold(network: Layer, *constraints: ManifoldConstraint) -> Layer:
    """Return the nearest network for which all constraints hold (orthogonal projection).

    **Example:**

    >>> from festina.networks import layer_from
    >>> from festina.theory.saddles import ManifoldConstraint, project_on_manifold
    >>> network = layer_from("relu", [[1.0, 0.0], [1.0, 0.2]], [1.0, 3.0])
    >>> nearest = project_on_manifold(network, ManifoldConstraint("equal", 1, (0,)))
    >>> nearest.u, nearest.v.ravel()
    (array([[1. , 0.1],
           [1. , 0.1]]), array([2., 2.]))
    """
    parts = [
        (rows - normal).reshape(part.shape)
        for rows, normal, part in zip(
            unit_rows(network), _normal(network, constraints), network.parts, strict=True
        )
    ]
    return network.with_parts(*parts)


def max_manifold_distance(
    network: Layer, *constraints: ManifoldConstraint
) -> Float[np.ndarray, "*batch"]:
    """Return the largest distance of a flow from the manifold on which all constraints hold.

    The last batch axis of `network` is the time of the flow. For a `Trajectory`, pass its
    `network`. The result is zero to rounding if the flow starts on an invariant manifold. Rounding
    errors accumulate, because the manifold of proportional ReLU units is only neutrally stable. In
    thousands of steps an error of 1e-16 usually grows to 1e-15, and occasionally, for large weights
    and large steps, to 1e-8.

    **Example:**

    >>> from festina.networks import layer_from
    >>> from festina.tasks import linear_teacher
    >>> from festina.theory.saddles import ManifoldConstraint, linear_phase, max_manifold_distance
    >>> network = layer_from("linear", [[1e-3, 0.0], [2e-3, 0.0]], [0.0, 0.0])
    >>> flow = linear_phase(network, linear_teacher([[2.0, 1.0]]), [0.0, 1.0, 2.0])
    >>> twice = ManifoldConstraint("proportional", 1, (0,), (2.0,))
    >>> bool(max_manifold_distance(flow, twice) < 1e-12)
    True
    >>> float(max_manifold_distance(flow, ManifoldConstraint("equal", 1, (0,))))
    0.0392
    """
    if not only_layer(network).batch_shape:
        raise ValueError(
            "`network` must be a batch with one network for each time of a flow, got one network."
        )
    return np.asarray(manifold_distance(network, *constraints).max(axis=-1))


@float64
def escape_rate(
    network: Layer,
    task: AbstractTask,
    *constraints: ManifoldConstraint,
    loss: LossConvention = "half",
) -> float:
    r"""Return how fast gradient flow leaves the manifold, as a fraction of its total speed.

    The function projects the network on the manifold and computes there the part of $\dot\theta$
    normal to the manifold, divided by $|\dot\theta|$. The result is zero on an invariant manifold,
    for any data, and zero at a fixed point. `flow_keeps_constraint` derives invariance from the
    algebra of the unit; `escape_rate` measures it from the gradient.

    **Example:**

    >>> from festina.networks import layer_from
    >>> from festina.tasks import two_orthogonal_points
    >>> from festina.theory.saddles import ManifoldConstraint, escape_rate
    >>> twice = ManifoldConstraint("proportional", unit=1, others=(0,), gamma=(2.0,))
    >>> for unit in ("relu", "quadratic"):
    ...     network = layer_from(unit, [[0.2, 0.1], [0.4, 0.2]], [0.3, 0.6])
    ...     print(unit, round(escape_rate(network, two_orthogonal_points(), twice), 3))
    relu 0.0
    quadratic 0.217
    """
    check_alone(network.batch_shape)
    start = project_on_manifold(network, *constraints)
    structure, data, _ = objective(start, task, loss)
    flow = np.asarray(velocity(structure, structure.columns(*start.parts)[:, 0], data))
    moving = start.with_parts(*structure.arrays(flow))
    speed = float(np.linalg.norm(flow))
    return float(manifold_distance(moving, *constraints)) / speed if speed > 0 else 0.0


def gamma_v_on_manifold(gamma_u: ArrayLike) -> Float[np.ndarray, "..."]:
    r"""Return the coefficients $\gamma_v$ for which an embedded fixed point lies on a manifold.

    The result is $\gamma_v = \gamma_u/(1 + |\gamma_u|^2)$ (Zhang, Saxe & Latham, F.4, Eqs. 29 to
    31). Theorem 1 leaves $\gamma_u$ and $\gamma_v$ free. For this $\gamma_v$ alone, the new unit of
    an embedding is proportional to unit $i$ (Eq. 6), or a combination of several units (Eq. 7),
    with the same coefficients $\gamma_u$ in *both* layers. An equal unit (Eq. 4) has
    $\gamma_u = 1$, hence $\gamma_v = 1/2$. For several added units, with one row of $\Gamma_u$
    each, the result is $\Gamma_v = (1 + \Gamma_u\Gamma_u^\top)^{-1}\Gamma_u$.

    **Arguments:**

    - `gamma_u`: one number, one number for each unit of a combination, or an array `(added, unit)`.

    **Returns:** $\gamma_v$ of the same shape.

    **Example:**

    >>> from festina.theory.saddles import gamma_v_on_manifold
    >>> float(gamma_v_on_manifold(2.0))
    0.4
    >>> gamma_v_on_manifold([1.0, 2.0])
    array([0.1667, 0.3333])
    """
    gamma = finite("gamma_u", gamma_u)
    if gamma.ndim > 2 or not gamma.size:
        raise ValueError(
            "`gamma_u` must be a number, a list of numbers or an array (added, unit), got shape "
            f"{gamma.shape}."
        )
    if gamma.ndim < 2:
        return np.asarray(gamma / (1 + np.sum(gamma**2)))
    # Use singular values σ of Γ, as σ/(1 + σ²): for large Γ, 1 + ΓΓᵀ would be rounded to ΓΓᵀ.
    left, sigma, right = np.linalg.svd(gamma, full_matrices=False)
    return (left * (sigma / (1 + sigma**2))) @ right


def unit_rows(network: Layer) -> tuple[Rows, Rows]:
    """Return u and v with one row of numbers for each unit, shape `(*batch, unit, weight)`."""
    front = (*only_layer(network).batch_shape, network.width)
    u, v = (np.asarray(part, dtype=float).reshape(*front, -1) for part in network.parts)
    return u, v


def _normal(network: Layer, constraints: Sequence[ManifoldConstraint]) -> tuple[Rows, Rows]:
    """Return the component C⁺CΘ of the weights normal to the manifold, for u and for v."""
    if not constraints:
        raise ValueError(
            "No constraint was given, so no manifold is defined: give a `ManifoldConstraint`."
        )
    for constraint in constraints:
        check_type("constraints", constraint, ManifoldConstraint)
    u, v = unit_rows(network)
    network.check_finite()

    def part(side: Side, rows: Rows) -> Rows:
        c = np.array([constraint.row(side, network.width) for constraint in constraints])
        # C⁺(CΘ) instead of (C⁺C)Θ: CΘ is exactly zero for weights on the manifold.
        return np.linalg.pinv(c) @ (c @ rows)

    return part("u", u), part("v", v)
