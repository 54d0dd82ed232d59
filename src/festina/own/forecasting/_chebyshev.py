r"""Integrate gradient flow, $\dot w = F(w)$, by stabilised explicit steps that need only gradients.

The method is Runge–Kutta–Chebyshev of second order (Sommeijer, Shampine & Verwer 1998). With $s$
gradients a step covers the time $\tfrac23 s^2/\rho$, where $\rho$ is the sharpness; the number of
plain descent steps is proportional to that time. On a plateau the learned modes are stiff and at
rest, and the growing modes are slow, so long steps make a forecast cheaper than training.
"""

import math
from collections.abc import Callable, Generator, Iterator
from dataclasses import dataclass
from functools import cache
from itertools import count
from typing import NamedTuple, Protocol, runtime_checkable

from ._curvature import Bend, Gradient
from ._vectors import Vector, combination

_DAMPING = 2 / 13  # damping of the stages, as in the paper
_STAGES = 1.54  # squared number of stages over length times sharpness of a step
MOST_STAGES = 60  # most stages of a step, because rounding errors grow as their square
SHORTEST = 8  # fewest optimiser steps that a flow step covers; fewer would make it more expensive
_LEAST = 0.2  # shortest step, in units of the inverse sharpness
_SLACK, _KINKED = 2.0, 10  # factor on the tolerance, for this many steps after a step across kinks
_OF_THE_WAY = 25  # this many steps across kinks cover as much time as all steps before
_FAILURES = 20  # failed steps in a row, after which a step is accepted or the course ends
_RISE = 0.1  # largest relative rise of the loss in a step
SAFETY = 1.2  # factor on the sharpness, because power iteration underestimates it
_ALIKE = 0.01  # largest relative difference in loss between a flow step and optimiser steps
_FIRST_ITERATIONS = 12  # most iterations for the first sharpness


@dataclass(frozen=True)
class Ahead:
    """A point of a look-ahead.

    - `time`: flow time, or steps of the optimiser.
    - `loss`: loss at this point.
    - `speed`: rate at which the loss falls: the squared norm of the flow.
    - `growth`: rate at which the norm of the flow has grown since the last point.
    - `weights`: weights at this point.
    - `sharpness`: largest absolute curvature, per unit of flow time or as a share of the largest
      stable curvature.
    """

    time: float
    loss: float
    speed: float
    growth: float
    weights: Vector
    sharpness: float = 0.0


@runtime_checkable
class Steps(Protocol):
    """Interface to the steps of an optimiser with time in units of the flow; see `_sgd.Steps`."""

    forgets: float

    def time(self) -> float: ...
    def __call__(self, w: Vector, f: Vector) -> tuple[float, Vector, float, Vector]: ...
    def coast(self, w: Vector, f: Vector) -> float: ...


