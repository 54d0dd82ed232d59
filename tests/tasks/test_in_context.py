"""Test in-context regression: exact moments by brute force, levels by the closed form."""

import functools
import itertools

import jax
import jax.numpy as jnp
import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from festina.networks import LinearAttentionUnit, NeuronUnit, SoftmaxAttentionUnit, attention
from festina.tasks import in_context_regression
from helpers import half_loss, random_covariance


def sequences(tokens, w):
    """Return inputs X and targets of tokens `(sample, N + 1, D)`, query last, and task vectors."""
    labels = np.einsum("pnd,pd->pn", tokens, w)
    target = labels[:, -1:].copy()
    labels[:, -1] = 0.0
    return np.concatenate((tokens, labels[..., None]), axis=2).transpose(0, 2, 1), target


def features(x, *, per_token):
    gram = np.einsum("pan,pbn->pab", x, x) / (x.shape[2] - 1 if per_token else 1)
    return np.einsum("pab,pc->pabc", gram, x[:, :, -1]).reshape(len(x), -1)


def exact_moments(covariance, context, *, per_token):
    """Return ⟨ψψᵀ⟩, ⟨yψ⟩ and ⟨y²⟩ by a product rule over every token and the task vector.

    A sequence is a Gaussian vector, in which the loss is a polynomial.
    """
    d = len(covariance)
    # Numbers of nodes for polynomials of degrees 4, 6 and 4
    axes = [3] * (context * d) + [4] * d + [3] * d
    rules = [np.polynomial.hermite_e.hermegauss(n) for n in axes]
    grid = np.stack([g.ravel() for g in np.meshgrid(*[r[0] for r in rules], indexing="ij")], 1)
    weight = functools.reduce(np.multiply.outer, [r[1] / np.sqrt(2 * np.pi) for r in rules]).ravel()
    tokens = grid[:, : (context + 1) * d].reshape(-1, context + 1, d)
    x, y = sequences(tokens @ np.linalg.cholesky(covariance).T, grid[:, -d:])
    psi = features(x, per_token=per_token)
    return (weight * psi.T) @ psi, (weight * y[:, 0]) @ psi, weight @ y[:, 0] ** 2


def found_moments(covariance, context, *, per_token):
    data = in_context_regression(len(covariance), context, token_covariance=covariance)
    found = data.statistics(LinearAttentionUnit(per_token=per_token))
    psi, y = found.psi.reshape(len(found.psi), -1), found.y[:, 0]
    return psi.T @ psi, y @ psi, y @ y + 2 * found.floor


@pytest.mark.parametrize("per_token", [True, False])
@pytest.mark.parametrize(("dimension", "context"), [(1, 1), (1, 2), (1, 5), (2, 1), (2, 2), (3, 1)])
def test_moments_of_the_population_by_brute_force(dimension, context, per_token):
    covariance = random_covariance(np.random.default_rng(10 * dimension + context), dimension)
    exact = exact_moments(covariance, context, per_token=per_token)
    found = found_moments(covariance, context, per_token=per_token)
    for one, other in zip(found, exact, strict=True):
        np.testing.assert_allclose(one, other, rtol=0, atol=1e-11 * np.abs(other).max())


@pytest.mark.parametrize(("dimension", "context"), [(2, 5), (3, 2), (3, 5)])
def test_moments_of_the_population_by_sampling(dimension, context):
    """For larger sizes, averages of P samples converge to the moments with errors of P^(-1/2)."""
    rng = np.random.default_rng(7)
    covariance = random_covariance(rng, dimension) + 0.1 * np.eye(dimension)
    exact = found_moments(covariance, context, per_token=True)
    root = np.linalg.cholesky(covariance).T
    blocks = []
    for _ in range(32):
        tokens = rng.standard_normal((4000, context + 1, dimension)) @ root
        x, y = sequences(tokens, rng.standard_normal((4000, dimension)))
        psi = features(x, per_token=True)
        blocks.append((psi.T @ psi / 4000, y[:, 0] @ psi / 4000))
    for index in (0, 1):
        values = np.stack([block[index] for block in blocks])
        size = np.sqrt(np.mean(values.var(axis=0)))
        errors = [
            np.sqrt(np.mean((values.reshape(-1, n, *values.shape[1:]).mean(1) - exact[index]) ** 2))
            for n in (1, 32)
        ]
        # The error of one block is measured between blocks; the error of 32 blocks is √32 times
        # smaller.
        np.testing.assert_allclose(errors[0], size, rtol=0.1)
        assert errors[1] < 2.0 * size / np.sqrt(32)


