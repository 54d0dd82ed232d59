"""Test initial weights for theories: balanced, decoupled, orthogonal and greedy weights."""

import jax
import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

import festina
from festina.networks import decoupled, greedy_pretrained_linear, lambda_balanced, orthogonal
from festina.tasks import linear_teacher

KEY = jax.random.key(0)
RNG = np.random.default_rng(0)


def t(matrix):
    return matrix.swapaxes(-1, -2)


def residual(network, balance):
    """Return the largest entry of W₂ᵀW₂ − W₁W₁ᵀ − λI, relative to the squared weights."""
    first, second = network.weights
    identity = np.asarray(balance)[..., None, None] * np.eye(first.shape[-2])
    deviation = t(second) @ second - first @ t(first) - identity
    size = max(np.abs(first).max(), np.abs(second).max()) ** 2
    return np.abs(deviation).max() / size


def frame(rows, columns):
    return np.linalg.qr(RNG.normal(size=(rows, columns)))[0]


# Balanced weights


@settings(max_examples=60)
@given(
    n_i=st.integers(1, 7),
    n_h=st.integers(1, 7),
    n_o=st.integers(1, 7),
    balance=st.sampled_from([-1000.0, -3.0, -1e-3, 0.0, 1e-3, 3.0, 1000.0]),
)
def test_balanced_to_rounding_or_refused(n_i, n_h, n_o, balance):
    s = np.linspace(2.0, 0.1, min(n_i, n_h, n_o))
    product = (frame(n_o, len(s)) * s) @ frame(n_i, len(s)).T
    ask = lambda: lambda_balanced((n_i, n_h, n_o), balance=balance, product=product)
    if (balance > 0 and n_h > n_o) or (balance < 0 and n_h > n_i):
        with pytest.raises(ValueError, match="outputs" if balance > 0 else "inputs"):
            ask()
        return
    network = ask()
    assert residual(network, balance) < 1e-14
    found = np.linalg.svd(network.end_to_end(), compute_uv=False)[: len(s)]
    np.testing.assert_allclose(found, s, rtol=0, atol=1e-14 * (1 + abs(balance)))


def test_a_sweep_of_balances_and_seeds():
    balance = np.array([-5.0, 0.0, 5.0])[:, None]
    network = lambda_balanced((4, 3, 5), balance=balance, scale=0.3, key=festina.seeds(4))
    assert network.batch_shape == (3, 4)
    assert residual(network, balance) < 1e-14
    # The product is the same for every λ, and a seed does not depend on the other seeds.
    np.testing.assert_allclose(network.end_to_end()[0], network.end_to_end()[2], atol=1e-14)
    alone = lambda_balanced((4, 3, 5), balance=5.0, scale=0.3, key=festina.seeds(4)[2])
    np.testing.assert_allclose(network.weights[0][2, 2], alone.weights[0], rtol=1e-12)


@pytest.mark.parametrize("key", [None, KEY])
def test_balanced_with_a_given_product(key):
    product = RNG.normal(size=(5, 2)) @ RNG.normal(size=(2, 4))
    network = lambda_balanced((4, 3, 5), balance=2.0, product=product, key=key)
    np.testing.assert_allclose(network.end_to_end(), product, atol=1e-14 * 10)
    assert residual(network, 2.0) < 1e-14
    with pytest.raises(ValueError, match="rank above the 1 hidden"):
        lambda_balanced((4, 1, 5), balance=2.0, product=product)


def test_flow_conserves_the_balance_ever_more_closely():
    network = lambda_balanced((3, 2, 2), balance=np.array([-2.0, 1.0]), scale=0.3, key=KEY)
    task = linear_teacher(np.array([[1.2, 0.4, 0.5], [-0.3, 0.8, -0.6]]))

    def drift(rtol):
        flow = festina.gradient_flow(network, task, np.linspace(0, 5, 6), rtol=rtol)
        return residual(flow.network, np.array([[-2.0], [1.0]]))

    coarse, fine = drift(1e-5), drift(1e-10)
    assert fine < 1e-8
    assert fine < 1e-2 * coarse


# Decoupled weights


