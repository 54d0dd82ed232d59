"""Fixed points of a network with one unit: the levels at which a wider one could rest."""

import functools
from typing import NamedTuple

import jax
import numpy as np
from jaxtyping import Bool, Float

from ...._precision import float64
from ...._types import Array
from ....networks import AbstractUnit
from ....tasks import AbstractTask
from ....tasks._task import Statistics

# Farther out the grid of the population average does not resolve φ(u·x).
_FARTHEST = 5.0


class WidthOne(NamedTuple):
    """Loss ⟨|y − f|²⟩ and u at each fixed point with v ≠ 0, lowest first, and which are minima."""

    level: Float[np.ndarray, " point"]
    u: Float[np.ndarray, "point 2"]
    minimum: Bool[np.ndarray, " point"]


@float64
def width_one(unit: AbstractUnit, task: AbstractTask) -> WidthOne:
    r"""All fixed points of $v\,\phi(x; u)$ with |u| up to five.

    The best v for a given u is $\langle y\phi\rangle/\langle\phi^2\rangle$, so that they are the
    stationary points of $\langle y^2\rangle - \langle y\phi\rangle^2/\langle\phi^2\rangle$ over the
    plane of u, minima and saddles alike: roots of its slope, sought by Powell's hybrid method from
    every point of a grid at which the slope is smaller than at the points around it.
    """
    from scipy.ndimage import minimum_filter
    from scipy.optimize import root

    statistics = task.statistics(unit)
    data = jax.device_put(statistics)
    axis = np.linspace(-_FARTHEST, _FARTHEST, 82)  # without the origin, where φ may vanish
    grid = np.stack(np.meshgrid(axis, axis, indexing="ij"), axis=-1)
    steepness = np.linalg.norm(_slopes(unit, grid.reshape(-1, 2), data), axis=1).reshape(82, 82)
    starts = grid[steepness == minimum_filter(steepness, size=3)]
    nothing = float(statistics.weight @ statistics.y[:, 0] ** 2) + 2 * statistics.floor
    found: list[tuple[float, np.ndarray, bool]] = []
    for start in starts:
        end = root(lambda u: np.asarray(_slope(unit, u, data)), start, tol=1e-11)
        if not end.success or not 0.05 < np.linalg.norm(end.x) < _FARTHEST:
            continue
        level = float(_level(unit, end.x, data))
        if level > (1 - 1e-9) * nothing:
            continue
        if all(abs(level - other) > 1e-7 * abs(other) for other, *_ in found):
            curvature = np.linalg.eigvalsh(np.asarray(_curvature(unit, end.x, data)))
            found.append((level, end.x, bool(curvature[0] > 0)))
    found.sort(key=lambda point: point[0])
    return WidthOne(
        level=np.array([level for level, *_ in found]),
        u=np.array([u for _, u, _ in found]).reshape(-1, 2),
        minimum=np.array([minimum for *_, minimum in found], dtype=bool),
    )


@functools.partial(jax.jit, static_argnums=0)
def _level(unit: AbstractUnit, u: Float[Array, " 2"], data: Statistics) -> Float[Array, ""]:
    """⟨y²⟩ − ⟨yφ⟩²/⟨φ²⟩ and what no network can learn."""
    phi, y = unit.response(data.psi, u[:, None])[:, 0], data.y[:, 0]
    mean = lambda values: data.weight @ values
    return mean(y**2) - mean(y * phi) ** 2 / mean(phi**2) + 2 * data.floor


_slope = jax.jit(jax.grad(_level, argnums=1), static_argnums=0)
_slopes = jax.jit(
    lambda unit, us, data: jax.lax.map(lambda u: jax.grad(_level, argnums=1)(unit, u, data), us),
    static_argnums=0,
)
_curvature = jax.jit(jax.hessian(_level, argnums=1), static_argnums=0)
