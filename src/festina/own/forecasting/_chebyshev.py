r"""Gradient flow ahead, $\dot w = F(w)$, by stabilised explicit steps that need gradients alone.

Runge–Kutta–Chebyshev of second order (Sommeijer, Shampine & Verwer 1998): with $s$ gradients a step
reaches $\tfrac23 s^2/\rho$, where $\rho$ is the sharpness, while plain descent needs as many steps
as that is long. On a plateau what has been learned is stiff and at rest and what grows is slow, so
that this is the difference between a forecast and training on.
"""

import math
from collections.abc import Callable, Generator, Iterator
from dataclasses import dataclass
from functools import cache
from itertools import count
from typing import NamedTuple, Protocol, runtime_checkable

from ._curvature import Bend, Gradient
from ._vectors import Vector, combination

_DAMPING = 2 / 13  # as in the source
_STAGES = 1.54  # the squared number of stages, over length and sharpness of a step
MOST_STAGES = 60  # of a step: rounding grows as their square
SHORTEST = 8  # steps of the optimiser that a step of the flow stands for, or it were dearer
_LEAST = 0.2  # of the inverse sharpness: no step is shorter
_SLACK, _KINKED = 2.0, 10  # of the tolerance, for so many steps after one across kinks
_OF_THE_WAY = 25  # so many steps across kinks go as far as all before them
_FAILURES = 20  # steps in a row that were given up, after which one is taken or all is over
_RISE = 0.1  # of the loss, in a step: too much
SAFETY = 1.2  # of the sharpness, which power iteration finds from below
_ALIKE = 0.01  # of the loss, by which a step of the flow may miss the optimiser's own
_FIRST_ITERATIONS = 12  # of the power iteration, unless it rests before


@dataclass(frozen=True)
class Ahead:
    """Where a look-ahead is.

    - `time`: on the clock of the flow, or in steps of the optimiser.
    - `loss`: there.
    - `speed`: at which something falls by that clock: the squared length of the flow.
    - `growth`: rate at which the flow's length has grown since the last one.
    - `weights`: there.
    - `sharpness`: the largest curvature, of either sign, on the clock of the flow, or as a share
      of the largest stable one.
    """

    time: float
    loss: float
    speed: float
    growth: float
    weights: Vector
    sharpness: float = 0.0


@runtime_checkable
class Steps(Protocol):
    """Steps of an optimiser on the clock of the flow, as `_sgd.Steps` are."""

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
    """Yield the flow from `start`, one adaptive step after another, until it is no longer finite.

    `left` cuts a step to the time that a schedule leaves; the flow ends where nothing is left.
    `tolerance` is the error that a step may make, relative to the step itself: weights that rest
    do not hide the error of those that grow. Where even the shortest step that is cheaper than the
    optimiser's `own` steps is in error, the optimiser does not follow the flow: its steps are
    taken, twice as many each time.

    Rectifiers slide along their kinks, where a step of the flow is in error however short it is. A
    step that was shortened to little avail, or that agrees with the `own` steps, is taken as it
    was, and so are some behind it, of a share of the way so far: a long slide costs no more than
    its logarithm.
    """
    w, (loss, f) = start, field(start)
    t, speed = 0.0, f.square
    if speed == 0.0:  # at rest for good
        yield Ahead(t, loss, speed, 0.0, w)
        return
    sharpness = _Sharpness(field, w, f)
    yield Ahead(t, loss, speed, 0.0, w, sharpness.value)
    h, longer, kinked, failed, blown, walk = 1.0 / sharpness.value, None, 0, 0, False, 0
    while math.isfinite(loss):
        rho = SAFETY * sharpness.value
        # What blew up is tried again shorter than any other step: along a flow the loss falls.
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

    Return weights, loss, flow, time and speed at their end, and whether they have led there. The
    speed is smoothed, because it vanishes where momentum carries the weights past a minimum.
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
    """Return the time of growth at a constant rate from what a step made of it, and that rate.

    A step of length h makes P(ah) of what grows at the rate a, where e^{ah} was due: it lags
    behind, and it is by the growth that we know when a plateau ends.
    """
    made = math.sqrt(speed / before) if speed > 0.0 < before else 1.0
    if made < 1.0 + 1e-9:
        return h, math.log(made) / h
    rate = _made_by(stages, made) / h
    return math.log(made) / rate, rate


def _made_by(s: int, made: float) -> float:
    """Return z of P(z) = a + b T(w₀ + w₁z), what s stages make of w' = zw in a unit of time."""
    w0, T, w1, b = _chebyshev(s)
    return (math.cosh(math.acosh(T[s] + (made - 1.0) / b[s]) / s) - w0) / w1


class _Step(NamedTuple):
    """End of a step, and its error relative to its length."""

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
    """Return μ̃₁, and μ, ν, μ̃, γ̃ of the stages behind the first."""
    w0, T, w1, b = _chebyshev(s)
    rows = []
    for j in range(2, s + 1):
        mu, nu, mu_h = 2 * b[j] * w0 / b[j - 1], -b[j] / b[j - 2], 2 * b[j] * w1 / b[j - 1]
        rows.append((mu, nu, mu_h, -(1 - b[j - 1] * T[j - 1]) * mu_h))
    return b[1] * w1, rows


@cache
def _chebyshev(s: int) -> tuple[float, list[float], float, list[float]]:
    """Return w₀, T_j(w₀), w₁ and b_j, in the letters of the source."""
    w0 = 1 + _DAMPING / s**2
    T, dT, ddT = [1.0, w0], [0.0, 1.0], [0.0, 0.0]
    for j in range(2, s + 1):
        T.append(2 * w0 * T[j - 1] - T[j - 2])
        dT.append(2 * T[j - 1] + 2 * w0 * dT[j - 1] - dT[j - 2])
        ddT.append(4 * dT[j - 1] + 2 * w0 * ddT[j - 1] - ddT[j - 2])
    b = [ddT[j] / dT[j] ** 2 for j in range(2, s + 1)]
    return w0, T, dT[s] / ddT[s], [b[0], b[0], *b]


class _Sharpness:
    """The largest curvature, by power iteration on differences of gradients."""

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
        """Iterate once more, at new weights; `longer` moves these farther, above rounding."""
        if longer:
            self._bend.lengthen(w)
        length = self._direction.norm
        if not 0.0 < length < math.inf:
            self.value = max(self.value, 1e-30)
            return
        change = self._bend(w, f, self._direction) * (1.0 / length)
        if math.isfinite(change.norm):
            self.value, self._direction = max(change.norm, 1e-30), change
