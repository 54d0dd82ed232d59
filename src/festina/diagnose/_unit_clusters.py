"""Find rays: the few directions that the first-layer weights of many units share."""

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
    """Result of `unit_clusters`: clusters of unit directions, sorted by falling contribution.

    A cluster is called a ray: the units in it have nearly parallel input weights.

    - `direction`: unit vector along each ray, `(ray, input)`.
    - `share`: fraction of all contributions |u_i||v_i| made by the ray's units.
    - `spread`: root mean square angle of units to their ray, weighted by contribution, in radians.

    **Example:**

    >>> from festina.diagnose import unit_clusters_from
    >>> rays = unit_clusters_from([[1, 0], [2, 0], [0, 1]], [1, 1, 1])
    >>> len(rays), rays.share, rays.angle
    (2, array([0.75, 0.25]), array([ 0., 90.]))
    """

    direction: Float[np.ndarray, "ray input"]
    share: Float[np.ndarray, " ray"]
    spread: Float[np.ndarray, " ray"]

    def __len__(self) -> int:
        return len(self.share)

    @property
    def angle(self) -> Float[np.ndarray, " ray"]:
        """Return the angle of each ray to the first axis in degrees, for two inputs."""
        if self.direction.shape[1] != 2:
            raise ValueError(
                f"`angle` needs weights of two dimensions, not {self.direction.shape[1]}. Use "
                "`direction`."
            )
        return np.degrees(np.arctan2(self.direction[:, 1], self.direction[:, 0]))


def unit_clusters(
    network: AbstractNetwork | Trajectory, *, angle: float = 0.2, share: float = 0.05
) -> UnitClusters | np.ndarray:
    """Cluster the units of a layer by the direction of their input weights u.

    Units with parallel weights act as one unit.

    **Arguments:**

    - `network`: a layer, a batch of layers, or a trajectory (all of its samples are used).
    - `angle`: largest angle, in radians, between a ray and a unit that belongs to it.
    - `share`: smallest fraction of all contributions |u_i||v_i| of a ray that is returned.

    **Returns:** the `UnitClusters`, or for a batch an object array of them, `(*batch,)`; for a
    trajectory `(*batch, save)`. For a hidden layer of a deeper network use
    `unit_clusters_from(u, v)`.

    **Example:**

    >>> from festina.diagnose import unit_clusters
    >>> from festina.networks import layer_from
    >>> network = layer_from("relu", [[1, 0], [2, 0.1], [0, 1]], [1, 1, 1])
    >>> unit_clusters(network).angle.round(1)
    array([ 1.9, 90. ])
    """
    layers = networks_of(network)
    if not isinstance(layers, Layer):
        raise ValueError(
            f"`network` must be a layer, Σ φ(x; u_i) v_i, got {type(layers).__name__}. For one "
            "hidden layer of a deeper network use unit_clusters_from(u, v)."
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
    """Cluster units with input weights `u` and output weights `v` by the direction of `u`.

    A unit counts by its contribution |u_i||v_i|, so that many small units with random directions do
    not form a ray.

    **Arguments:**

    - `u`: input weights, `(unit, input)`.
    - `v`: output weights, `(unit, ...)`.
    - `angle`, `share`: largest angle to a ray, and smallest fraction of all contributions of a ray.

    **Returns:** the `UnitClusters`.

    **Example:**

    >>> from festina.diagnose import unit_clusters_from
    >>> unit_clusters_from([[1, 0], [2, 0], [0, 1]], [1, 1, 1]).direction
    array([[1., 0.],
           [0., 1.]])
    """
    u, v = real_array("u", u), real_array("v", v)
    if u.ndim != 2 or v.shape[:1] != u.shape[:1]:
        raise ValueError(
            f"`u` must be (unit, input) and `v` (unit, …), got shapes {u.shape} and {v.shape}."
        )
    if not (np.isfinite(u).all() and np.isfinite(v).all()):
        raise ValueError("`u` and `v` must be finite.")
    angle, share = acute(angle), real_number("share", share)
    # Only ratios of weights matter, and squares of ratios neither overflow nor underflow.
    relative = lambda part: part / (np.abs(part).max(initial=0.0) or 1.0)
    along, read = relative(u), relative(v).reshape(len(u), -1)
    contribution = np.linalg.norm(along, axis=1) * np.linalg.norm(read, axis=1)
    total = contribution.sum()
    if not total > 0:
        raise ValueError(
            "No unit contributes: all weights `u`, or all `v`, are zero. Give weights with at "
            "least one unit whose `u` and `v` differ from zero."
        )
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
