"""Averages over two Gaussian inputs, and the fixed points of one unit on them."""

from typing import Any

import jax
import numpy as np

from ...._precision import float64
from ....networks import AbstractUnit, Layer
from ....tasks import AbstractTask, Task

_NEGLIGIBLE = 1e-7  # of the density at the origin; what lies farther out counts for nothing
_RADIUS = 9.0
_FARTHEST = 5.0  # beyond it the grid does not resolve φ(u·x)


@float64
def population(teacher: Layer, spacing: float) -> Task:
    r"""Targets of a teacher for inputs from N(0, I) in the plane, averaged over a uniform grid.

    The trapezoidal rule on the whole plane converges as $e^{-2\pi d/h}$ with `spacing` h for
    functions that are analytic within a distance d of the real axis; for $\tanh(u\cdot x)$ that is
    $d = \pi/2|u|$. Gauss–Hermite rules, with errors as $e^{-c\,d\sqrt n}$, need several times as
    many points. Where φ is even or odd, x and −x have the same loss: one stands for both.
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

    psi, y, weight, floor, _ = task.statistics(unit)
    nothing = float(weight @ y[:, 0] ** 2) + 2 * floor
    phi = lambda u: unit.response(psi, u[:, None])[:, 0]
    level = lambda u: nothing - (weight * y[:, 0] @ phi(u)) ** 2 / (weight @ phi(u) ** 2)
    slope, curvature = jax.jit(jax.grad(level)), jax.jit(jax.hessian(level))
    axis = np.linspace(-_FARTHEST, _FARTHEST, 82)  # without the origin, where φ may vanish
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
