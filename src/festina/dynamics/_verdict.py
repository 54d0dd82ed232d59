"""Decide whether training has ended, and explain why: the gradient is also small at a saddle."""

import functools
from collections import Counter
from collections.abc import Callable, Sequence
from dataclasses import dataclass, field
from typing import overload

import numpy as np
from jaxtyping import Bool, Float, Int

from .._objective import Objective
from .._precision import float64
from ..networks._structure import AbstractStructure
from ._course import Method
from ._curvature import extreme_curvatures, gain_of_slow_weights, slow_way_out
from ._program import (
    AT_FLOOR,
    FINISHED,
    NOT_FINITE,
    SLIDING,
    STATIONARY,
    STEP_UNDERFLOW,
    Controls,
    State,
)
from ._runge_kutta import runge_kutta_step
from ._stability import cause_of_divergence, restlessness, stability_limit, too_large
from ._trajectory import Ending

_RECENT = 8  # number of last samples that are checked for an oscillating loss
# A slide is at rest if loss and weights change by no more than the second and third number while
# the time grows by the first factor. An exponentially growing unit would then need a thousand times
# the elapsed time to matter.
_LONGER, _SAME_LOSS, _SAME_WEIGHTS = 1.9, 1e-4, 1e-3


@np.errstate(invalid="ignore")  # overflowing weights give NaN
def first_status(
    problem: Objective, state: State, controls: Controls, size: Float[np.ndarray, " lane"]
) -> Int[np.ndarray, " lane"]:
    """Return the initial status of every lane: a network with zero gradient is stationary."""
    status = np.asarray(state.status)
    if not controls.at_stops:
        status = np.where(_at_rest(problem, state, size), STATIONARY, status)
    return np.where(np.isfinite(state.loss + state.rate), status, NOT_FINITE)


def _at_rest(
    problem: Objective, state: State, size: Float[np.ndarray, " lane"]
) -> Bool[np.ndarray, " lane"]:
    """Return which lanes start at a point where the gradient is only rounding error.

    Small weights near a saddle also have a small gradient, of the order of weights times curvature,
    so the gradient is compared with this product.
    """
    speed, norm = np.sqrt(state.rate), np.sqrt(len(state.weights)) * size
    still = np.asarray(speed <= 1e-10 * norm)
    for lane in np.flatnonzero(still):
        ends = extreme_curvatures(problem.structure, state.weights[:, lane], problem.data)
        curvature = np.abs(ends).max()
        still[lane] = speed[lane] <= 1e-12 * curvature * norm[lane]
    return still


class Endings(Sequence[Ending]):
    """Endings of all lanes; each ending is computed when it is first read."""

    def __init__(self, count: int, ending: Callable[[int], Ending]):
        self._count, self._ending = count, functools.cache(float64(ending))

    def __reduce__(self) -> tuple[type, tuple[tuple[Ending, ...]]]:
        return tuple, (tuple(self),)

    def __len__(self) -> int:
        return self._count

    @overload
    def __getitem__(self, index: int) -> Ending: ...
    @overload
    def __getitem__(self, index: slice) -> tuple[Ending, ...]: ...
    def __getitem__(self, index: int | slice) -> Ending | tuple[Ending, ...]:
        lanes = range(self._count)[index]
        if isinstance(lanes, int):
            return self._ending(lanes)
        return tuple(map(self._ending, lanes))

    def __repr__(self) -> str:
        counts = Counter(ending.reason for ending in self).most_common()
        return ", ".join(f"{count} {reason}" for reason, count in counts)

    def __eq__(self, other: object) -> bool:
        return isinstance(other, Sequence) and tuple(self) == tuple(other)


