"""`Forecast`, the result of `forecast`."""

import math
from dataclasses import dataclass, field
from typing import TYPE_CHECKING, Annotated, Any, Literal

import numpy as np

from ..._axes import axes, styled
from ..._narrowing._descent import descend
from ..._narrowing._model import model_of
from ..._narrowing._narrow import Narrowest
from ..._narrowing._pytorch import Function
from ..._result import Result
from ...diagnose._width import TOLERANCE
from ._course import LEAST_OF_ALL, Course

if TYPE_CHECKING:
    from matplotlib.axes import Axes

TYPICAL = 150  # gradients of a typical forecast: medians are 120 to 210 for several kinds of runs
REHEARSED = 40  # steps of an unstable optimiser that show whether the loss diverges
DIVERGED = 3.0  # a loss above this multiple diverges; at the edge of stability it oscillates
_DESCENT = 500  # most steps that train a narrow network until its loss rests

Verdict = Literal[
    "plateau", "settling", "minimum", "noise floor", "unstable", "no staircase", "undecided"
]


@dataclass(frozen=True, eq=False, repr=False)
class Forecast(Result):
    """Result of `forecast`: the next drop of a training run, in optimiser steps from now.

    - `verdict`: one of these words.
      `"plateau"`: a drop is coming, or the loss rests at a saddle.
      `"settling"`: the loss still falls towards a plateau, and a drop may follow.
      `"minimum"`: the loss rests, and no drop was found ahead.
      `"noise floor"`: the noise of mini-batches hides any further fall.
      `"unstable"`: the learning rate is too large for the curvature, and the loss oscillates or
      diverges.
      `"no staircase"`: the loss keeps falling without a pause.
      `"undecided"`: training is cheaper than looking ahead.
    - `left`: step at which the plateau is left, when a tenth of the coming drop is made; `None`
      without a drop.
    - `half`: step at which half of the drop is made.
    - `band`: interval that contains `left`. If the look-ahead ended on the plateau or within a
      drop, `left` is unknown, and the band goes from the last step on the plateau to infinity.
    - `loss`: present loss on the samples of the forecast.
    - `plateau`: level of the present plateau. While the loss settles, it is above the level of its
      plateau.
    - `level`: level of the loss after the drop. The plateau after the drop may be weak.
    - `metric`: the metric now and at the end of the look-ahead; if given, `left`, `half` and `band`
      refer to the metric.
    - `ahead`: length of the look-ahead in steps.
    - `gradients`: number of gradients, in passes through the samples.
    - `notes`: assumptions of the forecast.
    - `course`: time, loss and speed along the look-ahead.
    - `after`: the model at the end of the look-ahead.
    - `end`: expected loss at the end of the look-ahead, with the noise of mini-batches.
    - `cost`: duration of the forecast, in steps of the run.
    - `price`: duration of one gradient of the forecast, in steps of the run.
    - `noise`: height above a minimum at which mini-batches of size `batch` hold the loss.
    - `curvature`: the largest curvature and the largest stable curvature, if training is unstable.
      For Adam both curvatures are preconditioned.
    - `rehearsed`: losses of the optimiser's own steps at the end of an unstable look-ahead.

    **Example:**

    >>> from festina.own import Forecast
    >>> times = dict(left=90.0, half=118.0, band=(64.0, 116.0))
    >>> found = Forecast("plateau", **times, loss=0.34, level=0.003)
    >>> print(found)
    plateau: the loss leaves 0.34 in 90 steps (64 to 116);
    half of the drop to 0.003 is made in 118 steps
    looked 0 steps ahead with 0 gradients
    """

    verdict: Verdict
    left: float | None = None
    half: float | None = None
    band: tuple[float, float] | None = None
    loss: float = math.nan
    plateau: float | None = None
    level: float | None = None
    metric: tuple[float, float] | None = None
    ahead: float = 0.0
    gradients: float = 0.0
    notes: tuple[str, ...] = ()
    course: Course = field(default_factory=Course)
    after: Any = None
    end: float = math.nan
    cost: float = 0.0
    price: float = 1.0
    noise: float = 0.0
    batch: int | None = None
    curvature: tuple[float, float] | None = None
    rehearsed: Annotated[tuple[float, ...], "rehearsal"] = ()

    def __str__(self) -> str:
        spent = f"looked {_steps(self.ahead)} ahead with {self.gradients:.0f} gradients"
        if self.batch is not None:
            spent += f", in the time of about {_steps(self.cost)} of the run"
        return "\n".join([self._in_words(), spent, *self.notes])

    def _in_words(self) -> str:
        if self.left is None or self.half is None or self.band is None:
            return f"{self.verdict}: {self._without_drop()}"
        low, high = (_number(each) for each in self.band)
        when = f"in {_steps(self.left)} ({low} to {high})"
        if self.band[0] <= 0.0:  # the lower limit is unknown
            when = f"within {high} steps, perhaps in {_number(self.left)}"
        if self.metric is not None:
            a, b = self.metric
            moves = "leaves" if self.verdict == "plateau" else "moves without a pause from"
            return (
                f"{self.verdict}: the metric {moves} {a:.4g}, by a tenth of its way to {b:.4g} "
                f"{when}, and by half of its way in {_steps(self.half)}"
            )
        leaves = f"leaves {self.loss:.4g}"
        if self.verdict == "settling":
            leaves = f"of {self.loss:.4g} falls to {self.plateau:.4g}, and leaves that plateau"
        return (
            f"{self.verdict}: the loss {leaves} {when}; half of the drop to {self.level:.4g} is "
            f"made in {_steps(self.half)}"
        )

    def _without_drop(self) -> str:
        """Return the sentence of a verdict without a drop, with its numbers."""
        here, there = f"the loss of {self.loss:.4g}", f"{self.end:.4g}"
        if self.metric is not None and self.verdict != "undecided":
            here = f"the metric of {self.metric[0]:.4g} stays; {here}"
        match self.verdict:
            case "minimum" if abs(self.loss) <= LEAST_OF_ALL * self.course.scale:
                return (
                    f"{here} is less than a thousandth of {self.course.scale:.4g}, the loss at "
                    "zero weights: no further drop counts"
                )
            case "minimum":
                return f"{here} rests, and no drop is coming"
            case "settling":
                return f"{here} still falls to {there}; no drop was found after that"
            case "no staircase" if self.curvature is not None:
                return f"{here} falls to {there} without a pause; then {self._limit()}"
            case "no staircase":
                return f"{here} falls to {there} without a pause"
            case "plateau":
                until = self.band[0] if self.band else 0.0
                within = f"within {_steps(until)}" if until else "within the look-ahead"
                return f"{here} does not drop {within}"
            case "noise floor":
                return (
                    f"{here} stays about {there}: the noise of mini-batches of {self.batch} holds "
                    f"the loss {self.noise:.2g} above a minimum and hides any further fall"
                )
            case "unstable":
                return f"{here} {self._instability()}"
        whole = f"{TYPICAL * self.price:,.0f}"
        return (
            f"{here}; training on is cheaper: a gradient takes as long as {_number(self.price)} "
            f"steps of the run, and a forecast of about {TYPICAL} gradients as long as {whole} "
            f"steps. The forecast stopped {_steps(self.ahead)} ahead at the loss {there}, and took "
            f"as long as {_number(self.cost)} steps; `insist=True` looks further ahead"
        )

    def _instability(self) -> str:
        seen = self.rehearsed or self.course.loss
        count, last = float(len(seen)) if self.rehearsed else self.ahead, seen[-1]
        does = f"oscillates between {min(seen):.4g} and {max(seen):.4g} in {_steps(count)}"
        if last > DIVERGED * max(self.loss, seen[0]) or 0 < len(self.rehearsed) < REHEARSED:
            does = f"diverges, to {last:.4g} in {_steps(count)}"
        if self.curvature is None:
            return does
        when = f", in {_steps(self.ahead)} at {self.course.loss[-1]:.4g}" if self.ahead else ""
        return f"{does}: {self._limit()}{when}"

    def _limit(self) -> str:
        assert self.curvature is not None
        largest, limit = self.curvature
        exceeds = "exceeds" if largest > limit else "is close to"
        return (
            f"the largest curvature of {largest:.3g} {exceeds} the largest stable curvature "
            f"{limit:.3g} at this learning rate"
        )

    def next_level(
        self,
        x: object,
        y: object,
        loss: Function,
        *,
        tolerance: float = TOLERANCE,
        apply: Function | None = None,
    ) -> tuple[float, dict[str, int]]:
        """Return the level of the next plateau, and the effective width of each layer there.

        On a plateau the network computes the same as a narrow network at rest. The look-ahead ends
        before the loss has reached the next plateau, so this method shrinks the model `after` and
        trains the narrow network until its loss rests. For ReLU and linear units the error of
        `next_level` is a third of the error of `level` (docs/guides/own-runs.md). `next_level` and
        `level` may skip weak plateaus.

        The arguments `x`, `y`, `loss` (of outputs and targets), `tolerance` and `apply` are those
        of `festina.diagnose.effective_width`, which must recognise the hidden layers of the model.
        """
        if self.level is None:
            raise ValueError(
                f"No drop of the loss is ahead, because the verdict is '{self.verdict}': there is "
                "no next level."
            )
        network = model_of(self.after, x, y, apply)
        found = Narrowest(network).search(tolerance)
        slope = lambda weights: network.slope(weights, network.samples, loss)
        rested = descend(slope, found.weights, network.trained, steps=_DESCENT)
        return slope(rested)[0], found.widths

    def draw(self, ax: "Axes | None" = None, **style: object) -> "Axes":
        """Plot the predicted loss, or metric, as a dashed line. `style` goes to `Axes.plot`."""
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
