"""Test Theorem 1: a fixed point of a narrow network is a fixed point of every wider network."""

import functools
import re

import jax
import jax.numpy as jnp
import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from festina.networks import (
    DeepLinear,
    Layer,
    NeuronUnit,
    activation,
    attention,
    convolutional_1d,
    deep_convolutional,
    deep_linear,
    deep_network,
    fully_connected,
    leaky_relu,
    linear_transformer,
    seeds,
)
from festina.theory.saddles import embed_units, embed_weights, stationarity, task_with_fixed_point
from festina.theory.saddles._kinds import admissible
from helpers import spoilt, untyped

KEY = jax.random.key(4)


def neurons(activation, width=2, scale=0.6):
    return fully_connected(3, width, 2, activation=activation, scale=scale, key=KEY)


def kernels(activation):
    return convolutional_1d(4, 2, 2, activation=activation, scale=0.6, key=KEY)


SOON = {
    "tanh": (lambda: neurons("tanh"), (3,)),
    "relu": (lambda: neurons("relu"), (3,)),
    "linear": (lambda: neurons("linear"), (3,)),
}
LATER = {
    "softmax head": (lambda: attention(2, 2, softmax=True, scale=0.6, key=KEY), (3, 5)),
    # With small weights a sigmoid is nearly constant, and a further constant hardly disturbs it.
    "sigmoid": (lambda: neurons("sigmoid", scale=2.0), (3,)),
    "leaky relu": (lambda: neurons(leaky_relu(0.2)), (3,)),
    "quadratic": (lambda: neurons("quadratic"), (3,)),
    "conv linear": (lambda: kernels("linear"), (4,)),
    "conv relu": (lambda: kernels("relu"), (4,)),
    "linear head": (lambda: attention(2, 2, scale=0.6, key=KEY), (3, 5)),
    "own": (lambda: neurons(lambda a: a * jnp.tanh(a)), (3,)),
}
ALL = SOON | LATER
each_architecture = pytest.mark.parametrize(
    "name", [*SOON, *(pytest.param(name, marks=pytest.mark.slow) for name in LATER)]
)


@functools.cache
def fixed_point(name):
    make, shape = ALL[name]
    network = make()
    x = np.random.default_rng(1).normal(size=(40, *shape))
    return network, task_with_fixed_point(network, x, key=KEY)


@jax.jit
def outputs(network, x):
    return jax.vmap(network)(x)


def apart(narrow, wide, x):
    """Return the largest difference between the outputs of two networks."""
    with jax.enable_x64(True):
        return float(np.abs(outputs(wide, x) - outputs(narrow, x)).max())


@each_architecture
def test_embedding_keeps_the_map_and_the_fixed_point(name):
    network, task = fixed_point(name)
    assert stationarity(network, task).gradient < 1e-12
    for kind in admissible(network.unit.algebra):
        wide = embed_units(network, 6, kind, key=None if kind == "zero" else KEY)
        assert wide.width == 6
        assert apart(network, wide, task.x) < 1e-13
        assert stationarity(wide, task).gradient < 1e-12


@each_architecture
def test_where_the_algebra_forbids_it_there_is_no_fixed_point(name):
    """Constructions that the algebra forbids have a gradient, so the proof needs its conditions."""
    network, task = fixed_point(name)
    rng = np.random.default_rng(2)
    one = np.eye(2)[np.arange(4) % 2]
    # Eq. (5) needs a silent unit; a unit with u ≠ 0 and v = 0 has a gradient in v.
    mixings = {
        "zero": (0 * one, 0 * one),
        "proportional": (2.5 * one, 0.7 * one),
        "linear": (rng.normal(size=(4, 2)), rng.normal(size=(4, 2))),
    }
    allowed = admissible(network.unit.algebra)
    for kind, mixing in mixings.items():
        u, v = embed_weights(network.u, network.v, *mixing)
        gradient = stationarity(Layer(u, v, network.unit), task).gradient
        assert gradient < 1e-12 if kind in allowed else gradient > 1e-2


def test_a_rectifier_takes_no_negative_factor():
    network, task = fixed_point("relu")
    one = np.eye(2)[[0, 1, 0, 1]]
    u, v = embed_weights(network.u, network.v, -1.0 * one, 0.5 * one)
    assert stationarity(Layer(u, v, network.unit), task).gradient > 1e-2
    with pytest.raises(ValueError, match=r"`gamma_u` must not be negative .* differs .* by 1.. %"):
        embed_units(network, 3, "proportional", gamma_u=-1.0, gamma_v=0.5)
    assert embed_units(network, 3, "proportional", gamma_u=0.0, gamma_v=0.5).width == 3


