"""Descent by its own steps, for where it does not follow the gradient flow."""

from collections.abc import Callable

from ._curvature import Gradient
from ._rules import SGD, parts
from ._vectors import Vector, combination

SHORTEST = 8  # steps of the optimiser that a step of the flow stands for, or it were dearer


class Steps:
    """Steps of the optimiser, one gradient each, on the clock of the flow.

    Steps from the weights `start` continue with the velocity of the rule, steps from other weights
    with that of a steady gradient. `rate` returns the present learning rate in units of the first.
    """

    def __init__(
        self, rule: SGD, flow: Gradient, start: Vector | None, rate: Callable[[], float]
    ) -> None:
        self._rule, self._flow, self._rate = rule, flow, rate
        lr, mu = parts(rule.lr), rule.momentum
        self._lr, self._steady = max(lr), rule.pace / max(lr)
        self._coasting = rule.pace * mu / (1.0 - mu)
        self._at, self._velocity = start, rule.velocity
        if self._velocity is not None:
            self._velocity = self._velocity.scaled([-each / max(lr) for each in lr])
        self.forgets = 1.0 - mu**0.5  # of an oscillation, in a step

    def __call__(self, w: Vector, f: Vector) -> tuple[float, Vector, float, Vector]:
        """Step from `w`, where the flow is `f`; return time, and weights, loss and flow there."""
        mu, rate, time = self._rule.momentum, self._rate(), self.time
        before = self._velocity if w is self._at else f * self._steady
        # PyTorch does not dampen the first gradient.
        velocity = f if before is None else combination((mu, before), (self._rule.enters, f))
        moved = combination((1.0, f), (mu, velocity)) if self._rule.nesterov else velocity
        w = combination((1.0, w), (rate * self._lr, moved))
        self._at, self._velocity = w, velocity
        return time, w, *self._flow(w)

    @property
    def time(self) -> float:
        """Time of the flow that a step takes."""
        return self._rate() * self._rule.pace

    def coast(self, w: Vector, f: Vector) -> float:
        """Return the distance between where the velocity and where the flow carry the weights."""
        if not self._coasting or w is not self._at:
            return 0.0
        steady = f * self._steady
        off = steady if self._velocity is None else self._velocity - steady
        return self._rate() * self._coasting * (1.0 / self._steady) * off.norm
