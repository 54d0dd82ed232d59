"""Test integrators of forecasts on plain arrays: Chebyshev steps, momentum and Adam."""

import math
from collections.abc import Callable, Sequence

import numpy as np
import pytest

from festina.own.forecasting._chebyshev import _coefficients, _made_by, integrate
from festina.own.forecasting._course import Course
from festina.own.forecasting._sgd import SGD
from festina.own.forecasting._vectors import Vector


def saddle(rates: Sequence[float]) -> Callable[[Vector], tuple[float, Vector]]:
    """Return the field w' = rates · w, with growing directions and stiff directions at rest."""
    rate = np.asarray(rates)

    def field(w: Vector) -> tuple[float, Vector]:
        (x,) = w.parts
        return -0.5 * float((rate * x**2).sum()), Vector((rate * x,))

    return field


@pytest.mark.parametrize("s", [2, 5, 20, 60])
def test_stages_do_what_their_polynomial_says_and_reach_two_thirds_of_their_square(s):
    first, rows = _coefficients(s)

    def stages(z):
        before, at = 1.0, 1.0 + first * z
        for mu, nu, mu_h, gamma_h in rows:
            now = (1 - mu - nu) + mu * at + nu * before + mu_h * z * at + gamma_h * z
            before, at = at, now
        return at

    assert _made_by(s, stages(0.7)) == pytest.approx(0.7, rel=1e-12)
    assert stages(1e-3) == pytest.approx(1 + 1e-3 + 0.5e-6, abs=1e-9)
    reach = 0.65 * (s * s - 1)
    assert max(abs(stages(-z)) for z in np.linspace(0.01, reach, 400)) <= 1.0


def test_growth_beside_stiff_weights_is_timed_better_the_tighter_the_tolerance():
    start = Vector((np.array([1e-6, 3e-7, 1e-3, 1e-3]),))
    rates = [0.3, 0.2, -400.0, -10.0]

    flow, spent = saddle(rates), []

    def field(w: Vector) -> tuple[float, Vector]:
        spent.append(w)
        return flow(w)

    def error(tolerance: float) -> tuple[float, int]:
        spent.clear()
        course = integrate(field, start, tolerance=tolerance)
        here = next(here for here in course if here.weights.parts[0][0] > 1e-2)
        true = math.log(here.weights.parts[0][0] / 1e-6) / 0.3
        return abs(here.time / true - 1), len(spent)

    (coarse, few), (fine, _) = error(0.2), error(0.002)
    assert coarse < 0.03
    assert fine < 0.2 * coarse
    assert few < 0.2 * 30.7 * 400 / 2  # compared with descent at its largest stable rate


@pytest.mark.parametrize("nesterov", [False, True])
@pytest.mark.parametrize("momentum", [0.5, 0.9])
def test_clock_of_momentum_is_that_of_its_steps(momentum, nesterov):
    rate, lr = 2.0, 0.01
    w = half = 1.0
    v, count = 0.0, 2000
    for k in range(count):
        g = -rate * w
        v = momentum * v + g
        w -= lr * (g + momentum * v if nesterov else v)
        if k == count // 2:
            half = w
    seen = math.log(w / half) / (count - 1 - count // 2)
    rule = SGD(lr, momentum=momentum, nesterov=nesterov)
    assert 1 / rule.steps(rate) * rate == pytest.approx(seen, rel=1e-6)
    assert rule.steps(1e-7) == pytest.approx((1 - momentum) / lr)


def course(time, loss, speed):
    return Course(time=list(time), loss=list(loss), speed=list(speed))


def test_a_fall_that_slows_down_is_no_drop_and_one_that_speeds_up_is():
    t = np.linspace(0, 60, 400)
    falling = np.exp(-0.1 * t)
    assert course(t, falling, 0.1 * falling).drop() is None
    s = 1 / (1 + np.exp(-(t - 30)))
    drop = course(t, 1 - 0.6 * s, 0.6 * s * (1 - s)).drop()
    assert drop is not None
    assert (drop.above, drop.below) == (pytest.approx(1.0, abs=1e-6), pytest.approx(0.4, abs=0.05))


def test_passage_between_samples_that_grow_exponentially_is_exact():
    t = np.array([0.0, 4.0, 8.0, 12.0])
    seen = course(t, 1 - 1e-4 * np.exp(0.8 * t), 0.8e-4 * np.exp(0.8 * t))
    assert seen.passage(0, 0.1) == pytest.approx(math.log(0.1001 / 1e-4) / 0.8, rel=1e-6)
