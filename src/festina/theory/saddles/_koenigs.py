"""The coordinate in which one step of gradient descent on one mode is a multiplication."""

import math

import numpy as np

# Terms of the series decrease like aʲ with a ≤ 1 − 1/√2: 40 terms reach float64 precision.
_TERMS = 40


def koenigs(a: np.ndarray | float, step: np.ndarray) -> np.ndarray:
    """Return the Koenigs function ψ of F(a) = a (1 + h(1 − a))² at its repelling fixed point a = 0.

    The function satisfies ψ(F(a)) = μ ψ(a) with ψ(a) = a + … and μ = (1 + h)². In the coordinate ψ
    each step of gradient descent on one mode is a multiplication by μ. With ψ(a) = Σ_j p_j aʲ and g
    = h/(1 + h), matching powers of a gives

        p_j (μ^{j−1} − 1) = − Σ_{i<j} p_i μ^{i−1} binom(2i, j−i) (−g)^{j−i}, p_1 = 1,

    which tends to p_j = 1, ψ = a/(1 − a), as h → 0. The singularity of ψ nearest to zero is the
    fixed point a = 1 of F: the critical values of F lie at 0 (on another branch) and beyond 1. The
    series therefore converges like a^j, and a ≤ 1 − 1/√2 for all calls in this package.
    """
    a = np.asarray(a, dtype=np.float64)
    h = np.asarray(step, dtype=np.float64)
    small = h < 1e-12
    h = np.where(small, 1.0, h)  # for h = 0 the last line has the closed form
    g, log_mu = h / (1.0 + h), 2.0 * np.log1p(h)
    p = [np.ones_like(h)]
    for j in range(2, _TERMS + 1):
        total = np.zeros_like(h)
        for i in range((j + 2) // 3, j):
            total += p[i - 1] * np.exp((i - 1) * log_mu) * math.comb(2 * i, j - i) * (-g) ** (j - i)
        p.append(-total / np.expm1((j - 1) * log_mu))
    series = np.zeros(np.broadcast_shapes(a.shape, h.shape))
    for coefficient in reversed(p):
        series = a * (coefficient + series)
    return np.where(small, a / (1.0 - a), series)
