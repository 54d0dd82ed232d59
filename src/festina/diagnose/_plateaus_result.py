"""The result of `plateaus`, with its text and its drawing."""

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
_DOUBT = "noise hides whether the loss rests at the last level or falls on as a power of time"
_DECADES = 1.0  # ratio of levels, in decades, above which the loss axis is logarithmic


@dataclass(frozen=True, eq=False, repr=False)
class Plateaus(Result):
    """Result of `plateaus`: the plateaus of one loss curve, and the drops between them.

    A result holds $K$ plateaus, the first and the last level included, and $K - 1$ drops between
    them, in order of time. Levels fall strictly. Times are in the units of the given `times`.

    - `level`: loss at each plateau.
    - `index`: sample that represents the plateau, as an index into the given arrays.
    - `time`: time of that sample.
    - `start`, `end`: start and end of the plateau; see `plateaus`.
    - `strength`: how much slower the loss falls on the plateau than during the slower of the two
      neighbouring drops, in decades. For the first and the last plateau only one drop counts. The
      strength is zero if the record begins or ends within a drop. The strength is NaN if the curve
      has a single level, or if noise hides whether the loss rests at the last level. Strengths from
      the loss alone are smaller, because scatter and round-off hide the slowest motion.
    - `drop_time`: time at which the loss passes the midpoint between two adjacent levels.
    - `rises`: start and end of each lasting rise of the loss, which is skipped (loss alone).
    - `method`: `"gradient"` or `"loss"`, the curve that was used to measure the rate.

    **Example:**

    >>> import numpy as np
    >>> from festina.diagnose import plateaus
    >>> t = np.linspace(0, 20, 401)
    >>> found = plateaus(t, 1 / (1 + np.exp(2 * (t - 5))) + 1 / (1 + np.exp(2 * (t - 14))))
    >>> found.level.round(2), found.drop_time.round(2)
    (array([2., 1., 0.]), array([ 5., 14.]))
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
        """Return the time that the loss stays on each plateau."""
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
        """Return True for levels at which the record begins or ends within a drop.

        The loss does not rest at such a level, so that it is not a plateau.
        """
        return self.strength < AT_SPEED

    @property
    def _doubtful(self) -> bool:
        return len(self) > 1 and bool(np.isnan(self.strength[-1]))

    @property
    def _restless(self) -> bool:
        return len(self) > 1 and bool(self.at_speed.all())

    def _in_words(self) -> list[str]:
        """Return remarks on curves that do not only consist of plateaus and drops."""
        return [*self._without_rest(), *map(self._rise, self.rises)]

    def _rise(self, span: Float[np.ndarray, " 2"]) -> str:
        begin, end = span
        if begin > self.end[-1]:
            return f"from {begin:.6g} on the loss rises; the rise is left out"
        return f"from {begin:.6g} to {end:.6g} the loss rises for a while; the rise is left out"

    def _without_rest(self) -> list[str]:
        """Return remarks on curves that do not rest at their first or last level."""
        if len(self) == 1 and self.start[0] == self.end[0]:
            return ["one sample only: plateaus and drops cannot be found"]
        if len(self) == 1:
            return ["no drop: the loss does not fall, or by too little to count"]
        if self._restless:
            return ["no pause: the loss falls from the first sample to the last"]
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
        """Plot plateaus and drops, on new axes if `ax` is not given.

        The loss axis is logarithmic if levels span more than one decade and no loss is zero.

        **Arguments:**

        - `ax`: axes to draw on.
        - `times`, `loss`: the curve in which the plateaus were found; if given, the curve is
          plotted.
        - `style`: keyword arguments for `Axes.plot` of the curve, or of the plateaus if there is no
          curve.
        """
        ax, lowest, plain = axes(ax), self.level.min(), style
        if times is not None or loss is not None:
            t, l = (np.asarray(part, float) for part in (times, loss))  # noqa: E741
            if t.ndim != 1 or t.shape != l.shape or self.index.max() >= t.size:
                raise ValueError(
                    "`draw` takes the `times` and `loss` that the plateaus were found in, each a "
                    f"sequence of at least {self.index.max() + 1} samples, got shapes "
                    f"{t.shape} and {l.shape}."
                )
            if not np.array_equal(t[self.index], self.time):
                raise ValueError(
                    "`draw` takes the `times` that the plateaus were found in, got other times."
                )
            ax.plot(t, l, **styled(style, color="C0", alpha=0.7, lw=2.0, label="loss"))
            lowest, plain = l.min(), {}
        how = styled(plain, color="black", ls="--", lw=1.0, label="plateaus")
        ax.hlines(self.level, self.start, self.end, **how)
        for k, drop in enumerate(self.drop_time):
            ax.axvline(drop, color="0.5", ls=":", lw=1.0, label=None if k else "drops")
        for k, (begin, end) in enumerate(self.rises):
            ax.axvspan(begin, end, color="C3", alpha=0.15, lw=0, label=None if k else "rise")
        if lowest > 0 and np.log10(self.level.max() / self.level.min()) > _DECADES:
            ax.set_yscale("log")
        ax.set(xlabel="time", ylabel="loss")
        # The legend goes above the axes, because curves cross the whole area inside.
        ax.legend(loc="lower left", bbox_to_anchor=(0.0, 1.0), ncols=4, frameon=False)
        return ax
