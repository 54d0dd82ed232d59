"""Test deep linear networks: outputs, properties and errors."""

import itertools

import jax
import jax.numpy as jnp
import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

import festina
from festina.networks import (
    ConvolutionUnit,
    DeepLinear,
    _contract,
    deep_linear,
    deep_linear_from,
    fully_connected,
    layer_from,
)
from festina.networks._deep_linear import layer_shapes
from helpers import untyped

RNG = np.random.default_rng(0)


@settings(max_examples=5)  # each example compiles its own program
@given(
    widths=st.lists(st.integers(1, 5), min_size=2, max_size=6),
    batch=st.sampled_from([(), (3,), (2, 3)]),
)
def test_the_product_of_its_weights_is_what_it_computes(widths, batch):
    weights = [RNG.normal(size=(*batch, n, m)) for m, n in itertools.pairwise(widths)]
    network = deep_linear_from(weights)
    x = RNG.normal(size=(4, widths[0]))
    product = np.eye(widths[0])
    for weight in weights:
        product = weight @ product
    np.testing.assert_allclose(network.end_to_end(), product, rtol=1e-12, atol=1e-13)
    np.testing.assert_allclose(
        network.predict(x), x @ product.swapaxes(-1, -2), rtol=1e-12, atol=1e-12
    )
    assert network.depth == len(widths) - 1
    assert network.widths == tuple(widths)
    assert network.outputs == widths[-1]
    assert network.batch_shape == batch
    assert network.structure.size == sum(n * m for m, n in itertools.pairwise(widths))


@pytest.mark.usefixtures("double")
@pytest.mark.parametrize("widths", [(3, 4), (4, 3, 5, 2), (6, 2, 7, 1), (30, 40, 30)])
@pytest.mark.parametrize("samples", [1, pytest.param(5, marks=pytest.mark.slow), 60])
@pytest.mark.parametrize("lanes", [pytest.param((), marks=pytest.mark.slow), (3,)])
def test_programs_multiply_from_either_end(widths, samples, lanes):
    parts = [RNG.normal(size=(*shape, *lanes)) for shape in layer_shapes(widths)]
    structure = deep_linear_from([np.ones(shape) for shape in layer_shapes(widths)]).structure
    psi = RNG.normal(size=(samples, widths[0]))
    expected = np.broadcast_to(psi.reshape(*psi.shape, *(1,) * len(lanes)), (*psi.shape, *lanes))
    for part in parts:
        expected = np.einsum("si...,oi...->so...", expected, part)
    first, *others = map(jnp.asarray, parts)
    found = structure.outputs(jnp.asarray(psi), jnp.swapaxes(first, 0, 1), *others)
    scale = np.abs(expected).max()
    np.testing.assert_allclose(found, expected, rtol=1e-11, atol=1e-12 * scale)


@pytest.mark.usefixtures("double")
def test_large_matrices_lane_by_lane():
    a, b = RNG.normal(size=(30, 40, 3)), RNG.normal(size=(31, 40, 3))
    assert _contract._LARGE < 30 * 40 * 31
    expected = np.einsum("mil,nil->mnl", a, b)
    np.testing.assert_allclose(_contract.chain(a, b), expected, rtol=1e-11, atol=1e-12)


@pytest.mark.parametrize("batch", [(), (2,), (2, 3)])
def test_columns_and_back(batch):
    network = deep_linear_from([RNG.normal(size=(*batch, 3, 2)), RNG.normal(size=(*batch, 4, 3))])
    columns = network.structure.columns(*network.parts)
    assert columns.shape == (network.structure.size, int(np.prod(batch)))
    again = network.structure.arrays(columns.reshape(-1, *batch))
    for part, other in zip(network.parts, again, strict=True):
        np.testing.assert_array_equal(part, other)
    other = deep_linear_from([np.ones((3, 2)), np.ones((4, 3))])
    assert hash(network.structure) == hash(other.structure)


def test_a_linear_layer_there_and_back():
    shallow = fully_connected(3, 5, 2, scale=0.5, key=festina.seeds(2))
    deep = DeepLinear.from_layer(shallow)
    x = RNG.normal(size=(7, 3))
    assert deep.widths == (3, 5, 2)
    np.testing.assert_allclose(deep.predict(x), shallow.predict(x), rtol=1e-13, atol=1e-14)
    again = deep.to_layer()
    np.testing.assert_array_equal(again.u, shallow.u)
    np.testing.assert_array_equal(again.v, shallow.v)
    with pytest.raises(ValueError, match="Only a layer of linear neurons"):
        DeepLinear.from_layer(layer_from(ConvolutionUnit(), np.ones((2, 2)), np.ones((2, 1, 3))))
    with pytest.raises(ValueError, match="two weight matrices, this network has 3"):
        deep_linear_from([np.ones((2, 2))] * 3).to_layer()


