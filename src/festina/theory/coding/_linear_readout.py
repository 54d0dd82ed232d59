r"""The covariance U of readouts of a linear network, from a concave problem of few unknowns."""

from collections.abc import Callable
from typing import NamedTuple

import numpy as np
from jaxtyping import Float
from scipy.optimize import root_scalar

_STEPS = 200
_CLOSE = 1e-12
_ALIKE = 1e-13  # eigenvalues of K₀, relative to each other
_APART = 1e12  # variances of readouts, relative to each other: with more, digits are lost
_SOLVED = 1e-16  # of the squared residual of a Newton step


class _Point(NamedTuple):
    """U at which J is evaluated, by its eigenvalues and eigenvectors.

    `resolvent` holds the eigenvalues of $(T + \\lambda_k U)^{-1}$, `pulled` is that matrix times
    y_k, both along the eigenvectors.
    """

    value: float
    levels: Float[np.ndarray, " output"]
    axes: Float[np.ndarray, "output output"]
    resolvent: Float[np.ndarray, "mode output"]
    pulled: Float[np.ndarray, "mode output"]


def readout_covariance(
    strengths: Float[np.ndarray, " mode"],
    targets: Float[np.ndarray, "mode output"],
    temperature: float,
    variance: float,
) -> Float[np.ndarray, "output output"]:
    r"""Return U from $T\,t + K_0 t U = Y$ and $1/\sigma_a^2 = U^{-1} + t^\top K_0 t$.

    Eliminating t gives the conditions for the maximum of a concave function,

    $$J(U) = \log\det U - \mathrm{tr}\,U/\sigma_a^2 - \sum_k y_k^\top(T + \lambda_k U)^{-1} y_k,$$

    λ_k being the eigenvalues of K₀ and y_k the targets along its eigenvectors. At T = 0 it is
    quadratic, $U^2/\sigma_a^2 = U + G$ with $G = Y^\top K_0^{-1} Y$, and otherwise Newton's method
    starts there. Its steps are found by conjugate gradients in the eigenbasis of U, where one
    product with the curvature costs as much as one product of matrices. If all λ_k are equal, as
    for classes of orthogonal inputs, U and G commute and each eigenvalue has an equation of its
    own, $1/u + g/(u + T/\lambda)^2 = 1/\sigma_a^2$.
    """
    gram = (targets / strengths[:, None]).T @ targets
    g, axes = np.linalg.eigh(gram)
    g = np.maximum(g, 0.0)
    levels = _coldest(g, variance)
    if levels.max() > _APART * levels.min():
        raise ValueError(
            "Targets of some outputs are so much larger than those of others that variances of "
            f"readouts would range from {levels.min():.2g} to {levels.max():.2g}, more than "
            "numbers can hold together. Bring outputs to the same scale."
        )
    alike = np.ptp(strengths) <= _ALIKE * strengths.max()
    if alike and temperature > 0:
        cold = temperature / float(strengths.max())
        levels = np.array([_level(each, cold, variance) for each in g.tolist()])
    u = (axes * levels) @ axes.T
    if alike or temperature == 0:
        return u

    def at(u: np.ndarray) -> _Point:
        levels, axes = np.linalg.eigh(u)
        if levels[0] <= 0:
            return _Point(-np.inf, levels, axes, targets, targets)
        along = targets @ axes
        resolvent = 1 / (temperature + strengths[:, None] * levels)
        value = np.log(levels).sum() - levels.sum() / variance - (along**2 * resolvent).sum()
        return _Point(float(value), levels, axes, resolvent, along * resolvent)

    now, gain = at(u), np.inf
    for _ in range(_STEPS):
        v = now.pulled
        slope = np.diag(1 / now.levels - 1 / variance) + (strengths[:, None] * v).T @ v
        step = _newton_step(now, strengths, slope)
        gain = float((step * slope).sum())
        step = now.axes @ ((step + step.T) / 2) @ now.axes.T
        length, best = 1.0, now.value
        while (ahead := at(u + length * step)).value < best + 0.1 * length * gain - 1e-13 * abs(
            best
        ):
            length /= 2
            if length < 1e-12:
                break
        u, now = u + length * step, ahead
        if gain < _CLOSE**2 * len(u) or np.abs(step).max() < _CLOSE * np.abs(u).max():
            return (u + u.T) / 2
    raise RuntimeError(f"U was not found in {_STEPS} steps; the last gained {gain:.2g}.")


def _coldest(g: float | np.ndarray, variance: float) -> Float[np.ndarray, "..."]:
    """Return the root u of u²/σ_a² = u + g, a level at T = 0."""
    return np.asarray(variance / 2 * (1 + np.sqrt(1 + 4 * g / variance)))


def _level(g: float, temperature: float, variance: float) -> float:
    """Return the root u of 1/u + g/(u + T)² = 1/σ_a²."""
    pulled = lambda u: g / (u + temperature) * (u / (u + temperature))
    return _root(lambda u: 1 - u / variance + pulled(u), g, variance)


def _root(off: Callable[[float], float], g: float, variance: float) -> float:
    """Return the level between its values without targets, σ_a², and for one layer at T = 0."""
    least, most = variance * (1 - 1e-9), float(_coldest(g, variance)) * (1 + 1e-9)  # rounding
    return float(root_scalar(off, bracket=(least, most), xtol=1e-15 * variance).root)


def _newton_step(
    now: _Point, strengths: Float[np.ndarray, " mode"], slope: Float[np.ndarray, "output output"]
) -> Float[np.ndarray, "output output"]:
    """Solve (−∂²J) S = ∂J by conjugate gradients, preconditioned by the diagonal."""
    inverse = 1 / np.outer(now.levels, now.levels)
    weighted, v = strengths[:, None] ** 2 * now.resolvent, now.pulled
    own = weighted.T @ v**2
    diagonal = inverse + own + own.T

    def curved(s: np.ndarray) -> np.ndarray:
        half = (weighted * (v @ s)).T @ v
        return inverse * s + half + half.T

    step, left = np.zeros_like(slope), slope
    toward = ready = left / diagonal
    size = goal = float((left * ready).sum())
    for _ in range(4 * len(slope) + 20):
        if size <= _SOLVED * goal:
            break
        pushed = curved(toward)
        length = size / (toward * pushed).sum()
        step, left = step + length * toward, left - length * pushed
        ready = left / diagonal
        size, before = float((left * ready).sum()), size
        toward = ready + size / before * toward
    return step


def two_layers(g: float, variance: float) -> tuple[float, float]:
    r"""(u, M) of one eigenvalue of G for two hidden layers at T = 0.

    $M(1 + gM) = 1/u$ and $u^2/\sigma_a^2 = u + g/(1 + gM)$.
    """
    inner = lambda u: (2 / u) / (1 + np.sqrt(1 + 4 * g / u))
    if g == 0:
        return variance, 1 / variance
    u = _root(lambda u: u**2 / variance - u - g / (1 + g * inner(u)), g, variance)
    return u, float(inner(u))
