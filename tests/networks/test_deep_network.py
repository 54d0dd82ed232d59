"""Test deep networks: outputs, features and errors."""

import jax
import jax.numpy as jnp
import numpy as np
import pytest

import festina
from festina._objective import objective
from festina.dynamics._program import start
from festina.networks import (
    ConvolutionUnit,
    LinearAttentionUnit,
    NeuronUnit,
    SoftmaxAttentionUnit,
    activation,
    attention,
    convolutional_1d,
    deep_convolutional,
    deep_linear,
    deep_network,
    deep_network_from,
    fully_connected,
    linear_transformer,
    seeds,
)
from festina.tasks import from_arrays, in_context_regression, linear_teacher
from helpers import unstructured

KEY = jax.random.key(3)
SIGMA = {
    "linear": lambda a: a,
    "relu": lambda a: np.maximum(a, 0.0),
    "quadratic": lambda a: a**2,
    "tanh": np.tanh,
}


def neurons(network, x):
    return network.weights[0] @ x


def kernels(size, stride):
    def sums(network, x):
        u = network.weights[0]
        starts = range(0, len(x) - size + 1, stride)
        return np.stack([u @ x[start : start + size] for start in starts])  # (position, unit)

    return sums


def heads(network, x):
    """Return sums of heads: each token attends to the query with the score (K x_n)·(Q x_q)/N."""
    query = x[:, -1]
    responses = []
    for keys, queries in network.weights[0]:
        scores = [(keys @ token) @ (queries @ query) / (x.shape[1] - 1) for token in x.T]
        responses.append(sum(s * token for s, token in zip(scores, x.T, strict=True)))
    return np.stack(responses, axis=-1)  # (embedding_read, unit)


def given(unit, *shapes, activations: str | tuple[str, ...] = "linear", skips=()):
    """Return a network with random weights of these shapes."""
    rng = np.random.default_rng(sum(map(len, shapes)) + len(skips))
    weights = [rng.normal(scale=0.6, size=shape) for shape in shapes]
    return deep_network_from(unit, weights, activations=activations, skips=skips)


LINEAR, RELU, QUADRATIC = (NeuronUnit(activation(name)) for name in ("linear", "relu", "quadratic"))
HEAD = LinearAttentionUnit(residual=False)
# name: network, input shape, sums of the first layer, activation of each hidden layer
STACKS = {
    "relu": (
        given(RELU, (4, 2), (3, 4), (2, 3), activations="relu"),
        (2,),
        neurons,
        ("relu", "relu"),
    ),
    "quadratic": (
        given(QUADRATIC, (3, 2), (4, 3), (2, 4)),
        (2,),
        neurons,
        ("quadratic", "linear"),
    ),
    "skip-1": (
        given(RELU, (3, 2), (3, 3), (3, 3), (2, 3), activations="relu", skips=((1, 2),)),
        (2,),
        neurons,
        ("relu",) * 3,
    ),
    "skip-2": (
        given(LINEAR, (3, 2), (3, 3), (3, 3), (2, 3), skips=((1, 3),)),
        (2,),
        neurons,
        ("linear",) * 3,
    ),
    "skip-all": (
        given(
            QUADRATIC,
            *((2, 2),) * 4,
            activations=("tanh", "relu"),
            skips=((0, 2), (0, 4), (1, 3), (2, 4)),
        ),
        (2,),
        neurons,
        ("quadratic", "tanh", "relu"),
    ),
    "convolution": (
        given(ConvolutionUnit(activation("relu"), stride=2), (3, 2), (4, 2, 3), (2, 4)),
        (4,),
        kernels(2, 2),
        ("relu", "linear"),
    ),
    "convolution-input": (
        given(ConvolutionUnit(size=3), (3, 3), (4, 2, 3), (2, 4), skips=((0, 2),)),
        (4,),
        kernels(3, 1),
        ("linear", "linear"),
    ),
    "transformer": (
        given(HEAD, (3, 2, 1, 3), (3, 3, 3), (4, 3), (1, 4), skips=((0, 2),)),
        (3, 5),
        heads,
        ("linear",) * 3,
    ),
    "transformer-rank-2": (
        given(
            LinearAttentionUnit(2, residual=False),
            *((2, 2, 2, 3), (3, 3, 2), (4, 3), (1, 4)),
            activations=("linear", "relu"),
        ),
        (3, 5),
        heads,
        ("linear", "linear", "relu"),
    ),
}
SCALE = {"scale": 0.6, "key": KEY}
each_stack = pytest.mark.parametrize("name", STACKS)


