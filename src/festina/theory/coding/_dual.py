r"""Minimise the convex dual with a trust region, at a falling sequence of temperatures.

The dual function

$$D(t) = \log Z(t) - \langle t, Y\rangle + \frac T2 |t|^2$$

has one minimum, at which $Y = T\,t + E[a\phi]$. At low T with many examples, the dual function D is
nearly piecewise linear, with one piece for each mode of the distribution of readouts. Newton's
method with a line search then oscillates between pieces; a trust region does not.
"""

from collections.abc import Iterator

import numpy as np
from jaxtyping import Float
from scipy.optimize import minimize

from ._law import Classes, Law, law

_RATIO = 0.6  # ratio of successive temperatures
_HOT = 3.0  # first temperature, in units of the crossover temperature
_COLD = 1e-3  # below this temperature, in units of the crossover, one step leads to the goal
_CLOSE = 1e-9  # gradient tolerance at the requested temperatures
_ON_THE_WAY = 1e-4  # gradient tolerance at intermediate temperatures


class Dual:
    r"""Evaluate the dual function D, its gradient and its curvature at $x_c = \sqrt{n_c}\,t_c$.

    In the coordinates $x_c$ the curvature has the same scale as the curvature for single examples.
    """

    def __init__(self, problem: Classes, temperature: float) -> None:
        self.problem, self.temperature = problem, temperature
        self.root = np.sqrt(problem.sizes)[:, None]
        self._seen: tuple[bytes, Law] = (b"", law(problem, 0 * problem.targets))

    def law(self, x: np.ndarray) -> Law:
        if self._seen[0] != x.tobytes():
            self._seen = (x.tobytes(), law(self.problem, self.dual(x)))
        return self._seen[1]

    def dual(self, x: np.ndarray) -> Float[np.ndarray, "group direction"]:
        return x.reshape(self.root.size, -1) / self.root

    def value(self, x: np.ndarray) -> float:
        linear = (self.root * self.problem.targets).ravel() @ x
        return float(self.law(x).log_z - linear + self.temperature * (x @ x) / 2)

    def gradient(self, x: np.ndarray) -> np.ndarray:
        missing = self.law(x).outputs - self.problem.targets
        return (self.root * missing).ravel() + self.temperature * x

    def curvature(self, x: np.ndarray) -> np.ndarray:
        return self.law(x).curvature(self.problem.sizes) + self.temperature * np.eye(x.size)


def scale(problem: Classes) -> float:
    """Return the crossover temperature of the targets without subtracting their mean.

    Above the returned temperature nothing is learned. `festina.theory.coding.crossover_temperature`
    subtracts the mean target first.
    """
    power = (problem.targets * problem.sizes[:, None]).T @ problem.targets
    return float(np.sqrt(problem.variance * problem.tilt.variance * np.linalg.eigvalsh(power)[-1]))


def descend(
    problem: Classes, temperatures: list[float]
) -> Iterator[tuple[Float[np.ndarray, "group direction"], Law]]:
    """Yield the dual variable t and the distribution of readouts at each falling temperature.

    The solver passes through intermediate temperatures. At each one it starts from the solution at
    the temperature before.
    """
    unit = scale(problem)
    hot = max(_HOT * unit, temperatures[0])
    x = (np.sqrt(problem.sizes)[:, None] * problem.targets / hot).ravel()
    x, dual = _minimum(problem, hot, x, hot == temperatures[0])
    for goal in temperatures:
        while (now := dual.temperature) > goal:
            ahead = max(goal, now * _RATIO if now > _COLD * unit else 0.0)
            # The minimum moves with temperature according to (∂²D) dx = −x dT.
            guess = x + np.linalg.solve(dual.curvature(x), x) * (now - ahead)
            x, dual = _minimum(problem, ahead, guess, ahead == goal)
        yield dual.dual(x), dual.law(x)


def _minimum(
    problem: Classes, temperature: float, x: np.ndarray, wanted: bool
) -> tuple[np.ndarray, Dual]:
    dual = Dual(problem, temperature)
    found = minimize(
        dual.value,
        x,
        method="trust-exact",
        jac=dual.gradient,
        hess=dual.curvature,
        options={
            "gtol": _CLOSE if wanted else _ON_THE_WAY,
            "initial_trust_radius": max(0.1 * float(np.linalg.norm(x)), 1e-3),
            "max_trust_radius": 1e6,
            "maxiter": 400,
        },
    )
    off = np.abs(dual.gradient(found.x) / dual.root.repeat(problem.basis.shape[1])).max()
    if wanted and not off < 1e-6 * max(np.abs(problem.targets).max(), 1e-300):
        raise RuntimeError(
            f"The solver for the dual did not converge at T = {temperature:g}: the outputs are off "
            f"by {off:.2g}. Use fewer examples per class or a higher temperature."
        )
    return found.x, dual