def test_one_unit_as_the_equations_have_it():
    """Compare with Eqs. (4) to (7), unit by unit."""
    network = neurons("linear", width=3)
    u, v = network.u, network.v
    g, h = np.array([0.3, -1.2, 0.8]), np.array([2.0, 0.5, -0.7])

    equal = embed_units(network, 4, "equal", gamma_v=0.3, parent=1)
    np.testing.assert_array_equal(equal.u[3], u[1])
    np.testing.assert_allclose(equal.v[3], 0.3 * v[1], rtol=1e-15)
    np.testing.assert_allclose(equal.v[1], 0.7 * v[1], rtol=1e-14)
    np.testing.assert_array_equal(equal.v[[0, 2]], v[[0, 2]])

    zero = embed_units(network, 4, "zero")
    assert not zero.u[3].any()
    assert not zero.v[3].any()
    np.testing.assert_array_equal(zero.v[:3], v)

    proportional = embed_units(network, 4, "proportional", gamma_u=-2.0, gamma_v=0.3, parent=2)
    np.testing.assert_allclose(proportional.u[3], -2.0 * u[2], rtol=1e-15)
    np.testing.assert_allclose(proportional.v[3], 0.3 * v[2], rtol=1e-15)
    np.testing.assert_allclose(proportional.v[2], (1 + 0.6) * v[2], rtol=1e-14)

    linear = embed_units(network, 4, "linear", gamma_u=g[None], gamma_v=h[None])
    np.testing.assert_allclose(linear.u[3], sum(g[i] * u[i] for i in range(3)), rtol=1e-14)
    combined = sum(h[i] * v[i] for i in range(3))
    np.testing.assert_allclose(linear.v[3], combined, rtol=1e-14)
    for i in range(3):
        np.testing.assert_allclose(linear.v[i], v[i] - g[i] * combined, rtol=1e-13)
        np.testing.assert_array_equal(linear.u[i], u[i])


@given(
    kind=st.sampled_from(("equal", "proportional", "linear")),
    first=st.integers(3, 4),
    second=st.integers(5, 6),
    seed=st.integers(0, 99),
)
@settings(max_examples=8)
def test_embedding_twice_is_embedding_once_more(kind, first, second, seed):
    """For a linear network, Vᵀ U is compared, without a fixed point."""
    network = neurons("linear", width=2)
    keys = jax.random.split(jax.random.key(seed))
    wide = embed_units(embed_units(network, first, kind, key=keys[0]), second, kind, key=keys[1])
    assert wide.u.shape == (second, 3)
    before = np.einsum("io,in->on", network.v, network.u)
    after = np.einsum("io,in->on", wide.v, wide.u)
    size = float(np.linalg.norm(wide.v) * np.linalg.norm(wide.u))
    np.testing.assert_allclose(after, before, atol=1e-14 * size)
    # All units stay in the span of the two original units.
    assert np.linalg.matrix_rank(wide.u, tol=1e-10) == 2


def test_a_batch_is_embedded_lane_by_lane():
    batch = fully_connected(3, 2, 2, activation="relu", scale=0.6, key=seeds(3))
    wide = embed_units(batch, 5, "proportional", key=KEY)
    assert wide.batch_shape == (3,)
    for lane in range(3):
        alone = embed_units(batch.lane(lane), 5, "proportional", key=KEY)
        np.testing.assert_array_equal(wide.lane(lane).u, alone.u)
        np.testing.assert_array_equal(wide.lane(lane).v, alone.v)


def deep(name):
    if name == "deep linear":
        return deep_linear((3, 2, 2, 2), scale=0.8, key=KEY), (3,), (4, 5)
    if name == "relu stack":
        return deep_network((3, 2, 2, 2), activations="relu", scale=0.8, key=KEY), (3,), (4, 5)
    if name == "conv tanh stack":
        network = deep_convolutional(4, (2, 2, 2), activations="tanh", scale=0.8, key=KEY)
        return network, (4,), (4, 5)
    return linear_transformer(2, 2, (2, 1), scale=0.6, key=KEY), (3, 5), (4, 3, 5)


@pytest.mark.parametrize(
    ("name", "kind"),
    [
        ("deep linear", "linear"),
        pytest.param("relu stack", "proportional", marks=pytest.mark.slow),
        pytest.param("conv tanh stack", "equal", marks=pytest.mark.slow),
        pytest.param("conv tanh stack", "zero", marks=pytest.mark.slow),
        pytest.param("linear transformer", "zero", marks=pytest.mark.slow),
    ],
)
def test_units_of_several_layers(name, kind):
    """Corollary 2 holds with any layers before and behind the widened layer."""
    network, shape, widths = deep(name)
    x = np.random.default_rng(1).normal(size=(60, *shape))
    task = task_with_fixed_point(network, x, key=KEY)
    wide = embed_units(network, widths, kind, key=None if kind == "zero" else KEY)
    assert tuple(part.shape[0] for part in wide.parts[:-1]) == widths
    assert apart(network, wide, x) < 1e-12
    assert stationarity(wide, task).gradient < 1e-12