def plain(name, x):
    """Return the activity of every layer, computed by NumPy."""
    network, _, sums, names = STACKS[name]
    activities = [x if x.ndim == 1 else x[:, -1], SIGMA[names[0]](sums(network, x)).ravel()]
    _, *others = network.weights
    for layer, weight in enumerate(others, start=2):
        activity = weight.reshape(len(weight), -1) @ activities[-1]
        if layer <= len(names):
            activity = SIGMA[names[layer - 1]](activity)
        for source, target in network.skips:
            if target == layer:
                activity = activity + activities[source]
        activities.append(activity)
    return activities[1:]


def data(name, samples=12, seed=4):
    network, shape, *_ = STACKS[name]
    return unstructured(shape, network.outputs, samples, seed)


@each_stack
def test_outputs_and_hidden_activity_are_a_plain_forward_pass(name):
    network = STACKS[name][0]
    x = data(name).x[:5]
    with jax.enable_x64(True):
        outputs, hidden = jax.jit(jax.vmap(lambda x: (network(x), network.hidden(x))))(x)
    assert len(hidden) == network.depth - 1
    assert hidden[0].shape[1:] == network.weights[1].shape[1:]
    activities = [np.stack(layer) for layer in zip(*(plain(name, each) for each in x), strict=True)]
    for found, expected in zip((*hidden, outputs), activities, strict=True):
        np.testing.assert_allclose(np.reshape(found, (5, -1)), expected, rtol=1e-12, atol=1e-13)


@pytest.mark.parametrize(
    "name",
    [
        name
        if name in ("relu", "skip-all", "transformer")
        else pytest.param(name, marks=pytest.mark.slow)
        for name in STACKS
    ],
)
def test_loss_of_the_samples_and_gradient_of_finite_differences(name):
    """The batch contains the network and two slightly shifted copies for finite differences."""
    network, samples = STACKS[name][0], data(name)
    structure, statistics, floor = objective(network, samples, "half")
    theta = structure.columns(*network.parts)
    direction, h = np.random.default_rng(0).normal(size=theta.shape), 1e-5
    columns = np.concatenate((theta, theta + h * direction, theta - h * direction), axis=1)
    with jax.enable_x64(True):
        losses, velocity, *_ = start(columns, statistics, structure=structure)
    loss, ahead, behind = np.asarray(losses)
    error = samples.y - np.stack([plain(name, x)[-1] for x in samples.x])
    np.testing.assert_allclose(loss + floor, 0.5 * samples.weight @ np.sum(error**2, 1), rtol=1e-12)
    slope = -np.sum(np.asarray(velocity)[:, :1] * direction)
    np.testing.assert_allclose((ahead - behind) / (2 * h), slope, rtol=1e-7)


@pytest.mark.parametrize(
    ("name", "fewer", "degree"),
    [
        ("skip-2", 2, 1),
        ("quadratic", 3, 2),
        ("transformer", 18 + 3, 3),  # XXᵀ is symmetric
        ("convolution-input", 4, 1),
        ("relu", None, None),
        ("skip-all", None, None),
        ("transformer-rank-2", None, None),
    ],
)
def test_moments_serve_where_no_later_layer_bends_them(name, fewer, degree):
    network, samples = STACKS[name][0], data(name, 60)
    assert network.view.fixed_features == (fewer is not None)
    assert network.view.degree == degree
    assert len(objective(network, samples, "half").data.psi) == (fewer or 60)


