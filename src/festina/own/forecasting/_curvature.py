"""Whether the loss curves downwards somewhere, by differences of gradients."""

import numpy as np

from ._problem import Problem
from ._vectors import Vector, combination

_PRODUCTS = 40
_NUDGE = 1e-3  # of the weights
_NEGATIVE = 2e-3  # of the largest curvature; 0.02 and more on plateaus, 1e-4 at ends of training


def negative_curvature(problem: Problem, w: Vector) -> bool:
    """Whether the Hessian's smallest eigenvalue is negative beside its largest (Lanczos)."""
    values, _ = ritz(problem, w)
    return bool(values[0] < -_NEGATIVE * values[-1])


def ritz(problem: Problem, w: Vector) -> tuple[np.ndarray, np.ndarray]:
    """Curvatures as Lanczos finds them, from a random direction, and the slope along each."""
    _, g = problem(w)
    nudge = _NUDGE * max(w.norm, 1e-30)
    start = problem.random()
    if g.square:
        start = start * (1.0 / start.norm) + g * (1.0 / g.norm)
    basis, alpha, beta = [start * (1.0 / start.norm)], [], []
    while len(alpha) < _PRODUCTS:
        _, there = problem(combination((1.0, w), (nudge, basis[-1])))
        product = (there - g) * (1.0 / nudge)
        alpha.append(product.dot(basis[-1]))
        for _ in range(2):  # again, against round-off
            for v in basis:
                product = combination((1.0, product), (-product.dot(v), v))
        size = product.norm
        if size < 1e-6 * abs(alpha[0]):
            break
        beta.append(size)
        basis.append(product * (1.0 / size))
    k = len(alpha)
    matrix = np.diag(alpha) + np.diag(beta[: k - 1], 1) + np.diag(beta[: k - 1], -1)
    values, vectors = np.linalg.eigh(matrix)
    return values, vectors.T @ np.array([g.dot(v) for v in basis[:k]])
