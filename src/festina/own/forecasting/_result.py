"""What `forecast` hands out."""

import math
from collections.abc import Callable
from dataclasses import dataclass
from typing import TYPE_CHECKING, Any, Literal

import numpy as np

from ..._axes import axes, styled
from ..shrinking._descent import descend
from ..shrinking._model import model_of
from ..shrinking._narrow import Narrowest
from ._course import Course

if TYPE_CHECKING:
    from matplotlib.axes import Axes

_DESCENT = 500  # steps of a narrow network to its rest, at most

Verdict = Literal["plateau", "settling", "minimum", "no staircase"]


@dataclass(frozen=True, eq=False)
class Forecast:
    """What comes next in a training run, in steps of its optimiser from now.

    - `verdict`: `"plateau"`, a drop is coming; `"settling"`, the loss is still on its way down to
      where it will rest, and a drop may follow; `"minimum"`, it rests and none was seen ahead;
      `"no staircase"`, it goes on falling without a rest.
    - `left`: when a tenth of the coming drop is made, the plateau left; `None` without one.
    - `half`: when half of it is made.
    - `band`: between which `left` lies. Where the look-ahead ended on the plateau or within a
      drop, `left` is not known, and the band goes from when it is not yet left to infinity.
    - `loss`: now, on the samples that were looked at.
    - `plateau`: the level that is left. The present loss is above it while it settles.
    - `level`: of the loss after the drop. The plateau behind it may be a weak one.
    - `metric`: the metric now and where the look-ahead ended; with one, times and band are its.
    - `ahead`: how far was looked.
    - `gradients`: spent, in passes through the samples.
    - `notes`: what was assumed.
    - `course`: the look-ahead itself.
    - `after`: the model where it ended.
    """

    verdict: Verdict
    left: float | None
    half: float | None
    band: tuple[float, float] | None
    loss: float
    plateau: float | None
    level: float | None
    metric: tuple[float, float] | None
    ahead: float
    gradients: float
    notes: tuple[str, ...]
    course: Course
    after: Any

    def __str__(self) -> str:
        lines = [
            self._in_words(),
            f"{self.gradients:.0f} gradients, looked {_steps(self.ahead)} ahead",
        ]
        return "\n".join([*lines, *self.notes])

    def _in_words(self) -> str:
        here, there = f"the loss of {self.loss:.4g}", f"{self.course.loss[-1]:.4g}"
        if self.left is None or self.half is None or self.band is None:
            never = "no end of it was seen"
            if self.band is not None:
                never = f"is not left within {_steps(self.band[0])}"
            return {
                "minimum": f"minimum: the loss rests at {self.loss:.4g}, no drop is coming",
                "settling": f"settling: {here} still falls to {there}; no drop was seen behind it",
                "no staircase": f"no staircase: {here} falls to {there} without a rest",
                "plateau": f"plateau: {here}, {never}",
            }[self.verdict]
        low, high = map(_number, self.band)
        when = f"in {_steps(self.left)} ({low} to {high})"
        if self.band[0] <= 0.0:  # nobody knows when
            when = f"within {high} steps, perhaps in {_number(self.left)}"
        if self.metric is not None:
            a, b = self.metric
            return (
                f"{self.verdict}: the metric of {a:.4g} leaves {when}, is half-way to {b:.4g} in "
                f"{_steps(self.half)}"
            )
        settles = f" falls to {self.plateau:.4g}, which" if self.verdict == "settling" else ""
        return (
            f"{self.verdict}: {here}{settles} is left {when}, half of the drop to "
            f"{self.level:.4g} is made in {_steps(self.half)}"
        )

    def next_level(
        self,
        x: Any,
        y: Any,
        loss: Callable[..., Any],
        *,
        tolerance: float = 0.1,
        apply: Callable[..., Any] | None = None,
    ) -> tuple[float, dict[str, int]]:
        """The level after the drop by the network of the units that it uses then, and how many.

        On a plateau the network does what a narrow one does at rest. The look-ahead ends before the
        loss has come down to it; the narrow network that computes what `after` does is small enough
        to be trained to its rest. It is off by a third of what `level` is, on plateaus of rectified
        and linear units (docs/own-runs.md); only a weak plateau between is missed by both.

        `x`, `y`, `loss` (of outputs and targets), `tolerance` and `apply` as for
        `festina.own.widths`; the model must be one whose hidden layers that can read.
        """
        if self.level is None:
            raise ValueError(f"No drop of the loss is ahead, the verdict is '{self.verdict}'.")
        network = model_of(self.after, x, y, apply)
        found = Narrowest(network).search(tolerance)
        slope = lambda weights: network.slope(weights, network.samples, loss)
        rested = descend(slope, found.weights, network.trained, steps=_DESCENT)
        return slope(rested)[0], found.widths

    def draw(self, ax: "Axes | None" = None, **style: Any) -> "Axes":
        """Draw the predicted loss, or metric, dashed. `style` goes to `Axes.plot`."""
        ax = axes(ax)
        of_metric = self.metric is not None
        values = self.course.metric if of_metric else self.course.loss
        how = styled(style, color="black", lw=1, ls="--", label="predicted")
        ax.plot(self.course.time, values, **how)
        if self.left is not None and self.band is not None:
            low, high = self.band
            end = self.course.time[-1]
            ax.axvspan(low, min(high, end), color="C0", alpha=0.2, lw=0)
            ax.axvline(self.left, color="C0", lw=1, label="plateau left, predicted")
        ax.set(xlabel="steps from now", ylabel="metric" if of_metric else "loss")
        ax.legend(frameon=False)
        return ax


def _steps(value: float) -> str:
    return f"{_number(value)} steps"


def _number(value: float) -> str:
    if not math.isfinite(value):
        return "never"
    digits = 3 - 1 - int(np.floor(np.log10(max(abs(value), 1.0))))
    return f"{round(value, min(digits, 0)):,.0f}"