def test_decoupled_modes_have_the_strengths_asked_for_and_keep_apart():
    u, v = frame(4, 2), frame(5, 2)
    network = decoupled(u, v, (3, 6), initial_strength=np.array([0.1, 0.02]), key=festina.seeds(2))
    assert network.widths == (5, 3, 6, 4)
    expected = (u * np.array([0.1, 0.02])) @ v.T
    np.testing.assert_allclose(network.end_to_end()[1], expected, atol=1e-15)
    # A mode follows the scalar ODE τȧ = D a^{2−2/D}(s − a), integrated for D = 3.
    s = np.array([1.0, 0.4])
    task = linear_teacher((u * s) @ v.T)
    start = decoupled(u, v, (3, 6), initial_strength=0.125, key=KEY)
    flow = festina.gradient_flow(start, task, np.array([0.0, 1.5]), rtol=1e-10)
    modes = u.T @ flow.final.end_to_end() @ v
    assert modes[0, 0] == pytest.approx(0.776616346, abs=1e-7)
    assert np.abs(modes - np.diag(np.diag(modes))).max() < 1e-7


def test_decoupled_layers_may_differ():
    b = np.array([[0.3, -0.5], [0.8, 0.7]])
    u, v, r = frame(3, 2), frame(2, 2), frame(4, 2)
    first, second = decoupled(u, v, (4,), layer_strengths=b, frames=[r]).weights
    np.testing.assert_allclose(r.T @ first @ v, np.diag(b[0]), atol=1e-15)
    np.testing.assert_allclose(u.T @ second @ r, np.diag(b[1]), atol=1e-15)
    plain = decoupled(np.eye(2), np.eye(2), (2,), layer_strengths=b)
    np.testing.assert_array_equal(plain.weights[0], np.diag(b[0]))


# Orthogonal weights


@pytest.mark.parametrize("widths", [(4, 4, 4, 4), (5, 3, 7, 2), (2, 6, 3)])
def test_orthogonal_layers(widths):
    network = orthogonal(widths, gain=1.5, key=festina.seeds(3))
    for weight in network.weights:
        s = np.linalg.svd(weight, compute_uv=False)
        np.testing.assert_allclose(s, 1.5, rtol=1e-14)


@pytest.mark.parametrize("widths", [(4, 4, 4, 4), (4, 6, 5, 7)])
def test_orthogonal_with_the_same_product_at_every_depth(widths):
    product = frame(max(widths[0], widths[-1]), 4)
    network = orthogonal(widths, gain=1.1, product=product, key=KEY)
    depth = len(widths) - 1
    np.testing.assert_allclose(network.end_to_end(), 1.1**depth * product, atol=1e-14)
    for weight in network.weights:
        np.testing.assert_allclose(np.linalg.svd(weight, compute_uv=False), 1.1, rtol=1e-13)


def test_orthogonal_is_uniform():
    """Haar matrices have E[W₁₁] = 0 and E[tr W] = 0; QR without signs gives E[tr W] = −1.5."""
    weights = orthogonal((3, 3), key=festina.seeds(2000)).weights[0]
    assert abs(np.trace(weights, axis1=-2, axis2=-1).mean()) < 5 / np.sqrt(2000)
    np.testing.assert_allclose((weights**2).mean(axis=0), 1 / 3, atol=5 * 0.3 / np.sqrt(2000))


# Greedy weights


def test_greedy_layers_are_what_training_an_autoencoder_leaves():
    """The reference is the first layer of a trained autoencoder of inputs that are not white."""
    v = frame(3, 3)
    variances = np.array([2.0, 1.0, 0.5])
    covariance = (v * variances) @ v.T
    start = decoupled(v, v, (3,), initial_strength=1e-3, key=KEY)
    autoencoder = linear_teacher(np.eye(3), covariance)
    trained = festina.gradient_flow(start, autoencoder, np.array([0.0, 40.0])).final.weights[0]
    network = greedy_pretrained_linear((3, 3, 3, 2), fraction=1.0, input_modes=v, key=KEY)
    # These layers are R Vᵀ with different frames R, so they are orthogonal.
    for layer in (trained, network.weights[0], network.weights[1]):
        np.testing.assert_allclose(layer.T @ layer, np.eye(3), atol=1e-6)
    part = greedy_pretrained_linear((3, 3, 2), fraction=0.9, module_depth=4, input_modes=v, key=KEY)
    np.testing.assert_allclose(np.linalg.svd(part.weights[0])[1], 0.9**0.25, rtol=1e-14)
    assert np.abs(part.weights[1]).max() < 1e-2


