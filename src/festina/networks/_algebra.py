"""The algebra of units: properties of the response φ(z; u) as a function of its weights u."""

from collections.abc import Callable
from dataclasses import dataclass
from typing import Literal

import numpy as np

from .._precision import float64

Homogeneity = Literal["real", "positive"]
Kink = Literal["zero", "elsewhere"]

_SILENT = 1e-3  # of what a power of u leaves: a response this small falls faster than any


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
    - `odd`: $\phi(z; -u) = -\phi(z; u)$.
    - `kink`: `"zero"` where the slope of φ jumps at $u = 0$ (ReLU, and whatever is homogeneous for
      positive α only), `"elsewhere"` where it jumps at other $u$ alone (a threshold, a response
      that is clipped), None where it has no jump.
    """

    zero: bool
    homogeneous: Homogeneity | None
    linear: bool
    even: bool
    order: int | None
    odd: bool = False
    kink: Kink | None = None

    def __post_init__(self) -> None:
        if self.homogeneous == "positive":  # two different lines, one for each side
            object.__setattr__(self, "kink", "zero")

    @property
    def kinked(self) -> bool:
        """Whether the slope of φ jumps anywhere, so that trajectories may slide along a kink."""
        return self.kink is not None


@dataclass(frozen=True)
class Defects:
    r"""By how much a response misses each property, relative to its largest value.

    - `zero`: $\phi(z; 0)$ against 0.
    - `positive`: $\phi(z; \alpha u)$ against $\alpha\phi(z; u)$ for $\alpha$ = 0.37 and 2.6.
    - `negative`: the same for $\alpha$ = −1.3.
    - `additive`: $\phi(z; u + u')$ against $\phi(z; u) + \phi(z; u')$.
    - `even`, `odd`: $\phi(z; -u)$ against $\phi(z; u)$ and against $-\phi(z; u)$.
    """

    zero: float
    positive: float
    negative: float
    additive: float
    even: float
    odd: float


@float64
def measure_defects(response: Callable[[np.ndarray], np.ndarray], weights: np.ndarray) -> Defects:
    r"""Measure how far a response is from each property that `Algebra` names.

    **Arguments:**

    - `response`: $u \mapsto \phi(z; u)$ over a fixed set of inputs $z$, as one array.
    - `weights`: several random $u$ of order one, shape `(draw, ...)`, at least three.

    **Returns:**

    The largest difference over all inputs and draws for each property, as a fraction of the largest
    response: of the order of rounding where the property holds.
    """
    draws = [np.asarray(u, dtype=float) for u in weights]
    if len(draws) < 3:
        raise ValueError(f"`weights` needs at least three draws, got {len(draws)}.")
    at = [np.asarray(response(u), dtype=float) for u in draws]
    if not all(np.isfinite(values).all() for values in at):
        raise ValueError(
            "The response must be finite at weights of order one, else its algebra is unknown."
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
    r"""Find the algebra of a response numerically.

    **Arguments:**

    - `response`: $u \mapsto \phi(z; u)$ over a fixed set of inputs $z$, as one array. Evaluate in
      float64: the order is read off responses at $|u| \sim 10^{-5}$.
    - `weights`: several random $u$ of order one, shape `(draw, ...)`, at least three.
    - `tolerance`: largest defect (see `Defects`) at which a property counts as holding.

    A property that holds for every input and draw is taken to hold; a response that differs only
    outside the region sampled is not told apart. Of kinks only that of a homogeneous response is
    found; those of a scalar activation are looked for where it is made a unit (`NeuronUnit`).
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
    """Return the slope of log|φ(z; hu)| against log h as h → 0; it serves kinked functions too."""
    draws = [np.asarray(u, dtype=float) for u in weights]
    scale = max(float(np.abs(response(u)).max()) for u in draws) or 1.0
    size = lambda h: np.sqrt(np.mean([np.mean(response(h * u) ** 2) for u in draws]))
    # From coarse to fine, stopping before cancellation in φ eats the digits.
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
