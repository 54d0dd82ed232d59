"""Test the Gaussian process of a lazy network."""

import numpy as np
import pytest
from scipy.integrate import quad
from scipy.special import erf as scipy_erf
from scipy.stats import norm

from festina.tasks import from_arrays
from festina.theory.coding import crossover_temperature, lazy_kernel, lazy_predictor

FUNCTIONS = {
    "linear": lambda z: z,
    "erf": lambda z: scipy_erf(np.sqrt(np.pi) / 2 * z),
    "erf-sigmoid": lambda z: (1 + scipy_erf(np.sqrt(np.pi) / 2 * z)) / 2,
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


@pytest.mark.parametrize("name", ["erf", "erf-sigmoid"])
def test_a_function_of_ones_own_goes_by_quadrature(name):
    rng = np.random.default_rng(1)
    x, other = rng.normal(size=(4, 3)), rng.normal(size=(6, 3))
    own = lazy_kernel(x, other, activation=FUNCTIONS[name])
    np.testing.assert_allclose(own, lazy_kernel(x, other, activation=name), rtol=0, atol=1e-8)


def inputs(rng):
    """Draw inputs of several lengths, some of them parallel, opposite, or zero."""
    x = rng.normal(size=(2, 4))
    return x, np.concatenate([rng.normal(size=(1, 4)), x[:1], -0.5 * x[:1], 0 * x[:1]])


@pytest.mark.parametrize("steepness", [0.2, 8.0, 40.0])
def test_steep_functions_have_the_arcsine_kernel(steepness):
    """Compare with the kernel of erf(a z) by Williams (1997)."""
    x, other = inputs(np.random.default_rng(5))
    square = 2 * steepness**2
    norm = np.outer(*(1 + square * (each**2).mean(axis=1) for each in (x, other)))
    exact = 2 / np.pi * np.arcsin(square * (x @ other.T / 4) / np.sqrt(norm))
    found = lazy_kernel(x, other, activation=lambda z: scipy_erf(steepness * z))
    np.testing.assert_allclose(found, exact, atol=1e-9)


@pytest.mark.parametrize("ends", [(-1.0, 1.0), (-0.2371, 0.1234)])
def test_kinked_functions_by_scipy(ends):
    """Compare hard tanh, also with kinks off any grid: E[φ | z] by error functions, then `quad`."""
    x, other = np.random.default_rng(6).normal(size=(2, 4))
    r, c, cross = (x**2).mean(), (other**2).mean(), (x * other).mean()
    left = np.sqrt(c - cross**2 / r)

    def clipped_mean(mean):
        low, high = (np.array(ends) - mean) / left
        inside = mean * (norm.cdf(high) - norm.cdf(low)) - left * (norm.pdf(high) - norm.pdf(low))
        return inside + ends[0] * norm.cdf(low) + ends[1] * norm.sf(high)

    outer = lambda u: (
        np.clip(u, *ends) * clipped_mean(cross / r * u) * norm.pdf(u, scale=np.sqrt(r))
    )
    reach = 9 * np.sqrt(r)
    parts = [quad(outer, a, b)[0] for a, b in ((-reach, ends[0]), ends, (ends[1], reach))]
    found = lazy_kernel(x[None], other[None], activation=lambda z: np.clip(z, *ends)).item()
    assert found == pytest.approx(sum(parts), abs=1e-9)


def test_jumps_of_parallel_inputs_are_exact_and_of_nearly_parallel_ones_are_warned_of():
    """The kernel of the sign is E[sign z sign z′] = 2/π arcsin ρ."""
    x = np.random.default_rng(7).normal(size=(4, 5))
    x /= np.linalg.norm(x, axis=1, keepdims=True)
    found = lazy_kernel(x, np.concatenate([x, -3 * x]), activation=np.sign)
    cosine = np.clip(x @ np.concatenate([x, -x]).T, -1, 1)
    np.testing.assert_allclose(found, 2 / np.pi * np.arcsin(cosine), atol=1e-9)
    near = x + 1e-4 * np.roll(x, 1, axis=1)
    with pytest.warns(UserWarning, match="may be off by up to 0.0.*nearly parallel") as said:
        found = lazy_kernel(x, near, activation=np.sign)
    cosine = x @ near.T / np.linalg.norm(near, axis=1)
    error = np.abs(found - 2 / np.pi * np.arcsin(np.clip(cosine, -1, 1))).max()
    bound = float(str(said[0].message).split("up to ")[1].split()[0])
    assert 1e-6 < error < 1.01 * bound < 0.1  # the warning prints three digits


def test_averages_of_the_class_theory_see_kinks_and_jumps():
    """The variance of φ determines the crossover; kinks and jumps lie off any grid."""
    edge = 0.33347
    step = lambda z: 1.0 * (z > edge)
    share = norm.sf(edge)
    sizes, equal = [20, 20], {"readout_variance": 1.0}
    contrast = crossover_temperature(sizes, "linear", **equal)
    found = crossover_temperature(sizes, step, **equal) / contrast
    assert found**2 == pytest.approx(share * (1 - share), rel=1e-9)
    clipped = lambda z: np.clip(z, -edge, edge)
    found = crossover_temperature(sizes, clipped, **equal) / contrast
    inside = (2 * norm.cdf(edge) - 1) - 2 * edge * norm.pdf(edge)
    assert found**2 == pytest.approx(inside + 2 * edge**2 * share, rel=1e-9)
    with pytest.raises(ValueError, match="`activation` is not smooth on 20,000 panels"):
        lazy_kernel(np.ones((1, 2)), activation=lambda z: np.sin(1e6 * z))


@pytest.mark.parametrize("name", FUNCTIONS)
@pytest.mark.parametrize("variance", [1.0, 0.1])
def test_the_predictor_is_that_of_the_joint_gaussian(name, variance):
    rng = np.random.default_rng(2)
    x, y, new = rng.normal(size=(5, 6)), rng.normal(size=(5, 2)), rng.normal(size=(3, 6))
    found = lazy_predictor(
        from_arrays(x, y), new, activation=name, readout_variance=variance, temperature=0.05
    )
    joint = variance * lazy_kernel(np.concatenate([x, new]), activation=name)
    inner = joint[:5, :5] + 0.05 * np.eye(5)
    np.testing.assert_allclose(found.mean, joint[5:, :5] @ np.linalg.solve(inner, y), rtol=1e-8)
    left = joint[5:, 5:] - joint[5:, :5] @ np.linalg.solve(inner, joint[:5, 5:])
    np.testing.assert_allclose(found.variance[:, 0], np.diag(left), rtol=1e-7)


def test_the_variance_is_as_large_as_the_prior_that_one_chooses():
    rng = np.random.default_rng(3)
    given, new = (
        from_arrays(rng.normal(size=(5, 9)), rng.normal(size=(5, 2))),
        rng.normal(size=(4, 9)),
    )
    one, tenth = (
        lazy_predictor(given, new, readout_variance=s, activation="erf") for s in (1.0, 0.1)
    )
    np.testing.assert_allclose(one.mean, tenth.mean)
    np.testing.assert_allclose(one.variance, 10 * tenth.variance)
