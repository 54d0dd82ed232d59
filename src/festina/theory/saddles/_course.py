"""The staircase of a predicted flow, by the definitions of `festina.diagnose.plateaus`.

A plateau is where the flow is slowest between two drops, a drop a peak of its rate that stands out
by half a decade. The flow passes each saddle at a distance, so that the loss at which it rests is
not quite that of the saddle: levels are those of saddles, times are those of the flow, and the
difference is how far the times can be trusted.
"""

from collections.abc import Callable
from typing import NamedTuple

import numpy as np
from jaxtyping import Float

from ..._drops import PROMINENCE, log_rate, resting
from ._stairs import Members, Staircase, joining_times, root

# Decades by which the rate of training and that of its prediction may differ: samples of training
# miss peaks and valleys by some hundredths.
_DOUBT = 0.1
# Part of what there is to learn. Errors of the flow move smaller drops by several times their time.
_FAINT = 1e-5


class Saddle(NamedTuple):
    """A fixed point that the flow passes."""

    excess: float
    """Loss above that of least squares."""
    active: tuple[int, ...]
    slack: float = 0.0
    """Error of the time of the jump that leaves it, by what the predictor leaves out."""


class Course(NamedTuple):
    """A predicted flow from the initial weights to the last saddle."""

    time: Float[np.ndarray, " row"]
    excess: Float[np.ndarray, " row"]
    squared_gradient: Float[np.ndarray, " row"]
    saddle: Callable[[int], Saddle]
    """The saddle that is near the flow at a row."""
    passage: Callable[[float], float]
    """When the loss above that of least squares passes a value."""

    def staircase(self, members: Members, count: int, floor: float) -> Staircase:
        """Return the staircase of this flow; `count` is the number of members."""
        found = self._stages(PROMINENCE)
        saddles, rows = list(found.values()), list(found)
        exact = np.array([saddle.excess for saddle in saddles])
        rested = self.excess[rows]
        high, low = np.transpose([self._slow(row) for row in rows])
        middles = np.stack([rested, np.maximum(high, exact), np.minimum(low, exact)])
        middles = 0.5 * (middles[:, :-1] + middles[:, 1:])
        times, early, late = (np.array([self.passage(m) for m in row]) for row in middles.tolist())
        slack = np.cumsum([saddle.slack for saddle in saddles[:-1]])
        error = np.maximum(times - early, late - times) + slack
        faint = -np.diff(exact) < _FAINT * exact[0]
        active = [saddle.active for saddle in saddles]
        return Staircase(
            levels=floor + exact,
            times=times,
            uncertainty=np.where(faint, np.maximum(error, times), error),
            active=tuple(active),
            joined=joining_times(active, times.tolist(), count),
            members=members,
            initial=np.asarray(floor + self.excess[0]),
            fewest=np.asarray(len(self._stages(PROMINENCE + _DOUBT))),
            most=np.asarray(len(self._stages(PROMINENCE - _DOUBT))),
        )

    def _stages(self, prominence: float) -> dict[int, Saddle]:
        """Return the rows at which the flow rests, with the nearest saddles.

        A rest is slower by `prominence` decades than the drops beside it.

        Two rests in a row near the same saddle are one.
        """
        rows, saddles = list[int](), list[Saddle]()
        for row in resting(self.excess, self.squared_gradient, prominence).tolist():
            saddle = self.saddle(row)
            if not saddles or saddle.excess < saddles[-1].excess:
                rows.append(row)
                saddles.append(saddle)
            elif self.squared_gradient[row] < self.squared_gradient[rows[-1]]:
                rows[-1] = row
        return dict(zip(rows, saddles, strict=True))

    def _slow(self, row: int) -> tuple[float, float]:
        """Return the highest and lowest loss around a row at which the flow is about as slow."""
        speed = log_rate(self.squared_gradient)
        apart = np.flatnonzero(np.abs(speed - speed[row]) > _DOUBT)
        bounds = np.concatenate([[-1], apart, [len(speed)]])
        after = int(np.searchsorted(bounds, row))
        return float(self.excess[bounds[after - 1] + 1]), float(self.excess[bounds[after] - 1])


def passage(
    time: Float[np.ndarray, " row"],
    excess: Float[np.ndarray, " row"],
    between: Callable[[float], float],
    value: float,
) -> float:
    """Return when an excess that falls passes a value; `between` gives it at any time."""
    later = int(np.argmax(excess <= value))
    if later == 0:
        return float(time[0] if excess[0] <= value else time[-1])
    return root(lambda t: between(t) - value, time[later - 1], time[later])


def refined(steps: Float[np.ndarray, " step"], parts: int = 4) -> Float[np.ndarray, " row"]:
    """Return the steps of an integration with times in between, so that no rest is missed."""
    between = steps[:-1, None] + np.arange(parts) / parts * np.diff(steps)[:, None]
    return np.append(between.ravel(), steps[-1])
