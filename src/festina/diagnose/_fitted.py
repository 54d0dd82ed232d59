"""How few units suffice at all: narrow networks fitted to what a wide one computes."""

import dataclasses
import math
from collections.abc import Callable, Iterator, Mapping
from dataclasses import dataclass
from typing import NamedTuple

import numpy as np
from jaxtyping import Float

from .._numerics._bfgs import Point, bfgs
from .._objective import Data
from .._precision import float64
from .._types import ArrayLike
from ..networks import Layer
from ..tasks import AbstractTask
from ..theory.saddles._loss_function import loss_function, relative_slope
from ..theory.saddles._manifolds import unit_rows
from ..theory.saddles._responses import OnData
from ._given import task_of
from ._width import EffectiveWidth, check_tolerance

_NUDGE = 0.01
"""Of the weights, at each start: one of two heads alone may stand on a saddle of the fit."""


@dataclass(frozen=True, eq=False)
class FittedWidth:
    """How few units were found to compute the same when their weights are free.

    - `width`: the fewest units whose outputs come within the tolerance; never more than
      `merged.width`.
    - `error`: root mean square of what is between the two, as a fraction of `merged.scale`.
    - `reduced`: the network of so few units, which `festina.diagnose.confirm` takes as well; None
      where no unit is needed.
    - `tried`: the error of every width that was tried, of the first fit within the tolerance or
      else the best.
    - `complete`: whether nothing narrower is left to be tried. It is not, where fits would have
      more weights than allowed.
    - `merged`: the answer by kinds of saddles, with which the search began.
    - `fits`: what was fitted, for other tolerances.
    """

    width: int
    error: float
    reduced: Layer | None
    tried: Mapping[int, float]
    complete: bool
    merged: EffectiveWidth
    fits: "Fits"

    @property
    def fewer(self) -> bool:
        """Whether fewer units do than those that merge."""
        return self.width < self.merged.width

    @property
    def short(self) -> float:
        """What the best network of one unit less leaves; NaN where none has been fitted."""
        if self.width == 1:
            return float(self.merged.narrowings[0].error[0])
        return self.tried.get(self.width - 1, math.nan)

    def at(self, tolerance: float) -> "FittedWidth":
        """The answer for another tolerance; what has been fitted is not fitted again."""
        check_tolerance(tolerance)
        return _search(self.fits, self.merged.at(tolerance))

    def __str__(self) -> str:
        found = (
            f"{_units(self.width)} fitted, error {self.error:.2g}, for {self.merged.width} merged"
            if self.fewer
            else f"{_units(self.width)}" + ", fits find no fewer" * bool(self.tried)
        )
        left = f"; with one less the error is {self.short:.2g}" if self.short >= 0 else ""
        return found + left + ("" if self.complete else "; wider fits exceed `max_weights`")


def fitted_width(
    found: EffectiveWidth,
    data: AbstractTask | ArrayLike,
    *,
    starts: int = 3,
    max_weights: int = 2048,
    max_steps: int = 200,
) -> FittedWidth:
    r"""The fewest units that compute the same, whether or not units of the wide network merge.

    The kinds of Theorem 1 of Zhang, Saxe & Latham are not all the ways in which several units do
    what fewer could. Heads of linear attention that share their query q,

    $$\sum_i v_i^\top S k_i\, |q_i|\; \hat q^\top x = \Big\langle S,\, \sum_i |q_i| v_i k_i^\top
    \Big\rangle\, \hat q^\top x, \qquad S = S^\top,$$

    count only through the symmetric part of the sum, which up to signature (1, 1) is that of
    one head. No kind merges them, because they are not copies of each other. So h units are
    optimised, towards the outputs f of the wide network and not towards the targets, until

    $$\mathrm{rms}(f - f_h) \le \mathrm{tolerance} \cdot \mathrm{scale},$$

    from the first h units of every kind's narrow network, or from h units of the network itself,
    whichever are nearest. What comes out is about the function, not about the kind of a saddle.

    **Arguments:**

    - `found`: the network's `effective_width`, whose tolerance and scale are taken.
    - `data`: a task, or inputs x, as they were given there.
    - `starts`: most descents of a fit, which ends with the first that succeeds. More may find a
      better one where units would have to change the sign of v on the way.
    - `max_weights`: of a fit, which keeps the square of that many numbers.
    - `max_steps`: of a fit from one start.

    **Returns:** a `FittedWidth`. Where merging leaves one unit or none, nothing is fitted. Else it
    takes one fit to see that no unit can be spared, and at most $2\log_2 h$ to find how many can.
    A fit is a few quasi-Newton descents, of milliseconds each for a few dozen weights, once the
    first of its width has been compiled, and of seconds for a thousand.

    !!! note "When to doubt it"

        A fit that fails proves nothing: it may have ended in a local minimum. A fit that succeeds
        does so on these data, and to as few samples as they have weights units fit anything.
    """
    if not isinstance(found, EffectiveWidth):
        raise ValueError(
            f"`found` must be the answer of `effective_width`, got {type(found).__name__}."
        )
    if max_weights < 0 or starts < 1 or max_steps < 1:
        raise ValueError(
            "`starts` and `max_steps` must be at least 1 and `max_weights` at least 0, got "
            f"{starts}, {max_steps} and {max_weights}."
        )
    task = task_of(found.network, data, None)
    return _search(Fits(found, task, starts, max_weights, max_steps), found)


