"""Test growth rates of trained pathways against statistics of the data that they see."""

import numpy as np
import pytest
from scipy.special import polygamma

from festina._precision import float64
from festina.dynamics import gradient_descent
from festina.networks import fully_connected, seeds
from festina.papers._growth import growth_rate
from festina.papers.haste import _equivalence
from festina.papers.race import _outcomes
from festina.tasks import Task, objects_in_contexts


def correlated(singular_values, rng):
    x = rng.normal(size=(40, 3))
    x = np.linalg.qr(x)[0] * np.sqrt(40)
    turn = np.linalg.qr(rng.normal(size=(3, 3)))[0]
    return Task(x, x @ np.diag(singular_values) @ turn, np.full(40, 1 / 40))


def test_pathways_grow_at_the_largest_singular_value_of_what_they_see():
    task = correlated([2.0, 0.8, 0.5], np.random.default_rng(3))
    gate = np.arange(40) % 3 > 0
    seen = (task.y * gate[:, None]).T @ task.x / 40
    s = np.linalg.svd(seen, compute_uv=False)[0]
    assert float64(growth_rate)(task, gate, seeds(3)) == pytest.approx(s, rel=0.01)
    assert float64(growth_rate)(task, 1.0 * gate, seeds(3)) == pytest.approx(s, rel=0.01)


def test_pathways_that_have_nothing_to_learn_do_not_grow():
    task = correlated([2.0, 0.8, 0.5], np.random.default_rng(3))
    assert abs(float64(growth_rate)(task, np.zeros(40), seeds(2), slowest=0.1)) < 1e-6


@pytest.mark.parametrize("shape", [0.05, 1.0])
def test_the_spread_of_networks_is_that_of_logarithms_of_few_units(shape):
    """Logarithms of Γ-distributed strengths have the trigamma function as their variance."""
    units, margin = 32, 0.9
    kappa = np.random.default_rng(1).gamma(shape, size=(400, units, 6))
    row = _outcomes._row(kappa, margin, np.zeros((1, 400)))
    of_one = polygamma(1, shape * units)
    variance = of_one / 2 / margin**2 + of_one / (2 + margin**2)
    assert float(row["varies"]) == pytest.approx(np.sqrt(variance), rel=0.05)


def test_gates_that_are_read_before_every_step_are_those_of_a_rectifier():
    task, keys = objects_in_contexts(4, 3), seeds(2)
    network = fully_connected(7, 20, task.outputs, activation="relu", scale=0.1, key=keys)
    step = _equivalence._STEP
    trained = gradient_descent(
        network, task, step, 40, batch_size=len(task.x), key=keys, save_every=10, loss="half"
    )
    same, rarely = (
        _equivalence._read_again(network, task, n, steps=40, save_every=10) for n in (1, 20)
    )
    np.testing.assert_allclose(same, trained.loss, rtol=1e-5)
    assert np.abs(rarely / trained.loss - 1).max() > 1e-4
