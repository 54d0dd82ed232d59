"""Averages over two Gaussian inputs, and the fixed points of one unit under these averages."""

from typing import Any

import jax
import numpy as np

from ...._precision import float64
from ....networks import AbstractUnit, Layer
from ....tasks import AbstractTask, Task

_NEGLIGIBLE = 1e-7  # smallest weight of a grid point, relative to the density at the origin
_RADIUS = 9.0
_FARTHEST = 5.0  # largest |u| for which the grid resolves φ(u·x)


@float64
def population(teacher: Layer, spacing: float) -> Task:
    r"""Return the task of a teacher for inputs from N(0, I) in the plane, averaged over a grid.

    The error of the trapezoidal rule on the plane is $e^{-2\pi d/h}$ for `spacing` $h$, if the
    function is analytic within a distance $d$ of the real axis. The distance for $\tanh(u\cdot x)$
    is $d = \pi/2|u|$. Gauss–Hermite rules have errors of $e^{-c\,d\sqrt n}$ and need several times
    as many points. If φ is even or odd, $x$ and $-x$ have the same loss, and only one of them is
    kept.
    """
    n = int(_RADIUS / spacing)
    axis = spacing * np.arange(-n, n + 1)
    x = np.stack(np.meshgrid(axis, axis, indexing="ij"), axis=-1).reshape(-1, 2)
    weight = np.exp(-np.sum(x**2, axis=1) / 2)
    phi = np.asarray(teacher.unit.response(x, teacher.u.T))
    counts = weight * (1 + np.sum(phi**2, axis=1)) > _NEGLIGIBLE
    # Keep the mirror image of every kept point, because φ(x) and φ(−x) may differ.
    counts |= counts[::-1]
    x, phi, weight = x[counts], phi[counts], weight[counts]
    if np.allclose(phi[::-1], phi) or np.allclose(phi[::-1], -phi):
        half = (len(x) + 1) // 2  # the origin is the last of these points
        x, phi, weight = x[:half], phi[:half], 2 * weight[:half]
        weight[-1] /= 2
    return Task(x, phi @ teacher.v, weight / weight.sum(), population=True)


@float64
def width_one(unit: AbstractUnit, task: AbstractTask) -> dict[str, Any]:
    r"""Return all fixed points of $v\,\phi(x; u)$ with v ≠ 0 and |u| ≤ 5, lowest loss first.

    The best v for a given u is $\langle y\phi\rangle/\langle\phi^2\rangle$. The fixed points are
    therefore the stationary points (minima and saddles) of
    $\langle y^2\rangle - \langle y\phi\rangle^2/\langle\phi^2\rangle$ over the plane of u. Powell's
    hybrid method searches for roots of the slope, from every grid point at which the slope is
    smaller than at the neighbouring points.
    """
    from scipy.ndimage import minimum_filter
    from scipy.optimize import root

    psi, y, weight, floor, _ = task.statistics(unit)
    nothing = float(weight @ y[:, 0] ** 2) + 2 * floor
    phi = lambda u: unit.response(psi, u[:, None])[:, 0]
    level = lambda u: nothing - (weight * y[:, 0] @ phi(u)) ** 2 / (weight @ phi(u) ** 2)
    slope, curvature = jax.jit(jax.grad(level)), jax.jit(jax.hessian(level))
    axis = np.linspace(-_FARTHEST, _FARTHEST, 82)  # avoids the origin, where φ may vanish
    grid = np.stack(np.meshgrid(axis, axis, indexing="ij"), axis=-1)
    slopes = jax.jit(lambda us: jax.lax.map(slope, us))(grid.reshape(-1, 2))
    steepness = np.linalg.norm(slopes, axis=1).reshape(82, 82)
    points: dict[float, np.ndarray] = {}
    for start in grid[steepness == minimum_filter(steepness, size=3)]:
        end = root(lambda u: np.asarray(slope(u)), start, tol=1e-11)
        height = float(level(end.x))
        new = all(abs(height - other) > 1e-7 * abs(other) for other in points)
        inside = 0.05 < np.linalg.norm(end.x) < _FARTHEST and height <= (1 - 1e-9) * nothing
        if end.success and inside and new:
            points[height] = end.x
    levels = sorted(points)
    bends = [np.linalg.eigvalsh(np.asarray(curvature(points[each])))[0] for each in levels]
    return {
        "fixed_point": ("point", np.array(levels)),
        "minimum": ("point", np.array(bends) > 0),
    }
