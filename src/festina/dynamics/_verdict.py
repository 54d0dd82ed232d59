"""Why a trajectory ended, and whether it did: a small gradient may be a saddle on the way."""

from dataclasses import dataclass, field

import numpy as np
from jaxtyping import Bool

from .._objective import Objective
from ._course import Method
from ._curvature import extreme_curvatures, slow_way_out
from ._logbook import Logbook
from ._program import (
    AT_FLOOR,
    FINISHED,
    NOT_FINITE,
    STATIONARY,
    STEP_UNDERFLOW,
    Controls,
    State,
)
from ._stability import cause_of_divergence, restlessness, stability_limit, too_large
from ._trajectory import Ending


def at_rest(problem: Objective, state: State) -> Bool[np.ndarray, " lane"]:
    """Which lanes start where the gradient is nothing but rounding.

    Small weights near a saddle have a small gradient too, of the order of weights times curvature.
    """
    square = np.sum(np.square(state.weights), axis=0)
    still = np.asarray(state.rate) <= 1e-20 * square
    for lane in np.flatnonzero(still):
        ends = extreme_curvatures(problem.structure, state.weights[:, lane], problem.data)
        curvature = np.abs(ends).max()
        still[lane] = state.rate[lane] <= (1e-12 * curvature) ** 2 * square[lane]
    return still


@dataclass(frozen=True)
class Verdict:
    """Judges every lane that stops, and keeps how it ended."""

    problem: Objective
    method: Method
    controls: Controls
    endings: dict[int, Ending] = field(default_factory=dict)

    def __call__(self, lane: int, status: int, book: Logbook) -> bool:
        """Whether the lane is over."""
        if status == STATIONARY:
            ending = self._at_standstill(lane, book)
        else:
            ending = self._ending(lane, status, book)
        if ending is None:
            # On the way past a saddle: go on, and ask again at a tenth of this gradient.
            self.controls.gain_tolerance[lane] *= 1e-2
            return False
        self.endings[lane] = Ending(ending.reason, ending.message + self._remarks(lane, book))
        return True

    def _at_standstill(self, lane: int, book: Logbook) -> Ending | None:
        """Is a point with a small gradient a minimum, or a saddle on the way (None)?

        A saddle on the way is one that would be left, at the rate of its most negative curvature,
        within a thousand times the time elapsed. Near a minimum there is negative curvature too, in
        proportion to what is left of the residual, but it leads nowhere in such a time. A saddle
        that is left later is said to be one.
        """
        time, _, rate = book.latest[:, lane]
        ticks = float(time + self.controls.elapsed[lane])
        speed = float(self.controls.speed[lane])
        elapsed = ticks * speed
        smallest, largest = extreme_curvatures(
            self.problem.structure, book.weights[:, lane], self.problem.data
        )
        if elapsed == 0.0:
            saddle = smallest < 0.0
            kind = f"a saddle of curvature {smallest:.3g}" if saddle else "a stationary point"
            return Ending(
                "saddle" if saddle else "stationary",
                f"The gradient is zero to rounding: the network starts on {kind} and does not "
                "move.",
            )
        if -smallest * elapsed > 1e-3:
            return None
        if smallest == largest == 0.0:
            return Ending(
                "stationary",
                "Gradient and curvature are zero: no unit responds to any sample any more. Smaller "
                "weights, and in descent a smaller learning rate, keep them alive.",
            )
        weights, data = book.weights[:, lane], self.problem.data
        way = slow_way_out(self.problem.structure, weights, data) if smallest < 0.0 else None
        if way is None:
            return Ending(
                "converged",
                f"A minimum: gradient {np.sqrt(rate):.3g} and no way out within a thousand times "
                "the time so far.",
            )
        after = way[1] / speed
        when, more = f"{after:.3g} steps", "a smaller `converged`"
        if self.method.continuous:
            when, more = f"t = {after:.3g}", "`times`"
        return Ending(
            "saddle",
            f"A saddle, left at rate {way[0]:.3g}, in about {when}. That is slower than training "
            f"goes on by itself, which is up to a thousand times the {ticks:.6g} so far: ask for "
            f"{more} to see it.",
        )

    def _ending(self, lane: int, status: int, book: Logbook) -> Ending:
        time, excess, _ = book.latest[:, lane]
        where = f"time {time:.6g}" if self.method.continuous else f"step {time:.0f}"
        loss = excess + self.problem.floor
        if status == AT_FLOOR:
            return Ending(
                "converged",
                f"At {where} the loss came within {excess:.3g} of the lowest possible one.",
            )
        if status == FINISHED:
            restless = self._restless(lane, book)
            return Ending("finished", f"Ran to {where} as asked{restless or '.'}")
        if status == STEP_UNDERFLOW:
            return Ending(
                "step underflow",
                f"At {where}, loss {loss:.6g}, no step was small enough for the tolerance asked "
                "for. A looser `rtol` gets past a kink.",
            )
        if status == NOT_FINITE:
            start, rate = book.initial_weights(lane), self._learning_rate(lane)
            cause = cause_of_divergence(self.problem, start, rate, self._momentum(lane))
            return Ending("diverged", f"Not finite after {where}. {cause}")
        return Ending(
            "out of steps",
            f"Stopped after {book.steps[lane]} steps at {where}, loss {loss:.6g}, "
            + self._what_goes_on(lane, book),
        )

    def _restless(self, lane: int, book: Logbook) -> str:
        """That the loss does not rest because steps are too large; nothing where it does."""
        if self.method.continuous or not book.goes_up_and_down(lane):
            return ""
        rate, momentum = self._learning_rate(lane), self._momentum(lane)
        words = restlessness(self.problem, book.weights[:, lane], rate, momentum)
        return f", {words}" if words else ""

    def _what_goes_on(self, lane: int, book: Logbook) -> str:
        """Why so many steps did not suffice, and what would."""
        if book.slack[lane] > 1.0:
            return (
                "short ones, because of kinks: a looser `rtol` gets further than more `max_steps`."
            )
        if not self.method.continuous and book.has_gone_up(lane):
            rate, momentum = self._learning_rate(lane), self._momentum(lane)
            limit = stability_limit(self.problem, book.initial_weights(lane), momentum)
            if rate > limit:
                now = "going up and down. " if book.goes_up(lane) else "after going up and down. "
                return now + too_large(rate, limit, momentum)
        return (
            "still learning slowly: a larger `converged` or a time to end at are cheaper than more "
            "`max_steps`." + " So may be `solver='implicit'`." * self.method.continuous
        )

    def _remarks(self, lane: int, book: Logbook) -> str:
        remarks = ""
        if self.method.solver == "implicit":
            count = int(book.steps[lane])
            remarks += f" It took {count} implicit step{'s' * (count != 1)}."
        if book.slack[lane] > 1.0:
            remarks += (
                " It slid along kinks on the way, where the tolerance was loosened up to "
                f"{book.slack[lane]:.3g}-fold."
            )
        return remarks

    def _momentum(self, lane: int) -> float:
        return float(self.controls.momentum[lane])

    def _learning_rate(self, lane: int) -> float:
        return float(self.controls.learning_rate[lane])
