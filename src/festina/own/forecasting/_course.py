"""The course of a look-ahead: its flattest point, and the drop that follows it."""

import math
from collections.abc import Callable
from dataclasses import dataclass, field
from typing import Annotated

import numpy as np

from ..._drops import PROMINENCE
from ..._narrowing._pytorch import Function
from ..._result import Result
from ._chebyshev import Ahead
from ._vectors import Vector

LEFT = 0.1  # share of a drop after which a plateau has been left
LEAST_DROP = 0.03  # smallest drop, as a share of the loss
LEAST_OF_ALL = 1e-3  # smallest drop, as a share of the loss at zero weights
HIDDEN = 3.0  # noise floors by which the loss fluctuates in a run with few weights
_RISE = 10**PROMINENCE  # rise of the speed in a drop, as `plateaus` requires
_UNDER_WAY = 1.5, 0.1  # rise of speed and relative fall of the loss if a drop has begun already
_NOW = 1.1  # the present point is the flattest if its speed is below this multiple of the lowest
_SEEN = 3  # samples needed to see a rise
_STANDSTILL = 1e-3  # relative fall of the loss over the whole look-ahead that counts as none
_SLOWED = 0.3  # share of the top speed below which a drop may be at its end
_TO_COME = 0.15  # largest share of a drop that is extrapolated
_WINDOW = 0.1  # share of the time over which a noisy loss is averaged
_CHANGE, _RESTS = 0.1, 0.02  # smallest change of a metric, and the share of it that counts as rest

Samples = Annotated[list[float], "time"]

Judge = Callable[[Vector], float]
"""A function that returns the metric of weights."""


def judge_of(metric: Function, restore: Callable[[Vector], object]) -> Judge:
    """Return the metric of a model as a function of its weights.

    The function raises `ValueError` if the metric is not one finite number.
    """

    def judge(w: Vector) -> float:
        value = metric(restore(w))
        try:
            found = float(value)
        except (TypeError, ValueError, RuntimeError) as error:
            raise ValueError(f"`metric` must give one number, got {value!r}.") from error
        if not math.isfinite(found):
            raise ValueError(f"`metric` gave {found}, expected a finite number.")
        return found

    return judge


@dataclass(frozen=True)
class Drop:
    """A drop of the loss between two levels, and the index of the flattest sample before it."""

    flattest: int
    above: float
    below: float

    @property
    def height(self) -> float:
        return self.above - self.below


