"""Define the interface of rules that move weights, as a look-ahead uses them."""

import math
from abc import ABC, abstractmethod
from collections.abc import Callable, Iterator
from typing import ClassVar

from ..._checks import real_number
from ._chebyshev import Ahead
from ._curvature import FEW_PRODUCTS, Gradient, ritz
from ._problem import Problem
from ._vectors import Vector

Rates = float | tuple[float, ...]
"""One number for all parts of the weights, or one number for each part."""

Schedule = Callable[[float], float]
"""The learning rate as a function of the steps from now, in units of the present rate."""


def constant(_: float) -> float:
    """Return 1 at every step: the `Schedule` of a constant learning rate."""
    return 1.0


class AbstractRule(ABC):
    """A rule by which weights move: `SGD`, `Adam`, or the steps of the user's own optimiser.

    - `noisy`: whether the losses of its look-ahead contain the noise of mini-batches.
    - `certain`: whether training is unstable whenever the curvature exceeds the limit. Adam is not
      certain: its denominators grow with the gradients, so Adam may recover.
    """

    noisy: ClassVar[bool] = False
    certain: ClassVar[bool] = False

    @abstractmethod
    def ahead(self, problem: Problem, schedule: Schedule, coarser: float) -> Iterator[Ahead]:
        """Yield the run ahead, in optimiser steps, with a `coarser` times larger tolerance."""

    @abstractmethod
    def reach(self, problem: Problem) -> float:
        """Return the largest number of run steps that one gradient of the look-ahead covers."""

    def noise_floor(self, problem: Problem, w: Vector) -> float:
        """Return the height above a minimum at which mini-batches hold the loss; 0 if unknown."""
        return 0.0

    def decay(self, problem: Problem) -> tuple[float, ...]:
        """Return the weight decay of each part of the weights."""
        return (0.0,) * len(problem.names)

    def decayed(self, problem: Problem) -> Gradient:
        """Return loss and gradient, where the gradient includes the rule's weight decay."""
        return problem


class AbstractKnownRule(AbstractRule):
    """Update rule with known learning rates, which determine noise floor and stability limit.

    - `lr`, `weight_decay`: one rate for all parts of the weights, or one for each.
    - `decoupled`: whether weight decay bypasses the gradient.
    """

    lr: Rates
    weight_decay: Rates
    decoupled: bool = False

    @property
    @abstractmethod
    def pace(self) -> float:
        """Largest rate at which weights follow a steady gradient."""

    @property
    @abstractmethod
    def bound(self) -> float:
        """Product of `pace` and the curvature at which the rule turns unstable."""

    @abstractmethod
    def rates(self, square: Vector) -> Vector:
        """Return the rate of every weight for the squared gradient `square`."""

    @abstractmethod
    def rehearse(self, problem: Problem, steps: int, rate: float) -> list[float]:
        """Train on all samples with the optimiser; return the losses up to the last finite loss."""

    def load(
        self, problem: Problem, w: Vector, rate: float = 1.0, *, products: int = FEW_PRODUCTS
    ) -> float:
        """Return the largest curvature over the largest stable curvature, at a scheduled `rate`."""
        gradient = self.decayed(problem)
        _, g = gradient(w)
        root = self.rates(g * g).with_(lambda a: a**0.5)
        seen = ritz(gradient, w, problem.random(), root=root, products=products)
        return rate * float(seen.values[-1]) / self.bound

    def noise_floor(self, problem: Problem, w: Vector) -> float:
        r"""Return the height above a minimum at which mini-batches hold the loss.

        Along a direction of curvature $\lambda$, noise of variance $c$ raises the loss by
        $\tfrac12\lambda\eta^2c$ a step, and descent reduces the excess $\epsilon$ by
        $2\eta\lambda\epsilon$. Noise and descent balance at $\epsilon = \eta c/4$ for any
        curvature. The sum over directions is $\tfrac14\sum_i \eta_i C_{ii}$, where $C$ is the
        covariance of a mini-batch's gradient. The rate $\eta_i$ of a weight is $\eta/(1-\mu)$ for
        momentum $\mu$ and $\eta/(\sqrt{v_i} + \epsilon)$ for Adam. The result holds for rates well
        below the edge of stability.
        """
        _, g, shares = problem.mini_batch(w)
        return self.excess(g, shares)

    def excess(self, g: Vector, shares: list[Vector]) -> float:
        """Return the noise floor for a gradient and for vectors that sum to its covariance."""
        if not shares:
            return 0.0
        variance = sum((each * each for each in shares[1:]), shares[0] * shares[0])
        return 0.25 * self.rates(g * g + variance).dot(variance)

    def decay(self, problem: Problem) -> tuple[float, ...]:
        return parts(self.weight_decay, len(problem.names))

    def decayed(self, problem: Problem) -> Gradient:
        decay = self.decay(problem)
        if self.decoupled or not any(decay):
            return problem

        def gradient(w: Vector) -> tuple[float, Vector]:
            loss, g = problem(w)
            return loss, g + w.scaled(decay)

        return gradient

    def _check(self, **shares: float) -> None:
        for name, value in shares.items():
            if not 0 <= real_number(name, value) < 1:
                raise ValueError(f"`{name}` is {value}, expected a number from 0 to below 1.")
        for name, value in (("lr", self.lr), ("weight_decay", self.weight_decay)):
            if not all(0 <= real_number(name, each) < math.inf for each in parts(value)):
                raise ValueError(f"`{name}` is {value}, expected finite numbers from 0 up.")
        if not any(parts(self.lr)):
            raise ValueError(f"`lr` is {self.lr}, expected a positive learning rate.")


def parts(value: Rates, count: int = 1) -> tuple[float, ...]:
    """Return a number for each of `count` parts; a sequence is returned as a tuple."""
    return tuple(value) if isinstance(value, tuple | list) else (value,) * count