@dataclass(frozen=True)
class Verdict:
    """Judge lanes whose gradient is small, and describe how every lane ended."""

    problem: Objective
    method: Method
    controls: Controls
    standstills: dict[int, Ending] = field(default_factory=dict)
    looks: dict[int, tuple[float, float, np.ndarray]] = field(default_factory=dict)

    def goes_on(self, lane: int, state: State) -> bool:
        """Return whether a lane with a small gradient trains on, and record its ending if not."""
        judged = self._on_kinks if state.status == SLIDING else self._at_standstill
        ending = judged(lane, state)
        if ending is not None:
            self.standstills[lane] = ending
        return ending is None

    def endings(
        self,
        last: State,
        initial: Float[np.ndarray, "weight lane"],
        times: Float[np.ndarray, "lane save"],
        losses: Float[np.ndarray, "lane save"],
        saves: Int[np.ndarray, " lane"],
    ) -> Endings:
        """Return the ending of every lane; losses at samples show whether the loss oscillated."""

        def ended(lane: int) -> Ending:
            state, controls = last.of(lane), self.controls
            pace = float(controls.learning_rate[lane]), float(controls.momentum[lane])
            if state.status in (STATIONARY, SLIDING):
                ending = self.standstills[lane]
            else:
                seen = np.append(losses[lane, : saves[lane]], state.loss)
                when = np.append(times[lane, : saves[lane]], state.time)
                ending = self._ending(state, pace, when, seen, initial[:, lane])
            return Ending(ending.reason, ending.message + self._remarks(state))

        return Endings(len(saves), ended)

    def _at_standstill(self, lane: int, state: State) -> Ending | None:
        """Return the ending at a point with a small gradient, or None if training goes on.

        Training goes on at a saddle whose most negative curvature leads away within a thousand
        times the elapsed time. Near a minimum the residual also causes negative curvature, which
        leads nowhere in a thousand times the elapsed time. At a saddle with a slower escape the run
        ends with the reason `"saddle"`.
        """
        speed = float(self.controls.speed[lane])
        elapsed = float(state.time) * speed
        smallest, largest = extreme_curvatures(
            self.problem.structure, state.weights, self.problem.data
        )
        if elapsed == 0.0:
            saddle = smallest < 0.0
            kind = f"a saddle of curvature {smallest:.3g}" if saddle else "a stationary point"
            return Ending(
                "saddle" if saddle else "stationary",
                f"The gradient is zero up to rounding: the network starts at {kind} and does not "
                "move.",
            )
        if not -smallest * elapsed <= 1e-3:  # also true if the curvature is NaN
            return None
        if smallest == largest == 0.0:
            return Ending(
                "stationary",
                "Gradient and curvature are zero: no unit responds to any sample any more. Use "
                "smaller initial weights, or a smaller learning rate in gradient descent.",
            )
        point = self.problem.structure, np.asarray(state.weights), self.problem.data
        way = slow_way_out(*point) if smallest < 0.0 else None
        if way is None:
            if gain_of_slow_weights(*point, elapsed) > self.controls.gain_tolerance[lane]:
                return None
            return Ending(
                "converged",
                f"Training reached a minimum: the gradient is {np.sqrt(state.rate):.3g}, and no "
                "descent direction would matter within a thousand times the elapsed time.",
            )
        after, until = way[1] / speed, self.controls.stops[-1]
        if np.isfinite(until) and state.time + after < until:
            return None
        when, more = f"{after:.3g} steps", "more `steps`"
        if self.method.continuous:
            when, more = f"t = {after:.3g}", "a later `t_end`"
        return Ending(
            "saddle",
            f"Training stopped at a saddle that it would leave at rate {way[0]:.3g}, in about "
            f"{when}. Training waits at a saddle for up to a thousand times the elapsed time, "
            f"{state.time:.6g}; use {more} to continue.",
        )

    def _on_kinks(self, lane: int, state: State) -> Ending | None:
        """Return the ending of a lane that slides along kinks, or None if training goes on.

        On kinks the gradient does not vanish. The lane is at rest if its loss and every row and
        column of its weights stayed nearly constant while the time doubled. Any unit that still
        grows, however small, keeps the lane running.
        """
        now, loss, weights = float(state.time), float(state.loss), np.array(state.weights)
        since, loss_before, weights_before = self.looks.setdefault(lane, (now, loss, weights))
        if now < _LONGER * since:
            return None
        self.looks[lane] = now, loss, weights
        change = abs(loss - loss_before)
        move = _largest_move(self.problem.structure, weights_before, weights)
        if not (change <= _SAME_LOSS * loss and move <= _SAME_WEIGHTS):
            return None
        return Ending(
            "converged",
            f"At rest on kinks: from time {since:.6g} to {now:.6g} the loss changed by a fraction "
            f"of {change / loss:.1g}, and no unit's weights by a fraction above {move:.1g}. Set "
            "`t_end` to train further.",
        )

    def _ending(
        self,
        state: State,
        pace: tuple[float, float],  # learning rate and momentum
        times: Float[np.ndarray, " save"],
        losses: Float[np.ndarray, " save"],
        start: Float[np.ndarray, " weight"],
    ) -> Ending:
        where = f"time {state.time:.6g}" if self.method.continuous else f"step {state.time:.0f}"
        loss = state.loss + self.problem.floor
        if state.status == AT_FLOOR:
            return Ending(
                "converged",
                f"At {where} the loss came within {state.loss:.3g} of its lowest possible value.",
            )
        if state.status == FINISHED:
            restless = self._restless(state, pace, losses)
            return Ending("finished", f"Training ran to {where} as requested{restless or '.'}")
        if state.status == STEP_UNDERFLOW:
            return Ending(
                "step underflow",
                f"At {where}, loss {loss:.6g}, even the smallest step exceeded the tolerance. Use "
                "a larger `rtol` to get past a kink.",
            )
        if not np.isfinite(state.loss + state.rate):
            return Ending("diverged", "The initial weights are so large that the loss overflows.")
        if state.status == NOT_FINITE:
            cause = cause_of_divergence(self.problem, start, *pace)
            return Ending("diverged", f"The loss is not finite after {where}. {cause}")
        return Ending(
            "out of steps",
            f"Training stopped after {state.steps:.0f} steps at {where}, loss {loss:.6g}, "
            + self._what_goes_on(state, pace, times, losses, start),
        )

    def _restless(
        self, state: State, pace: tuple[float, float], losses: Float[np.ndarray, " save"]
    ) -> str:
        """Return a text if the loss oscillates because steps are too large, or `""` if not."""
        recent = losses[-_RECENT:]
        if self.method.continuous or not (_rises(recent) and (np.diff(recent) < 0).any()):
            return ""
        words = restlessness(self.problem, np.asarray(state.weights), *pace)
        return f", {words}" if words else ""

    def _what_goes_on(
        self,
        state: State,
        pace: tuple[float, float],
        times: Float[np.ndarray, " save"],
        losses: Float[np.ndarray, " save"],
        start: Float[np.ndarray, " weight"],
    ) -> str:
        """Return a text that says why the steps did not suffice, and what would help."""
        if state.loosest > 1.0:
            near = times[np.argmax(losses <= 1.01 * state.loss)]
            return (
                "because sliding along kinks takes short steps. The loss came within 1 % of this "
                f"value at time {near:.4g}: if that is enough, set `t_end` to this time. The loss "
                "may still drop later. A larger `max_steps` follows the slide further; a larger "
                "`rtol` hardly helps."
            )
        if not self.method.continuous and _rises(losses):
            rate, momentum = pace
            limit = stability_limit(self.problem, start, momentum)
            if rate > limit:
                once = "" if _rises(losses[-_RECENT:]) else "after "
                return f"{once}going up and down. {too_large(rate, limit, momentum)}"
        ends = "" if np.isfinite(self.controls.stops[-1]) else " or a time to end at"
        smooth = self.method.step is runge_kutta_step
        if smooth:
            point = self.problem.structure, np.asarray(state.weights), self.problem.data
            sharpness = extreme_curvatures(*point)[1]
            if sharpness * state.step_size > 1.0:
                return (
                    f"because the largest curvature, {sharpness:.3g}, limits explicit steps to "
                    f"{state.step_size:.3g}. `solver='implicit'` takes longer steps."
                )
        return (
            f"still learning slowly. A larger `converged`{ends} costs less than more `max_steps`."
            + " `solver='implicit'` may also cost less." * smooth
        )

    def _remarks(self, state: State) -> str:
        remarks = ""
        if self.method.solver == "implicit":
            remarks += f" It took {state.steps:.0f} implicit step{'s' * int(state.steps != 1)}."
        if state.loosest > 1.0:
            remarks += (
                " It slid along kinks, where the tolerance was increased by a factor of up to "
                f"{state.loosest:.3g}."
            )
        return remarks


def _largest_move(
    structure: AbstractStructure,
    before: Float[np.ndarray, " weight"],
    now: Float[np.ndarray, " weight"],
) -> float:
    """Return the largest change of a row or column of weights, relative to its norm."""
    most = 0.0
    for old, new in zip(structure.arrays(before), structure.arrays(now), strict=True):
        for axis in range(new.ndim):
            over = tuple(other for other in range(new.ndim) if other != axis)
            change, norm = (np.sqrt(np.sum(part**2, axis=over)) for part in (new - old, new))
            most = max(most, np.max(change / np.where(change > 0, norm, 1.0), initial=0.0))
    return float(most)


def _rises(losses: Float[np.ndarray, " save"]) -> bool:
    """Return whether the loss rises between any two samples, by more than rounding."""
    return bool((np.diff(losses) > 1e-6 * losses[1:]).any())
