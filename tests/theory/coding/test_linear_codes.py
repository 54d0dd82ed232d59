"""Test linear networks in closed form: each equation by an independent computation."""

import tracemalloc

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st
from scipy.optimize import minimize

from festina.tasks import from_arrays
from festina.theory.coding import (
    classification_code,
    lazy_predictor,
    linear_code,
    linear_code_from_kernel,
    targets_per_class,
)


def data(samples=7, inputs=9, outputs=2, seed=0):
    rng = np.random.default_rng(seed)
    x = rng.normal(size=(samples, inputs))
    return from_arrays(x, rng.normal(size=(samples, outputs)))


@settings(max_examples=25)
@given(
    samples=st.integers(2, 12),
    inputs=st.integers(2, 12),
    outputs=st.integers(1, 4),
    temperature=st.floats(1e-4, 10.0),
    variance=st.floats(1e-2, 10.0),
)
def test_both_equations_hold(samples, inputs, outputs, temperature, variance):
    """The equations hold for every rank of K₀."""
    given_task = data(samples, inputs, outputs)
    code = linear_code(given_task, temperature=temperature, readout_variance=variance)
    k0, t, u = code.prior_kernel, code.dual, code.readout_covariance
    size = np.abs(given_task.y).max()
    np.testing.assert_allclose(temperature * t + k0 @ t @ u, given_task.y, atol=1e-8 * size)
    left = np.linalg.inv(u) + t.T @ k0 @ t
    np.testing.assert_allclose(left, np.eye(outputs) / variance, atol=1e-6 / variance)
    np.testing.assert_allclose(code.kernel, k0 + k0 @ t @ u @ t.T @ k0, rtol=1e-7, atol=1e-8)


def test_the_convex_dual_has_its_minimum_there():
    """BFGS minimises D(t) = −½ log det(1 − σ²tᵀK₀t) − ⟨t, Y⟩ + ½T|t|², which does not contain U."""
    given_task, temperature, variance = data(), 0.3, 0.7
    code = linear_code(given_task, temperature=temperature, readout_variance=variance)

    def dual(x):
        t = x.reshape(given_task.y.shape)
        inside = np.eye(2) - variance * t.T @ code.prior_kernel @ t
        if np.linalg.eigvalsh(inside)[0] <= 1e-9:
            return 1e9
        value = -np.linalg.slogdet(inside)[1] / 2 - (t * given_task.y).sum()
        return value + temperature / 2 * (t**2).sum()

    found = minimize(dual, np.zeros(14), method="BFGS", options={"gtol": 1e-7})
    np.testing.assert_allclose(found.x.reshape(7, 2), code.dual, atol=1e-4)
    assert dual(code.dual.ravel()) <= found.fun + 1e-9


def test_at_zero_temperature_the_kernel_is_explicit():
    given_task = data()
    cold = linear_code(given_task, readout_variance=0.4)
    u, y, k0 = cold.readout_covariance, given_task.y, cold.prior_kernel
    np.testing.assert_allclose(u @ u / 0.4, u + y.T @ np.linalg.solve(k0, y), rtol=1e-9)
    np.testing.assert_allclose(cold.kernel, k0 + y @ np.linalg.solve(u, y.T), rtol=1e-9)
    apart = []
    for temperature in (1e-2, 1e-3, 1e-4):
        warm = linear_code(given_task, temperature=temperature, readout_variance=0.4)
        apart.append(np.abs(warm.kernel - cold.kernel).max())
    np.testing.assert_allclose(np.diff(np.log10(apart)), -1, atol=0.1)


@pytest.mark.parametrize("temperature", [0.0, 0.01, 0.3])
def test_classes_are_a_case_of_it(temperature):
    sizes, y = [3, 5], np.array([[1.0, -0.2], [0.3, 0.8]])
    blocks = classification_code(sizes, "linear", temperature=temperature, targets=y)
    whole = linear_code_from_kernel(np.eye(8), np.repeat(y, sizes, axis=0), temperature=temperature)
    np.testing.assert_allclose(blocks.gram(), whole.kernel, atol=1e-9)
    np.testing.assert_allclose(blocks.readout_moment, whole.readout_covariance, atol=1e-9)


def test_hundreds_of_classes_take_little_room_and_time():
    """Every eigenvalue of U solves its cubic equation, and no array has more than C² entries."""
    rng, count = np.random.default_rng(0), 200
    sizes, y, temperature = rng.integers(1, 60, count), rng.normal(size=(count, count)), 0.3
    tracemalloc.start()
    code = classification_code(sizes, "linear", temperature=temperature, targets=y)
    most = tracemalloc.get_traced_memory()[1]
    tracemalloc.stop()
    assert most < 40 * count**2 * 8
    held = [value for value in vars(code).values() if isinstance(value, np.ndarray)]
    assert max(value.size for value in held) == count**2
    u, s = np.sort(np.linalg.eigvalsh(code.readout_moment)), code.readout_variance
    g = np.sort(np.linalg.eigvalsh((y.T * sizes) @ y))
    np.testing.assert_allclose((u - s) * (u + temperature) ** 2, s * g * u, rtol=1e-6, atol=1e-12)
    np.testing.assert_allclose(y - code.outputs, temperature * code.dual, atol=1e-9)
    assert len(str(code)) < 600


