"""Test that batches and both orders of multiplication give the same result."""

import jax
import jax.numpy as jnp
import numpy as np
import pytest

from festina.networks import _contract
from helpers import ARCHITECTURES, each, inputs

pytestmark = pytest.mark.usefixtures("double")


@each(ARCHITECTURES)
@pytest.mark.parametrize("samples", [pytest.param(1, marks=pytest.mark.slow), 40])
def test_all_lanes_and_samples_at_once_are_each_by_itself(row, samples):
    """The order of multiplication depends on the number of samples and of networks."""
    network = row.network()
    x = jnp.asarray(inputs(row, samples))
    psi = jax.vmap(network.features)(x)
    u, v = (jnp.moveaxis(jnp.asarray(leaf), 0, -1) for leaf in (network.u, network.v))
    factors = jnp.array([1.0, -0.5, 2.0])
    outputs = jax.jit(network.structure.outputs)
    together = outputs(psi, u[..., None] * factors, v[..., None] * factors)
    for lane, factor in enumerate(factors):
        alone = outputs(psi, u * factor, v * factor)
        np.testing.assert_allclose(together[..., lane], alone, rtol=1e-12, atol=1e-13)
    responses = np.asarray(jax.jit(network.unit.response)(psi, u))
    by_hand = np.einsum(
        "sri,ori->so",
        responses.reshape(samples, -1, network.width),
        np.asarray(v).reshape(network.outputs, -1, network.width),
    )
    np.testing.assert_allclose(outputs(psi, u, v), by_hand, rtol=1e-12, atol=1e-13)


@pytest.mark.parametrize("lanes", [(), (3,)])
@pytest.mark.parametrize("size", [2, 70])
def test_small_products_and_large_ones(size, lanes):
    rng = np.random.default_rng(0)
    a, b = rng.normal(size=(size, 5, *lanes)), rng.normal(size=(size + 1, 5, *lanes))
    np.testing.assert_allclose(
        _contract.pair(a, b), np.einsum("mi...,ni...->mn...", a, b), rtol=1e-12, atol=1e-13
    )
    matrix = rng.normal(size=(size, size + 1))
    np.testing.assert_allclose(
        _contract.mix(matrix, b), np.einsum("kn,n...->k...", matrix, b), rtol=1e-12, atol=1e-13
    )


def test_only_fixed_features_have_coefficients():
    for row in ARCHITECTURES:
        network = row.network()
        u = jnp.moveaxis(jnp.asarray(network.u), 0, -1)
        if network.unit.fixed_features:
            shape = network.unit.features(jnp.asarray(inputs(row, 1))[0]).shape
            read = len(network.unit.read_axes)
            assert network.unit.coefficients(u).shape == (*shape[read:], network.width)
        else:
            with pytest.raises(TypeError, match="has no fixed features"):
                network.unit.coefficients(u)
