"""Test chains against posteriors known exactly at any width or in the limit of large width."""

import functools

import jax
import numpy as np
import pytest

from festina.dynamics.posterior import infinite_width_limit, sample
from festina.dynamics.posterior._model import reduce
from festina.networks._width_scaled_network import readout_variance_of
from festina.tasks import classification, from_arrays, orthogonal_inputs, targets_per_class
from festina.theory.coding import classification_code, linear_code

KEY = jax.random.key(0)


def constant(z):
    return 1.0 + 0.0 * z


def one_number(y, scaling, variance, width, temperature):
    """Return mean and variance of f = N^{-γ} Σ a, which is Gaussian because φ = 1."""
    prior, noise = (
        (variance, temperature) if scaling == "lazy" else (variance / width, temperature / width)
    )
    precision = 1 / prior + len(y) / noise
    return y.sum() / noise / precision, 1 / precision


@pytest.mark.slow
@pytest.mark.parametrize(("scaling", "width"), [("lazy", 1), ("non-lazy", 7)])
def test_a_gaussian_posterior_has_its_moments(scaling, width):
    """Long steps are often rejected; without the accept-reject test the moments would be wrong."""
    y = np.array([0.3, 1.0, 0.8])
    drawn = sample(
        from_arrays(np.eye(3), y),
        width=width,
        activation=constant,
        scaling=scaling,
        temperature=0.7,
        readout_variance=0.5,
        chains=16,
        anneal=20,
        burn=0,
        moves=1000,
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


@pytest.mark.slow
@pytest.mark.parametrize("step", [0.2, 0.4])
def test_langevin_is_off_by_the_square_of_its_step(step):
    """Leapfrog steps of length ε turn an oscillator's ω² into exactly ω²(1 − ε²ω²/4)."""
    y = np.array([0.3, 1.0, 0.8])
    drawn = sample(
        from_arrays(np.eye(3), y),
        width=1,
        activation=constant,
        scaling="lazy",
        temperature=0.3,
        readout_variance=1.0,
        method="langevin",
        chains=64,
        anneal=0,
        burn=0,
        moves=1200,
        thin=4,
        leapfrog=2,
        step=step,
        jitter=0.0,
        friction=2.0,
        key=KEY,
    )
    _, variance = one_number(y, "lazy", 1.0, 1, 0.3)
    f = drawn.seen.outputs[:, 100:, 0, 0]
    np.testing.assert_allclose(f.var(), variance / (1 - step**2 / variance / 4), rtol=0.04)


def test_a_linear_network_has_the_moments_of_theory():
    given = orthogonal_inputs([4, 4, 4], other=-0.5)
    theory = linear_code(given, temperature=0.1)
    drawn = sample(
        given,
        width=50,
        temperature=0.1,
        chains=4,
        anneal=100,
        burn=100,
        moves=200,
        thin=4,
        key=KEY,
    )
    mean = lambda each: each.mean(axis=(0, 1))
    np.testing.assert_allclose(mean(drawn.seen.outputs), theory.outputs, atol=0.02)
    np.testing.assert_allclose(mean(drawn.seen.kernels[0]), theory.kernel, atol=0.12)
    found, wanted = mean(drawn.seen.readout_covariance), theory.readout_covariance
    np.testing.assert_allclose(found, wanted, atol=0.08 * np.abs(wanted).max())


WHICH = np.repeat(np.arange(3), 20)
SAME = (WHICH[:, None] == WHICH) & ~np.eye(60, dtype=bool)


@functools.cache
def toy(activation, other, width):
    """Return samples and theory for P = 60 examples, three equal classes and T = 0.01.

    With targets of both signs chains mix more slowly: of 600 moves only some 100 are independent.
    """
    given = orthogonal_inputs([20] * 3, other=other)
    drawn = sample(
        given,
        width=width,
        activation=activation,
        temperature=0.01,
        chains=4,
        anneal=600,
        burn=300,
        moves=2400 if other else 600,
        precision="single",
        key=jax.random.key(width),
    )
    return drawn, classification_code(
        [20] * 3, activation, targets=targets_per_class(3, other=other)
    )


@pytest.mark.slow
@pytest.mark.parametrize("other", [0.0, -0.5])
@pytest.mark.parametrize("activation", ["linear", "erf", "erf-sigmoid", "relu"])
def test_the_toy_at_width_200_is_as_theory_has_it(activation, other):
    drawn, code = toy(activation, other, 200)
    kernel, u, f = (
        each.mean(axis=(0, 1))
        for each in (drawn.seen.kernels[0], drawn.seen.readout_covariance, drawn.seen.outputs)
    )
    # Kernels differ from theory by the frozen populations
    frozen = (activation, other) == ("erf-sigmoid", -0.5)
    near = 0.03 if frozen else 0.01 * code.kernel[0, 0]
    np.testing.assert_allclose(kernel[SAME].mean(), code.kernel[0, 0], atol=near)
    far = 0.03 if frozen else 0.012 if activation == "relu" else 0.006
    np.testing.assert_allclose(kernel[WHICH[:, None] != WHICH].mean(), code.kernel[0, 1], atol=far)
    np.testing.assert_allclose(np.diag(u).mean(), code.readout_moment[0, 0], rtol=0.015)
    own = np.eye(3, dtype=bool)[WHICH]
    np.testing.assert_allclose(f[own].mean(), code.outputs[0, 0], atol=0.002)
    found = drawn.diagnostics()
    assert max(found.rhat["loss"], found.rhat["trace_U"]) <= 1.05
    assert found.rhat["potential"] <= 1.05 or found.populations.frozen
    assert found.converged
    assert found.populations.frozen or activation not in ("erf", "erf-sigmoid")


@pytest.mark.slow
def test_the_potential_of_a_chain_depends_on_its_frozen_codewords():
    """Counts of codewords explain most of the differences between chains that share all else."""
    drawn = sample(
        orthogonal_inputs([20] * 3, other=-0.5),
        width=200,
        activation="erf-sigmoid",
        temperature=0.01,
        chains=24,
        anneal=600,
        burn=300,
        moves=600,
        precision="single",
        key=jax.random.key(5),
    )
    potential = drawn.kept("potential")
    mean = potential.mean(axis=1) - potential.mean()
    halves = np.stack([half.mean(axis=1) for half in np.array_split(potential, 2, axis=1)])
    # Each chain keeps its own level
    assert mean.std() > 1.5 * np.diff(halves, axis=0).std() / 2
    words, counts = drawn.populations.words, 200 * drawn.populations.shares
    alone = sum(counts[:, k] for k, word in enumerate(words) if word.count("1") == 1)
    uneven = ((counts - 200 / 6) ** 2).sum(axis=1)
    known = np.stack([np.ones(24), alone, (alone - 100) ** 2, uneven], axis=1)
    residual = mean - known @ np.linalg.lstsq(known, mean)[0]
    # Three numbers without effect would explain 3/23 of the variance.
    assert residual.var() < 0.5 * mean.var()


@pytest.mark.slow
@pytest.mark.parametrize("activation", ["linear", "erf"])
def test_wider_networks_are_closer_to_theory(activation):
    def deviation(width):
        drawn, code = toy(activation, 0.0, width)
        return abs(drawn.seen.kernels[0][:, :, SAME].mean() - code.kernel[0, 0])

    assert deviation(500) < 0.7 * deviation(200)


def test_inputs_that_no_example_has_keep_their_prior():
    """For D > P inputs, weights are sampled in P directions; the kernel K₀ of all D is the same."""
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
    ("depth", "outputs", "scaling"),
    [pytest.param(1, 1, "lazy", marks=pytest.mark.slow), (3, 2, "non-lazy")],
)
def test_potentials_are_minus_the_log_of_the_posterior(depth, outputs, scaling):
    """Potentials of several architectures match those of the drawn networks."""
    rng = np.random.default_rng(2)
    x, y = rng.normal(size=(4, 3)), rng.normal(size=(4, outputs))
    drawn = sample(
        from_arrays(x, y),
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
    np.testing.assert_array_equal(targets_per_class(3, other=-0.5)[0], [1, -0.5, -0.5])
    for depth in (1, 2):
        assert readout_variance_of(None, 6, depth, "non-lazy") == pytest.approx(6 ** (-1 / depth))


@pytest.mark.slow
def test_the_limit_of_wide_networks_is_that_of_theory():
    """Linear networks of widths 10 and 20 are far from theory, but their limit is close to it."""
    how = {"anneal": 100, "burn": 100, "moves": 500, "thin": 5, "precision": "single"}
    limit = infinite_width_limit(
        orthogonal_inputs([4, 4]),
        widths=(10, 20),
        chains=8,
        temperature=0.1,
        key=KEY,
        **how,
    )
    theory = classification_code([4, 4], "linear", temperature=0.1)
    off = lambda kernel: np.diag(kernel).mean() - theory.kernel_diagonal.mean()
    widest = limit.drawn[-1].seen.kernels[0].mean((0, 1))
    assert abs(off(limit.kernels[0].value)) < 0.25 * abs(off(widest))
    apart = limit.outputs.value[:4, 0] - theory.outputs[0, 0]
    assert np.all(np.abs(apart) < 5 * limit.outputs.error[:4, 0])


def test_a_limit_needs_two_widths():
    with pytest.raises(ValueError, match="two `widths`"):
        infinite_width_limit(orthogonal_inputs([4, 4]), widths=(30,), temperature=0.1, key=KEY)


def mean_and_error(chains):
    return chains.mean(), chains.std(ddof=1) / len(chains) ** 0.5


@pytest.mark.slow
def test_the_limit_of_two_layers_is_that_of_a_wide_network():
    """The reference is a network four times as wide, because two hidden layers have no theory."""
    toy, which = orthogonal_inputs([10, 10, 10]), np.repeat(range(3), 10)
    how = {
        "activation": "erf-sigmoid",
        "depth": 2,
        "temperature": 0.03,
        "anneal": 600,
        "burn": 300,
        "moves": 600,
        "precision": "single",
    }
    limit = infinite_width_limit(toy, widths=(30, 60), chains=8, key=KEY, **how)
    wide = sample(toy, width=240, chains=8, key=jax.random.key(1), **how)
    own = (which[:, None] == which) & ~np.eye(30, dtype=bool)
    for layer, kernel in enumerate(limit.kernels):
        runs = *limit.drawn, wide
        # The chains of each width
        chains = [run.seen.kernels[layer][..., own].mean((1, 2)) for run in runs]
        (narrow, middle, there), errors = zip(*map(mean_and_error, chains), strict=True)
        # The line a + b/width through the two widths gives the limit, and the value at width 240.
        np.testing.assert_allclose(kernel.value[own].mean(), 2 * middle - narrow, atol=1e-6)
        off = 1.75 * middle - 0.75 * narrow - there
        assert abs(off) < 3 * np.linalg.norm(np.multiply(errors, (0.75, 1.75, 1)))
        assert abs(middle - there) > 2 * np.linalg.norm(errors[1:])
