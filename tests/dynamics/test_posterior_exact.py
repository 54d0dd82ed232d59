"""Chains against posteriors that are known: exactly at any width, or as the width grows."""

import functools

import jax
import numpy as np
import pytest
from blackjax.mcmc import integrators, metrics

from festina.dynamics.posterior import sample
from festina.dynamics.posterior._model import Data, Model, log_density, reduce
from festina.networks._code_activations import sigmoid
from festina.tasks import class_targets, classification, orthogonal_classes, task
from festina.theory.coding import linear_code

KEY = jax.random.key(0)


def constant(z):
    return 1.0 + 0.0 * z


def one_number(y, scaling, variance, width, temperature):
    """Mean and variance of f = N^{-γ} Σ a, which is Gaussian: φ = 1 sees no input."""
    prior, noise = (
        (variance, temperature) if scaling == "lazy" else (variance / width, temperature / width)
    )
    precision = 1 / prior + len(y) / noise
    return y.sum() / noise / precision, 1 / precision


@pytest.mark.parametrize("scaling", ["lazy", "non-lazy"])
@pytest.mark.parametrize("width", [1, 7])
def test_a_gaussian_posterior_has_its_moments(scaling, width):
    """With steps so long that many moves are refused: without the test moments would be others."""
    y = np.array([0.3, 1.0, 0.8])
    drawn = sample(
        task(np.eye(3), y),
        width=width,
        activation=constant,
        scaling=scaling,
        temperature=0.7,
        readout_variance=0.5,
        chains=16,
        anneal=20,
        burn=0,
        moves=2000,
        thin=4,
        leapfrog=3,
        step=0.6,
        acceptance=0.5,
        key=KEY,
    )
    mean, variance = one_number(y, scaling, 0.5, width, 0.7)
    f = drawn.seen.outputs[..., 0, 0]
    assert drawn.kept("acceptance").mean() < 0.97
    error = np.sqrt(variance / (drawn.diagnostics().ess["outputs"]))
    assert abs(f.mean() - mean) < 4 * error
    np.testing.assert_allclose(f.var(), variance, rtol=0.08)


@pytest.mark.parametrize("step", [0.2, 0.4])
def test_langevin_is_off_by_the_square_of_its_step(step):
    """An oscillator of frequency ω in leapfrogs has ω²(1 − ε²ω²/4) in place of ω², exactly."""
    y = np.array([0.3, 1.0, 0.8])
    drawn = sample(
        task(np.eye(3), y),
        width=1,
        activation=constant,
        scaling="lazy",
        temperature=0.3,
        readout_variance=1.0,
        method="langevin",
        chains=64,
        anneal=0,
        burn=0,
        moves=3000,
        thin=5,
        leapfrog=2,
        step=step,
        jitter=0.0,
        friction=2.0,
        key=KEY,
    )
    _, variance = one_number(y, "lazy", 1.0, 1, 0.3)
    f = drawn.seen.outputs[:, 100:, 0, 0]
    np.testing.assert_allclose(f.var(), variance / (1 - step**2 / variance / 4), rtol=0.04)


@pytest.mark.parametrize("depth", [1, 2])
def test_the_energy_error_falls_as_the_square_of_the_step(depth):
    rng = np.random.default_rng(0)
    model = Model(6, 4, 2, depth, "sigmoid", sigmoid, "non-lazy")
    with jax.enable_x64(True):
        data = Data(rng.normal(size=(5, 4)), rng.normal(size=(5, 2)), np.asarray(0.7))
        target = functools.partial(log_density, model, data, np.asarray(0.1))
        position, momentum = rng.normal(size=(2, model.size))
        metric = metrics.default_metric(np.ones(model.size))
        step = integrators.velocity_verlet(target, metric.kinetic_energy)

        def error(steps):
            state = integrators.IntegratorState(
                position, momentum, *jax.value_and_grad(target)(position)
            )
            one = lambda _, state: step(state, 0.3 / steps)
            end = jax.lax.fori_loop(0, steps, one, state)
            energy = lambda s: -s.logdensity + 0.5 * (s.momentum**2).sum()
            return abs(float(energy(end) - energy(state)))

        errors = np.array([error(steps) for steps in (32, 64, 128)])
    np.testing.assert_allclose(errors[:-1] / errors[1:], 4.0, rtol=0.15)


