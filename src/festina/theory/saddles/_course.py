"""Plateaus and drops of a predicted flow, defined as in `festina.diagnose.plateaus`.

A plateau is the point at which the flow is slowest between two drops. A drop is a peak of the rate
of the flow that rises at least half a decade above its surroundings. The flow passes each saddle at
a distance, so the loss on the plateau differs slightly from the loss of the saddle. The returned
levels are the losses of the saddles, and the returned times are the times of the flow. The
uncertainty of the times follows from the difference between the loss on the plateau and the loss of
the saddle.
"""

from collections.abc import Callable
from typing import NamedTuple

import numpy as np
from jaxtyping import Float

from ..._drops import PROMINENCE, log_rate, resting
from ._stairs import Members, Staircase, joining_times, root

# Decades by which the measured and the predicted rate of the loss may differ: a training run that
# is recorded at discrete times misses peaks and valleys by some hundredths of a decade.
_DOUBT = 0.1
# Drops below this fraction of the learnable loss have no reliable time: errors of the predicted
# flow shift these times by several times their value.
_FAINT = 1e-5


class Saddle(NamedTuple):
    """A fixed point that the flow passes."""

    excess: float
    """Loss above the least-squares loss."""
    active: tuple[int, ...]
    slack: float = 0.0
    """Error of the time of the jump from this saddle, from terms that the predictor neglects."""


class Course(NamedTuple):
    """A predicted flow from the initial weights to the last saddle."""

    time: Float[np.ndarray, " row"]
    excess: Float[np.ndarray, " row"]
    squared_gradient: Float[np.ndarray, " row"]
    saddle: Callable[[int], Saddle]
    """The saddle nearest to the flow at a row."""
    passage: Callable[[float], float]
    """The time at which the loss above the least-squares loss passes a value."""

    def staircase(self, members: Members, count: int, floor: float) -> Staircase:
        """Return the staircase of this flow; `count` is the number of all possible members."""
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
        """Return the row of the flow at each plateau, with the saddle nearest to this row.

        A plateau is slower by `prominence` decades than the drops on both sides. Two successive
        plateaus near the same saddle count as one.
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
        """Return the highest and lowest loss while the flow is about as slow as at `row`."""
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
    """Return when the excess loss falls to a value; `between` gives the excess at any time."""
    later = int(np.argmax(excess <= value))
    if later == 0:
        return float(time[0] if excess[0] <= value else time[-1])
    return root(lambda t: between(t) - value, time[later - 1], time[later])


def refined(steps: Float[np.ndarray, " step"], parts: int = 4) -> Float[np.ndarray, " row"]:
    """Return the times of integration steps, with `parts` − 1 additional times within each step.

    The additional times ensure that no plateau is missed.
    """
    between = steps[:-1, None] + np.arange(parts) / parts * np.diff(steps)[:, None]
    return np.append(between.ravel(), steps[-1])