def test_degrees_multiply_along_the_layers():
    network = given(QUADRATIC, (3, 2), (3, 3), (1, 3), activations="quadratic")
    assert network.view.degree == 4
    assert not network.view.fixed_features
    with pytest.raises(ValueError, match="of degree 4"):
        festina.gradient_flow(network, linear_teacher([[1.0, 2.0]]), t_end=1.0)


@each_stack
def test_columns_and_arrays_are_inverse_and_lanes_do_not_mix(name):
    network, *_ = STACKS[name]
    batch = network.with_parts(*(np.stack((w, -0.5 * w, 2 * w))[None] for w in network.parts))
    assert batch.batch_shape == (1, 3)
    columns = batch.structure.columns(*batch.parts)
    assert columns.shape == (network.structure.size, 3)
    for found, part in zip(
        batch.structure.arrays(columns.reshape(-1, 1, 3)), batch.parts, strict=True
    ):
        np.testing.assert_array_equal(found, part)
    for part, whole in zip(batch.lane(0, 2).parts, network.parts, strict=True):
        np.testing.assert_array_equal(part, 2 * whole)


def test_predict_serves_a_batch():
    network, *_ = STACKS["relu"]
    batch = network.with_parts(*(np.stack((w, -0.5 * w)) for w in network.parts))
    x = data("relu").x[:4]
    found = batch.predict(x)
    assert found.shape == (2, 4, 2)
    np.testing.assert_allclose(found[0], [plain("relu", each)[-1] for each in x], rtol=1e-12)


@pytest.mark.usefixtures("double")
@pytest.mark.parametrize("name", ["quadratic", "skip-2", "convolution-input", "transformer"])
def test_from_the_outputs_end_or_sample_by_sample_it_is_the_same(name):
    network = STACKS[name][0]
    structure = network.structure
    psi = jax.vmap(network.features)(data(name).x)
    lanes = structure.split(structure.columns(*(np.stack((w, -w)) for w in network.parts)))
    found, expected = jax.jit(
        lambda *parts: (structure.outputs(psi, *parts), structure.activities(psi, *parts)[-1])
    )(*lanes)
    np.testing.assert_allclose(found, expected, rtol=1e-12, atol=1e-13)


# Special cases


def test_two_layers_are_the_layer_of_equation_1():
    layer = fully_connected(2, 4, 3, activation="tanh", scale=0.6, key=KEY)
    network = deep_network_from(layer.unit, (layer.u, layer.v.T))
    x = np.random.default_rng(0).normal(size=(5, 2))
    np.testing.assert_allclose(network.predict(x), layer.predict(x), rtol=1e-13)


def test_two_layers_of_kernels_are_the_layer_of_equation_1():
    layer = convolutional_1d(5, 3, 2, activation="tanh", scale=0.6, key=KEY)
    network = deep_network_from(layer.unit, (layer.u, np.moveaxis(np.asarray(layer.v), 0, -1)))
    assert network.outputs == 2
    x = np.random.default_rng(0).normal(size=(5, 5))
    np.testing.assert_allclose(network.predict(x), layer.predict(x), rtol=1e-12)


def test_attention_with_a_read_out_of_the_label_is_attention():
    layer = attention(2, 3, outputs=3, scale=0.6, key=KEY)
    last = np.array([[0.0, 0.0, 1.0]])
    values = np.moveaxis(np.asarray(layer.v), 0, -1)  # (output, embedding_read, unit)
    unit = LinearAttentionUnit(residual=False)
    network = deep_network_from(unit, (layer.u, values, last), skips=((0, 2),))
    x = np.random.default_rng(0).normal(size=(5, 3, 6))
    np.testing.assert_allclose(network.predict(x), layer.predict(x)[:, 2:], rtol=1e-12)