def test_two_layers_are_one_layer():
    layer = neurons("linear")
    deep = embed_units(DeepLinear.from_layer(layer), (5,), "linear", key=KEY)
    flat = embed_units(layer, 5, "linear", key=KEY)
    for one, other in zip(deep.parts, DeepLinear.from_layer(flat).parts, strict=True):
        np.testing.assert_array_equal(one, other)


@pytest.mark.parametrize(
    ("make", "kind", "words"),
    [
        (
            lambda: neurons("tanh"),
            "proportional",
            r"Eq. \(6\): φ\(z; αu\) differs .* % of .*Admissible",
        ),
        (lambda: neurons("tanh"), "linear", r"Eq. \(7\): φ\(z; u \+ u′\) differs from"),
        (
            lambda: neurons("sigmoid"),
            "zero",
            r"φ\(z; 0\) differs from 0 .*Admissible kinds: 'equal'",
        ),
        (lambda: kernels("relu"), "linear", r"ConvolutionUnit.* does not admit the kind 'linear'"),
        (lambda: attention(2, 2, key=KEY), "proportional", "LinearAttentionUnit.* does not admit"),
        (
            lambda: attention(2, 2, softmax=True, key=KEY),
            "zero",
            "SoftmaxAttentionUnit.* not admit",
        ),
        (lambda: neurons("relu"), "copy", "must be one of equal, zero.* got 'copy'"),
    ],
)
def test_what_the_algebra_does_not_admit_is_refused(make, kind, words, as_a_user):
    with pytest.raises(ValueError, match=words):
        embed_units(make(), 4, kind, key=KEY)


def test_the_defect_that_is_reported_is_the_departure():
    """σ(a) = a + c a² violates additivity by 2c u·z u′·z, so the reported number is linear in c."""

    def reported(c):
        unit = NeuronUnit(activation(lambda a: a + c * a**2))
        with pytest.raises(ValueError, match="does not admit") as refusal:
            embed_units(Layer(np.ones((1, 2)), np.ones((1, 1)), unit), 2, "linear", key=KEY)
        percent = re.search(r"by ([\d.e+-]+) %", str(refusal.value))
        assert percent is not None
        return float(percent[1])

    assert reported(1e-2) / reported(1e-4) == pytest.approx(100, rel=0.05)


def test_bad_input(as_a_user):
    network = neurons("linear")
    for call, words in (
        (lambda: embed_units(network, 1, "zero"), "`width` 1 is below the 2 units"),
        (lambda: embed_units(network, 4, "equal"), "give `gamma_v`, or a `key`"),
        (lambda: embed_units(network, 4, "linear"), "give `gamma_u` and `gamma_v`, or a `key`"),
        (
            lambda: embed_units(network, 4, "equal", gamma_u=1.0, gamma_v=1.0),
            r"Eq. \(4\).*no `gamma_u`",
        ),
        (lambda: embed_units(network, 4, "zero", gamma_v=1.0), r"Eq. \(5\).*no `gamma_v`"),
        (
            lambda: embed_units(network, 4, "equal", gamma_v=[1.0, 2.0, 3.0]),
            r"shape \(2,\).*got \(3,\)",
        ),
        (lambda: embed_units(network, 4, "equal", gamma_v=np.nan), "`gamma_v` must be finite"),
        (lambda: embed_units(network, 4, "equal", gamma_v=0.5, parent=2), "from 0 to 1"),
        (
            lambda: embed_units(network, 4, "equal", gamma_v=0.5, parent=untyped(0.5)),
            "`parent.*whole number.*got 0.5",
        ),
        (lambda: embed_units(network, untyped(4.5), "zero"), "whole number from 1 up, got 4.5"),
        (lambda: embed_units(network, (4, 4), "zero"), "each of the 1 hidden layers"),
        (lambda: embed_units(deep("relu stack")[0], 4, "zero"), "each of the 2 hidden layers"),
        (
            lambda: embed_units(deep("transformer")[0], (2, 4, 2), "zero"),
            "width of hidden layer 2 cannot change",
        ),
        (lambda: embed_units(spoilt(network, 1), 4, "zero"), "weights `v` are not all finite"),
        (lambda: embed_units(spoilt(deep("relu stack")[0], 0), (4, 4), "zero"), "not all finite"),
    ):
        with pytest.raises(ValueError, match=words):
            call()
    assert embed_units(network, 2, "zero") is network
    assert embed_units(network, untyped(np.int64(3)), "zero").width == 3
