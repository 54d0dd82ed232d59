"""Test the smallest subgradient at minima on kinks, where no gradient vanishes."""

import numpy as np
import pytest

from festina._numerics._bfgs import bfgs
from festina.theory.saddles._subgradient import smallest_subgradient


def test_zero_lies_between_gradients_of_a_minimum_and_not_beside_it():
    slopes = np.array([[1.0, 0.5], [-0.25, 1.0], [-1.0, -2.0], [0.5, -1.0]])

    def highest(x: np.ndarray) -> tuple[float, np.ndarray]:
        values = slopes @ x + 0.5 * x @ x
        return float(values.max()), slopes[values.argmax()] + x

    at_kink = smallest_subgradient(highest, np.array([1e-12, 0.0]), radius=1e3)
    assert np.linalg.norm(at_kink) < 1e-8
    away = np.array([1.0, 1.0])
    np.testing.assert_allclose(smallest_subgradient(highest, away), highest(away)[1], rtol=1e-8)


def test_the_nearest_side_of_a_kink_that_is_no_minimum():
    steep = lambda x: (max(x[0], 3.0 * x[0]) + x[1], np.array([3.0 if x[0] > 0 else 1.0, 1.0]))
    found = smallest_subgradient(steep, np.array([0.0, 2.0]))
    np.testing.assert_allclose(found, [1.0, 1.0], atol=1e-12)


def test_a_point_on_many_kinks():
    """A sum of ten tilted absolute values has its minimum where all ten are zero."""
    rng = np.random.default_rng(2)
    normals, lean = rng.normal(size=(10, 24)), rng.uniform(-0.9, 0.9, size=10)

    def function(x: np.ndarray) -> tuple[float, np.ndarray]:
        side = normals @ x
        slopes = np.sign(side) + lean
        return float(np.abs(side).sum() + lean @ side), slopes @ normals

    away = np.linalg.svd(normals)[2][-1]  # a direction in which the function is constant
    found = smallest_subgradient(function, away)
    assert np.linalg.norm(found) < 1e-8 < 1e-2 < np.linalg.norm(function(away)[1])


def test_a_descent_onto_a_kink_ends():
    calls = []

    def absolute(x: np.ndarray) -> tuple[float, np.ndarray]:
        calls.append(x)
        return float(1.0 + np.abs(x) @ [1.0, 2.0]), np.sign(x) * [1.0, 2.0]

    end, value, _ = bfgs(absolute, np.array([0.3, -0.7]), lambda *_: False, max_steps=1_000_000)
    assert value == pytest.approx(1.0, abs=1e-12)
    assert np.abs(end).max() < 1e-12
    assert len(calls) < 20_000