def test_a_stack_of_linear_layers_starts_as_the_deep_linear_network_of_the_key():
    network, deep = deep_network((2, 4, 3, 2), **SCALE), deep_linear((2, 4, 3, 2), **SCALE)
    for found, expected in zip(network.parts, deep.parts, strict=True):
        np.testing.assert_array_equal(found, expected)


@pytest.mark.parametrize(
    ("name", "sigma", "skipped"), [("skip-1", "relu", (1,)), ("skip-2", "linear", (1, 2))]
)
def test_equation_18_with_skipped_weights_zero_is_the_shallower_network(name, sigma, skipped):
    deep = STACKS[name][0]
    parts = [w if layer not in skipped else 0 * w for layer, w in enumerate(deep.parts)]
    kept = [w for layer, w in enumerate(deep.parts) if layer not in skipped]
    shallow = deep_network_from(NeuronUnit(activation(sigma)), kept, activations=sigma)
    x = np.random.default_rng(0).normal(size=(5, 2))
    np.testing.assert_allclose(deep.with_parts(*parts).predict(x), shallow.predict(x), atol=1e-13)
    assert np.abs(deep.predict(x) - shallow.predict(x)).max() > 1e-2


# Properties


def test_only_a_stack_without_bends_behind_it_sees_what_its_unit_sees():
    assert STACKS["skip-2"][0].view == NeuronUnit()
    assert STACKS["transformer"][0].view != LinearAttentionUnit(residual=False)
    population = in_context_regression(2, 4)
    deep = given(HEAD, (3, 2, 1, 3), (3, 3, 3), (4, 3), (1, 4))
    shallow = attention(2, 3, residual=False, **SCALE)
    found, expected = (objective(each, population, "half") for each in (deep, shallow))
    np.testing.assert_array_equal(found.data.psi, expected.data.psi)
    with pytest.raises(ValueError, match="linear attention only"):
        objective(STACKS["transformer"][0], population, "half")


@pytest.mark.parametrize(
    ("activations", "kinked"),
    [
        (("linear", "linear"), False),
        (("relu", "linear"), True),
        (("quadratic", "leaky-relu"), True),
    ],
)
def test_a_kink_anywhere_is_a_kink(activations, kinked):
    first, second = activations
    unit = NeuronUnit(activation(first))
    assert given(unit, (3, 2), (3, 3), (1, 3), activations=second).kinked == kinked
    assert fully_connected(2, 3, activation="relu", **SCALE).kinked
    assert not fully_connected(2, 3, activation="tanh", **SCALE).kinked


def test_names_of_the_parts_and_words_for_the_network():
    network = given(ConvolutionUnit(stride=2), (2, 3, 2), (2, 5, 2, 3), (2, 2, 5))
    assert network.part_axes == {
        "u": ("unit", "tap"),
        "w2": ("hidden_2", "position", "unit"),
        "w3": ("output", "hidden_2"),
    }
    assert repr(network).startswith("DeepNetwork((2,) networks, 3 units ConvolutionUnit")
    assert repr(STACKS["skip-2"][0]).endswith("then 3-3-2, linear, linear, skips ((1, 3),))")
    assert "DeepNetwork(" in repr(jax.tree.map(lambda _: 0, network))


def test_builders_know_the_shapes():
    shapes = lambda network: [w.shape for w in network.parts]
    conv = deep_convolutional(
        4, (3, 5, 2), stride=2, activations=("relu", "tanh"), scale=1, key=seeds(2)
    )
    assert shapes(conv) == [(2, 3, 2), (2, 5, 2, 3), (2, 2, 5)]
    assert isinstance(conv.unit, ConvolutionUnit)
    assert (conv.unit.activation.name, conv.activations[0].name) == ("relu", "tanh")
    former = linear_transformer(2, 4, (5, 1), rank=2, per_token=False, activations="relu", **SCALE)
    assert shapes(former) == [(4, 2, 2, 3), (3, 3, 4), (5, 3), (1, 5)]
    assert former.unit == LinearAttentionUnit(2, residual=False, per_token=False)
    assert [a.name for a in former.activations] == ["linear", "relu"]
    assert former.skips == ((0, 2),)