class Fit(NamedTuple):
    """A network and what it leaves of the wide one's outputs."""

    network: Layer
    error: float


class Fits:
    """Networks of each width that was asked for, with no more descents than it took."""

    def __init__(
        self,
        merged: EffectiveWidth,
        task: AbstractTask,
        starts: int,
        max_weights: int,
        max_steps: int,
    ):
        self._merged = merged
        self._task = task
        self._count = starts
        self._max_steps = max_steps
        self._descents: dict[int, Iterator[Fit]] = {}
        self._best: dict[int, Fit] = {}
        self.widest = max_weights * merged.network.width // merged.network.structure.size

    @property
    def tried(self) -> dict[int, float]:
        return {width: fit.error for width, fit in sorted(self._best.items())}

    @float64
    def __call__(self, width: int, tolerance: float) -> Fit:
        """The first that comes within the tolerance, or the best of all."""
        if width not in self._best:
            self._descents[width] = self._fit(width)
            self._best[width] = next(self._descents[width])
        while self._best[width].error > tolerance:
            another = next(self._descents[width], None)
            if another is None:
                break
            self._best[width] = min(self._best[width], another, key=lambda fit: fit.error)
        return self._best[width]

    def _fit(self, width: int) -> Iterator[Fit]:
        """Descents from the nearest units of a kind, then from whatever else is near."""
        network, scale = self._merged.network, self._merged.scale
        statistics = self._task.statistics(network.unit)
        seen = OnData(network, statistics)
        u, v = unit_rows(network)
        responses = seen.responses(u)
        outputs = seen.sum(responses, v)
        structure = dataclasses.replace(network.structure, width=width)
        function = loss_function(structure, Data(statistics.psi, outputs, statistics.weight))
        rounding = 1e-8 * seen.size(outputs) ** 2
        rng = np.random.default_rng(0)

        def at_rest(weights: Point, left: float, gradient: Point) -> bool:
            # What is left may be known to a thousandth, but nothing must be taken for something.
            return relative_slope(weights, gradient) <= max(1e-3 * left, rounding)

        def start(few: Float[np.ndarray, "few weight"]) -> Point:
            few = few + _NUDGE * math.sqrt(np.mean(few**2)) * rng.normal(size=few.shape)
            return structure.columns(few, _readout(seen, few, outputs))[:, 0]

        def nearest(starts: list[Point]) -> list[Point]:
            return sorted(starts, key=lambda weights: function(weights)[0])

        wide_enough = (each for each in self._merged.narrowings if each.network.width >= width)
        kinds = nearest([start(unit_rows(each.narrow(width))[0]) for each in wide_enough])
        contribution = seen.contributions(responses, v)
        likely = contribution + 1e-9 * (contribution.sum() or 1.0)
        own = [
            start(u[rng.choice(len(u), width, replace=False, p=likely / likely.sum())])
            for _ in range(2 * self._count)
        ]
        for weights in [*kinds[:1], *nearest(kinds[1:] + own)][: self._count]:
            weights, value, _ = bfgs(function, weights, at_rest, max_steps=self._max_steps)
            yield Fit(
                network.with_parts(*structure.arrays(weights)),
                math.sqrt(2 * value) / scale if scale > 0 else math.inf,
            )


def _readout(
    seen: OnData, u: Float[np.ndarray, "unit weight"], outputs: Float[np.ndarray, "sample output"]
) -> Float[np.ndarray, "unit value"]:
    """v by least squares, in which it is linear: the signs that units will not change later."""
    root = np.sqrt(seen.weight)[:, None]
    responses = seen.responses(u)
    rows = root * responses.reshape(len(root), -1)
    v = np.linalg.lstsq(rows, root * outputs, rcond=1e-3)[0]
    return v.reshape(*responses.shape[1:], -1).transpose(1, 2, 0).reshape(len(u), -1)


def _search(fits: Fits, merged: EffectiveWidth) -> FittedWidth:
    tolerance = merged.tolerance
    enough, short = fewest(
        lambda width: fits(width, tolerance).error <= tolerance, merged.width, fits.widest
    )
    best = fits(enough, tolerance) if enough < merged.width else None
    return FittedWidth(
        width=enough,
        error=best.error if best else merged.error,
        reduced=best.network if best else merged.reduced,
        tried=fits.tried,
        complete=enough - short <= 1,
        merged=merged,
        fits=fits,
    )


def fewest(suffices: Callable[[int], bool], enough: int, widest: int) -> tuple[int, int]:
    """How many are enough and how many too few, one less unless more than `widest` had to be tried.

    Fewer units in growing steps; after a failure, half of what is left in between.
    """
    short, step = 0, 1
    while enough - short > 1 and short < widest:
        width = min(max(enough - step, short + 1), widest)
        if suffices(width):
            enough, step = width, 2 * step
        else:
            short = width
        if short:
            step = (enough - short) // 2
    return enough, short


def _units(count: int) -> str:
    return "1 unit" if count == 1 else f"{count} units"
