"""Test the growing part of small weights against integrated and trained networks."""

import numpy as np
import pytest
from scipy.integrate import solve_ivp

import festina
from festina.networks import deep_linear_from
from festina.tasks import from_moments
from festina.theory.linear import (
    coupled_mode_strengths,
    effective_initial_strengths,
    initial_mode_overlaps,
)


def test_the_growing_part_of_small_weights_against_scipy():
    """Balanced weights only have a growing part, so the solution equals the flow."""
    s = np.array([2.0, 1.3, 0.6])
    rng = np.random.default_rng(5)
    first = 0.1 * rng.normal(size=(4, 3))
    second = first.T
    axes = np.eye(3)
    times = np.linspace(0, 6, 25)

    def velocity(_, theta):
        w1, w2 = theta[:12].reshape(4, 3), theta[12:].reshape(3, 4)
        error = np.diag(s) - w2 @ w1
        return np.concatenate([(w2.T @ error).ravel(), (error @ w1.T).ravel()])

    start = np.concatenate([first.ravel(), second.ravel()])
    flow = solve_ivp(velocity, (0, 6), start, "DOP853", times, rtol=1e-11, atol=1e-14)
    w = [y[12:].reshape(3, 4) @ y[:12].reshape(4, 3) for y in flow.y.T]
    found = coupled_mode_strengths(times, initial_mode_overlaps(first, second, axes, axes), s)
    np.testing.assert_allclose(found, w, atol=1e-9)


def test_lists_time_constants_and_one_time():
    s, gram = [2.0, 1.0], [[0.1, 0.02], [0.02, 0.3]]
    axes, weights = [[1.0, 0.0], [0.0, 1.0]], [[0.3, 0.1], [0.2, -0.4]]
    assert initial_mode_overlaps(weights, weights, axes, axes).shape == (2, 2)
    many = coupled_mode_strengths([0.0, 1.5, 3.0], gram, s)
    np.testing.assert_allclose(many[0], gram, rtol=1e-13)
    slow = coupled_mode_strengths([0.0, 3.0, 6.0], gram, s, tau=2.0)
    np.testing.assert_allclose(slow, many, rtol=1e-13)
    np.testing.assert_array_equal(coupled_mode_strengths(1.5, gram, s), many[1])
    batch = coupled_mode_strengths(1.5, [gram, gram, gram], s)
    np.testing.assert_array_equal(batch, [many[1]] * 3)
    with pytest.raises(ValueError, match=r"`gram` must be.*\(2, 2\) and \(3,\)"):
        coupled_mode_strengths([1.0], gram, [3.0, 2.0, 1.0])
    with pytest.raises(ValueError, match="to go with `left`"):
        initial_mode_overlaps(weights, weights, axes, np.ones((3, 2)))


def test_late_errors_are_of_second_order_and_those_between_modes_of_lower_order():
    s = np.array([2.0, 1.0])
    axes = np.eye(2)
    errors, between = [], []
    for scale in (3e-2, 3e-3):
        network = festina.networks.deep_linear((2, 6, 2), scale=scale, key=festina.seeds(4))
        first, second = map(np.asarray, network.weights)
        times = np.linspace(0, 1.5 * np.log(1 / scale**2), 101)
        task = festina.tasks.linear_teacher(np.diag(s))
        trained = festina.gradient_flow(network, task, times, rtol=1e-11)
        found = coupled_mode_strengths(times, initial_mode_overlaps(first, second, axes, axes), s)
        late = times > 0.3 * times[-1]
        apart = np.asarray(trained.network.end_to_end()) - found
        errors.append(np.abs(apart[:, late]).max())
        between.append(np.abs(apart[..., [0, 1], [1, 0]]).max())
    assert errors[0] < 0.05
    np.testing.assert_allclose(np.log10(errors[0] / errors[1]), 2, atol=0.4)
    np.testing.assert_allclose(np.log10(between[0] / between[1]), 1 + s[1] / s[0], atol=0.2)


def test_the_diagonal_are_effective_strengths_and_too_few_units_are_refused():
    rng = np.random.default_rng(0)
    first, second = rng.normal(size=(2, 3)), rng.normal(size=(3, 2))
    s, axes = np.array([3.0, 2.0, 1.0]), np.eye(3)
    gram = initial_mode_overlaps(first, second, axes, axes)
    expected = effective_initial_strengths(
        deep_linear_from([first, second]), from_moments(np.diag(s))
    )
    np.testing.assert_allclose(np.diagonal(gram), expected, rtol=1e-12)
    with pytest.raises(ValueError, match="fewer hidden units than modes"):
        coupled_mode_strengths(np.array([1.0]), gram, s)
    with pytest.raises(ValueError, match="`singular_values` must be positive"):
        coupled_mode_strengths(np.array([1.0]), np.eye(3), s - 1.0)
