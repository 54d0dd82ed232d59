"""Rays: the few directions that the first-layer weights of many units share."""

from dataclasses import dataclass

import numpy as np
from jaxtyping import Float

from .._checks import acute, real_array, real_number
from .._result import Result
from .._types import ArrayLike
from ..dynamics import Trajectory
from ..networks import AbstractNetwork, Layer
from ..theory.saddles._clusters import directions, rays_of
from ._given import networks_of


@dataclass(frozen=True, eq=False, repr=False)
class UnitClusters(Result):
    """Result of `unit_clusters`: clusters of unit directions, the largest contribution first.

    - `direction`: unit vectors, one per ray.
    - `share`: of all contributions that the ray's units make.
    - `spread`: contribution-weighted root mean square angle within the ray, in radians.
    """

    direction: Float[np.ndarray, "ray input"]
    share: Float[np.ndarray, " ray"]
    spread: Float[np.ndarray, " ray"]

    def __len__(self) -> int:
        return len(self.share)

    @property
    def angle(self) -> Float[np.ndarray, " ray"]:
        """Degrees from the first axis, for two-dimensional weights."""
        if self.direction.shape[1] != 2:
            raise ValueError(f"Angles are for two dimensions, not {self.direction.shape[1]}.")
        return np.degrees(np.arctan2(self.direction[:, 1], self.direction[:, 0]))


def unit_clusters(
    network: AbstractNetwork | Trajectory, *, angle: float = 0.2, share: float = 0.05
) -> UnitClusters | np.ndarray:
    """Cluster the units of a layer by the direction of u: those along one direction act as one.

    **Arguments:**

    - `network`: a layer, a batch of them, or a trajectory: at all its samples.
    - `angle`: largest angle, in radians, between a ray and a unit that belongs to it.
    - `share`: rays below this share of the contributions are left out.

    **Returns:** the `UnitClusters`, or of a batch an array of them with its shape, `(*batch,
    save)` along a trajectory. Of a hidden layer of a deeper network: `unit_clusters_from(u, v)`.
    """
    layers = networks_of(network)
    if not isinstance(layers, Layer):
        raise ValueError(
            f"`network` must be a layer, Σ φ(x; u_i) v_i, got {type(layers).__name__}. Of a deeper "
            "network give one hidden layer as arrays: unit_clusters_from(u, v)."
        )
    found = np.empty(layers.batch_shape, dtype=object)
    for index in np.ndindex(layers.batch_shape):
        found[index] = unit_clusters_from(
            layers.u[index], layers.v[index], angle=angle, share=share
        )
    return found if layers.batch_shape else found.item()


def unit_clusters_from(
    u: ArrayLike, v: ArrayLike, *, angle: float = 0.2, share: float = 0.05
) -> UnitClusters:
    """Cluster units with the weights `u`, `(unit, input)`, and `v`, `(unit, ...)`.

    A unit contributes |u_i||v_i|: many small units that point anywhere are not a ray.
    """
    u, v = real_array("u", u), real_array("v", v)
    if u.ndim != 2 or v.shape[:1] != u.shape[:1]:
        raise ValueError(
            f"`u` must be (unit, input) and `v` (unit, …), got shapes {u.shape} and {v.shape}."
        )
    if not (np.isfinite(u).all() and np.isfinite(v).all()):
        raise ValueError("`u` and `v` must be finite.")
    angle, share = acute(angle), real_number("share", share)
    # Only ratios count, and squares of these are doubles.
    relative = lambda part: part / (np.abs(part).max(initial=0.0) or 1.0)
    along, read = relative(u), relative(v).reshape(len(u), -1)
    contribution = np.linalg.norm(along, axis=1) * np.linalg.norm(read, axis=1)
    total = contribution.sum()
    if not total > 0:
        raise ValueError("No unit contributes: all weights `u`, or all `v`, are zero.")
    unit = directions(along)
    found: list[tuple[np.ndarray, float, float]] = []
    for members, direction, _ in rays_of(along, contribution, angle):
        weight = contribution[members]
        angles = np.arccos(np.clip(unit[members] @ direction, -1.0, 1.0))
        found.append(
            (direction, weight.sum() / total, float(np.sqrt(weight @ angles**2 / weight.sum())))
        )
    found = sorted((ray for ray in found if ray[1] >= share), key=lambda ray: -ray[1])
    return UnitClusters(
        np.array([ray[0] for ray in found]).reshape(-1, u.shape[1]),
        np.array([ray[1] for ray in found]),
        np.array([ray[2] for ray in found]),
    )
