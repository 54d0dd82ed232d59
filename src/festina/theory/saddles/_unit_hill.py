r"""The potential hill that a quadratic unit climbs: its height, summit and turning points.

In the coordinate $w = \int v\,d\tau$ a unit moves like a particle in the potential $-F/2$. The
velocity $v$ of the particle obeys $v^2 = F(w) = v_0^2 + \sum_k a_k^2(e^{2 s_k w} - 1)$ (see
`_unit_ways`). $F$ is convex. $F$ is evaluated as a sum of positive terms, so that no cancellation
limits the accuracy.
"""

import numpy as np

EPS = float(np.finfo(np.float64).eps)


def rise(
    log_c: np.ndarray, b: np.ndarray | float, excess: np.ndarray | float, z: np.ndarray
) -> np.ndarray:
    """Return C (e^z − 1) − B z with C − B = `excess`, without cancellation or avoidable overflow.

    For small z the result is computed as `excess` (e^z − 1) + B (e^z − 1 − z), with a series for
    the last factor.
    """
    if z.size and z.max() > 600.0:
        far = z > 600.0
        beyond = np.exp(np.where(far, log_c + z, -np.inf))
        return np.where(far, beyond - b * z, rise(log_c, b, excess, np.where(far, 0.0, z)))
    grown = np.expm1(z)
    whole = np.exp(log_c) * grown - b * z
    near = np.abs(z) < 0.25
    x = z[near]
    series = np.ones_like(x)
    for n in range(12, 2, -1):
        series = 1.0 + x * series / n
    b, excess = np.broadcast_to(b, z.shape)[near], np.broadcast_to(excess, z.shape)[near]
    whole[near] = excess * grown[near] + 0.5 * b * x**2 * series
    return whole


def summit(s: np.ndarray, log_a2: np.ndarray) -> np.ndarray:
    """Return the summit w, with Σ s_k a_k² e^{2 s_k w} = 0, for units with both signs of s_k.

    The equation is solved in logarithms: the terms |s_k| a_k² e^{2 s_k w} with s_k > 0 and those
    with s_k < 0 have equal sums. The slope of the left side lies between twice the smallest and
    twice the largest sum of a positive and a negative |s_k|, which brackets the root. The solver is
    Newton's method, with bisection where Newton leaves the bracket.
    """
    log_rate = log_a2 + np.log(np.abs(s))
    plus, minus = log_rate[:, s > 0], log_rate[:, s < 0]
    s_plus, s_minus = s[s > 0], -s[s < 0]
    if not plus.size or not minus.size:
        return np.zeros(len(log_a2))

    def side(log: np.ndarray, rate: np.ndarray) -> tuple[np.ndarray, np.ndarray]:
        top = log.max(axis=-1)
        share = np.exp(log - top[:, None])
        total = share.sum(axis=-1)
        return top + np.log(total), (share @ (2.0 * rate)) / total

    def difference(w: np.ndarray) -> tuple[np.ndarray, np.ndarray]:
        p, dp = side(plus + 2.0 * s_plus * w[:, None], s_plus)
        n, dn = side(minus - 2.0 * s_minus * w[:, None], s_minus)
        # p and n are logarithms: differences within their round-off count as zero.
        noise = 4.0 * EPS * (2.0 + np.abs(p) + np.abs(n) + 2.0 * np.abs(w))
        return np.where(np.abs(p - n) > noise, p - n, 0.0), dp + dn

    w = np.zeros(len(log_a2))
    here, _ = difference(w)
    bounds = -here[:, None] / (
        2.0 * np.array([s_plus.min() + s_minus.min(), s_plus.max() + s_minus.max()])
    )
    low, high = bounds.min(axis=-1), bounds.max(axis=-1)
    for _ in range(200):
        value, slope = difference(w)
        low, high = np.where(value < 0, w, low), np.where(value > 0, w, high)
        new = w - value / slope
        w = np.where((new >= low) & (new <= high) | (value == 0), new, 0.5 * (low + high))
        if not value.any():
            break
    return w


def turning_distance(
    s: np.ndarray, a2: np.ndarray, v: np.ndarray, furthest: np.ndarray
) -> np.ndarray:
    """Return the distance d from the start to the turning point: v² + Σ a² (e^{−2sd} − 1) = 0.

    The left side is convex and decreasing in d, so Newton's method from d = 0 approaches the root
    from below and cannot overshoot.
    """
    d = np.zeros(v.size)
    for _ in range(200):
        z = -2.0 * s * d[:, None]
        value = v**2 + np.sum(a2 * np.expm1(z), axis=-1)
        slope = -np.sum(2.0 * s * a2 * np.exp(z), axis=-1)
        step = np.where((value > 0) & (slope < 0), value / np.where(slope < 0, -slope, 1.0), 0.0)
        d = np.minimum(d + step, furthest)
        if np.all((step <= 4.0 * EPS * d) | (d >= furthest)):
            break
    return d


def turning_point(
    s: np.ndarray,
    a2: np.ndarray,
    log_b: np.ndarray,
    v: np.ndarray,
    x0: np.ndarray,
    depth: np.ndarray,
) -> tuple[np.ndarray, np.ndarray]:
    """Return the distances start–turning point, d0, and turning point–summit, x1.

    The distances satisfy d0 + x1 = x0. The function solves for the smaller distance, so that both
    distances have full relative accuracy.
    """
    d0 = turning_distance(s, a2, v, x0)
    b = np.exp(log_b)
    x1 = x0.copy()  # Σ b (e^{2sx} − 1 − 2sx) = depth: convex and rising, Newton from above
    for _ in range(200):
        z = 2.0 * s * x1[:, None]
        value = np.sum(rise(log_b, b, 0.0, z), axis=-1) - depth
        slope = np.sum(2.0 * s * rise(log_b, 0.0, b, z), axis=-1)
        step = np.where(value > 0, value / slope, 0.0)
        x1 = x1 - step
        if np.all(step <= 4.0 * EPS * x1):
            break
    near_start = d0 < x1
    return np.where(near_start, d0, x0 - x1), np.where(near_start, x0 - d0, x1)