def test_hidden_activities_are_the_partial_products():
    w1, w2, w3 = (RNG.normal(size=size).astype(np.float32) for size in ((4, 3), (5, 4), (2, 5)))
    network = deep_linear_from([w1, w2, w3])
    x = np.array([0.3, -1.0, 2.0], np.float32)
    first, second = network.hidden(x)
    np.testing.assert_allclose(first, w1 @ x, rtol=1e-5)
    np.testing.assert_allclose(second, w2 @ w1 @ x, rtol=1e-5)


def test_gaussian_weights_have_the_scale_asked_for_and_seeds_stay_themselves():
    scales = np.array([1e-3, 2.0])
    many = deep_linear((40, 50, 60), scale=scales[:, None], key=festina.seeds(3))
    assert many.batch_shape == (2, 3)
    for weight in many.weights:
        spread = weight.std(axis=(-1, -2)) / scales[:, None]
        np.testing.assert_allclose(spread, 1.0, atol=4 / np.sqrt(2 * 40 * 50))
    alone = deep_linear((40, 50, 60), scale=2.0, key=festina.seeds(1, first=2)[0])
    np.testing.assert_array_equal(many.weights[1][1, 2], alone.weights[1])


@pytest.mark.usefixtures("as_a_user")
def test_repr_says_what_it_is():
    network = deep_linear_from([np.ones((5, 4, 3)), np.ones((5, 2, 4))])
    assert repr(network) == "DeepLinear((5,) networks, 3-4-2)"
    assert "DeepLinear" in repr(jax.tree.map(lambda _: "leaf", network))


@pytest.mark.parametrize(
    ("weights", "message"),
    [
        ([], "`weights` is empty"),
        ([np.ones(3)], r"one has shape \(3,\)"),
        ([np.ones((2, 0))], "at least one entry along every axis"),
        ([np.ones((2, 3)), np.ones((2, 3))], "layer 1 has 2 outputs and layer 2 takes 3 inputs"),
        ([np.ones((4, 2, 3)), np.ones((2, 2))], r"got \(4,\) in layer 1 and \(\) in the next"),
        (
            [np.ones((2, 3)), np.array([[1.0, np.nan]])],
            r"`weights\[1\]` must be finite, but 1 of its 2",
        ),
        ([1j * np.ones((2, 3))], "must be real, got complex numbers"),
    ],
)
def test_weights_that_are_no_network(weights, message):
    with pytest.raises(ValueError, match=message):
        deep_linear_from(weights)


@pytest.mark.usefixtures("as_a_user")
def test_bad_sizes_scales_and_keys():
    key = jax.random.key(0)
    for widths, message in (((3,), "at least an input and an output"), ((3, 0, 2), "from 1 up")):
        with pytest.raises(ValueError, match=message):
            deep_linear(widths, scale=1.0, key=key)
    with pytest.raises(ValueError, match="`scale` must be positive"):
        deep_linear((2, 2), scale=0.0, key=key)
    with pytest.raises(ValueError, match="`key` must be a JAX random key"):
        deep_linear((2, 2), scale=1.0, key=untyped(3))
    network = deep_linear_from([np.ones((3, 2)), np.ones((2, 3))])
    with pytest.raises(ValueError, match=r"inputs do not fit: .* of shape \(2,\), got \(3,\)"):
        network(np.ones(3))
    with pytest.raises(
        ValueError,
        match=r"Expected a single network, .* `predict`\. Select one network with network\.lane\(0",
    ):
        deep_linear_from([np.ones((2, 2, 2))])(np.ones(2))


def test_one_network_of_a_batch(as_a_user):
    batch = deep_linear((3, 2, 4), scale=1.0, key=festina.seeds(3))
    x = np.ones((1, 3))
    assert np.array_equal(batch.lane(1).predict(x), batch.predict(x)[1])
    with pytest.raises(ValueError, match=r"one index for each of the axes \(3,\), got \(\)"):
        batch.lane()
    with pytest.raises(ValueError, match="Index 9 of `lane` is out of range for 3 networks"):
        batch.lane(9)
    for index in (1.5, "1", None, True, np.array([1])):
        with pytest.raises(ValueError, match="`lane` takes whole numbers as indices, got "):
            batch.lane(untyped(index))
    with pytest.raises(ValueError, match="This network is not a batch"):
        batch.lane(1).lane(0)