def integrate(
    field: Gradient,
    start: Vector,
    *,
    tolerance: float,
    own: Steps | None = None,
    left: Callable[[float], float] | None = None,
) -> Iterator[Ahead]:
    """Yield the points of the flow from `start` by adaptive steps, while the loss is finite.

    `left` limits a step to the time that remains of a schedule; the flow ends when no time remains.
    `tolerance` is the largest error of a step relative to its length, so resting weights do not
    hide the error of growing weights. A flow step must be cheaper than the optimiser's `own` steps.
    If the error of the shortest such flow step exceeds the tolerance, the optimiser does not follow
    the flow: the optimiser's own steps are taken, twice as many each time.

    ReLU units slide along their kinks, where a flow step of any length exceeds the tolerance. A
    flow step along a kink is accepted if a shorter step hardly reduces the error, or if the flow
    step agrees with the `own` steps. The next few flow steps along the kink are also accepted, and
    last at least a fixed fraction of the time so far. The cost of a long slide is therefore
    proportional to the logarithm of its duration.
    """
    w, (loss, f) = start, field(start)
    t, speed = 0.0, f.square
    if speed == 0.0:  # the weights do not move any more
        yield Ahead(t, loss, speed, 0.0, w)
        return
    sharpness = _Sharpness(field, w, f)
    yield Ahead(t, loss, speed, 0.0, w, sharpness.value)
    h, longer, kinked, failed, blown, walk = 1.0 / sharpness.value, None, 0, 0, False, 0
    while math.isfinite(loss):
        rho = SAFETY * sharpness.value
        # A step that raised the loss may be shortened below `least`: the loss falls along a flow.
        cheaper = min(_STAGES * rho * own.time(), MOST_STAGES) if own else 0.0
        fewest = max(SHORTEST, math.ceil(cheaper)) if own else 0
        shortest = fewest * own.time() if own else 0.0
        floor = max(shortest, t / _OF_THE_WAY if kinked else 0.0)
        least = 0.0 if blown else max(_LEAST / rho, floor)
        h = min(max(h, least), (MOST_STAGES**2 - 1) / _STAGES / rho)
        h = left(h) if left else h
        if h == 0.0:
            return
        size, drift = f.norm, own.coast(w, f) if own and not kinked else 0.0
        noticed = drift * (size + 0.5 * rho * drift) > _ALIKE * abs(loss)
        if own and noticed and drift > tolerance * h * size:
            walk = max(2 * walk, fewest)
            w, loss, f, t, speed, _ = yield from _walk(own, w, f, t, speed, walk, sharpness)
            h = shortest
            continue
        step = _step(field, w, f, h, rho)
        blown = not math.isfinite(step.error + step.loss) or step.loss > loss + _RISE * abs(loss)
        if blown:
            failed += 1
            if failed > _FAILURES:
                return
            h *= 0.25
            sharpness.renew(w, f, longer=True)
            continue
        ratio = step.error / (tolerance * (_SLACK if kinked else 1.0))
        if ratio > 1.0:
            shorter = longer is None or step.error < longer.error * (h / longer.length)
            if shorter and h > least and failed < _FAILURES:
                failed += 1
                longer = step
                h *= max(0.2, 0.8 / math.sqrt(ratio))
                continue
            if longer is not None and longer.error < 1.0:
                step = longer
            elif own and h <= shortest and not kinked:
                walk = max(2 * walk, fewest)
                w, loss, f, t, speed, alike = yield from _walk(
                    own, w, f, t, speed, walk, sharpness, fewest, step.loss
                )
                h, longer, failed = shortest, None, 0
                kinked = _KINKED if alike else 0
                continue
            kinked, ratio = _KINKED, 0.64
        failed = 0
        before, speed = f.square, step.f.square
        taken, growth = _grown(speed, before, step.length, step.stages)
        w, loss, f, t = step.w, step.loss, step.f, t + taken
        yield Ahead(t, loss, speed, growth, w, sharpness.value)
        h = step.length * min(4.0, 0.8 / math.sqrt(max(ratio, 1e-6)))
        longer, kinked, walk = None, max(kinked - 1, 0), 0
        sharpness.renew(w, f)


def _walk(
    own: Steps,
    w: Vector,
    f: Vector,
    t: float,
    speed: float,
    count: int,
    sharpness: "_Sharpness",
    fewest: int = 0,
    aim: float = math.nan,
) -> Generator[Ahead, None, tuple[Vector, float, Vector, float, float, bool]]:
    """Take `count` of the optimiser's own steps, or the `fewest` if these lead to the loss `aim`.

    Return weights, loss, flow, time and speed after the steps, and whether the `fewest` steps led
    to `aim`. The speed is smoothed, because it vanishes where momentum carries the weights past a
    minimum.
    """
    loss, alike = math.nan, False
    for k in range(1, count + 1):
        time, w, loss, f = own(w, f)
        if not math.isfinite(loss + f.square):  # diverged: the course ends here
            yield Ahead(t + time, math.inf, math.inf, 0.0, w, sharpness.value)
            return w, math.inf, f, t, speed, False
        t, speed = t + time, speed + own.forgets * (f.square - speed)
        yield Ahead(t, loss, speed, 0.0, w, sharpness.value)
        if k % SHORTEST == 0:
            sharpness.renew(w, f)
        alike = k == fewest and abs(loss - aim) < _ALIKE * abs(loss)
        if alike:
            break
    return w, loss, f, t, speed, alike


