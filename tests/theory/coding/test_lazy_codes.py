"""The Gaussian process that a lazy network is."""

import numpy as np
import pytest
from scipy.special import erf as scipy_erf

from festina.tasks import task
from festina.theory.coding import lazy_kernel, lazy_predictor

FUNCTIONS = {
    "linear": lambda z: z,
    "erf": lambda z: scipy_erf(np.sqrt(np.pi) / 2 * z),
    "sigmoid": lambda z: (1 + scipy_erf(np.sqrt(np.pi) / 2 * z)) / 2,
    "relu": lambda z: np.maximum(z, 0),
}


@pytest.mark.parametrize("name", FUNCTIONS)
def test_kernels_are_those_of_drawn_networks(name):
    rng = np.random.default_rng(0)
    x, other = 1.5 * rng.normal(size=(4, 3)), rng.normal(size=(5, 3))
    weights = rng.normal(size=(400_000, 3))
    first, second = (FUNCTIONS[name](weights @ each.T / np.sqrt(3)) for each in (x, other))
    drawn = first.T @ second / len(weights)
    error = np.sqrt((first**2).T @ second**2) / len(weights)
    found = lazy_kernel(x, other, activation=name)
    assert (np.abs(found - drawn) < 4.5 * error).all()
    assert np.linalg.eigvalsh(lazy_kernel(x, activation=name))[0] > -1e-12


@pytest.mark.parametrize("name", ["erf", "sigmoid"])
def test_a_function_of_ones_own_goes_by_quadrature(name):
    rng = np.random.default_rng(1)
    x, other = rng.normal(size=(4, 3)), rng.normal(size=(6, 3))
    own = lazy_kernel(x, other, activation=FUNCTIONS[name])
    np.testing.assert_allclose(own, lazy_kernel(x, other, activation=name), rtol=0, atol=1e-8)


@pytest.mark.parametrize("name", FUNCTIONS)
@pytest.mark.parametrize("variance", [1.0, 0.1])
def test_the_predictor_is_that_of_the_joint_gaussian(name, variance):
    rng = np.random.default_rng(2)
    x, y, new = rng.normal(size=(5, 6)), rng.normal(size=(5, 2)), rng.normal(size=(3, 6))
    found = lazy_predictor(
        task(x, y), new, activation=name, readout_variance=variance, temperature=0.05
    )
    joint = variance * lazy_kernel(np.concatenate([x, new]), activation=name)
    inner = joint[:5, :5] + 0.05 * np.eye(5)
    np.testing.assert_allclose(found.mean, joint[5:, :5] @ np.linalg.solve(inner, y), rtol=1e-8)
    left = joint[5:, 5:] - joint[5:, :5] @ np.linalg.solve(inner, joint[:5, 5:])
    np.testing.assert_allclose(found.variance[:, 0], np.diag(left), rtol=1e-7)


def test_the_variance_is_as_large_as_the_prior_that_one_chooses():
    rng = np.random.default_rng(3)
    given, new = task(rng.normal(size=(5, 9)), rng.normal(size=(5, 2))), rng.normal(size=(4, 9))
    one, tenth = (
        lazy_predictor(given, new, readout_variance=s, activation="erf") for s in (1.0, 0.1)
    )
    np.testing.assert_allclose(one.mean, tenth.mean)
    np.testing.assert_allclose(one.variance, 10 * tenth.variance)
