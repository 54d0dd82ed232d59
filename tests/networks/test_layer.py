"""Test the layer of Eq. (1) against loops over plain numbers, and under JAX's transformations."""

import functools

import jax
import jax.numpy as jnp
import numpy as np
import pytest

from festina.networks import (
    ConvolutionUnit,
    Layer,
    LinearAttentionUnit,
    NeuronUnit,
    SoftmaxAttentionUnit,
    activation,
    attention,
    convolutional_1d,
    deep_convolutional,
    diagonal_linear,
    fully_connected,
    gaussian_layer,
    layer_from,
    linear_transformer,
    seeds,
)
from helpers import ARCHITECTURES, each, inputs, untyped

KEY = jax.random.key(0)


# Strides may skip inputs or exceed the kernel, and a kernel may be as long as the input.
@pytest.mark.usefixtures("double")
@pytest.mark.parametrize(
    ("length", "size", "stride"),
    [(7, 2, 3), pytest.param(7, 4, 2, marks=pytest.mark.slow), (4, 4, 5)],
)
def test_convolution_is_that_of_pytorch(length, size, stride):
    torch = pytest.importorskip("torch")
    network = convolutional_1d(
        length, 3, 2, kernel=size, stride=stride, activation="relu", scale=1.0, key=KEY
    )
    x = np.random.default_rng(0).standard_normal(length)
    hidden = torch.conv1d(
        torch.tensor(x)[None, None], torch.tensor(network.u)[:, None], stride=stride
    )[0]
    expected = np.einsum("ip,iop->o", np.maximum(hidden.numpy(), 0), network.v)
    np.testing.assert_allclose(network(x), expected, rtol=1e-12)


@pytest.mark.usefixtures("double")
def test_softmax_attention_is_that_of_pytorch():
    torch = pytest.importorskip("torch")
    network = attention(3, 4, rank=2, softmax=True, residual=False, scale=1.0, key=KEY)
    x = torch.tensor(np.random.default_rng(0).standard_normal((4, 6)))  # (embedding, token)
    attend = torch.nn.functional.scaled_dot_product_attention
    expected = 0.0
    for (keys, queries), values in zip(torch.tensor(network.u), network.v, strict=True):
        read = attend((queries @ x[:, -1:]).T, (keys @ x).T, x.T, scale=1.0)[0]
        expected = expected + values @ read.numpy()
    np.testing.assert_allclose(network(x.numpy()), expected, rtol=1e-12)


@functools.cache
def evaluator(row):
    """Return a function that is compiled once for all tests of a row."""
    x = inputs(row)
    return jax.jit(lambda u, v: jax.vmap(Layer(u, v, row.unit))(x))


@pytest.mark.usefixtures("double")
@each(ARCHITECTURES)
def test_value_is_that_of_loops_over_plain_numbers(row):
    network = row.network()
    expected = np.stack([row.plain(network, x) for x in inputs(row)])
    value = evaluator(row)(network.u, network.v)
    np.testing.assert_allclose(value, expected, rtol=1e-12, atol=1e-13)
    assert (network.width, network.outputs) == (3, expected.shape[1])
    assert network.batch_shape == ()


@pytest.mark.usefixtures("double")
@each(
    row
    for row in ARCHITECTURES
    if row.name in ("cubic", "erf", "conv-relu-2/2", "conv-quadratic-2/3", "attention", "softmax")
)
def test_gradient_is_that_of_differences(row):
    """Compare the slope along a direction with central differences, whose error falls as h²."""
    network, direction, x = row.network(), row.network(9), inputs(row)

    @jax.jit
    def along(h):
        moved = jax.tree_util.tree_map(lambda w, d: w + h * d, network, direction)
        return jnp.sum(jnp.sin(jax.vmap(moved)(x)))

    slope = jax.grad(along)(0.0)
    error = lambda h: abs((along(h) - along(-h)) / (2 * h) - slope)
    assert error(1e-4) < max(1.1e-2 * error(1e-3), 1e-9)
    assert slope != 0


