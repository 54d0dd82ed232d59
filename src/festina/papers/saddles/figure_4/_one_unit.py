"""Averages over two Gaussian inputs, and the fixed points of one unit on them."""

import functools
from typing import Any

import jax
import numpy as np
from jaxtyping import Float

from ...._precision import float64
from ...._types import Array
from ....networks import AbstractUnit, Layer
from ....tasks import AbstractTask
from ....tasks._task import Statistics, Task

# Of the density at the origin. What lies farther out, targets included, counts for nothing.
_NEGLIGIBLE = 1e-7
_RADIUS = 9.0
# Farther out the grid does not resolve φ(u·x).
_FARTHEST = 5.0


@float64
def population(teacher: Layer, spacing: float) -> Task:
    r"""Targets of a teacher for inputs from N(0, I) in the plane, averaged over a uniform grid.

    The trapezoidal rule on the whole plane converges as $e^{-2\pi d/h}$ with `spacing` h for
    functions that are analytic within a distance d of the real axis; for $\tanh(u\cdot x)$ that is
    $d = \pi/2|u|$. Gauss–Hermite rules, whose error falls as $e^{-c\,d\sqrt n}$, need several times
    as many points for the same. Where φ is even or odd, x and −x have the same loss, and one of
    them stands for both.
    """
    n = int(_RADIUS / spacing)
    axis = spacing * np.arange(-n, n + 1)
    x = np.stack(np.meshgrid(axis, axis, indexing="ij"), axis=-1).reshape(-1, 2)
    weight = np.exp(-np.sum(x**2, axis=1) / 2)
    phi = np.asarray(teacher.unit.response(x, teacher.u.T))
    counts = weight * (1 + np.sum(phi**2, axis=1)) > _NEGLIGIBLE
    # φ of x and of −x may differ, and the grid is to stay its own mirror image, back to front.
    counts |= counts[::-1]
    x, phi, weight = x[counts], phi[counts], weight[counts]
    if np.allclose(phi[::-1], phi) or np.allclose(phi[::-1], -phi):
        half = (len(x) + 1) // 2  # the origin is the last of them
        x, phi, weight = x[:half], phi[:half], 2 * weight[:half]
        weight[-1] /= 2
    return Task(x, phi @ teacher.v, weight / weight.sum(), population=True)


@float64
def width_one(unit: AbstractUnit, task: AbstractTask) -> dict[str, Any]:
    r"""All fixed points of $v\,\phi(x; u)$ with v ≠ 0 and |u| up to five, lowest first.

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
    nothing = float(statistics.weight @ statistics.y[:, 0] ** 2) + 2 * statistics.floor
    found: list[tuple[float, np.ndarray, bool]] = []
    for start in grid[steepness == minimum_filter(steepness, size=3)]:
        end = root(lambda u: np.asarray(_slope(unit, u, data)), start, tol=1e-11)
        if not end.success or not 0.05 < np.linalg.norm(end.x) < _FARTHEST:
            continue
        level = float(_level(unit, end.x, data))
        new = all(abs(level - other) > 1e-7 * abs(other) for other, *_ in found)
        if new and level <= (1 - 1e-9) * nothing:
            curvature = np.linalg.eigvalsh(np.asarray(_curvature(unit, end.x, data)))
            found.append((level, end.x, bool(curvature[0] > 0)))
    found.sort(key=lambda point: point[0])
    return {
        "width_one_level": ("point", np.array([level for level, *_ in found])),
        "width_one_u": (("point", "input"), np.reshape([u for _, u, _ in found], (-1, 2))),
        "width_one_minimum": ("point", np.array([lowest for *_, lowest in found], bool)),
    }


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