def test_scales_and_seeds_make_a_batch_that_does_not_depend_on_its_size():
    wide = deep_network((2, 3, 2, 1), scale=np.array([[1.0], [0.1]]), key=seeds(3))
    alone = deep_network((2, 3, 2, 1), scale=0.1, key=seeds(1, first=2))
    assert wide.batch_shape == (2, 3)
    for w, one in zip(wide.parts, alone.parts, strict=True):
        np.testing.assert_array_equal(w[1, 2], one[0])


# Errors

U, W2, W3 = np.ones((3, 2)), np.ones((4, 3)), np.ones((1, 4))


@pytest.mark.parametrize(
    ("weights", "options", "words"),
    [
        ((U,), {}, "of the output, got 1"),
        ((U, W3), {}, "shapes of `weights` do not match"),
        ((U, W2, W3[None]), {}, "shapes of `weights` do not match"),
        ((U[0], W2, W3), {}, "shapes of `weights` do not match"),
        ((U, W2, W3 * np.nan), {}, r"`weights\[2\]` must be finite, but 4 of its 4"),
        ((U, W2[:0], W3), {}, "at least one entry along every axis"),
        ((U, 1j * W2, W3), {}, "must be real, got complex numbers"),
        ((U, W2, W3), {"activations": ("relu", "relu")}, "a list of 1 activations, got 2"),
        ((U, W2, W3), {"activations": "reul"}, "Unknown activation 'reul'"),
        ((U, W2, W3), {"skips": ((1, 2),)}, "adds 3 numbers to 4"),
        ((U, W2, W3), {"skips": ((2, 2),)}, "from a layer to a later layer"),
        ((U, W2, W3), {"skips": ((0, 1),)}, "one of 2 to 3"),
        ((U, W2, W3), {"skips": ((1, 4),)}, "one of 2 to 3"),
    ],
)
def test_bad_arrays_are_refused(weights, options, words):
    with pytest.raises(ValueError, match=words):
        deep_network_from(NeuronUnit(), weights, **options)


def test_what_no_stack_can_do_is_said():
    x = np.ones((4, 2))
    head = np.ones((1, 2, 1, 3))
    with pytest.raises(ValueError, match="`residual=False`"):
        deep_network_from(LinearAttentionUnit(), (head, np.ones((3, 3, 1))))
    with pytest.raises(ValueError, match="softmax"):
        deep_network_from(
            SoftmaxAttentionUnit(residual=False), (head, np.ones((3, 3, 1))), skips=((0, 2),)
        )
    with pytest.raises(ValueError, match="hidden layer"):
        deep_network((2, 1), **SCALE)
    with pytest.raises(ValueError, match="`dimension` must be a whole number"):
        linear_transformer(0, 3, (4, 1), **SCALE)
    with pytest.raises(ValueError, match="at least the output's"):
        linear_transformer(2, 3, (), **SCALE)
    with pytest.raises(ValueError, match="do not fit"):
        festina.gradient_flow(STACKS["skip-2"][0], from_arrays(x, np.ones(4)), t_end=1.0)
    with pytest.raises(ValueError, match=r"inputs do not fit: .* of shape \(2,\), got \(3,\)"):
        STACKS["skip-2"][0](jnp.ones(3))
    skipping = given(ConvolutionUnit(), (3, 2), (4, 4, 3), (2, 4), skips=((0, 2),))
    with pytest.raises(ValueError, match="adds 5 numbers of the input to the 4"):
        skipping(jnp.ones(5))
    with pytest.raises(ValueError, match="Expected a single network"):
        deep_network_from(NeuronUnit(), (U[None], W2[None], W3[None]))(jnp.ones(2))
