"""Population averages over two Gaussian inputs, for activations that are no polynomials."""

import numpy as np

from ...._precision import float64
from ....networks import Layer
from ....tasks._task import Task

# Of the density at the origin. What lies farther out, targets included, counts for nothing.
_NEGLIGIBLE = 1e-7
_RADIUS = 9.0


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
