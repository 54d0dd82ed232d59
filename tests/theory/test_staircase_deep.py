"""Test staircases of three and more linear layers against training and chains."""

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

import festina
from festina.diagnose import passage_time
from festina.networks import decoupled, deep_linear, deep_linear_from, seeds
from festina.tasks import linear_teacher
from festina.theory.linear import chain_strength
from festina.theory.saddles import linear_saddle, staircase

COVARIANCE = np.array([[1.0, 0.6, 0.2], [0.6, 1.5, 0.3], [0.2, 0.3, 0.8]])
TEACHER = np.array([[1.2, 0.3, -0.4], [-0.2, 0.5, 0.6]])
TASK = linear_teacher(TEACHER, COVARIANCE)


def passages(network, task, predicted):
    """Return times at which training passes the middles between the predicted levels."""
    run = festina.gradient_flow(network, task, rtol=1e-10)
    middles = 0.5 * (predicted.levels[:-1] + predicted.levels[1:])
    slope = -run.squared_gradient
    return np.array([passage_time(run.time, run.loss, level, slope=slope) for level in middles])


@pytest.mark.slow
@pytest.mark.parametrize(("depth", "scales"), [(3, (1e-2, 1e-3)), (4, (0.1, 0.01))])
def test_random_layers_on_inputs_that_are_not_white_drop_as_they_train(depth, scales):
    """Levels are those of Lemma 6, and the error of times falls with the initial scale.

    Larger weights are integrated from the start, which gives even smaller errors.
    """
    errors = []
    for scale in scales:
        network = deep_linear((3, *(4,) * (depth - 1), 2), scale=scale, key=seeds(1)[0])
        found = staircase(network, TASK)
        assert found.active == ((), (0,), (0, 1))
        levels = [linear_saddle(TASK, modes).loss for modes in found.active]
        np.testing.assert_allclose(found.levels, levels, atol=1e-9)
        errors.append(np.abs(found.times / passages(network, TASK, found) - 1).max())
    assert errors[0] < 5e-4
    assert errors[-1] < 0.3 * errors[0]


@pytest.mark.slow
@settings(max_examples=3, deadline=None)
@given(seed=st.integers(0, 2**32 - 1), depth=st.integers(3, 6))
def test_aligned_layers_follow_their_chains(seed, depth):
    """For white inputs and aligned layers, each mode is an independent chain."""
    rng = np.random.default_rng(seed)
    s, start = np.array([1.5, 1.0, 0.6]), 1e-2**depth
    q, r = (np.linalg.qr(rng.normal(size=(3, 3)))[0] for _ in range(2))
    network = decoupled(q, r, (4,) * (depth - 1), initial_strength=start)
    found = staircase(network, linear_teacher(q * s @ r.T))
    assert found.active == ((), (0,), (0, 1), (0, 1, 2))
    for mode, time in enumerate(found.times):
        strength = lambda t, s=s[mode]: chain_strength(np.array([t]), s, start, depth=depth)[0]
        half = (1 - 1 / np.sqrt(2)) * s[mode]
        assert strength(time * (1 - 1e-3)) < half < strength(time * (1 + 1e-3))


def test_a_narrow_layer_learns_as_many_modes_as_it_has_units():
    network = deep_linear((3, 4, 1, 2), scale=1e-3, key=seeds(1)[0])
    found = staircase(network, TASK)
    assert found.active == ((), (0,))
    assert np.isinf(found.joined[1])


def test_weights_of_nothing_go_nowhere():
    network = deep_linear_from([np.zeros((4, 3)), np.zeros((4, 4)), np.zeros((2, 4))])
    assert staircase(network, TASK).active == ((),)


@pytest.mark.slow
def test_from_a_later_plateau_what_is_left_is_predicted():
    network = deep_linear((3, 4, 4, 2), scale=1e-3, key=seeds(1)[0])
    whole = staircase(network, TASK)
    middle = 0.5 * (whole.times[0] + whole.times[1])
    run = festina.gradient_flow(network, TASK, np.array([0.0, middle]), rtol=1e-10)
    later = deep_linear_from([np.asarray(weight)[-1] for weight in run.network.weights])
    found = staircase(later, TASK)
    assert found.active == ((0,), (0, 1))
    np.testing.assert_allclose(middle + found.times, whole.times[1:], rtol=1e-4)


def test_one_layer_has_no_saddle():
    network = deep_linear((3, 2), scale=1e-3, key=seeds(1)[0])
    with pytest.raises(ValueError, match="two or more"):
        staircase(network, TASK)
