"""Invariant manifolds: relations between units that gradient flow keeps (Theorem 3)."""

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
    r"""One relation between the weights of unit $i$ and those of other units.

    Theorem 3 of Zhang, Saxe & Latham lists four, in the order of its conditions (i) to (iv):

    - `"equal"`: $\theta_i = \theta_j$, for any φ;
    - `"zero"`: $\theta_i = 0$, where $\phi(z; 0) = 0$;
    - `"proportional"`: $\theta_i = \gamma\theta_j$, where φ is homogeneous, γ ≥ 0 if only over
      $\mathbb{R}_{\ge 0}$;
    - `"linear"`: $\theta_i = \sum_j \gamma_j\theta_j$, where φ is linear.

    A fifth, not listed there: `"mirrored"`, $u_i = -u_j$ and $v_i = v_j$, where φ is even. Both
    units then respond alike, so that $\dot v_i = \dot v_j$, and $\dot u_i = -\dot u_j$ because the
    derivative of an even function is odd. Nor does the theorem list `"proportional"` with γ = −1,
    $\theta_i = -\theta_j$, where φ is odd and need not be homogeneous.

    A constraint can be written down for any unit; `flow_keeps_constraint` says whether flow keeps
    it.

    **Arguments:**

    - `kind`: one of the five.
    - `unit`: the number $i$ of the unit that the others determine.
    - `others`: the units $j$.
    - `gamma`: $\gamma_j$, one for each of them, for the kinds that have them.
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
                    f"`{name}` must be a tuple, one entry for each other unit, such as (1,), got "
                    f"{getattr(self, name)!r}."
                )
        wanted = {"zero": "no other unit", "linear": "at least one other unit"}
        fits = {"zero": not self.others, "linear": bool(self.others)}
        if not fits.get(self.kind, len(self.others) == 1):
            raise ValueError(
                f"A constraint '{self.kind}' relates a unit to "
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
                f"A constraint '{self.kind}' on {len(self.others)} others needs {needed} finite "
                f"`gamma`, got {self.gamma}."
            )

    def row(self, side: Side, width: int) -> Float[np.ndarray, " {width}"]:
        """Return c with Σ_k c_k w_k = 0, for w the units' `u`, `v`, or responses φ(z; u)."""
        units = (self.unit, *self.others)
        unknown = [unit for unit in units if not 0 <= unit < width]
        if unknown:
            raise ValueError(
                f"The constraint names unit {unknown[0]}, the network has units 0 to {width - 1}."
            )
        sign = -1.0 if self.kind == "mirrored" and side == "u" else 1.0
        row = np.zeros(width)
        row[self.unit] = 1.0
        for j, gamma in zip(self.others, self.gamma or (sign,) * len(self.others), strict=True):
            row[j] = -gamma
        return row


def flow_keeps_constraint(unit: UnitLike, constraint: ManifoldConstraint) -> bool:
    """Return whether gradient flow keeps the relation, by the algebra of a unit or of this φ.

    That is Theorem 3, and beyond it mirrored units of even φ and opposite ones of odd φ.
    """
    algebra = unit_of(unit).algebra
    if constraint.kind == "mirrored":
        return algebra.even
    allowed = constraint.kind in admissible(algebra)
    if constraint.kind != "proportional":
        return allowed
    # A copy, a silent unit and an opposite one are proportional as well, and ask for less.
    factor = constraint.gamma[0]
    less = {1.0: True, 0.0: algebra.zero, -1.0: algebra.odd}.get(factor, False)
    return less or (allowed and (algebra.homogeneous == "real" or factor >= 0))


def manifold_distance(
    network: Layer, *constraints: ManifoldConstraint
) -> Float[np.ndarray, "*batch"]:
    r"""Return the distance of the weights from the manifold on which all constraints hold.

    Each constraint is linear in the weights, so that the manifold is a subspace: with the
    constraints as rows of $C$, the part of the weights that is normal to it is $C^+ C\Theta$. For
    one constraint that is $|\theta_i - \sum_j\gamma_j\theta_j| / \sqrt{1 + |\gamma|^2}$.

    **Returns:** one distance for each network of a batch; zero on the manifold.
    """
    normal = _normal(network, constraints)
    squares = [np.sum(rows**2, axis=(-1, -2)) for rows in normal]
    return np.asarray(np.sqrt(np.sum(squares, axis=0)))


def is_on_manifold(
    network: Layer, *constraints: ManifoldConstraint, tolerance: float = 1e-10
) -> Bool[np.ndarray, "*batch"]:
    """Return whether the constraints hold to within `tolerance` of the norm of all weights."""
    tolerance = number("tolerance", tolerance)
    size = np.sqrt(np.sum([np.sum(rows**2, axis=(-1, -2)) for rows in unit_rows(network)], axis=0))
    return np.asarray(manifold_distance(network, *constraints) <= tolerance * size)


