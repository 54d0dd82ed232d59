"""Solve for the readout covariance U of a linear network, by concave maximisation."""

from collections.abc import Callable
from typing import NamedTuple

import numpy as np
from jaxtyping import Float
from scipy.optimize import root_scalar

_STEPS = 200  # largest number of Newton steps
_CLOSE = 1e-12  # relative size of the last Newton step
_ALIKE = 1e-13  # relative difference below which eigenvalues of K₀ count as equal
_APART = 1e12  # largest ratio of readout variances that double precision resolves
_SOLVED = 1e-16  # relative squared residual at which conjugate gradients stop


class _Point(NamedTuple):
    r"""Hold the objective J at one U, with the eigenvalues `levels` and eigenvectors `axes` of U.

    `resolvent` holds the eigenvalues of $(T + \lambda_k U)^{-1}$. `pulled` is
    $(T + \lambda_k U)^{-1} y_k$. The coordinates of `resolvent` and `pulled` are along the
    eigenvectors of U.
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
    r"""Return U, the solution of $T\,t + K_0 t U = Y$ and $1/\sigma_a^2 = U^{-1} + t^\top K_0 t$.

    Eliminating t gives the conditions for the maximum of a concave function,

    $$J(U) = \log\det U - \mathrm{tr}\,U/\sigma_a^2 - \sum_k y_k^\top(T + \lambda_k U)^{-1} y_k,$$

    with $\lambda_k$ the eigenvalues of $K_0$ and $y_k$ the targets along its eigenvectors. At T = 0
    the condition is quadratic, $U^2/\sigma_a^2 = U + G$ with $G = Y^\top K_0^{-1} Y$. At T > 0
    Newton's method starts from the solution at T = 0. Conjugate gradients in the eigenbasis of U
    solve for each Newton step; one product with the curvature costs as much as one matrix product.
    If all $\lambda_k$ are equal, as for classes of orthogonal inputs, U and G commute. Each
    eigenvalue then solves a scalar equation, $1/u + g/(u + T/\lambda)^2 = 1/\sigma_a^2$.
    """
    gram = (targets / strengths[:, None]).T @ targets
    g, axes = np.linalg.eigh(gram)
    g = np.maximum(g, 0.0)
    levels = _coldest(g, variance)
    if levels.max() > _APART * levels.min():
        raise ValueError(
            "Targets of some outputs are so much larger than targets of other outputs that readout "
            f"variances would range from {levels.min():.2g} to {levels.max():.2g}, beyond double "
            "precision. Rescale the targets of all outputs to the same scale."
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
    raise RuntimeError(
        f"The readout covariance U did not converge in {_STEPS} Newton steps; the last step "
        f"increased the objective by {gain:.2g}. Use T = 0 or a higher temperature."
    )


def _coldest(g: float | np.ndarray, variance: float) -> Float[np.ndarray, "..."]:
    """Return the root u of u²/σ_a² = u + g, an eigenvalue of U at T = 0."""
    return np.asarray(variance / 2 * (1 + np.sqrt(1 + 4 * g / variance)))


def _level(g: float, temperature: float, variance: float) -> float:
    """Return the root u of 1/u + g/(u + T)² = 1/σ_a², an eigenvalue of U at T > 0."""
    pulled = lambda u: g / (u + temperature) * (u / (u + temperature))
    return _root(lambda u: 1 - u / variance + pulled(u), g, variance)


def _root(off: Callable[[float], float], g: float, variance: float) -> float:
    r"""Return the root of the function `off` between $\sigma_a^2$ and the value at T = 0."""
    # The factors 1 ∓ 1e-9 widen the bracket by more than the rounding errors.
    least, most = variance * (1 - 1e-9), float(_coldest(g, variance)) * (1 + 1e-9)
    return float(root_scalar(off, bracket=(least, most), xtol=1e-15 * variance).root)


def _newton_step(
    now: _Point, strengths: Float[np.ndarray, " mode"], slope: Float[np.ndarray, "output output"]
) -> Float[np.ndarray, "output output"]:
    """Return the Newton step S, which solves (−∂²J) S = ∂J, by conjugate gradients.

    The preconditioner is the diagonal of −∂²J.
    """
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
    r"""Return u and M for one eigenvalue g of G, for two hidden layers at T = 0.

    The equations are $M(1 + gM) = 1/u$ and $u^2/\sigma_a^2 = u + g/(1 + gM)$.
    """
    inner = lambda u: (2 / u) / (1 + np.sqrt(1 + 4 * g / u))
    if g == 0:
        return variance, 1 / variance
    u = _root(lambda u: u**2 / variance - u - g / (1 + g * inner(u)), g, variance)
    return u, float(inner(u))
