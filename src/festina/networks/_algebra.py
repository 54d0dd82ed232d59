"""What a unit's response φ(z; u) does as a function of its weights u."""

from collections.abc import Callable
from dataclasses import dataclass
from typing import Literal

import numpy as np

from .._precision import float64

Homogeneity = Literal["real", "positive"]


@dataclass(frozen=True)
class Algebra:
    r"""The properties of $\phi(z; u)$ that decide which fixed points and manifolds exist.

    Theorem 1 and Theorem 3 of Zhang, Saxe & Latham are stated in these properties and in nothing
    else about the architecture.

    - `zero`: $\phi(z; 0) = 0$ for every $z$ (Eq. 5).
    - `homogeneous`: $\phi(z; \alpha u) = \alpha \phi(z; u)$ for every `"real"` $\alpha$ or every
      `"positive"` one (ReLU); None where neither holds (Eq. 6). Degree one only.
    - `linear`: homogeneous over the reals and additive in $u$ (Eq. 7).
    - `even`: $\phi(z; -u) = \phi(z; u)$.
    - `order`: order of the lowest non-vanishing term of the Taylor expansion at $u = 0$, which sets
      the mechanism: 1 separates directions (Theorem 4), 2 and more separates units (Prop. 5). None
      where no whole number is, as for a unit with a threshold, which is silent around $u = 0$.
    """

    zero: bool
    homogeneous: Homogeneity | None
    linear: bool
    even: bool
    order: int | None


@float64
def measure_algebra(
    response: Callable[[np.ndarray], np.ndarray],
    weights: np.ndarray,
    *,
    tolerance: float = 1e-9,
) -> Algebra:
    r"""Find the algebra of a response numerically.

    **Arguments:**

    - `response`: $u \mapsto \phi(z; u)$ over a fixed set of inputs $z$, as one array. Evaluate in
      float64: the order is read off responses at $|u| \sim 10^{-5}$.
    - `weights`: several random $u$ of order one, shape `(draw, ...)`, at least three.
    - `tolerance`: largest error, relative to the response, at which a property counts as holding.

    A property that holds for every input and draw is taken to hold; a response that differs only
    outside the region sampled is not told apart.
    """
    draws = [np.asarray(u, dtype=float) for u in weights]
    if len(draws) < 3:
        raise ValueError(f"`weights` needs at least three draws, got {len(draws)}.")
    at = [np.asarray(response(u), dtype=float) for u in draws]
    if not all(np.isfinite(values).all() for values in at):
        raise ValueError("The response is not finite at weights of order one: its algebra is open.")
    scale = max(float(np.abs(values).max()) for values in at) or 1.0

    def same(left: np.ndarray, right: np.ndarray) -> bool:
        return bool(np.abs(left - right).max() <= tolerance * scale)

    def scales(factor: float) -> bool:
        return all(same(response(factor * u), factor * r) for u, r in zip(draws, at, strict=True))

    positive = scales(0.37) and scales(2.6)
    real = positive and scales(-1.3)
    additive = all(
        same(response(draws[i] + draws[i - 1]), at[i] + at[i - 1]) for i in range(len(draws))
    )
    zero = bool(np.abs(response(0.0 * draws[0])).max() <= tolerance * scale)
    return Algebra(
        zero=zero,
        homogeneous="real" if real else "positive" if positive else None,
        linear=real and additive,
        even=all(same(response(-u), r) for u, r in zip(draws, at, strict=True)),
        order=_lowest_order(response, draws, scale) if zero else 0,
    )


def _lowest_order(
    response: Callable[[np.ndarray], np.ndarray], draws: list[np.ndarray], scale: float
) -> int | None:
    """Slope of log|φ(z; hu)| against log h as h → 0, which also serves kinked functions."""
    size = lambda h: np.sqrt(np.mean([np.mean(response(h * u) ** 2) for u in draws]))
    # From coarse to fine, stopping before cancellation in φ eats the digits.
    slope = 0.0
    for h in (1e-1, 1e-2, 1e-3, 1e-4, 1e-5):
        small, large = size(h), size(2 * h)
        if small < 1e-13 * scale:
            break
        slope = float(np.log2(large / small))
    order = round(slope)
    return order if order > 0 and abs(slope - order) < 0.25 else None