def _grown(speed: float, before: float, h: float, stages: int) -> tuple[float, float]:
    """Return the time in which exponential growth grows as much as the step, and the growth rate.

    A mode that grows at the rate a should grow by e^{ah} in a step of length h, but grows by the
    smaller factor P(ah). The end of a plateau depends on this growth, so the time is corrected.
    """
    made = math.sqrt(speed / before) if speed > 0.0 < before else 1.0
    if made < 1.0 + 1e-9:
        return h, math.log(made) / h
    rate = _made_by(stages, made) / h
    return math.log(made) / rate, rate


def _made_by(s: int, made: float) -> float:
    """Return z with P(z) = `made`, where P(z) is the factor of a step with s stages for w' = zw.

    P(z) = a + b T(w₀ + w₁z) in the notation of `_chebyshev`.
    """
    w0, T, w1, b = _chebyshev(s)
    return (math.cosh(math.acosh(T[s] + (made - 1.0) / b[s]) / s) - w0) / w1


class _Step(NamedTuple):
    """The end of a step, and its error relative to the length of the step."""

    w: Vector
    loss: float
    f: Vector
    length: float
    stages: int
    error: float


def _step(field: Gradient, w: Vector, f: Vector, h: float, rho: float) -> _Step:
    stages = max(2, 1 + math.ceil(math.sqrt(1 + _STAGES * h * rho)))
    first, rows = _coefficients(stages)
    before, at = w, combination((1.0, w), (first * h, f))
    for mu, nu, mu_h, gamma_h in rows:
        _, slope = field(at)
        terms = (1 - mu - nu, w), (mu, at), (nu, before), (mu_h * h, slope), (gamma_h * h, f)
        before, at = at, combination(*terms)
    loss, there = field(at)
    moved = at - w
    size = moved.norm
    error = combination((-0.8, moved), (0.4 * h, f), (0.4 * h, there)).norm
    return _Step(at, loss, there, h, stages, error / size if size else 0.0)


@cache
def _coefficients(s: int) -> tuple[float, list[tuple[float, float, float, float]]]:
    """Return the coefficients μ̃₁ of the first stage, and μ, ν, μ̃, γ̃ of the later stages."""
    w0, T, w1, b = _chebyshev(s)
    rows = []
    for j in range(2, s + 1):
        mu, nu, mu_h = 2 * b[j] * w0 / b[j - 1], -b[j] / b[j - 2], 2 * b[j] * w1 / b[j - 1]
        rows.append((mu, nu, mu_h, -(1 - b[j - 1] * T[j - 1]) * mu_h))
    return b[1] * w1, rows


@cache
def _chebyshev(s: int) -> tuple[float, list[float], float, list[float]]:
    """Return the coefficients w₀, T_j(w₀), w₁ and b_j, in the notation of the paper."""
    w0 = 1 + _DAMPING / s**2
    T, dT, ddT = [1.0, w0], [0.0, 1.0], [0.0, 0.0]
    for j in range(2, s + 1):
        T.append(2 * w0 * T[j - 1] - T[j - 2])
        dT.append(2 * T[j - 1] + 2 * w0 * dT[j - 1] - dT[j - 2])
        ddT.append(4 * dT[j - 1] + 2 * w0 * ddT[j - 1] - ddT[j - 2])
    b = [ddT[j] / dT[j] ** 2 for j in range(2, s + 1)]
    return w0, T, dT[s] / ddT[s], [b[0], b[0], *b]


class _Sharpness:
    """Estimate of the largest curvature, by power iteration on differences of gradients."""

    def __init__(self, field: Gradient, w: Vector, f: Vector):
        self._bend = Bend(field, w, f, f)
        self._direction = f
        self.value = 0.0
        for k in count(1):
            before = self.value
            self.renew(w, f)
            if k == _FIRST_ITERATIONS or abs(self.value - before) < 0.03 * self.value:
                break

    def renew(self, w: Vector, f: Vector, *, longer: bool = False) -> None:
        """Iterate once at new weights; `longer` increases the moves that measure the curvature.

        Longer moves make the change of the gradient larger than its rounding error.
        """
        if longer:
            self._bend.lengthen(w)
        length = self._direction.norm
        if not 0.0 < length < math.inf:
            self.value = max(self.value, 1e-30)
            return
        change = self._bend(w, f, self._direction) * (1.0 / length)
        if math.isfinite(change.norm):
            self.value, self._direction = max(change.norm, 1e-30), change
