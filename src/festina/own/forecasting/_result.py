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

TYPICAL = 150  # gradients of a forecast: medians of kinds of runs are 120 to 210
REHEARSED = 40  # steps of an unstable optimiser, to see whether the loss diverges
DIVERGED = 3.0  # times the loss: it diverges, where at the edge of stability it oscillates
_DESCENT = 500  # steps of a narrow network to its rest, at most

Verdict = Literal[
    "plateau", "settling", "minimum", "noise floor", "unstable", "no staircase", "undecided"
]


@dataclass(frozen=True, eq=False, repr=False)
class Forecast(Result):
    """Result of `forecast`: what comes next in a training run, in steps of its optimiser from now.

    - `verdict`: `"plateau"`, a drop is coming, or the loss rests at a saddle; `"settling"`, the
      loss is still on its way down to where it will rest, and a drop may follow; `"minimum"`, it
      rests and none was seen ahead; `"noise floor"`, the noise of mini-batches hides what is left
      to fall; `"unstable"`, the learning rate is too large for the curvature, and the loss
      oscillates or diverges; `"no staircase"`, it goes on falling without a rest; `"undecided"`,
      training on is cheaper than to look ahead.
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
    - `end`: the loss to be expected where it ended, with the noise of mini-batches.
    - `cost`: steps of the run that take as long as the forecast did, and `price`: as one of its
      gradients does.
    - `noise`: how far above a minimum mini-batches of the size `batch` hold the loss.
    - `curvature`: the largest curvature and the largest stable one, where training is unstable.
      Both are preconditioned for Adam.
    - `rehearsed`: losses of the optimiser's own steps there.
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
        spent = f"{self.gradients:.0f} gradients, looked {_steps(self.ahead)} ahead"
        if self.batch is not None:
            spent += f"; it took as long as about {_steps(self.cost)}"
        return "\n".join([self._in_words(), spent, *self.notes])

    def _in_words(self) -> str:
        if self.left is None or self.half is None or self.band is None:
            return f"{self.verdict}: {self._without_drop()}"
        low, high = (_number(each) for each in self.band)
        when = f"in {_steps(self.left)} ({low} to {high})"
        if self.band[0] <= 0.0:  # nobody knows when
            when = f"within {high} steps, perhaps in {_number(self.left)}"
        if self.metric is not None:
            a, b = self.metric
            moves = "leaves" if self.verdict == "plateau" else "moves without a rest, by a tenth"
            return (
                f"{self.verdict}: the metric of {a:.4g} {moves} {when}, is half-way to {b:.4g} in "
                f"{_steps(self.half)}"
            )
        settles = f" falls to {self.plateau:.4g}, which" if self.verdict == "settling" else ""
        return (
            f"{self.verdict}: the loss of {self.loss:.4g}{settles} is left {when}, half of the "
            f"drop to {self.level:.4g} is made in {_steps(self.half)}"
        )

    def _without_drop(self) -> str:
        """A sentence for each verdict, with its numbers."""
        here, there = f"the loss of {self.loss:.4g}", f"{self.end:.4g}"
        if self.metric is not None and self.verdict != "undecided":
            here = f"the metric of {self.metric[0]:.4g} stays; {here}"
        match self.verdict:
            case "minimum" if abs(self.loss) <= LEAST_OF_ALL * self.course.scale:
                return (
                    f"{here} is less than a thousandth of {self.course.scale:.4g}, that of a "
                    "network of zeros: no drop that counts is left"
                )
            case "minimum":
                return f"{here} rests, no drop is coming"
            case "settling":
                return f"{here} still falls to {there}; no drop was seen behind it"
            case "no staircase" if self.curvature is not None:
                return f"{here} falls to {there} without a rest, and {self._limit()} then"
            case "no staircase":
                return f"{here} falls to {there} without a rest"
            case "plateau":
                until = self.band[0] if self.band else 0.0
                within = f"within {_steps(until)}" if until else "as far as was seen"
                return f"{here} is not left {within}"
            case "noise floor":
                return (
                    f"{here} stays about {there}: the noise of mini-batches of {self.batch} holds "
                    f"it {self.noise:.2g} above a minimum, which hides any fall to come"
                )
            case "unstable":
                return f"{here} {self._instability()}"
        whole = f"{TYPICAL * self.price:,.0f}"
        return (
            f"{here}; training on is cheaper: a gradient takes as long as {_number(self.price)} "
            f"steps of the run, a forecast of about {TYPICAL} gradients as {whole}. It stopped "
            f"{_steps(self.ahead)} ahead at {there}, at the cost of {_number(self.cost)}; "
            "`insist=True` looks on"
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
            f"the largest curvature of {largest:.3g} {exceeds} that which is stable at this "
            f"learning rate, {limit:.3g}"
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
        """The level after the drop by the network of the units that it uses then, and how many.

        On a plateau the network does what a narrow one does at rest. The look-ahead ends before the
        loss has come down to it; the narrow network that computes what `after` does is small enough
        to be trained to its rest. It is off by a third of what `level` is, on plateaus of rectified
        and linear units (docs/guides/own-runs.md); only a weak plateau between is missed by both.

        `x`, `y`, `loss` (of outputs and targets), `tolerance` and `apply` as for
        `festina.diagnose.effective_width`; the model must be one whose hidden layers that can read.
        """
        if self.level is None:
            raise ValueError(f"No drop of the loss is ahead, the verdict is '{self.verdict}'.")
        network = model_of(self.after, x, y, apply)
        found = Narrowest(network).search(tolerance)
        slope = lambda weights: network.slope(weights, network.samples, loss)
        rested = descend(slope, found.weights, network.trained, steps=_DESCENT)
        return slope(rested)[0], found.widths

    def draw(self, ax: "Axes | None" = None, **style: object) -> "Axes":
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
