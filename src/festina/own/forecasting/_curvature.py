"""Compute extreme curvatures of the loss, and slopes along them, from differences of gradients."""

import math
from collections.abc import Callable
from typing import NamedTuple

import numpy as np

from ._vectors import Vector, combination

Gradient = Callable[[Vector], tuple[float, Vector]]
"""A function that returns loss and gradient, or loss and flow, at given weights."""

PRODUCTS = 40  # Lanczos products: the smallest curvature of a plateau has converged by then
FEW_PRODUCTS = 16  # Lanczos products for the largest curvature alone, to a few percent
_NUDGE = 1e-3  # relative move of the weights that measures the change of the gradient
_FROM_ZERO, _LARGEST = 1e-4, 1e-1  # smallest and largest root mean square of moves from zero
_SEEN = 1e-4  # smallest relative change of the gradient that exceeds float32 rounding
_NEGATIVE = 2e-3  # share of the largest curvature: 0.02 and more on plateaus, 1e-4 at a minimum
_ROUNDING = 1e-5  # a slope below this share of the gradient is float32 rounding
_ROUNDED = 1e-15  # slope² below this fraction of curvature × loss is rounding


class Bend:
    """Products of the derivative of a gradient with vectors.

    The weights move by a thousandth of their norm. If the change of the gradient does not exceed
    rounding, as for zero weights, the first move is made ten times longer until the change does.
    """

    def __init__(self, gradient: Gradient, w: Vector, g: Vector, direction: Vector):
        self._gradient = gradient
        root = math.sqrt(w.size)
        self._least = 0.0 if w.square else _FROM_ZERO * root
        while self._least < _LARGEST * root:
            nudge, change = self._change(w, g, direction)
            if change.norm > _SEEN * g.norm or not math.isfinite(change.norm):
                break
            self._least = 10.0 * max(nudge, 1e-30)

    def lengthen(self, w: Vector) -> None:
        """Make all later moves ten times longer, up to the longest move."""
        longest = _LARGEST * math.sqrt(w.size)
        self._least = min(10.0 * max(_NUDGE * w.norm, self._least), longest)

    def _change(self, w: Vector, g: Vector, v: Vector) -> tuple[float, Vector]:
        nudge = max(_NUDGE * w.norm, self._least)
        _, there = self._gradient(combination((1.0, w), (nudge / v.norm, v)))
        return nudge, there - g

    def __call__(self, w: Vector, g: Vector, v: Vector) -> Vector:
        """Return the derivative at `w`, where the gradient is `g`, times `v`."""
        nudge, change = self._change(w, g, v)
        return change * (v.norm / nudge)


class Spectrum(NamedTuple):
    """Ritz values in increasing order, the slope along each Ritz vector, and the loss."""

    values: np.ndarray
    slopes: np.ndarray
    loss: float

    @property
    def saddle(self) -> bool:
        """Whether the smallest curvature is negative, compared with the largest one."""
        return bool(self.values[0] < -_NEGATIVE * max(self.values[-1], 0.0))

    @property
    def leaves(self) -> bool:
        """Whether the point is a saddle and the gradient has a component that leaves it."""
        down = np.abs(self.slopes[self.values < -_NEGATIVE * max(self.values[-1], 0.0)])
        stiff = np.abs(self.values).max() * abs(self.loss)
        rounding = _ROUNDING * np.linalg.norm(self.slopes), math.sqrt(_ROUNDED * stiff)
        return bool(self.saddle and down.max() > max(rounding))


def ritz(
    gradient: Gradient,
    w: Vector,
    random: Vector,
    *,
    root: Vector | None = None,
    products: int = PRODUCTS,
) -> Spectrum:
    r"""Return curvatures by Lanczos iteration, from the gradient and a `random` direction.

    With `root`, the curvatures are those of $D^{1/2} H D^{1/2}$, where H is the Hessian and the
    entries of `root` are $D^{1/2}$: the curvature for an optimiser with the rates $D$.
    """
    scaled = lambda v: v if root is None else v * root
    loss, g = gradient(w)
    slope = scaled(g)
    start = random * (1.0 / random.norm)
    if slope.square:
        start = start + slope * (1.0 / slope.norm)
    basis, alpha, beta = [start * (1.0 / start.norm)], [], []
    bend = Bend(gradient, w, g, scaled(basis[0]))
    while len(alpha) < products:
        product = scaled(bend(w, g, scaled(basis[-1])))
        alpha.append(product.dot(basis[-1]))
        for _ in range(2):  # orthogonalise twice, against round-off
            for v in basis:
                product = combination((1.0, product), (-product.dot(v), v))
        size = product.norm
        if not size > 1e-6 * max(map(abs, alpha)):
            break
        beta.append(size)
        basis.append(product * (1.0 / size))
    k = len(alpha)
    matrix = np.diag(alpha) + np.diag(beta[: k - 1], 1) + np.diag(beta[: k - 1], -1)
    values, vectors = np.linalg.eigh(matrix)
    return Spectrum(values, vectors.T @ np.array([slope.dot(v) for v in basis[:k]]), loss)
