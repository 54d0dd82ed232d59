"""Test the distribution of a neuron and its dual against independent computations."""

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st
from scipy.integrate import quad
from scipy.special import erf as scipy_erf

from festina import networks
from festina.theory.coding import classification_code, targets_per_class, unit_slope_erf
from festina.theory.coding._dual import Dual
from festina.theory.coding._law import Classes
from festina.theory.coding._tilt import tilt


def test_one_output_by_adaptive_quadrature():
    """Compare E[a g′(a t)] of unequal classes with SciPy's integral over a and a grid for z."""
    sizes, y = np.array([3, 5]), np.array([1.0, -0.4])
    code = classification_code(sizes, "erf", temperature=0.1, targets=y)
    t, variance = code.dual[:, 0], code.readout_variance
    z, step = np.linspace(-9, 9, 901, retstep=True)
    phi, normal = scipy_erf(np.sqrt(np.pi) / 2 * z), np.exp(-(z**2) / 2) / np.sqrt(2 * np.pi)
    mean = lambda h, k: step * np.sum(phi**k * np.exp(h * phi) * normal)

    def weight(a):
        grown = np.prod([mean(a * t[c], 0) ** sizes[c] for c in range(2)])
        return np.exp(-(a**2) / (2 * variance)) * grown

    outer = lambda f: quad(lambda a: f(a) * weight(a), -5, 5, epsabs=1e-9, limit=200)[0]
    total = outer(lambda a: 1.0)
    for c in range(2):
        answer = lambda a, s: mean(a * s, 1) / mean(a * s, 0)
        output = outer(lambda a, answer=answer, s=t[c]: a * answer(a, s)) / total
        assert output == pytest.approx(code.outputs[c, 0], abs=1e-5)
        assert y[c] - output == pytest.approx(0.1 * t[c], abs=1e-5)


@pytest.mark.parametrize("activation", ["erf", "erf-sigmoid", np.tanh])
def test_few_examples_by_weighted_draws_from_the_prior(activation):
    """Draw neurons (a, z) from the prior and weight them by exp Σ φ a·t."""
    sizes, y = [2, 3], np.array([[1.0, 0.2], [-0.3, 0.8]])
    code = classification_code(sizes, activation, temperature=0.6, targets=y)
    rng = np.random.default_rng(0)
    count, which = 400_000, np.repeat([0, 1], sizes)
    a = rng.normal(size=(count, 2)) * np.sqrt(code.readout_variance)
    z = rng.normal(size=(count, 5))
    phi = tilt(activation).function(z)
    weight = np.exp((phi * (a @ code.dual.T)[:, which]).sum(axis=1))

    def mean(values):
        """Return the weighted mean with its standard error."""
        average = np.average(values, weights=weight, axis=0)
        off = weight[:, None] * (values - average)
        return average, np.sqrt((off**2).sum(axis=0)) / weight.sum()

    for of, theory in (
        (phi[:, [0]] * a, code.outputs[0]),
        (phi[:, [4]] * a, code.outputs[1]),
        (a[:, [0]] * a, code.readout_moment[0]),
        (phi[:, [0]] * phi[:, 1:3], code.kernel[0]),
        (phi[:, [0, 4]] ** 2, code.kernel_diagonal),
    ):
        seen, error = mean(np.asarray(of))
        assert (np.abs(seen - theory) < 4.5 * error).all()
        assert error.max() < 0.01


def differences(function, x, step=1e-4):
    sides = [(function(x + e), function(x - e)) for e in step * np.eye(len(x))]
    return np.array([(right - left) / (2 * step) for right, left in sides])


@pytest.mark.parametrize("activation", ["erf", "erf-sigmoid"])
def test_gradient_and_curvature_are_those_of_a_convex_function(activation):
    rng = np.random.default_rng(1)
    problem = Classes(
        np.array([4.0, 7.0]), rng.normal(size=(2, 2)), np.eye(2), 0.1, tilt(activation)
    )
    dual = Dual(problem, 0.05)
    for _ in range(3):
        x = 3 * rng.normal(size=4)
        slope = differences(dual.value, x)
        np.testing.assert_allclose(dual.gradient(x), slope, rtol=1e-6, atol=1e-6)
        curved = differences(dual.gradient, x)
        np.testing.assert_allclose(dual.curvature(x), curved, rtol=1e-6, atol=1e-6)
        assert np.linalg.eigvalsh(dual.curvature(x))[0] > 0


