r"""Noise of mini-batches: its covariance, and how far above a minimum it holds the loss."""

from ._problem import Problem
from ._rules import SGD, Adam
from ._vectors import Vector, combination

_PIECES = 8  # shares of the samples, from which the variance of gradients is measured


def mini_batch(problem: Problem, w: Vector) -> tuple[float, Vector, list[Vector]]:
    """Return loss, gradient, and vectors whose outer products sum to a mini-batch's covariance."""
    n, batch = problem.samples, problem.batch
    if batch is None or batch >= n:
        return *problem(w), []
    shares = [(piece.samples / n, *piece(w)) for piece in problem.pieces(_PIECES)]
    loss = sum(p * value for p, value, _ in shares)
    g = combination(*((p, each) for p, _, each in shares))
    scale = (n / len(shares) / batch / (len(shares) - 1)) ** 0.5
    return loss, g, [(each - g) * scale for _, _, each in shares]


def noise_floor(rule: SGD | Adam, problem: Problem, w: Vector) -> float:
    r"""Return how far above a minimum mini-batches hold the loss.

    Along a direction of curvature $\lambda$ the noise of variance $c$ heats the loss by
    $\tfrac12\lambda\eta^2c$ a step and descent cools its excess $\epsilon$ by
    $2\eta\lambda\epsilon$: they balance at $\epsilon = \eta c/4$, whatever the curvature. The sum
    is $\tfrac14\sum_i \eta_i C_{ii}$, where $\eta_i$ is the rate of a weight, with $\eta/(1-\mu)$
    for momentum and $\eta/(\sqrt{v_i} + \epsilon)$ for Adam, and $C$ is the covariance of a
    mini-batch's gradient. It holds for rates well below the edge of stability.
    """
    _, g, shares = mini_batch(problem, w)
    return excess(rule, g, shares)


def excess(rule: SGD | Adam, g: Vector, shares: list[Vector]) -> float:
    """Return the `noise_floor` for a gradient and vectors that make up its covariance."""
    if not shares:
        return 0.0
    variance = sum((each * each for each in shares[1:]), shares[0] * shares[0])
    return 0.25 * rule.rates(g * g + variance).dot(variance)