def test_greedy_of_a_narrower_layer_keeps_the_modes_given_first():
    v = frame(4, 4)
    first, second, readout = greedy_pretrained_linear(
        (4, 3, 2, 5), fraction=1.0, input_modes=v, key=festina.seeds(2)
    ).weights
    assert (first.shape, second.shape, readout.shape) == ((2, 3, 4), (2, 2, 3), (2, 5, 2))
    kept = np.broadcast_to(v[:, :3] @ v[:, :3].T, (2, 4, 4))
    np.testing.assert_allclose(t(first) @ first, kept, atol=1e-14)


@pytest.mark.usefixtures("as_a_user")
@pytest.mark.parametrize(
    ("ask", "message"),
    [
        (lambda: lambda_balanced((2, 2), balance=0.0, scale=1.0, key=KEY), "3 sizes"),
        (
            lambda: lambda_balanced((2, 2, 2), balance=np.inf, scale=1.0, key=KEY),
            "`balance` must be fin",
        ),
        (lambda: lambda_balanced((2, 2, 2), balance=0.0, key=KEY), "exactly one of"),
        (lambda: lambda_balanced((2, 2, 2), balance=0.0, scale=1.0), "need a `key`"),
        (
            lambda: lambda_balanced((2, 2, 2), balance=0.0, singular_values=[1, 1, 1], key=KEY),
            "up to 2 finite",
        ),
        (lambda: lambda_balanced((2, 2, 3), balance=0.0, product=np.eye(2)), r"\(\*batch, 3, 2\)"),
        (lambda: decoupled(np.ones((2, 2)), np.eye(2), initial_strength=1.0), "orthonormal"),
        (lambda: decoupled(np.eye(2), np.eye(3), initial_strength=1.0), "one column for each"),
        (lambda: decoupled(np.eye(2), np.eye(2), (1,), initial_strength=1.0), "at least as wide"),
        (lambda: decoupled(np.eye(2), np.eye(2)), "either `initial_strength` or"),
        (lambda: decoupled(np.eye(2), np.eye(2), initial_strength=-1.0), "≥ 0"),
        (
            lambda: decoupled(np.eye(2), np.eye(2), (2,), initial_strength=1.0, frames=[]),
            "each of the 1 hidden",
        ),
        (lambda: orthogonal((2, 2), product=np.ones((2, 2)), key=KEY), "singular values are"),
        (lambda: orthogonal((2, 1, 2), product=np.eye(2), key=KEY), "narrower than 2"),
        (lambda: orthogonal((2, 2), gain=0.0, key=KEY), "`gain` must be positive"),
        (
            lambda: orthogonal((2, 2), gain=np.ones(3), key=festina.seeds(4)),
            r"`gain` of shape \(3,\) and `key` of shape \(4,\).*`gain\[:, None\]`",
        ),
        (
            lambda: greedy_pretrained_linear(
                (2, 2), readout_scale=np.ones(3), key=festina.seeds(4)
            ),
            r"`readout_scale` of shape \(3,\).*`readout_scale\[:, None\]`",
        ),
        (
            lambda: lambda_balanced((2, 2, 2), balance=np.ones(3), scale=1.0, key=festina.seeds(4)),
            r"`balance` of shape \(3,\).*`balance\[:, None\]`",
        ),
        (
            lambda: lambda_balanced((2, 2, 2), balance=0.0, scale=np.ones(3), key=festina.seeds(4)),
            r"`scale` of shape \(3,\).*`scale\[:, None\]`",
        ),
        (lambda: greedy_pretrained_linear((2, 3, 2), key=KEY), "must not grow"),
        (lambda: greedy_pretrained_linear((2, 2, 2), fraction=0.0, key=KEY), "`fraction`"),
        (lambda: greedy_pretrained_linear((2, 2, 2), module_depth=1, key=KEY), "`module_depth`"),
    ],
)
def test_what_cannot_be(ask, message):
    with pytest.raises(ValueError, match=message):
        ask()
