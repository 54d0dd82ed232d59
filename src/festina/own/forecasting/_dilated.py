r"""Adam ahead, by itself with a dilated clock.

Adam is no flow of the loss alone: where it goes depends on what it remembers. The optimiser with
the learning rate $c\eta$ and memories that lag by as much, $\beta/(1-\beta)$ steps of old and
a $c$-th of that in new ones, does in one step what it did in $c$. Its gradient is that on all
samples; mini-batches add their variance to the running mean of squares and kick the weights, which
is what moves those that have next to no gradient. Both are measured from shares of the samples.
"""

import math
from collections.abc import Callable, Iterator

import numpy as np

from ._chebyshev import Ahead
from ._noise import excess, mini_batch
from ._problem import Problem
from ._rules import Adam, Schedule, parts
from ._vectors import combination

_NOISY = 4.0  # noise floors above the lowest loss, which noise alone does not reach
_OF_TIME = 1 / 8  # of the time so far, in a step: what is over in a few steps is not dilated
_RENEWED = 8  # steps after which the variance of mini-batches is measured anew
_SMOOTH = 10  # steps over which speed is smoothed
_RISEN, _RISEN_IN_BATCHES = 0.02, 0.1  # of the loss, by which it rises when steps are too long


def dilate(
    rule: Adam, problem: Problem, dilation: Callable[[int], float], schedule: Schedule | None
) -> Iterator[Ahead]:
    """Adam's course ahead, until it is no longer finite.

    `dilation` says by how much, given the steps so far; it is halved where the loss begins to rise
    as it does beyond the edge of stability, and by more than the noise of mini-batches.
    """
    w = problem.start
    lr, decay = parts(rule.lr), parts(rule.weight_decay)
    m, v = rule.moments or (w * 0.0, w * 0.0)
    rng = np.random.default_rng(0)
    time, seen, taken, brake, braked = 0.0, rule.step, 0, 1.0, -_SMOOTH
    lowest, low, speed, shares, noise = math.inf, 0.0, 0.0, [], 0.0
    while True:
        if taken % _RENEWED == 0:
            loss, g, shares = mini_batch(problem, w)
            noise = excess(rule, g, shares)
        else:
            loss, g = problem(w)
        if not math.isfinite(loss):
            return
        if taken and loss < lowest:  # a burst that is over by then has no speed
            share = 1.0 - math.exp((low - time) / _SMOOTH / dilation(taken))
            speed += share * ((lowest - loss) / (time - low) - speed)
        if loss < lowest:
            lowest, low = loss, time
        risen = _RISEN_IN_BATCHES if shares else _RISEN
        high = loss > lowest + max(risen * abs(lowest), _NOISY * noise)
        if high and taken - braked >= _SMOOTH:  # the last brake has shown by then
            brake, braked = 2.0 * brake, taken
        if not rule.decoupled and any(decay):
            g = g + w.scaled(decay)
        c = max(1.0, min(dilation(taken) / brake, _OF_TIME * time))
        one, two = (beta / (beta + c * (1.0 - beta)) for beta in rule.betas)
        kicked, square = g, g * g
        if shares:
            # c mini-batches of a step: a c-th of the variance in their mean, all of it in squares.
            kick = combination(*zip(rng.normal(size=len(shares)).tolist(), shares, strict=True))
            kicked = g + kick * c**-0.5
            square = sum((off * off for off in shares), square)
        m = m * one + kicked * (1.0 - one)
        v = v * two + square * (1.0 - two)
        seen += c
        left = [1.0 - beta**seen for beta in rule.betas]
        step = m.with_(lambda a, b: a / left[0] / ((b / left[1]) ** 0.5 + rule.eps), v)  # noqa: B023
        now = c * (schedule(time) if schedule else 1.0)
        moved = step.scaled([-now * each for each in lr])
        if rule.decoupled and any(decay):
            moved = moved - w.scaled([now * a * b for a, b in zip(lr, decay, strict=True)])
        if taken == 0:
            speed = abs(g.dot(moved)) / c  # memory may carry it uphill
        yield Ahead(time, loss, speed, 0.0, w)
        w, time, taken = w + moved, time + c, taken + 1
