"""The result of `plateaus`, its words and its drawing."""

from dataclasses import dataclass
from typing import TYPE_CHECKING, Any, Literal

import numpy as np
from jaxtyping import Bool, Float, Int

from .._axes import axes, styled
from .._result import Result
from .._types import ArrayLike

if TYPE_CHECKING:
    from matplotlib.axes import Axes

AT_SPEED = 0.05  # strength below which the record begins or ends within a drop
_DOUBT = "noise hides whether the last level is a rest, or the loss falls on as a power of time"
_DECADES = 1.0  # between levels, from which on the lower ones could not be told apart


@dataclass(frozen=True, eq=False, repr=False)
class Plateaus(Result):
    """Result of `plateaus`: the plateaus of one trajectory, with the initial and the final one.

    There are $K$ plateaus and $K - 1$ drops between them, in the order of time, with strictly
    falling levels. Times are in the units of the `times` that were given.

    - `level`: loss at each plateau.
    - `index`: the sample that stands for it, counted in the arrays that were given.
    - `time`: the time of that sample.
    - `start`, `end`: the trajectory is on the plateau between these; see `plateaus`.
    - `strength`: decades by which it moves more slowly there than at the slower of the two
      neighbouring drops (the only one, for the first and the last plateau). It is zero if the
      record begins or ends within a drop, and NaN if the curve has one level only or noise hides
      whether the loss rests at the last level. Judged by the loss alone, strengths are lower,
      because scatter and round-off hide the slowest motion.
    - `drop_time`: when the loss passes the middle between two adjacent levels.
    - `rises`: from when to when the loss lastingly rises, which is passed over (loss alone).
    - `method`: what slowness was judged by, `"gradient"` or `"loss"`.
    """

    level: Float[np.ndarray, " plateau"]
    index: Int[np.ndarray, " plateau"]
    time: Float[np.ndarray, " plateau"]
    start: Float[np.ndarray, " plateau"]
    end: Float[np.ndarray, " plateau"]
    strength: Float[np.ndarray, " plateau"]
    drop_time: Float[np.ndarray, " fall"]
    rises: Float[np.ndarray, "rise side=2"]
    method: Literal["gradient", "loss"]

    def __len__(self) -> int:
        return len(self.level)

    @property
    def duration(self) -> Float[np.ndarray, " plateau"]:
        """How long the trajectory stays on each plateau."""
        return self.end - self.start

    def __str__(self) -> str:
        rests = len(self) - int(self.at_speed.sum()) - self._doubtful
        many = f"{rests or 'no'} plateau{'s' if rests > 1 else ''}"
        many += " and one in doubt" * self._doubtful
        count = f"{many}, judged by the {self.method}"
        rows = [f"{'level':>12} {'from':>11} {'to':>11} {'strength':>9}   then drops at"]
        drops = [f"{drop:.6g}" for drop in self.drop_time] + [""]
        for k, drop in enumerate(drops):
            span = f"{self.start[k]:11.6g} {self.end[k]:11.6g}"
            if self.at_speed[k]:
                span = f"{'—':>11} {'—':>11}"
            row = f"{self.level[k]:12.6g} {span} {self.strength[k]:9.2f}   {drop}"
            rows.append(row.rstrip())
        return "\n".join([count, *rows, *self._in_words()])

    @property
    def at_speed(self) -> Bool[np.ndarray, " plateau"]:
        """Whether a row is no plateau: the record begins or ends within a drop at its level."""
        return self.strength < AT_SPEED

    @property
    def _doubtful(self) -> bool:
        return len(self) > 1 and bool(np.isnan(self.strength[-1]))

    @property
    def _restless(self) -> bool:
        return len(self) > 1 and bool(self.at_speed.all())

    def _in_words(self) -> list[str]:
        """What is to be said of curves that are not all plateaus and drops."""
        return [*self._without_rest(), *map(self._rise, self.rises)]

    def _rise(self, span: Float[np.ndarray, " 2"]) -> str:
        begin, end = span
        if begin > self.end[-1]:
            return f"from {begin:.6g} on the loss rises, which is no part of the staircase"
        return f"from {begin:.6g} to {end:.6g} the loss rises for a while, which is passed over"

    def _without_rest(self) -> list[str]:
        """What curves without a plateau in the proper sense are."""
        if len(self) == 1 and self.start[0] == self.end[0]:
            return ["one moment only: neither a plateau nor a drop can be told"]
        if len(self) == 1:
            return ["no drop: the loss does not fall, or by too little to count"]
        if self._restless:
            return ["no rest: the loss falls from the first sample to the last"]
        at_speed = self.at_speed
        begins = ["the record begins within a drop"] if at_speed[0] else []
        ends = ["the record ends within a drop"] if at_speed[-1] else []
        doubt = [_DOUBT] if self._doubtful else []
        return begins + ends + doubt

    def draw(
        self,
        ax: "Axes | None" = None,
        *,
        times: ArrayLike | None = None,
        loss: ArrayLike | None = None,
        **style: Any,
    ) -> "Axes":
        """Draw plateaus and drops; on new axes if none are given.

        `times` and `loss` are the curve that they were found in, which is drawn too. `style` goes
        to `Axes.plot` for the curve, or to the plateaus without one.

        The axis of the loss is logarithmic where levels differ by more than one decade and no
        loss is zero.
        """
        ax, lowest, plain = axes(ax), self.level.min(), style
        if times is not None or loss is not None:
            t, l = (np.asarray(part, float) for part in (times, loss))  # noqa: E741
            if t.ndim != 1 or t.shape != l.shape or self.index.max() >= t.size:
                raise ValueError(
                    "`draw` takes the `times` and `loss` that the plateaus were found in, one "
                    f"sequence of at least {self.index.max() + 1} samples each: got shapes "
                    f"{t.shape} and {l.shape}."
                )
            if not np.array_equal(t[self.index], self.time):
                raise ValueError(
                    "`draw` takes the `times` that the plateaus were found in, got others."
                )
            ax.plot(t, l, **styled(style, color="C0", alpha=0.7, lw=2.0, label="loss"))
            lowest, plain = l.min(), {}
        how = styled(plain, color="black", ls="--", lw=1.0, label="plateaus")
        ax.hlines(self.level, self.start, self.end, **how)
        for k, drop in enumerate(self.drop_time):
            ax.axvline(drop, color="0.5", ls=":", lw=1.0, label=None if k else "drops")
        for k, (begin, end) in enumerate(self.rises):
            ax.axvspan(begin, end, color="C3", alpha=0.15, lw=0, label=None if k else "passed over")
        if lowest > 0 and np.log10(self.level.max() / self.level.min()) > _DECADES:
            ax.set_yscale("log")
        ax.set(xlabel="time", ylabel="loss")
        # Above the axes: within them there is no place that no curve passes.
        ax.legend(loc="lower left", bbox_to_anchor=(0.0, 1.0), ncols=4, frameon=False)
        return ax
