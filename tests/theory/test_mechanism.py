"""Test the mechanism, directions or units, by the order of φ and by the drive of the data."""

import re

import jax.numpy as jnp
import numpy as np
import pytest

from festina.networks import LinearAttentionUnit, NeuronUnit, SoftmaxAttentionUnit, activation
from festina.tasks import from_arrays, linear_teacher, quadratic_teacher
from festina.theory.saddles import lowest_order_drive, mechanism_of_unit
from helpers import untyped

TABLE = [
    ("linear", 1, "directions", "linear", (5, 4, 6, 7)),
    ("relu", 1, "directions", "proportional", (5, 4, 6)),
    ("tanh", 1, "directions", None, (5, 4)),
    ("quadratic", 2, "units", "zero", (5, 4)),
    ("cubic", 3, "units", "zero", (5, 4)),
    ("sigmoid", 0, None, None, (4,)),
    (LinearAttentionUnit(), 2, "units", "zero", (5, 4)),
    (SoftmaxAttentionUnit(), 0, None, None, (4,)),
    (lambda a: a * jnp.tanh(a), 2, "units", "zero", (5, 4)),
    (lambda a: jnp.maximum(a - 0.5, 0.0), None, None, None, (5, 4)),
]


@pytest.mark.parametrize(("phi", "order", "separates", "expected", "equations"), TABLE)
def test_mechanism_by_the_algebra(phi, order, separates, expected, equations):
    found = mechanism_of_unit(phi)
    assert (found.order, found.separates, found.expected) == (order, separates, expected)
    assert found.equations == equations
    assert found.message


def test_what_a_unit_of_order_one_is_for_small_weights_only():
    assert "φ is linear for small weights only" in str(mechanism_of_unit("tanh"))
    rectified = mechanism_of_unit(lambda a: jnp.tanh(jnp.maximum(a, 0.0)))
    assert "φ is homogeneous for small weights only" in str(rectified)


WITHOUT_ORDER = [
    (lambda a: jnp.abs(a) ** 1.5, r"about \|u\|\^1\.5, which is not a whole power"),
    (lambda a: jnp.maximum(jnp.abs(a) - 0.5, 0.0), "units are silent"),
    (lambda a: jnp.maximum(jnp.abs(a) - 0.2, 0.0), "units are silent"),
    (lambda a: 0 * a, "zero for all u"),
]


@pytest.mark.parametrize(("phi", "words"), WITHOUT_ORDER)
def test_why_there_is_no_order(phi, words):
    assert mechanism_of_unit(phi).order is None
    assert re.search(words, str(mechanism_of_unit(phi)))


def test_the_statistic_of_order_one_is_the_correlation_of_inputs_and_targets():
    """For y = Wx with white x, the correlation along the best direction of u is s_1/|W|."""
    weights = np.array([[2.0, 0.0], [0.0, 1.0]])
    found = lowest_order_drive("linear", linear_teacher(weights, np.eye(2)), draws=2000)
    np.testing.assert_allclose(found.strength, 2 / np.sqrt(5), rtol=1e-3)
    assert found.nonzero
    assert found.significant
    assert found.noise == 0


def test_even_targets_do_not_drive_linear_units_and_odd_ones_no_quadratic():
    half = np.random.default_rng(0).normal(size=(50, 2))
    x = np.concatenate((half, -half))
    even, odd = from_arrays(x, np.sum(x**2, axis=1)), from_arrays(x, x[:, 0] ** 3)
    assert not lowest_order_drive("linear", even).nonzero
    assert not lowest_order_drive("tanh", even).nonzero
    assert lowest_order_drive("tanh", odd).nonzero
    assert not lowest_order_drive("quadratic", odd).nonzero
    assert lowest_order_drive(lambda a: a * jnp.tanh(a), even).nonzero
    # ReLU has a linear and an even part, so linear and even targets drive ReLU.
    assert lowest_order_drive("relu", even).nonzero
    assert lowest_order_drive("relu", odd).nonzero


def test_quadratic_units_see_the_traces_of_figure_1g():
    """Σ_yZ = 4I is equally strong in every direction, with ⟨y²⟩ = 8 and ⟨(u·x)⁴⟩ = 3."""
    found = lowest_order_drive("quadratic", quadratic_teacher(np.eye(2)), draws=5)
    np.testing.assert_allclose(found.strength, 4 / np.sqrt(24), rtol=1e-9)


def test_a_drive_that_is_an_accident_of_the_sample_is_no_more_than_that():
    """Odd and even parts have a correlation of zero in the population and 1/√P in a sample."""
    rng = np.random.default_rng(1)
    x = rng.normal(size=(4000, 2))
    found = lowest_order_drive("linear", from_arrays(x, x[:, 0] ** 2 - 1))
    assert found.nonzero
    assert not found.significant
    assert found.noise == pytest.approx(1 / np.sqrt(4000))
    assert lowest_order_drive("linear", from_arrays(x, x[:, 0])).significant


def test_looking_in_many_directions_makes_no_accident_significant():
    """Inputs are independent of the targets, in 25 data sets of fifty inputs."""
    rng = np.random.default_rng(2)
    found = [
        lowest_order_drive("linear", from_arrays(rng.normal(size=(200, 50)), rng.normal(size=200)))
        for _ in range(25)
    ]
    assert np.mean([each.significant for each in found]) < 0.04
    # A threshold of three standard deviations, correct for one direction, is often exceeded by 64.
    assert np.mean([each.strength > 3 * each.noise for each in found]) > 0.05


def test_a_unit_without_an_order_has_no_statistic():
    silent = NeuronUnit(activation(lambda a: jnp.maximum(a - 0.5, 0.0)))
    with pytest.raises(ValueError, match="not a power of u"):
        lowest_order_drive(silent, from_arrays(np.eye(2), np.ones(2)))


def test_arrays_are_no_task(as_a_user):
    with pytest.raises(
        ValueError, match=r"got ndarray\. Make one with festina\.tasks\.from_arrays\(x, y\)"
    ):
        lowest_order_drive("relu", untyped(np.eye(2)))