@pytest.mark.usefixtures("double")
@each(ARCHITECTURES)
def test_what_the_algebra_says_of_one_unit_holds_for_the_network(row):
    network, evaluate = row.network(), evaluator(row)
    u, v = network.u, network.v.copy()
    v[-1] = 0.0
    value = evaluate(u, v)

    def same(u, v, *, holds=True):
        assert (np.abs(evaluate(u, v) - value).max() < 1e-12 * np.abs(value).max()) == holds

    same(u[::-1], v[::-1])  # the order of units does not matter
    same(2.5 * u, v / 2.5, holds=row.algebra.homogeneous is not None)
    same(-2.5 * u, v / -2.5, holds=row.algebra.homogeneous == "real")
    same(-u, v, holds=row.algebra.even)
    # Second-layer weights of a unit without first-layer weights are arbitrary only if φ(·; 0) = 0.
    silent = u.copy()
    silent[-1] = 0.0
    same(silent, network.v, holds=row.algebra.zero)


@each(row for row in ARCHITECTURES if row.name in ("linear", "erf", "conv-relu-2/2", "softmax"))
def test_single_precision_where_the_user_has_it(row):
    """Outside festina's functions, a network computes in the precision set by the user in JAX."""
    network, x = row.network(), inputs(row, 1)[0]
    value = network(x)
    assert value.dtype == jnp.float32
    assert network.u.dtype == np.float64
    np.testing.assert_allclose(value, row.plain(network, x), rtol=1e-4, atol=1e-5)


def test_compiled_once_for_all_weights_and_seeds():
    traced = []

    @jax.jit
    def evaluate(network, x):
        traced.append(network.unit)
        return network(x)

    def mine(a):
        return jnp.arctan(a)

    for choice in ("tanh", mine):
        traced.clear()
        for seed in range(3):
            key = jax.random.key(seed)
            evaluate(
                fully_connected(2, 3, activation=choice, scale=0.1 + seed, key=key), np.ones(2)
            )
        assert len(traced) == 1


def test_a_layer_from_given_arrays():
    u = np.arange(6.0).reshape(3, 2)
    single, full = (
        layer_from(NeuronUnit(), u, np.ones(3)),
        layer_from(NeuronUnit(), u, np.ones((3, 1))),
    )
    assert single.v.shape == full.v.shape == (3, 1)
    assert (single.width, single.outputs, single.batch_shape) == (3, 1, ())
    lists = layer_from(NeuronUnit(), u.tolist(), [[1, 2], [3, 4], [5, 6]])
    assert (lists.outputs, lists.u.dtype, lists.v.dtype) == (2, np.float64, np.float64)
    np.testing.assert_allclose(lists(np.array([1.0, -1.0])), -lists.v.sum(0))
    kernels = layer_from(ConvolutionUnit(size=2), np.ones((5, 3, 2)), np.ones((5, 3, 4)))
    assert (kernels.batch_shape, kernels.width, kernels.outputs) == ((5,), 3, 1)
    zero = layer_from(NeuronUnit(), 0 * u, np.zeros(3))
    assert float(zero(np.ones(2))[0]) == 0.0


def test_an_activation_stands_for_its_neuron():
    u, v = np.ones((3, 2)), np.ones(3)
    for phi in ("relu", activation("relu")):
        assert layer_from(phi, u, v).unit == NeuronUnit("relu")


