"""The coordinate in which gradient descent on one mode is multiplication, step by step."""

import math

import numpy as np

# The series falls like aʲ, a ≤ 1 − 1/√2: 40 terms are beyond float64.
_TERMS = 40


def koenigs(a: np.ndarray | float, step: np.ndarray) -> np.ndarray:
    r"""Return Koenigs function ψ of F(a) = a (1 + h(1 − a))² at its repelling fixed point a = 0.

    ψ(F(a)) = μ ψ(a), ψ(a) = a + …, μ = (1 + h)²: the coordinate in which gradient descent on one
    mode is multiplication by μ at every step. Matching powers of a, with g = h/(1 + h),

        p_j (μ^{j−1} − 1) = − Σ_{i<j} p_i μ^{i−1} binom(2i, j−i) (−g)^{j−i},    p_1 = 1,

    which tends to p_j = 1, ψ = a/(1 − a), as h → 0. The nearest singularity is the other fixed
    point a = 1 (critical values of F lie at 0, on another branch, and beyond 1), so the series
    converges like a^j; here a ≤ 1 − 1/√2.
    """
    a = np.asarray(a, dtype=np.float64)
    h = np.asarray(step, dtype=np.float64)
    small = h < 1e-12
    h = np.where(small, 1.0, h)  # h = 0 has the closed form below
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