def project_on_manifold(network: Layer, *constraints: ManifoldConstraint) -> Layer:
    """Return the nearest network on which all constraints hold: orthogonal projection."""
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
    """Return the largest distance from the manifold along a flow: the last axis of a batch.

    Of a `Trajectory`, give its `network`, whose last axis is the samples in time. Zero to rounding
    where it starts on an invariant manifold. Rounding itself adds up: the manifold of proportional
    ReLU units is only neutrally stable. In thousands of steps 1e-16 becomes 1e-15 as a rule, and
    now and then, with large weights and large steps, up to 1e-8.
    """
    if not only_layer(network).batch_shape:
        raise ValueError("`network` is a single one, expected one for each moment of a flow.")
    return np.asarray(manifold_distance(network, *constraints).max(axis=-1))


@float64
def escape_rate(
    network: Layer,
    task: AbstractTask,
    *constraints: ManifoldConstraint,
    loss: LossConvention = "half",
) -> float:
    r"""Return how fast gradient flow leaves the manifold: the part of $\dot\theta$ normal to it.

    Taken at the network's projection on the manifold, as a fraction of $|\dot\theta|$ there. Zero
    on an invariant manifold, for any data; what `flow_keeps_constraint` concludes from the algebra,
    this sees from the gradient. Zero as well where nothing moves.
    """
    check_alone(network.batch_shape)
    start = project_on_manifold(network, *constraints)
    structure, data, _ = objective(start, task, loss)
    flow = np.asarray(velocity(structure, structure.columns(*start.parts)[:, 0], data))
    moving = start.with_parts(*structure.arrays(flow))
    speed = float(np.linalg.norm(flow))
    return float(manifold_distance(moving, *constraints)) / speed if speed > 0 else 0.0


def gamma_v_on_manifold(gamma_u: ArrayLike) -> Float[np.ndarray, "..."]:
    r"""Return $\gamma_v = \gamma_u/(1 + |\gamma_u|^2)$: embedded fixed points that lie on a
    manifold.

    Theorem 1 leaves $\gamma_u$ and $\gamma_v$ free. The new unit of an embedding is proportional to
    unit $i$ (Eq. 6), or a combination of several (Eq. 7), in *both* layers with the same
    coefficients $\gamma_u$ only for this $\gamma_v$ (Zhang, Saxe & Latham, F.4, Eqs. 29 to 31). An
    equal unit (Eq. 4) is $\gamma_u = 1$, hence $\gamma_v = 1/2$. For several added units,
    one row of $\Gamma_u$ each, it is $\Gamma_v = (1 + \Gamma_u\Gamma_u^\top)^{-1}\Gamma_u$.

    **Arguments:**

    - `gamma_u`: one number, one for each unit of a combination, or `(added, unit)`.

    **Returns:** $\gamma_v$ of the same shape.
    """
    gamma = finite("gamma_u", gamma_u)
    if gamma.ndim > 2 or not gamma.size:
        raise ValueError(
            f"`gamma_u` must be a number, a list of them or (added, unit), got shape {gamma.shape}."
        )
    if gamma.ndim < 2:
        return np.asarray(gamma / (1 + np.sum(gamma**2)))
    # σ/(1 + σ²) of its singular values: ΓΓᵀ of large ones would swallow the 1.
    left, sigma, right = np.linalg.svd(gamma, full_matrices=False)
    return (left * (sigma / (1 + sigma**2))) @ right


def unit_rows(network: Layer) -> tuple[Rows, Rows]:
    """Return u and v with one row of numbers for each unit, `(*batch, unit, weight)`."""
    front = (*only_layer(network).batch_shape, network.width)
    u, v = (np.asarray(part, dtype=float).reshape(*front, -1) for part in network.parts)
    return u, v


def _normal(network: Layer, constraints: Sequence[ManifoldConstraint]) -> tuple[Rows, Rows]:
    """C⁺CΘ, for u and for v."""
    if not constraints:
        raise ValueError("No constraint was given: every network is on that manifold.")
    for constraint in constraints:
        check_type("constraints", constraint, ManifoldConstraint)
    u, v = unit_rows(network)
    network.check_finite()

    def part(side: Side, rows: Rows) -> Rows:
        c = np.array([constraint.row(side, network.width) for constraint in constraints])
        # Not (C⁺C)Θ: CΘ is zero on the manifold, exactly where the weights are.
        return np.linalg.pinv(c) @ (c @ rows)

    return part("u", u), part("v", v)
