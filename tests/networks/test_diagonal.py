"""Test diagonal linear networks: outputs, training and errors."""

import jax
import jax.numpy as jnp
import numpy as np
import pytest

import festina
from festina.networks import DiagonalLinear, diagonal_linear, diagonal_linear_from, seeds
from festina.tasks import linear_teacher

RNG = np.random.default_rng(0)


@pytest.mark.parametrize("batch", [(), (3,), (2, 3)])
def test_the_products_of_its_weights_are_what_it_computes(batch):
    u, v = RNG.normal(size=(2, *batch, 4))
    network = diagonal_linear_from(u, v)
    x = RNG.normal(size=(5, 4))
    np.testing.assert_allclose(network.predict(x)[..., 0], (u * v) @ x.T, rtol=1e-12)
    assert network.batch_shape == batch
    assert repr(network).endswith("4 inputs)")


def test_columns_and_parts_are_each_others_inverse():
    network = diagonal_linear(4, scale=np.array([1.0, 2.0])[:, None], key=seeds(3))
    columns = network.structure.columns(*network.parts)
    parts = network.structure.arrays(columns.reshape(-1, 2, 3))
    np.testing.assert_array_equal(parts, network.parts)
    assert network.structure.size == len(columns)


def test_training_keeps_the_balance_and_finds_the_target():
    target, covariance = np.array([[1.0, -0.5, 0.0, 0.7]]), np.diag([1.0, 0.5, 2.0, 1.0])
    network = diagonal_linear(4, scale=0.1, key=seeds(2))
    run = festina.gradient_flow(network, linear_teacher(target, covariance), converged=1e-12)
    trained = run.final
    np.testing.assert_allclose(trained.coefficients(), np.repeat(target, 2, axis=0), atol=1e-5)
    balance = lambda network: network.u**2 - network.v**2
    np.testing.assert_allclose(balance(trained), balance(network), atol=1e-6)


def test_hidden_activity_is_that_before_the_second_weight():
    network = diagonal_linear_from([1.0, 2.0], [3.0, 4.0])
    x = jnp.array([1.0, -1.0])
    np.testing.assert_allclose(network.hidden(x)[0], [1.0, -2.0])
    np.testing.assert_allclose(network(x), [3.0 - 8.0])
    assert jax.tree.map(lambda leaf: leaf + 1, network).u[0] == 2.0


def test_what_does_not_fit_is_refused():
    network = diagonal_linear_from([1.0, 2.0], [3.0, 4.0])
    with pytest.raises(ValueError, match=r"inputs do not fit: .* shape \(2,\), got \(3,\)"):
        network(jnp.ones(3))
    with pytest.raises(ValueError, match="do not fit"):
        festina.gradient_flow(network, linear_teacher(np.eye(2)))
    with pytest.raises(ValueError, match="one entry each"):
        diagonal_linear_from([1.0], [1.0, 2.0])
    with pytest.raises(ValueError, match="`v` must be finite"):
        diagonal_linear_from([1.0], [np.nan])
    with pytest.raises(ValueError, match="`u` must be real, got complex numbers"):
        diagonal_linear_from([1j], [1.0])
    with pytest.raises(ValueError, match="`inputs`"):
        diagonal_linear(0, scale=1.0, key=seeds(1)[0])
    with pytest.raises(ValueError, match="Expected a single network"):
        DiagonalLinear(np.ones((2, 3)), np.ones((2, 3)))(jnp.ones(3))
