r"""Adam ahead, by itself with a dilated clock.

Adam is no flow of the loss alone: where it goes depends on what it remembers. The optimiser with
the learning rate $c\eta$ and memories that lag behind by as much, $\beta/(1-\beta)$ steps of old and
a $c$-th of that in new ones, does in one step what it did in $c$. Its gradient is that on all
samples; what mini-batches add to the running mean of squares, their variance, is
measured from shares of the samples and added.
"""

import math
from collections.abc import Callable, Iterator

from ._chebyshev import Ahead
from ._problem import Problem
from ._rules import Adam, parts
from ._vectors import Vector

_PIECES = 8  # shares of the samples, from which the variance of gradients is measured


def dilate(
    rule: Adam,
    problem: Problem,
    dilation: Callable[[int], float],
    schedule: Callable[[float], float] | None,
) -> Iterator[Ahead]:
    """Adam's course ahead without end; `dilation` says by how much, given the steps so far."""
    w = problem.start
    lr, decay = parts(rule.lr, len(w.parts)), parts(rule.weight_decay, len(w.parts))
    zero = w * 0.0
    m, v = rule.moments or (zero, zero)
    time, seen, taken = 0.0, rule.step, 0
    while True:
        loss, g, variance = _gradient(problem, w)
        if not math.isfinite(loss):
            return
        if not rule.decoupled and any(decay):
            g = g + w.scaled(decay)
        c = dilation(taken)
        one, two = (beta / (beta + c * (1.0 - beta)) for beta in rule.betas)
        m = m * one + g * (1.0 - one)
        v = v * two + (g * g if variance is None else g * g + variance) * (1.0 - two)
        seen += c
        left = [1.0 - max(beta, 1e-12) ** seen for beta in rule.betas]
        step = m.with_(lambda a, b: a / left[0] / ((b / left[1]) ** 0.5 + rule.eps), v)  # noqa: B023
        now = c * (schedule(time) if schedule else 1.0)
        moved = step.scaled([-now * each for each in lr])
        if rule.decoupled and any(decay):
            moved = moved - w.scaled([now * a * b for a, b in zip(lr, decay, strict=True)])
        yield Ahead(time, loss, max(-g.dot(moved) / c, 0.0), 0.0, w)
        w, time, taken = w + moved, time + c, taken + 1


def _gradient(problem: Problem, w: Vector) -> tuple[float, Vector, Vector | None]:
    """Loss, gradient, and the variance of the gradient of a mini-batch."""
    n, batch = problem.samples, problem.batch
    if batch is None or batch >= n or n < 2 * _PIECES:
        return *problem(w), None
    count = min(_PIECES, n // 2)
    shares = [(piece.samples / n, *piece(w)) for piece in problem.pieces(count)]
    loss = sum(p * value for p, value, _ in shares)
    g = sum((each * p for p, _, each in shares[1:]), shares[0][2] * shares[0][0])
    scatter = w * 0.0
    for _, _, each in shares:
        off = each - g
        scatter = scatter + off * off
    return loss, g, scatter * (n / count / batch / (count - 1))
