"""Test one-hot items with features: statistics, and time scales of learning."""

import jax
import numpy as np
import pytest

import festina
from festina.tasks import from_moments, signed_tree_features, structured_task
from festina.tasks.worlds import ring, tree
from festina.theory.linear import mode_strengths, modes


def test_items_are_one_hot_and_targets_their_features():
    y = np.arange(6.0).reshape(2, 3)
    task = structured_task(y)
    assert np.array_equal(task.x, np.eye(3))
    assert np.array_equal(task.y, y.T)
    assert np.allclose(task.weight, 1 / 3)
    assert task.labels["item"].tolist() == [0, 1, 2]
    assert (task.samples, task.outputs, task.input_shape) == (3, 2, (3,))


def test_features_of_a_world_are_exact_or_drawn():
    world = tree([2, 2], 0.1)
    exact = structured_task(world, 6)
    assert np.array_equal(exact.y.T, world.exact_features(6))
    drawn = structured_task(world, 3, key=jax.random.key(1))
    assert np.array_equal(drawn.y.T, world.sample(3, key=jax.random.key(1)))
    assert set(np.unique(drawn.y)) <= {-1.0, 1.0}


@pytest.mark.parametrize(("loss", "slower"), [("half-sum", 1), ("half", 4)])
def test_sum_and_mean_are_one_trajectory_on_two_clocks(loss, slower):
    """Sums (Σyx = Y, Σxx = I) and means (Y/P, I/P) learn alike, but means P times more slowly."""
    y = tree([2, 2], 0.1).exact_features(5)
    found = modes(from_moments(y / slower, np.eye(4) / slower))
    b = 0.1
    first, second = b * found.right.T, b * found.left
    unit = festina.networks.NeuronUnit(festina.networks.activation("linear"))
    network = festina.networks.layer_from(unit, first, second.T)
    times = slower * np.linspace(0.0, 3.0, 7)
    run = festina.gradient_flow(network, structured_task(y), times, loss=loss)
    maps = np.einsum("tho,thi->toi", run.network.v, run.network.u)
    strengths = np.einsum("om,toi,im->tm", found.left, maps, found.right)
    assert np.abs(strengths - mode_strengths(times, found, b**2)).max() < 1e-6
    same = mode_strengths(times / slower, modes(from_moments(y)), b**2)
    assert np.abs(strengths - same).max() < 1e-6


@pytest.mark.parametrize(
    ("call", "message"),
    [
        (lambda: structured_task(ring(4)), "`features` must say how many"),
        (lambda: structured_task(np.eye(3), 3), "already"),
        (lambda: structured_task(np.eye(3), key=jax.random.key(0)), "already"),
        (lambda: structured_task(np.ones(3)), r"matrix \(feature, item\), got shape \(3,\)"),
        (lambda: structured_task(ring(4), 3), "at least the number of items, 4"),
        (lambda: structured_task(np.array([[np.nan]])), "must be finite"),
    ],
)
def test_bad_input(call, message):
    with pytest.raises(ValueError, match=message):
        call()


@pytest.mark.parametrize("levels", [1, 2, 3, 5])
def test_splits_of_a_tree_are_its_modes(levels):
    y = signed_tree_features(levels)
    items = 2**levels
    assert y.shape == (items, items)
    # Rows are orthogonal; their squared length is the number of items below the split.
    below = np.repeat(items / 2.0 ** np.arange(levels), 2 ** np.arange(levels))
    assert np.array_equal(y @ y.T, np.diag([items, *below]))
    values = np.linalg.svd(signed_tree_features(levels, spread=0.1), compute_uv=False)
    assert (np.diff(values) < -1e-3 / items).all()
