"""Compare one call for the balanced solution at 10,000 times (5–5–5) with loops over times.

The loop 'as written' solves Eqs. (13)–(15) at each time, as copied from the paper. The loop 'by
hand' computes everything that does not depend on time outside the loop.
"""

import numpy as np

from festina.networks import deep_linear_from
from festina.tasks import from_moments
from festina.theory.linear import balanced_flow, balanced_gram

from .timing import best, table

TIMES = np.linspace(0.0, 4.0, 10_000)  # e^{2 S t} does not overflow in the loops
LOOPED = TIMES[::20]  # the cost of a loop is proportional to its times


def measure() -> list[dict]:
    rng = np.random.default_rng(0)
    lam = 1.0
    u, v, turn = (np.linalg.qr(rng.standard_normal((5, 5)))[0] for _ in range(3))
    s = np.linspace(0.1, 0.5, 5)
    large = np.sqrt((np.hypot(lam, 2 * s) + lam) / 2)
    first, second = turn @ ((s / large)[:, None] * v.T), (u * large) @ turn.T
    sigma = rng.standard_normal((5, 5))
    flow = balanced_flow(deep_linear_from([first, second]), from_moments(sigma))

    def curve() -> np.ndarray:
        return flow(TIMES).map

    def as_written() -> np.ndarray:
        return np.concatenate(
            [balanced_gram([time], first, second, sigma, balance=lam)[:, 5:, :5] for time in LOOPED]
        )

    by_hand = _by_hand(first, second, sigma, lam)
    assert np.allclose(curve()[::20], as_written(), atol=1e-9)
    assert np.allclose(curve()[::20], by_hand(), atol=1e-9)
    seconds = best(curve, as_written, by_hand, repeats=7)
    each = [seconds[0] / len(TIMES), seconds[1] / len(LOOPED), seconds[2] / len(LOOPED)]
    results = [
        {"way": way, "seconds": len(TIMES) * cost, "ratio": cost / each[0]}
        for way, cost in zip(("one call", "loop as written", "loop by hand"), each, strict=True)
    ]
    table(
        ["way", "ms for 10,000 times", "ratio"],
        [[r["way"], f"{1e3 * r['seconds']:.1f}", f"{r['ratio']:.0f}"] for r in results],
    )
    return results


def _by_hand(first: np.ndarray, second: np.ndarray, sigma: np.ndarray, lam: float):
    eye = np.eye(5)
    f, basis = np.linalg.eigh(np.block([[-lam / 2 * eye, sigma.T], [sigma, lam / 2 * eye]]))
    r = basis.T @ np.concatenate([first.T, second])
    into, out = basis[:5], basis[5:]

    def loop() -> np.ndarray:
        maps = np.empty((len(LOOPED), 5, 5))
        for index, time in enumerate(LOOPED):
            grown = np.exp(f * time)[:, None] * r
            middle = eye + (r.T * (np.expm1(2 * f * time) / (2 * f))) @ r
            maps[index] = (out @ grown) @ np.linalg.solve(middle, (into @ grown).T)
        return maps

    return loop
