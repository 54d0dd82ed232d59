"""Algebraic properties of a unit's response φ(z; u) as a function of the weights u."""

from collections.abc import Callable
from dataclasses import dataclass
from typing import Literal

import numpy as np

from .._precision import float64

Homogeneity = Literal["real", "positive"]
Kink = Literal["zero", "elsewhere"]

_SILENT = 1e-3  # fraction of the extrapolated power law below which no power law is reported


@dataclass(frozen=True)
class Algebra:
    r"""Algebraic properties of $\phi(z; u)$, which decide which fixed points and manifolds exist.

    Theorems 1 and 3 of Zhang, Saxe & Latham assume nothing about the architecture except these
    algebraic properties.

    - `zero`: $\phi(z; 0) = 0$ for every $z$ (Eq. 5).
    - `homogeneous`: "real" if $\phi(z; \alpha u) = \alpha \phi(z; u)$ for every real $\alpha$,
      "positive" if it holds for positive $\alpha$ only (ReLU), else None (Eq. 6).
    - `linear`: homogeneous over the reals and additive in $u$ (Eq. 7).
    - `even`: $\phi(z; -u) = \phi(z; u)$.
    - `order`: order of the lowest non-vanishing term of the Taylor expansion of φ at $u = 0$. With
      order 1, directions of the weights grow on separate timescales (Theorem 4); with a higher
      order, units do (Prop. 5). `order` is None if no term exists: the response of a unit with a
      threshold is zero near $u = 0$.
    - `odd`: $\phi(z; -u) = -\phi(z; u)$.
    - `kink`: "zero" if the slope of φ jumps at $u = 0$ (ReLU and all other units that are
      homogeneous for positive $\alpha$ only), "elsewhere" if it jumps at other $u$ only (a
      threshold, a clipped response), None if the slope is continuous.
    """

    zero: bool
    homogeneous: Homogeneity | None
    linear: bool
    even: bool
    order: int | None
    odd: bool = False
    kink: Kink | None = None

    def __post_init__(self) -> None:
        if self.homogeneous == "positive":  # φ has different slopes on the two sides of u = 0
            object.__setattr__(self, "kink", "zero")

    @property
    def kinked(self) -> bool:
        """Whether the slope of φ jumps anywhere; a trajectory may then slide along the kink."""
        return self.kink is not None


@dataclass(frozen=True)
class Defects:
    r"""Deviation of a response from each property of `Algebra`, relative to the largest response.

    - `zero`: deviation of $\phi(z; 0)$ from 0.
    - `positive`: deviation of $\phi(z; \alpha u)$ from $\alpha\phi(z; u)$ for $\alpha$ = 0.37, 2.6.
    - `negative`: deviation of $\phi(z; \alpha u)$ from $\alpha\phi(z; u)$ for $\alpha$ = −1.3.
    - `additive`: deviation of $\phi(z; u + u')$ from $\phi(z; u) + \phi(z; u')$.
    - `even`, `odd`: deviation of $\phi(z; -u)$ from $\phi(z; u)$ and from $-\phi(z; u)$.
    """

    zero: float
    positive: float
    negative: float
    additive: float
    even: float
    odd: float


@float64
def measure_defects(response: Callable[[np.ndarray], np.ndarray], weights: np.ndarray) -> Defects:
    r"""Measure how far a response deviates from each property of `Algebra`.

    **Arguments:**

    - `response`: function $u \mapsto \phi(z; u)$ that returns the responses to a fixed set of
      inputs $z$ as one array.
    - `weights`: at least three random weights $u$ of order one, `(draw, ...)`.

    **Returns:**

    For each property, its largest deviation over all inputs and draws, as a fraction of the largest
    response. A property that holds has a deviation of the order of rounding errors.
    """
    draws = [np.asarray(u, dtype=float) for u in weights]
    if len(draws) < 3:
        raise ValueError(f"`weights` needs at least three draws, got {len(draws)}.")
    at = [np.asarray(response(u), dtype=float) for u in draws]
    if not all(np.isfinite(values).all() for values in at):
        raise ValueError(
            "The response of a unit must be finite at weights of order one, because its algebraic "
            "properties are measured there. Use another activation."
        )
    scale = max(float(np.abs(values).max()) for values in at) or 1.0

    def apart(left: np.ndarray, right: np.ndarray) -> float:
        difference = float(np.abs(left - right).max())
        return difference / scale if np.isfinite(difference) else np.inf

    def scaled(factor: float) -> float:
        return max(apart(response(factor * u), factor * r) for u, r in zip(draws, at, strict=True))

    sums = [apart(response(draws[i] + draws[i - 1]), at[i] + at[i - 1]) for i in range(len(draws))]
    mirrored = [np.asarray(response(-u), dtype=float) for u in draws]
    silent = np.asarray(response(0.0 * draws[0]), dtype=float)
    return Defects(
        zero=apart(silent, np.zeros_like(silent)),
        positive=max(scaled(0.37), scaled(2.6)),
        negative=scaled(-1.3),
        additive=max(sums),
        even=max(apart(back, r) for back, r in zip(mirrored, at, strict=True)),
        odd=max(apart(back, -r) for back, r in zip(mirrored, at, strict=True)),
    )


@float64
def measure_algebra(
    response: Callable[[np.ndarray], np.ndarray], weights: np.ndarray, *, tolerance: float = 1e-9
) -> Algebra:
    r"""Measure numerically which algebraic properties a response has, such as homogeneity.

    **Arguments:**

    - `response`: function $u \mapsto \phi(z; u)$ that returns the responses to a fixed set of
      inputs $z$ as one float64 array. The order is measured at $|u| \sim 10^{-5}$.
    - `weights`: at least three random weights $u$ of order one, `(draw, ...)`.
    - `tolerance`: largest deviation (see `Defects`) at which a property counts as holding.

    !!! note "When it stops being exact"

        A property counts as holding if it holds for all inputs and draws given. `measure_algebra`
        finds a kink only in a homogeneous response; `activation` searches a scalar function for
        kinks.
    """
    defects = measure_defects(response, weights)
    zero = defects.zero <= tolerance
    positive = defects.positive <= tolerance
    real = positive and defects.negative <= tolerance
    return Algebra(
        zero=zero,
        homogeneous="real" if real else "positive" if positive else None,
        linear=real and defects.additive <= tolerance,
        even=defects.even <= tolerance,
        order=_lowest_order(response, weights) if zero else 0,
        odd=defects.odd <= tolerance,
    )


def _lowest_order(response: Callable[[np.ndarray], np.ndarray], weights: np.ndarray) -> int | None:
    """Return the slope of log|φ(z; hu)| against log h as h → 0, rounded; None if no limit exists.

    The slope also exists for functions with a kink, which have no Taylor expansion.
    """
    draws = [np.asarray(u, dtype=float) for u in weights]
    scale = max(float(np.abs(response(u)).max()) for u in draws) or 1.0
    size = lambda h: np.sqrt(np.mean([np.mean(response(h * u) ** 2) for u in draws]))
    # h decreases until cancellation in φ would make the slope inaccurate.
    slope, expected, ratio = 0.0, 0.0, 10.0**-0.5
    for h in 0.1 * ratio ** np.arange(9):
        small, large = size(h), size(2 * h)
        if small < 1e-13 * scale:
            if small < _SILENT * expected:
                return None
            break
        slope = float(np.log2(large / small))
        expected = small * ratio**slope
    order = round(slope)
    return order if order > 0 and abs(slope - order) < 0.25 else None
