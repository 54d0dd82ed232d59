"""Gradient descent: its parameters and state, its gradient flow ahead, and its own steps."""

import math
from collections.abc import Callable, Iterator
from dataclasses import dataclass, replace
from typing import ClassVar

from ._chebyshev import MOST_STAGES, Ahead, integrate
from ._curvature import Gradient
from ._problem import Problem
from ._rules import AbstractKnownRule, Rates, Schedule, constant, parts
from ._schedules import strides
from ._vectors import Vector, combination

_TOLERANCE = 0.2  # tolerance of a flow step: growth beside stiff weights is then timed to 3 %
_OF_BEST = 1 / 3  # typical step over longest step: first steps are short, and some steps fail
_SHARES, _FEWEST_PRODUCTS = 4, 8  # parts of the samples, and Lanczos products, of a rough estimate


@dataclass(frozen=True)
class SGD(AbstractKnownRule):
    r"""Gradient descent for `forecast`: parameters and present state of the optimiser.

    The rule is the same for all samples at once and for mini-batches.

    - `lr`: learning rate $\eta$, one for all arrays of weights or one for each.
    - `momentum`: coefficient $\mu$ of heavy-ball momentum.
    - `nesterov`: whether the momentum is Nesterov's.
    - `dampening`: share of a gradient that does not enter the momentum.
    - `weight_decay`: coefficient $\lambda$ of the term $\lambda w$ that is added to the gradient.
    - `velocity`: decayed sum of past gradients, a tree with the structure of the model (`trace` of
      Optax). By default the momentum starts at zero.

    **Example:**

    >>> from festina.own import SGD
    >>> rule = SGD(lr=0.1, momentum=0.9)
    >>> rule.pace  # rate at which weights follow a steady gradient, η / (1 − μ)
    1.0
    """

    lr: Rates
    momentum: float = 0.0
    nesterov: bool = False
    dampening: float = 0.0
    weight_decay: Rates = 0.0
    velocity: object = None
    certain: ClassVar[bool] = True

    def __post_init__(self) -> None:
        self._check(momentum=self.momentum, dampening=self.dampening)

    @property
    def pace(self) -> float:
        r"""Largest rate at which weights follow a steady gradient: $\eta/(1-\mu)$."""
        return max(parts(self.lr)) * self.enters / (1.0 - self.momentum)

    @property
    def enters(self) -> float:
        """Share of a gradient that enters the momentum."""
        return 1.0 - self.dampening if self.momentum else 1.0

    @property
    def bound(self) -> float:
        r"""Product of `pace` and curvature at which descent turns unstable.

        The bound is $2(1+\mu)/(1-\mu)$: at the curvature $\lambda$ of the bound,
        $\zeta^2 - (1 + \mu - \eta\lambda)\zeta + \mu$ has the root $-1$. With Nesterov's momentum
        the bound is divided by $1 + 2\mu$.
        """
        mu = self.momentum
        return 2.0 * (1 + mu) / (1 - mu) / (1 + 2 * mu if self.nesterov else 1.0)

    def rates(self, square: Vector) -> Vector:
        """Return the rate of every weight: `pace` with the learning rate of its array."""
        lr = parts(self.lr, len(square.parts))
        relative = [self.pace * each / max(lr) for each in lr]
        return square.with_(lambda a: a * 0.0 + 1.0).scaled(relative)

    def steps(self, growth: float, rate: float = 1.0) -> float:
        r"""Return the steps per unit of flow time while the gradient grows at the rate `growth`.

        A mode that grows as $e^{at}$ along the flow grows per step by $\zeta$, the larger root of
        $\zeta^2 - (1 + \mu + \eta a)\zeta + \mu = 0$. A unit of flow time therefore takes
        $a/\log\zeta$ steps, which is $(1 - \mu)/\eta$ for slow growth. With Nesterov's momentum
        $\zeta$ solves $\zeta^2 - (1 + \eta a)((1 + \mu)\zeta - \mu) = 0$. `rate` is the present
        learning rate in units of the first.
        """
        mu = self.momentum
        eta = rate * max(parts(self.lr)) * self.enters
        slow = (1.0 - mu) / eta
        a = eta * growth
        b, c = ((1 + mu) * (1 + a), mu * (1 + a)) if self.nesterov else (1 + mu + a, mu)
        root = b * b - 4 * c
        if abs(a) < 1e-6 or growth < 0.0 or root <= 0.0:
            return slow
        return growth / math.log(0.5 * (b + math.sqrt(root)))

    def reach(self, problem: Problem) -> float:
        """Estimate from the curvature on a share of samples how far one gradient looks ahead."""
        some = next(problem.pieces(_SHARES))
        stiff = self.bound * self.load(some, problem.start, products=_FEWEST_PRODUCTS)
        return _OF_BEST * 0.65 * MOST_STAGES / stiff if stiff > 0.0 else math.inf

    def flow(self, problem: Problem) -> Gradient:
        """Return loss and flow of the weights, where the largest learning rate counts as 1."""
        lr, gradient = parts(self.lr, len(problem.names)), self.decayed(problem)
        relative = [-each / max(lr) for each in lr]

        def field(w: Vector) -> tuple[float, Vector]:
            loss, g = gradient(w)
            return loss, g.scaled(relative)

        return field

    def ahead(self, problem: Problem, schedule: Schedule, coarser: float) -> Iterator[Ahead]:
        """Yield the gradient flow ahead, with time in steps of descent with momentum."""
        before, steps, per_step = 0.0, 0.0, 1.0 / self.steps(0.0)
        field = self.flow(problem)
        # The velocity of mini-batches is noisy; its mean is the velocity of a steady gradient.
        start = problem.start if problem.batch is None else None
        own = Steps(self, field, start, lambda: schedule(steps))
        left = None if schedule is constant else lambda most: self._left(schedule, steps, most)
        tolerance = coarser * _TOLERANCE
        for here in integrate(field, problem.start, tolerance=tolerance, own=own, left=left):
            ahead, before = here.time - before, here.time
            if schedule is constant:
                steps += ahead * self.steps(here.growth)
            else:
                # Own steps end at whole numbers, at which a schedule may jump.
                steps = round(self._scheduled(schedule, steps, ahead, here.growth), 6)
            sharpness = here.sharpness * self.pace / self.bound
            yield replace(here, time=steps, speed=here.speed * per_step, sharpness=sharpness)

    def _left(self, schedule: Schedule, steps: float, most: float) -> float:
        """Return the flow time that the schedule leaves after so many steps, at most `most`."""
        time = 0.0
        for _, stride, rate in strides(schedule, steps):
            time += stride / self.steps(0.0, rate)
            if time >= most:
                return most
        return time

    def _scheduled(self, schedule: Schedule, steps: float, ahead: float, growth: float) -> float:
        """Return the steps after the flow time `ahead`, or the steps at the schedule's end."""
        for at, stride, rate in strides(schedule, steps):
            taken = stride / self.steps(growth, rate)
            if taken >= ahead:
                return at + ahead * self.steps(growth, rate)
            steps, ahead = at + stride, ahead - taken
        return steps

    def rehearse(self, problem: Problem, steps: int, rate: float) -> list[float]:
        field, w, losses = self.flow(problem), problem.start, []
        own = Steps(self, field, None, lambda: rate)
        loss, f = field(w)
        while math.isfinite(loss) and len(losses) < steps:
            losses.append(loss)
            _, w, loss, f = own(w, f)
        return losses


