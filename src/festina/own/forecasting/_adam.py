r"""Adam: its parameters and state, and its simulation ahead of a run, on a dilated clock.

The path of Adam depends on its running means, not only on the loss. With the learning rate $c\eta$
and running means that are $c$ times shorter in steps, one step replaces $c$ steps. The lag of a
running mean, $\beta/(1-\beta)$ steps of the run, is $\beta/(c(1-\beta))$ dilated steps. The
gradient is computed on all samples. Mini-batches add their variance to the running mean of squares
and kick the weights; the kicks move the weights that have almost no gradient. Variance and kicks
are estimated from the gradients on parts of the samples.
"""

import itertools
import math
from collections.abc import Callable, Iterator
from dataclasses import dataclass, replace
from typing import Any, ClassVar

import numpy as np

from ..._checks import real_number
from ._chebyshev import Ahead
from ._curvature import FEW_PRODUCTS
from ._problem import Problem
from ._rules import AbstractKnownRule, Rates, Schedule, constant, parts
from ._vectors import Vector, combination

_DILATION = 4.0  # dilation of the clock
_PATIENCE = 100  # gradients after which the dilation doubles: long plateaus need less precision
_NOISY = 4.0  # height above the lowest loss, in noise floors, that noise alone does not reach
_OF_TIME = 1 / 8  # longest step as a share of the time so far: short transients are not dilated
_RENEWED = 8  # steps between measurements of the variance of mini-batches, which changes slowly
_SMOOTH = 10  # steps over which the speed is smoothed, because the loss oscillates
_RISEN, _RISEN_IN_BATCHES = 0.02, 0.1  # relative rise of the loss that shows too long steps