@pytest.mark.usefixtures("as_a_user")
@pytest.mark.parametrize(
    ("unit", "u", "v", "message"),
    [
        (None, np.ones((3, 2)), np.ones(3), "An activation must be a name, .* got NoneType"),
        ("rely", np.ones((3, 2)), np.ones(3), "Unknown activation 'rely'"),
        (NeuronUnit(), np.ones((3, 2)), np.ones(4), r"got \(3, 2\) and \(4,\)"),
        (NeuronUnit(), np.ones(2), np.ones(2), r"`u` must have shape \(\*batch, unit"),
        (NeuronUnit(), np.ones((3, 2)), np.ones((3, 1, 1)), r"got \(3, 2\) and \(3, 1, 1\)"),
        (
            NeuronUnit(),
            np.ones((3, 2)),
            np.ones((1, 3)),
            r"got \(3, 2\) and \(1, 3\)\. Transpose `v`: give v\.T\.$",
        ),
        (NeuronUnit(), 1j * np.ones((3, 2)), np.ones(3), "`u` must be real, got complex"),
        (NeuronUnit(), np.ones((3, 2)), np.ones(3) + 0j, "`v` must be real, got complex"),
        (ConvolutionUnit(size=2), np.ones((3, 2)), np.ones(3), "unit, output, position"),
        (
            LinearAttentionUnit(),
            np.ones((3, 2, 3)),
            np.ones((3, 3)),
            "unit, key_query, rank, embedding",
        ),
        (
            NeuronUnit(),
            np.ones((0, 2)),
            np.ones(0),
            r"`u` must have at least one entry along every axis, got shape \(0, 2\)",
        ),
        (
            NeuronUnit(),
            np.ones((0, 3, 2)),
            np.ones((0, 3)),
            r"`u` must have .* got shape \(0, 3, 2\)",
        ),
        (NeuronUnit(), np.ones((3, 0)), np.ones(3), r"`u` must have .* got shape \(3, 0\)"),
        (NeuronUnit(), np.ones((3, 2)), np.ones((3, 0)), r"`v` must have .* got shape \(3, 0\)"),
        (NeuronUnit(), np.array([[1.0, np.nan]]), np.ones(1), "`u` must be finite, but 1 of its 2"),
        (NeuronUnit(), np.ones((1, 2)), np.array([np.inf]), "`v` must be finite, but 1 of its 1"),
    ],
)
def test_arrays_that_are_no_layer(unit, u, v, message):
    with pytest.raises(ValueError, match=message):
        layer_from(unit, u, v)


@pytest.mark.parametrize(
    ("network", "shape", "message"),
    [
        (fully_connected(2, 3, key=KEY), (5, 3), r"inputs of shape \(2,\), got \(3,\)"),
        # These shapes could be reshaped to fit, but must raise an error.
        (fully_connected(2, 3, key=KEY), (5, 4), r"inputs of shape \(2,\), got \(4,\)"),
        (fully_connected(2, 3, key=seeds(4)), (5, 4), r"inputs of shape \(2,\), got \(4,\)"),
        (fully_connected(2, 3, bias=True, key=KEY), (5, 3), r"of shape \(2,\), got \(3,\)"),
        (fully_connected(2, 3, key=KEY), (2,), r"`x` must be examples, .* got shape \(2,\)"),
        (fully_connected(2, 3, key=KEY), (), r"`x` must be examples, .* got shape \(\)"),
        (fully_connected(2, 3, key=KEY), (5, 2, 2), r"takes vectors, got inputs \(2, 2\)"),
        (convolutional_1d(4, 3, key=KEY), (5, 7), r"inputs of shape \(4,\), got \(7,\)"),
        (attention(2, 3, key=KEY), (5, 6, 4), r"inputs of shape \(3, 4\), got \(6, 4\)"),
    ],
)
def test_inputs_that_do_not_fit_the_network(network, shape, message):
    with pytest.raises(ValueError, match=message):
        network.predict(np.ones(shape))