@pytest.mark.slow
@settings(max_examples=15)
@given(
    sizes=st.lists(st.integers(1, 40), min_size=1, max_size=3),
    temperature=st.floats(1e-3, 1.0),
    other=st.floats(-1.0, 0.5),
    activation=st.sampled_from(["erf", "erf-sigmoid", "linear", np.tanh]),
)
def test_the_saddle_point_holds_and_classes_may_be_renamed(sizes, temperature, other, activation):
    targets = targets_per_class(len(sizes), other=other)[:, :2]
    code = classification_code(sizes, activation, temperature=temperature, targets=targets)
    np.testing.assert_allclose(targets - code.outputs, temperature * code.dual, atol=1e-6)
    assert np.linalg.eigvalsh(code.kernel)[0] > -1e-9
    assert (code.kernel_diagonal > np.diag(code.kernel)).all()
    assert np.linalg.eigvalsh(code.readout_moment)[0] > 0
    assert sum(group.share for group in code.populations) == pytest.approx(1)
    turned = classification_code(
        sizes[::-1], activation, temperature=temperature, targets=targets[::-1]
    )
    np.testing.assert_allclose(turned.kernel, code.kernel[::-1, ::-1], atol=1e-5)
    np.testing.assert_allclose(turned.outputs, code.outputs[::-1], atol=1e-5)


def test_many_examples_approach_a_limit_as_one_over_their_number():
    codes = [
        classification_code([n, n], "erf-sigmoid", temperature=0.02) for n in (25, 100, 400, 1600)
    ]
    found = np.array([[*code.outputs[0], *code.kernel[0]] for code in codes])
    steps = np.abs(np.diff(found, axis=0)).max(axis=1)
    assert steps[0] > 1e-4
    assert (steps[1:] < 0.4 * steps[:-1]).all()


@pytest.mark.parametrize("activation", ["linear", "erf", "erf-sigmoid", "relu"])
def test_cold_networks_meet_their_targets(activation):
    targets = targets_per_class(2, other=-0.3)
    missing = []
    for temperature in (1e-2, 1e-3, 0.0):
        code = classification_code([20, 30], activation, temperature=temperature, targets=targets)
        missing.append(np.abs(targets - code.outputs).max())
    assert missing[1] == pytest.approx(missing[0] / 10, rel=0.3)
    assert missing[2] < 1e-7


@pytest.mark.parametrize("activation", ["linear", "erf", "erf-sigmoid"])
def test_hot_networks_are_lazy(activation):
    """To first order in 1/T, outputs are the prior's kernel times the targets."""
    sizes, y, unit = np.array([6, 9]), np.array([[1.0, 0.3], [-0.5, 2.0]]), tilt(activation)
    errors = []
    for temperature in (1e2, 1e3):
        code = classification_code(sizes, activation, temperature=temperature, targets=y)
        first = unit.mean**2 * (sizes @ y) + unit.variance * y
        first *= code.readout_variance / temperature
        errors.append(np.abs(code.outputs / first - 1).max())
    assert errors[1] < 2e-3
    assert errors[1] < 0.15 * errors[0]


def test_a_function_of_ones_own_is_as_good_as_a_name():
    given = classification_code([10, 10], unit_slope_erf, temperature=0.05)
    named = classification_code([10, 10], "erf", temperature=0.05)
    np.testing.assert_allclose(given.kernel, named.kernel)
    steeper = classification_code([10, 10], networks.activation("erf"), temperature=0.05)
    assert np.abs(steeper.kernel - named.kernel).max() > 1e-3  # erf(z/√2) is less steep


def test_four_centred_classes_span_three_dimensions():
    code = classification_code(
        [8] * 4, "erf", temperature=0.1, targets=targets_per_class(4, other=-1 / 3)
    )
    np.testing.assert_allclose(code.readout_moment.sum(), 4 * code.readout_variance, rtol=1e-9)
    np.testing.assert_allclose(code.outputs.sum(axis=1), 0, atol=1e-9)