@functools.cache
def linear_run(width, other):
    return sample(
        orthogonal_classes([4, 4, 4], other=other),
        width=width,
        temperature=0.1,
        chains=4,
        anneal=200,
        burn=200,
        moves=600,
        thin=5,
        key=KEY,
    )


@pytest.mark.parametrize("other", [0.0, -0.5])
def test_a_linear_network_has_the_moments_of_theory(other):
    given = orthogonal_classes([4, 4, 4], other=other)
    theory = linear_code(given, temperature=0.1)
    drawn = linear_run(50, other)
    mean = lambda each: each.mean(axis=(0, 1))
    np.testing.assert_allclose(mean(drawn.seen.outputs), theory.outputs, atol=0.02)
    np.testing.assert_allclose(mean(drawn.seen.kernels[0]), theory.kernel, atol=0.12)
    found, wanted = mean(drawn.seen.readout_covariance), theory.readout_covariance
    np.testing.assert_allclose(found, wanted, atol=0.08 * np.abs(wanted).max())
    assert drawn.diagnostics().rhat["loss"] < 1.05


def test_inputs_that_no_example_has_keep_their_prior():
    """D > P: sampled in P directions, and as in all D of them to the last digit of K₀."""
    rng = np.random.default_rng(1)
    x = rng.normal(size=(5, 40))
    reduced, basis = reduce(x)
    assert reduced.shape == (5, 5)
    np.testing.assert_allclose(reduced @ reduced.T, x @ x.T / 40, atol=1e-12)
    drawn = sample(
        classification(x, [0, 0, 1, 1, 1], other=-1.0),
        width=30,
        activation="erf",
        temperature=0.1,
        chains=2,
        anneal=20,
        burn=20,
        moves=20,
        thin=5,
        key=KEY,
    )
    assert drawn.weights[0].shape == (2, 4, 30, 5)
    networks = drawn.networks(key=KEY)
    assert networks.weights[0].shape == (2, 4, 30, 40)
    np.testing.assert_allclose(drawn.predict(x, key=KEY), drawn.seen.outputs, atol=1e-10)
    free = networks.weights[0] - networks.weights[0] @ basis @ basis.T
    np.testing.assert_allclose((free**2).sum(-1).mean(), 35, rtol=0.1)
    one = jax.tree.map(lambda leaf: leaf[0, 0], networks)
    with jax.enable_x64(True):
        np.testing.assert_allclose(one(x[2]), drawn.seen.outputs[0, 0, 2], atol=1e-10)


@pytest.mark.parametrize(
    ("depth", "outputs", "scaling"), [(1, 1, "lazy"), (2, 3, "non-lazy"), (3, 2, "lazy")]
)
def test_potentials_are_minus_the_log_of_the_posterior(depth, outputs, scaling):
    """Of every architecture, from the networks that are handed out."""
    rng = np.random.default_rng(2)
    x, y = rng.normal(size=(4, 3)), rng.normal(size=(4, outputs))
    drawn = sample(
        task(x, y),
        width=5,
        depth=depth,
        activation="relu",
        scaling=scaling,
        readout_variance=0.3,
        temperature=0.2,
        chains=2,
        anneal=5,
        burn=5,
        moves=2,
        thin=1,
        key=KEY,
    )
    network = jax.tree.map(lambda leaf: leaf[1, 0], drawn.networks(key=KEY))
    with jax.enable_x64(True):
        f = np.array([network(each) for each in x])
    noise = 0.2 if scaling == "lazy" else 0.2 / 5
    prior = sum((w**2).sum() for w in network.weights) / 2 + (network.readout**2).sum() / 0.6
    wanted = prior + ((y - f) ** 2).sum() / (2 * noise)
    np.testing.assert_allclose(drawn.kept("potential")[1, 0], wanted, rtol=1e-10)


def test_priors_and_targets_are_those_of_the_summary():
    np.testing.assert_array_equal(class_targets(3, other=-0.5)[0], [1, -0.5, -0.5])
    for depth in (1, 2):
        drawn = sample(
            orthogonal_classes([3, 3]),
            width=4,
            depth=depth,
            temperature=1.0,
            chains=1,
            anneal=0,
            burn=1,
            moves=1,
            thin=1,
            key=KEY,
        )
        assert drawn.readout_variance == pytest.approx(6 ** (-1 / depth))