@dataclass(frozen=True)
class Adam(AbstractKnownRule):
    r"""Adam for `forecast`: parameters and present state of the optimiser.

    - `lr`: learning rate, one for all arrays of weights or one for each.
    - `betas`: decay rates $\beta_1, \beta_2$ of the running means.
    - `eps`: constant $\epsilon$ in the denominator.
    - `weight_decay`: weight decay, added to the gradient, or with `decoupled` subtracted from the
      weights (AdamW).
    - `moments`: running means of the gradient and of its square, each a tree with the structure of
      the model (`mu` and `nu` of Optax's `ScaleByAdamState`). By default both start at zero.
    - `step`: number of steps in the running means.

    **Example:**

    >>> from festina.own import Adam
    >>> Adam(lr=1e-3).bound  # largest stable product of learning rate and curvature
    38.0
    """

    lr: Rates
    betas: tuple[float, float] = (0.9, 0.999)
    eps: float = 1e-8
    weight_decay: Rates = 0.0
    decoupled: bool = False
    moments: tuple[Any, Any] | None = None
    step: float = 0.0
    noisy: ClassVar[bool] = True

    def __post_init__(self) -> None:
        for name, pair in (("betas", self.betas), ("moments", self.moments)):
            missing = pair is None and name == "moments"
            if not missing and (not isinstance(pair, tuple | list) or len(pair) != 2):
                raise ValueError(f"`{name}` must be a pair, got {pair!r}.")
        for name, value in (("eps", self.eps), ("step", self.step)):
            if not 0 <= real_number(name, value) < math.inf:
                raise ValueError(f"`{name}` is {value}, expected a finite number from 0 up.")
        self._check(**{f"betas[{k}]": each for k, each in enumerate(self.betas)})

    @property
    def pace(self) -> float:
        """Largest learning rate."""
        return max(parts(self.lr))

    @property
    def bound(self) -> float:
        r"""`pace` times preconditioned curvature at which Adam turns unstable.

        $2(1+\beta_1)/(1-\beta_1)$, 38 for the usual $\beta_1 = 0.9$ (Cohen et al. 2022).
        """
        return 2.0 * (1 + self.betas[0]) / (1 - self.betas[0])

    def rates(self, square: Vector) -> Vector:
        r"""Return rates $\eta/(\sqrt v + \epsilon)$ of all weights; at first v is `square`."""
        if self.moments is not None and self.step > 0:
            square = self.moments[1] * (1.0 / (1.0 - self.betas[1] ** self.step))
        lr = parts(self.lr, len(square.parts))
        return square.with_(lambda v: 1.0 / (v**0.5 + self.eps)).scaled(lr)

    def load(
        self, problem: Problem, w: Vector, rate: float = 1.0, *, products: int = FEW_PRODUCTS
    ) -> float:
        """Return the largest curvature over the largest stable curvature; 0 before the first step.

        Before the first step Adam has no denominators.
        """
        if not (self.moments and self.step):
            return 0.0
        return super().load(problem, w, rate, products=products)

    def reach(self, problem: Problem) -> float:
        return _DILATION

    def ahead(self, problem: Problem, schedule: Schedule, coarser: float) -> Iterator[Ahead]:
        """Yield the course on a clock that is dilated `coarser` times more."""
        stiff = self.load(problem, problem.start)
        # A clock that is dilated beyond the edge of stability would oscillate by itself.
        fastest = 1.0 / stiff if stiff > 0.0 else math.inf
        slower = lambda taken: min(
            coarser * _DILATION * (1.0 if taken < _PATIENCE else 2.0), fastest
        )
        course = self.dilated(problem, slower, schedule)
        yield from (replace(here, sharpness=stiff) for here in itertools.islice(course, 1))
        yield from course

    def rehearse(self, problem: Problem, steps: int, rate: float) -> list[float]:
        course = self.dilated(replace(problem, batch=None), lambda _: 1.0, lambda _: rate)
        return [here.loss for here in itertools.islice(course, steps)]

    def dilated(
        self, problem: Problem, dilation: Callable[[int], float], schedule: Schedule = constant
    ) -> Iterator[Ahead]:
        """Yield the course ahead until the loss is no longer finite.

        `dilation` returns the dilation of the clock as a function of the number of gradients.
        Beyond the edge of stability the loss rises: the dilation is halved if the rise exceeds the
        noise of mini-batches.
        """
        w = problem.start
        lr, decay = parts(self.lr), parts(self.weight_decay)
        m, v = self.moments or (w * 0.0, w * 0.0)
        rng = np.random.default_rng(0)
        time, seen, taken, brake, braked = 0.0, self.step, 0, 1.0, -_SMOOTH
        lowest, low, speed, shares, noise = math.inf, 0.0, 0.0, [], 0.0
        while True:
            if taken % _RENEWED == 0:
                loss, g, shares = problem.mini_batch(w)
                noise = self.excess(g, shares)
            else:
                loss, g = problem(w)
            if not math.isfinite(loss):
                return
            if taken and loss < lowest:  # the speed counts falls to a new lowest loss only
                share = 1.0 - math.exp((low - time) / _SMOOTH / dilation(taken))
                speed += share * ((lowest - loss) / (time - low) - speed)
            if loss < lowest:
                lowest, low = loss, time
            risen = _RISEN_IN_BATCHES if shares else _RISEN
            high = loss > lowest + max(risen * abs(lowest), _NOISY * noise)
            if high and taken - braked >= _SMOOTH:  # the last halving has taken effect
                brake, braked = 2.0 * brake, taken
            if not self.decoupled and any(decay):
                g = g + w.scaled(decay)
            c = max(1.0, min(dilation(taken) / brake, _OF_TIME * time))
            one, two = (beta / (beta + c * (1.0 - beta)) for beta in self.betas)
            kicked, square = g, g * g
            if shares:
                # The mean gradient of c mini-batches has a c-th of the variance; the mean square
                # has all of the variance.
                kick = combination(*zip(rng.normal(size=len(shares)).tolist(), shares, strict=True))
                kicked = g + kick * c**-0.5
                square = sum((off * off for off in shares), square)
            m = m * one + kicked * (1.0 - one)
            v = v * two + square * (1.0 - two)
            seen += c
            left = [1.0 - beta**seen for beta in self.betas]
            step = m.with_(lambda a, b: a / left[0] / ((b / left[1]) ** 0.5 + self.eps), v)  # noqa: B023
            now = c * schedule(time)
            moved = step.scaled([-now * each for each in lr])
            if self.decoupled and any(decay):
                moved = moved - w.scaled([now * a * b for a, b in zip(lr, decay, strict=True)])
            if taken == 0:
                speed = abs(g.dot(moved)) / c  # running means may carry the weights uphill
            yield Ahead(time, loss, speed, 0.0, w)
            w, time, taken = w + moved, time + c, taken + 1


def AdamW(lr: Rates, *, weight_decay: Rates = 0.01, **rest: Any) -> Adam:
    """Return `Adam` with decoupled weight decay, for `forecast`.

    **Example:**

    >>> from festina.own import AdamW
    >>> rule = AdamW(lr=1e-3)
    >>> rule.weight_decay, rule.decoupled
    (0.01, True)
    """
    return Adam(lr, weight_decay=weight_decay, decoupled=True, **rest)