@dataclass(repr=False)
class Course(Result):
    """Samples of a look-ahead, with time in optimiser steps, and the weights at its end.

    `scale` is the loss at zero weights. `noise` is the height above a minimum at which mini-batches
    hold the loss; a course is `noisy` if its losses contain this noise.
    """

    scale: float = 0.0
    time: Samples = field(default_factory=list)
    loss: Samples = field(default_factory=list)
    speed: Samples = field(default_factory=list)
    metric: Samples = field(default_factory=list)
    weights: Vector = field(default=Vector(()))
    noise: float = 0.0
    noisy: bool = False

    def add(self, here: Ahead, judge: Judge | None = None) -> None:
        self.time.append(here.time)
        self.loss.append(here.loss)
        self.speed.append(here.speed)
        self.weights = here.weights
        self.metric += [] if judge is None else [judge(here.weights)]

    def least(self, level: float) -> float:
        """Return the smallest fall from a level that counts as a drop."""
        return max(self.seen(level), LEAST_OF_ALL * self.scale)

    def seen(self, level: float) -> float:
        """Return the smallest visible fall from a level, whether it counts as a drop or not."""
        return max(LEAST_DROP * abs(level), HIDDEN * self.noise)

    def drop(self, *, ended: bool = False) -> Drop | None:
        """Return the first drop ahead once it is almost complete; its last part is extrapolated.

        In a drop the speed rises by `PROMINENCE` decades above its lowest value. The drop is
        complete when the slowing speed leaves little to fall, or when the speed rises again. If the
        look-ahead has `ended` within a drop, the drop ends there.
        """
        still = _STANDSTILL * abs(self.loss[0]) / max(self.time[-1], 1.0)
        speed = np.maximum(self.speed, max(still, 1e-300))
        rise = speed / np.minimum.accumulate(speed)
        top = int(np.argmax(rise))
        if top == len(speed) - 1 and not ended:
            return None
        start = int(np.argmin(speed[: top + 1]))
        above = self.loss[start]
        least = self.least(above)
        if not self.noisy and max(self.loss[start : top + 1]) > above + least:
            return None  # the loss oscillates
        if rise[top] < _RISE:
            risen, fallen = _UNDER_WAY
            slower = speed[0] > _NOW * speed[start] or top < _SEEN or rise[top] < risen
            if slower or above - self.loss[-1] < fallen * abs(above):
                return None
        valley = top + int(np.argmin(speed[top:]))
        if speed[valley:].max() > _RISE * speed[valley] and above - self.loss[valley] > least:
            return Drop(start, above, self.loss[valley])
        to_come = self.to_come()
        fallen = above - self.loss[-1]
        slowed = speed[-1] < _SLOWED * speed[top]
        if ended and fallen > least:
            return Drop(start, above, self.loss[-1])
        if slowed and fallen > least and to_come < _TO_COME * fallen:
            floor = 0.0 if self.loss[-1] >= 0.0 else -math.inf  # most losses are not negative
            return Drop(start, above, max(self.loss[-1] - to_come, floor))
        return None

    def resting(self) -> bool:
        """Return whether the loss hardly fell, and did not speed up, in the last half."""
        if len(self.time) < 4 or self.speed[-1] == 0.0:
            return self.speed[-1] == 0.0
        first, second, third = map(self._about, (0.5, 0.75, 1.0))
        least = max(0.03 * LEAST_DROP * abs(third), 0.1 * LEAST_OF_ALL * self.scale, self.noise)
        faster = second - third > max(2.0 * (first - second), (1.0 if self.noisy else 0.1) * least)
        return bool(first - third < least and not faster)

    def _about(self, share: float) -> float:
        """Return the loss at a share of the time; a noisy loss is averaged around that time."""
        width = _WINDOW if self.noisy else 0.0
        near = np.linspace(share - width, min(share + width, 1.0), 9) * self.time[-1]
        return float(np.interp(near, self.time, self.loss).mean())

    @property
    def oscillates(self) -> bool:
        """Whether the loss oscillates by more than a drop although mini-batches add no noise."""
        late = slice(len(self.loss) // 2, None)
        own = np.diff(self.time[late]) <= 1.0  # longer steps cause oscillations of their own
        change = np.diff(self.loss[late])[own]
        up, down = change[change > 0.0].sum(), -change[change < 0.0].sum()
        return bool(not self.noise and min(up, down) > 2.0 * self.least(self.loss[0]))

    def bound(self) -> float | None:
        """Return a lower bound on the time at which the plateau is left.

        If the loss has not fallen, the bound is the end of the look-ahead. If the fall of the loss
        speeds up, the fall so far is the smallest possible drop, which gives the bound. If the fall
        of the loss slows down, the result is None.
        """
        ends = 0.0, 0.5 * self.time[-1], self.time[-1]
        first, second, third = np.interp(ends, self.time, self.loss)
        if first - third < self.seen(first):
            return self.time[-1]
        if second - third < first - second:
            return None
        return self.passage(0, LEFT * (first - third))

    def to_come(self) -> float:
        """Return the remaining fall of the loss if the loss slows down, else infinity."""
        if len(self.time) < 3:
            return math.inf
        (t0, t1), (l0, l1), (s0, s1) = self.time[-2:], self.loss[-2:], self.speed[-2:]
        if not 0.0 < s1 < s0 or t1 <= t0:
            return 0.0 if s1 == 0.0 else math.inf
        return max(l0 - l1, 0.0) * s1 / (s0 - s1)

    @property
    def end(self) -> float:
        """Loss at the end of the look-ahead, or the median of its last quarter if `noisy`."""
        if not self.noisy:
            return self.loss[-1]
        return float(np.median(np.array(self.loss)[-max(len(self.loss) // 4, 1) :]))

    def passage(self, flattest: int, fall: float) -> float | None:
        """Return the time at which the loss has fallen by `fall` since the flattest sample.

        Between two samples the speed is assumed to change exponentially.
        """
        level = self.loss[flattest] - fall
        for k in range(flattest + 1, len(self.time)):
            if self.loss[k] > level:
                continue
            (t0, t1), (l0, l1) = self.time[k - 1 : k + 1], self.loss[k - 1 : k + 1]
            share = (l0 - level) / (l0 - l1)
            growth = math.log(max(self.speed[k], 1e-300) / max(self.speed[k - 1], 1e-300))
            growth = min(max(growth, -30.0), 30.0)
            if abs(growth) > 1e-6:
                share = math.log1p(share * math.expm1(growth)) / growth
            return t0 + (t1 - t0) * share
        return None

    def metric_passage(self, before: float, after: float, share: float) -> float | None:
        """Return the time at which the metric has gone this share of the way between two values."""
        made = (np.array(self.metric) - before) / (after - before)
        k = int(np.argmax(made >= share))
        if k == 0:
            return None
        return float(np.interp(share, made[k - 1 : k + 1], self.time[k - 1 : k + 1]))

    @property
    def metric_moved(self) -> bool:
        """Whether the metric has changed by a tenth of its size, or by 0.1 if it is a share."""
        largest = np.abs(self.metric).max()
        share = min(self.metric) >= 0.0 and largest <= 1.0
        return bool(abs(self.metric[-1] - self.metric[0]) > _CHANGE * (1.0 if share else largest))

    @property
    def metric_rests(self) -> bool:
        """Whether the metric has changed and has rested for the last quarter of the time."""
        late = np.array(self.metric)[np.array(self.time) > 0.75 * self.time[-1]]
        if not self.metric_moved or len(late) < 3:
            return False
        return bool(np.ptp(late) < _RESTS * abs(self.metric[-1] - self.metric[0]))