class Steps:
    """Steps of the optimiser, one gradient each, on the clock of the flow.

    Steps from the weights `start` continue with the velocity of the rule. Steps from other weights
    start with the velocity of a steady gradient. `rate` returns the present learning rate in units
    of the first.
    """

    def __init__(
        self, rule: SGD, flow: Gradient, start: Vector | None, rate: Callable[[], float]
    ) -> None:
        self._rule, self._flow, self._rate = rule, flow, rate
        lr, mu = parts(rule.lr), rule.momentum
        self._lr, self._steady = max(lr), rule.pace / max(lr)
        self._coasting = rule.pace * mu / (1.0 - mu)
        self._at, self._velocity = start, None
        if isinstance(rule.velocity, Vector):
            self._velocity = rule.velocity.scaled([-each / max(lr) for each in lr])
        self.forgets = 1.0 - mu**0.5  # share of an oscillation that decays in a step

    def __call__(self, w: Vector, f: Vector) -> tuple[float, Vector, float, Vector]:
        """Step from `w`, where the flow is `f`; return time, new weights, loss and flow."""
        mu, rate, time = self._rule.momentum, self._rate(), self.time()
        before = self._velocity if w is self._at else f * self._steady
        # PyTorch does not dampen the first gradient.
        velocity = f if before is None else combination((mu, before), (self._rule.enters, f))
        moved = combination((1.0, f), (mu, velocity)) if self._rule.nesterov else velocity
        w = combination((1.0, w), (rate * self._lr, moved))
        self._at, self._velocity = w, velocity
        return time, w, *self._flow(w)

    def time(self) -> float:
        """Return the flow time of a step."""
        return self._rate() * self._rule.pace

    def coast(self, w: Vector, f: Vector) -> float:
        """Return the distance between the weights as moved by the velocity and by the flow."""
        if not self._coasting or w is not self._at:
            return 0.0
        steady = f * self._steady
        off = steady if self._velocity is None else self._velocity - steady
        return self._rate() * self._coasting * (1.0 / self._steady) * off.norm