def test_many_outputs_and_any_kernel():
    """Both equations hold for a general kernel K₀ and a U with thousands of entries."""
    rng = np.random.default_rng(1)
    x, y = rng.normal(size=(60, 90)), rng.normal(size=(60, 50))
    code = linear_code(from_arrays(x, y), temperature=0.1)
    k0, t, u = code.prior_kernel, code.dual, code.readout_covariance
    np.testing.assert_allclose(0.1 * t + k0 @ t @ u, y, atol=1e-9)
    np.testing.assert_allclose(np.linalg.inv(u) + t.T @ k0 @ t, 60 * np.eye(50), atol=1e-7)


def test_two_hidden_layers():
    targets = np.repeat(targets_per_class(3, other=-0.5), 20, axis=0)
    code = linear_code_from_kernel(np.eye(60), targets, depth=2)
    assert code.kernel[0, 1] == pytest.approx(1.786, abs=1e-3)
    assert code.readout_covariance[0, 0] == pytest.approx(0.679, abs=1e-3)
    assert "2 hidden layers" in str(code)


@pytest.mark.parametrize("depth", [1, 2])
def test_many_examples_make_a_power_law(depth):
    """U^{L+1} → σ_a^{2L} G, with corrections that fall with P."""
    errors = []
    for samples in (10**2, 10**4):
        variance = samples ** (-1 / depth)
        code = linear_code_from_kernel(
            np.eye(2), np.sqrt(samples) * np.eye(2)[:, :1], depth=depth, readout_variance=variance
        )
        u = code.readout_covariance[0, 0]
        errors.append(abs(u ** (depth + 1) / (variance**depth * samples) - 1))
    assert errors[1] < 0.2 * errors[0]


def test_the_mean_predictor_becomes_the_lazy_one():
    given_task = data(6, 10, 2)
    x = np.random.default_rng(5).normal(size=(20, 10))
    lazy = lazy_predictor(given_task, x, readout_variance=1.0)
    apart = []
    for temperature in (1e-1, 1e-2, 1e-3, 0.0):
        code = linear_code(given_task, temperature=temperature)
        apart.append(np.abs(code.mean(x) - lazy.mean).max())
    np.testing.assert_allclose(np.diff(np.log10(apart[1:3])), -1, atol=0.1)
    assert apart[3] < 1e-10
    two = linear_code(given_task, depth=2)
    np.testing.assert_allclose(two.mean(x), lazy.mean, atol=1e-9)
    with pytest.raises(ValueError, match="one hidden layer"):
        two.predictor(x, width=10)


@pytest.mark.parametrize("temperature", [0.0, 0.2])
def test_the_variance_by_the_covariance_of_drawn_neurons(temperature):
    """Compare with Cov(a z) of examples and new inputs, from many drawn neurons."""
    given_task = data(4, 6, 2, seed=3)
    rng = np.random.default_rng(1)
    x = rng.normal(size=(3, 6))
    code = linear_code(given_task, temperature=temperature, readout_variance=0.5)
    predictor = code.predictor(x, width=100)
    count = 250_000
    a = rng.multivariate_normal(np.zeros(2), code.readout_covariance, size=count)
    both = np.concatenate([given_task.x, x])
    k0 = both @ both.T / 6
    z = rng.multivariate_normal(np.zeros(7), k0, size=count) + a @ (k0[:, :4] @ code.dual).T
    said = (z[:, :, None] * a[:, None, :]).reshape(count, -1)
    mean = said.mean(axis=0).reshape(7, 2)
    np.testing.assert_allclose(mean[:4], code.outputs, atol=0.02)
    np.testing.assert_allclose(mean[4:], predictor.mean, atol=0.02)
    sigma = np.cov(said.T)
    seen, new = slice(8), slice(8, None)
    inner = sigma[seen, seen] + temperature * np.eye(8)
    left = sigma[new, new] - sigma[new, seen] @ np.linalg.solve(inner, sigma[seen, new])
    np.testing.assert_allclose(predictor.variance.ravel(), np.diag(left) / 100, rtol=0.02)


def test_the_error_splits():
    given_task = data(6, 10, 2)
    rng = np.random.default_rng(2)
    x, y = rng.normal(size=(40, 10)), rng.normal(size=(40, 2))
    wide, wider = (linear_code(given_task).predictor(x, width=n).split(y) for n in (100, 400))
    assert wide.bias == wider.bias
    assert wide.variance == pytest.approx(4 * wider.variance)
    assert "accuracy" in str(wide)


def test_repeated_examples_count_as_one_with_less_noise():
    """For singular K₀, two copies of each example at T are one copy at T/2."""
    one = data(4, 6, 2)
    x, y = np.repeat(one.x, 2, axis=0), np.repeat(one.y, 2, axis=0)
    twice = linear_code(from_arrays(x, y), temperature=0.2, readout_variance=0.3)
    once = linear_code(one, temperature=0.1, readout_variance=0.3)
    np.testing.assert_allclose(twice.readout_covariance, once.readout_covariance, rtol=1e-7)
    np.testing.assert_allclose(twice.kernel[::2, ::2], once.kernel, rtol=1e-7)
    cold = linear_code(
        from_arrays(x, y), readout_variance=0.3
    )  # equal copies have equal targets, so they can be fitted at T = 0
    np.testing.assert_allclose(
        cold.kernel[::2, ::2], linear_code(one, readout_variance=0.3).kernel, rtol=1e-7
    )
