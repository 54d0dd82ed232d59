"""Curvature of the loss by differences of gradients: its extremes, and the slope along each."""

import math
from collections.abc import Callable
from typing import NamedTuple

import numpy as np

from ._vectors import Vector, combination

Gradient = Callable[[Vector], tuple[float, Vector]]
"""Loss and gradient at given weights; or loss and flow."""

PRODUCTS = 40  # of Lanczos: the smallest curvature of a plateau has converged by then
FEW_PRODUCTS = 16  # enough for the largest curvature alone, to a few percent
_NUDGE = 1e-3  # of the weights, by which they are moved to see how the gradient changes
_FROM_ZERO, _LARGEST = 1e-4, 1e-1  # root mean square of the nudges of weights that are zero
_SEEN = 1e-4  # of the gradient: a smaller change drowns in the rounding of float32
_NEGATIVE = 2e-3  # of the largest curvature; 0.02 and more on plateaus, 1e-4 at ends of training
_ROUNDING = 1e-5  # of the gradient: a smaller part of it is rounding in float32,
_ROUNDED = 1e-15  # and so is a slope whose square is that small beside curvature times loss


class Bend:
    """Products of the derivative of a gradient with vectors.

    The weights move by a thousandth of their norm. Where the gradient does not change visibly then
    (weights that are zero), the first direction is tried with ten times longer moves until it does.
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
        """Move the weights ten times as far from now on, up to the longest move."""
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
    """Ritz values in rising order, the slope along each of their vectors, and the loss there."""

    values: np.ndarray
    slopes: np.ndarray
    loss: float

    @property
    def saddle(self) -> bool:
        """Whether the smallest curvature is negative beside the largest."""
        return bool(self.values[0] < -_NEGATIVE * max(self.values[-1], 0.0))

    @property
    def leaves(self) -> bool:
        """Whether it is a saddle and the gradient has a part along a direction that leaves it."""
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
    r"""Return curvatures as Lanczos finds them, from the gradient and a `random` direction.

    With `root`, those of $D^{1/2} H D^{1/2}$, where the entries of `root` are $D^{1/2}$: the
    curvature that an optimiser with the rates $D$ sees.
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
        for _ in range(2):  # again, against round-off
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