def test_sequences_are_what_they_are_said_to_be():
    covariance = np.array([[1.0, 0.5], [0.5, 2.0]])
    data = in_context_regression(
        2, 6, token_covariance=covariance, samples=3000, key=jax.random.key(1)
    )
    assert data.x.shape == (3000, 3, 7)
    assert data.x.dtype == np.float64
    # Labels are linear in the tokens, with one task vector for each sequence.
    for x, y in zip(data.x[:20], data.y[:20], strict=True):
        w, rest, _, _ = np.linalg.lstsq(x[:2, :-1].T, x[2, :-1], rcond=None)
        assert rest < 1e-20
        assert x[2, -1] == 0.0
        np.testing.assert_allclose(w @ x[:2, -1], y[0], rtol=1e-9)
    tokens = data.x[:, :2].transpose(0, 2, 1).reshape(-1, 2)
    errors = np.sqrt((np.outer([1, 2], [1, 2]) + covariance**2) / len(tokens))
    assert (np.abs(tokens.T @ tokens / len(tokens) - covariance) < 4 * errors).all()
    again = in_context_regression(
        2, 6, token_covariance=covariance, samples=3000, key=jax.random.key(1)
    )
    np.testing.assert_array_equal(data.x, again.x)


def learned(variances, context, learned):
    """Return the loss, without ½, after the given directions have been learned exactly."""
    lam = np.asarray(variances)
    removed = lam / (1 + (1 + lam.sum() / lam) / context)
    return lam.sum() - sum(removed[d] for d in learned)


def test_levels_of_figure_1f():
    assert learned([1, 1], 32, []) == 2
    np.testing.assert_allclose(learned([1, 1], 32, [0]), 38 / 35)
    np.testing.assert_allclose(learned([1, 1], 32, [0, 1]), 6 / 35)
    floor = in_context_regression(2, 32).statistics(LinearAttentionUnit()).floor
    np.testing.assert_allclose(2 * floor, 6 / 35, rtol=1e-12)


@given(size=st.integers(1, 3), context=st.integers(1, 40), seed=st.integers(0))
@settings(max_examples=12)
def test_the_floor_is_the_level_with_every_direction_learned(size, context, seed):
    """The floor is correct for diagonal and other covariances Λ, with and without 1/N."""
    rng = np.random.default_rng(seed)
    variances = rng.uniform(0.2, 2.0, size)
    axes = np.linalg.qr(rng.standard_normal((size, size)))[0]
    data = in_context_regression(size, context, token_covariance=(axes * variances) @ axes.T)
    for per_token in (True, False):
        floor = data.statistics(LinearAttentionUnit(per_token=per_token)).floor
        np.testing.assert_allclose(2 * floor, learned(variances, context, range(size)), rtol=1e-9)


@pytest.mark.usefixtures("double")
def test_every_set_of_learned_directions_has_its_level_and_no_gradient():
    """With one head per direction, the closed form's weights have no gradient, for every subset."""
    variances, context, size = np.array([1.3, 0.8, 0.5]), 4, 3
    statistics = in_context_regression(
        size, context, token_covariance=np.diag(variances)
    ).statistics(LinearAttentionUnit())
    gain = 1 / (variances * (1 + (1 + variances.sum() / variances) / context))
    network = attention(size, size, scale=1.0, key=jax.random.key(0))

    @jax.jit
    def loss_and_gradient(u, v):
        make = lambda u, v: type(network)(u, v, network.unit)
        loss = lambda weights: half_loss(make(*weights), statistics)
        return jax.value_and_grad(loss)((u, v))

    for count in range(size + 1):
        for subset in itertools.combinations(range(size), count):
            u, v = np.zeros_like(network.u), np.zeros_like(network.v)
            for d in subset:  # v reads the labels; key and query read the direction
                u[d, :, 0, d] = v[d, 0, -1] = np.cbrt(gain[d])
            loss, gradient = loss_and_gradient(u, v)
            np.testing.assert_allclose(2 * loss, learned(variances, context, subset), rtol=1e-12)
            assert max(np.abs(g).max() for g in gradient) < 1e-12


@pytest.mark.usefixtures("double")
def test_raw_attention_is_the_one_with_1_over_n_in_other_units():
    """Raw Eq. (69) at (ε, η) is the 1/N model at (N^{1/3}ε, N^{2/3}η), step by step."""
    context, rate, scale = 7, 0.01, 0.2
    data = in_context_regression(2, context, token_covariance=np.diag([1.0, 0.5]))

    def losses(per_token, rate, scale):
        network = attention(2, 3, per_token=per_token, scale=scale, key=jax.random.key(5))
        statistics = data.statistics(network.unit)
        slope = jax.value_and_grad(lambda network: half_loss(network, statistics))

        def step(network, _):
            loss, gradient = slope(network)
            return jax.tree_util.tree_map(lambda w, g: w - rate * g, network, gradient), loss

        start = jax.tree_util.tree_map(jnp.asarray, network)
        return np.asarray(jax.lax.scan(step, start, length=300)[1])

    raw = losses(False, rate, scale)
    other = losses(True, rate * context ** (2 / 3), scale * context ** (1 / 3))
    assert raw[-1] < 0.8 * raw[0]
    np.testing.assert_allclose(raw, other, rtol=0, atol=1e-12)


def test_the_population_is_for_linear_attention():
    data = in_context_regression(2, 4)
    assert (data.input_shape, data.outputs, data.samples) == ((3, 5), 1, None)
    for unit in (SoftmaxAttentionUnit(), NeuronUnit()):
        with pytest.raises(ValueError, match=r"linear attention only, not for .*samples=…, key=…"):
            data.statistics(unit)