@pytest.mark.parametrize(
    ("make", "message"),
    [
        (lambda: fully_connected(0, 3, key=KEY), "`inputs` must be a whole number .* got 0"),
        (lambda: fully_connected(2, 0, key=KEY), "`width` must be a whole number .* got 0"),
        (lambda: fully_connected(2, -3, key=KEY), "`width` must be a whole number .* got -3"),
        (lambda: fully_connected(2, 3, 0, key=KEY), "`outputs` must be a whole number .* got 0"),
        (lambda: fully_connected(2, 3, activation="tahn", key=KEY), "Unknown activation 'tahn'"),
        (lambda: convolutional_1d(4, 3, kernel=5, key=KEY), r"size 5 .* got inputs \(4,\)"),
        (lambda: convolutional_1d(4, 3, kernel=0, key=KEY), "`kernel` must be a whole .* got 0"),
        (lambda: convolutional_1d(4, 3, stride=0, key=KEY), "`stride` must be a whole .* got 0"),
        (lambda: attention(2, 3, rank=0, key=KEY), "`rank` must be a whole .* got 0"),
        (lambda: attention(0, 3, key=KEY), "`dimension` must be a whole .* got 0"),
        (lambda: attention(2, 3, outputs=4, key=KEY), "the embedding's 3 rows, got 4"),
        (
            lambda: gaussian_layer(LinearAttentionUnit(), (3,), 2, scale=1.0, key=KEY),
            r"tokens as columns, .* got inputs \(3,\)",
        ),
        (
            lambda: gaussian_layer(SoftmaxAttentionUnit(), (3, 1), 2, scale=1.0, key=KEY),
            r"tokens as columns, .* got inputs \(3, 1\)",
        ),
        (
            lambda: gaussian_layer(NeuronUnit(activation("relu")), (3, 2), 2, scale=1.0, key=KEY),
            r"takes vectors, got inputs \(3, 2\)",
        ),
        *(
            (
                lambda scale=scale: fully_connected(2, 3, scale=scale, key=KEY),
                f"`scale` must be positive and finite, got {scale}",
            )
            for scale in (0.0, -1e-3, float("nan"), float("inf"))
        ),
        (
            lambda: fully_connected(2, 3, scale=np.array([1e-3, 0.0]), key=KEY),
            r"`scale` must be positive and finite, got \[0.001, 0.0\]",
        ),
    ],
)
def test_networks_that_cannot_be(make, message):
    with pytest.raises(ValueError, match=message):
        make()


@pytest.mark.usefixtures("as_a_user")
@pytest.mark.parametrize(
    ("make", "name"),
    [
        (lambda half: fully_connected(half, 2, key=KEY), "inputs"),
        (lambda half: fully_connected(2, half, key=KEY), "width"),
        (lambda half: fully_connected(2, 2, half, key=KEY), "outputs"),
        (lambda half: fully_connected(2, 2, key=seeds(half)), "count"),
        (lambda half: fully_connected(2, 2, key=seeds(2, first=half)), "first"),
        (lambda half: convolutional_1d(4, 3, kernel=half, key=KEY), "kernel"),
        (lambda half: convolutional_1d(4, 3, stride=half, key=KEY), "stride"),
        (lambda half: attention(half, 3, key=KEY), "dimension"),
        (lambda half: attention(2, 3, rank=half, key=KEY), "rank"),
        (lambda half: deep_convolutional(4, (3, 2), kernel=half, scale=1, key=KEY), "kernel"),
        (lambda half: deep_convolutional(half, (3, 2), scale=1, key=KEY), "inputs"),
        (lambda half: linear_transformer(2, 3, (1,), rank=half, scale=1, key=KEY), "rank"),
        (lambda half: diagonal_linear(half, scale=1, key=KEY), "inputs"),
    ],
)
def test_half_a_unit(make, name):
    message = rf"^`{name}` must be a whole number from . up, got 2\.5\.$"
    with pytest.raises(ValueError, match=message):
        make(2.5)


@pytest.mark.usefixtures("as_a_user")
def test_a_whole_number_that_is_written_with_a_point():
    network = fully_connected(*untyped((2.0, 3.0, 1.0)), key=KEY)
    np.testing.assert_array_equal(network.u, fully_connected(2, 3, key=KEY).u)
