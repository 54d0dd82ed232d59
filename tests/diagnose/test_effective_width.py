"""Test `effective_width` on networks with a known number of necessary units."""

import functools

import jax
import jax.numpy as jnp
import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from festina.diagnose import effective_width
from festina.networks import (
    Layer,
    LinearAttentionUnit,
    NeuronUnit,
    activation,
    attention,
    convolutional_1d,
    fully_connected,
    layer_from,
)
from festina.tasks import from_arrays, from_moments, quadratic_teacher
from festina.theory.saddles import (
    embed_units,
    linear_saddle,
    merged_networks,
    narrow_minima,
    stationarity,
)
from festina.theory.saddles._kinds import Kind
from helpers import untyped

WIDE = 12
X = np.random.default_rng(0).normal(size=(40, 3))


def network_of(name, u, v):
    return layer_from(NeuronUnit(activation(name)), u, v)


def on_rays(rng, count, *, lines):
    """Return units along a few well-separated directions, with random lengths in random order."""
    directions = np.linalg.qr(rng.normal(size=(3, 3)))[0][:count]
    which = np.arange(WIDE) % count
    length = rng.uniform(0.3, 1.5, WIDE) * (rng.choice((-1, 1), WIDE) if lines else 1)
    order = rng.permutation(WIDE)
    # The signs of v agree along a ray; otherwise its units could cancel.
    read = rng.uniform(0.5, 1.0, WIDE) * np.sign(length)
    return (length[:, None] * directions[which])[order], read[order]


def few_units(rng, name, count):
    """Return weights that few units can replace, and the name of the reduction."""
    if name == "linear":
        mix = rng.normal(size=(WIDE, count))
        theta = mix @ rng.normal(size=(count, 4))
        return theta[:, :3], theta[:, 3], "linear"
    if name == "relu":
        return *on_rays(rng, count, lines=False), "proportional"
    if name == "sigmoid":
        which = rng.permutation(np.arange(WIDE) % count)
        few = 3 * np.linalg.qr(rng.normal(size=(3, 3)))[0][:count]
        return few[which], rng.uniform(0.5, 1.0, WIDE), "equal"
    u, v = np.zeros((WIDE, 3)), np.zeros(WIDE)
    active = rng.choice(WIDE, count, replace=False)
    u[active] = np.linalg.qr(rng.normal(size=(3, 3)))[0][:count]
    v[active] = rng.uniform(0.5, 1.0, count)
    return u, v, "zero"


PLAIN = {
    "linear": lambda a: a,
    "relu": lambda a: np.maximum(a, 0),
    "sigmoid": lambda a: 1 / (1 + np.exp(-a)),
    "quadratic": np.square,
    "tanh": np.tanh,
}


@settings(max_examples=25)
@given(st.integers(0, 10**6), st.sampled_from(list(PLAIN)), st.integers(1, 2))
def test_width_and_kind_of_networks_that_are_exactly_narrow(seed, name, count):
    rng = np.random.default_rng(seed)
    u, v, kind = few_units(rng, name, count)
    dust = 1e-4 * rng.normal(size=(WIDE, 4))
    network = network_of(name, u + dust[:, :3], v + dust[:, 3])
    by_hand = lambda one: PLAIN[name](X @ one.u.T) @ one.v[:, 0]
    y = by_hand(network)
    found = effective_width(network, from_arrays(X, y), tune=False)
    if name == "linear":  # one output needs only one direction, but two may be used
        assert found.width in (1, count)
        assert "linear" in found.kinds
    else:
        assert (found.width, found.kind) == (count, kind)
    gap = y - by_hand(found.narrow)
    expected = np.sqrt(np.mean(gap**2) / np.mean(y**2))
    np.testing.assert_allclose(found.error, expected, atol=1e-12)
    assert found.error <= found.tolerance


def test_rank_two_of_a_linear_layer_needs_two_outputs():
    rng = np.random.default_rng(4)
    theta = rng.normal(size=(WIDE, 2)) @ rng.normal(size=(2, 5))
    network = network_of("linear", theta[:, :3], theta[:, 3:])
    found = effective_width(network, X, y=network.predict(X), tolerance=0.02)
    assert (found.width, found.kinds, found.equation) == (2, ("linear",), 7)
    assert "units: 2 of 12 units; (7) linear" in str(found)


def test_all_kinds_are_reported_and_the_simplest_is_named():
    rng = np.random.default_rng(2)
    line = np.outer(rng.normal(size=WIDE), rng.normal(size=5))
    network = network_of("linear", line[:, :3], line[:, 3:])
    found = effective_width(network, X, y=network.predict(X))
    assert found.width == 1
    assert found.kinds == ("proportional", "linear")
    assert found.kind == "proportional"
    assert "(6) proportional and (7) linear" in str(found)


def test_what_nothing_reads_is_no_direction():
    """Parts of u that no output reads do not count as a direction (Lemma 6)."""
    rng = np.random.default_rng(3)
    correlation, scales = rng.normal(size=(2, 4)), np.array([1.0, 2.0, 0.5, 3.0])
    saddle = linear_saddle(from_moments(correlation, np.diag(scales**2)), (0,))
    x = scales * np.linalg.qr(rng.normal(size=(40, 4)))[0] * np.sqrt(40)
    network = saddle.network(20, key=jax.random.key(0), unread=1.0)
    found = effective_width(network, x)
    assert (found.width, found.kind) == (1, "linear")
    assert found.error < 1e-12


def test_fewer_directions_are_the_best_linear_maps_of_their_rank():
    """Compare with reduced-rank regression: the errors are the singular values of the outputs."""
    rng = np.random.default_rng(5)
    x = X * [3.0, 1.0, 0.3]
    network = network_of("linear", rng.normal(size=(WIDE, 3)), rng.normal(size=(WIDE, 3)))
    (linear,) = (n for n in merged_networks(network, from_arrays(x, x)) if n.kind == "linear")
    s = np.linalg.svd(network.predict(x), compute_uv=False) / np.linalg.norm(x)
    left = np.sqrt(np.append(np.cumsum(s[::-1] ** 2)[::-1], 0.0))
    np.testing.assert_allclose(linear.error, left, atol=1e-12)


@pytest.mark.parametrize("name", ["tanh", "sine", "cubic"])
def test_an_odd_unit_and_its_negative_are_one(name):
    rng = np.random.default_rng(1)
    sign = rng.choice((-1.0, 1.0), WIDE)
    v = sign * rng.uniform(0.5, 1.0, WIDE)
    found = effective_width(sign[:, None] * rng.normal(size=3), X, v=v, activation=name)
    assert found.width == 1
    assert found.error < 1e-12


def test_heads_are_copies_whatever_their_keys_and_queries():
    """Heads with K → AK and Q → A⁻ᵀQ respond alike, but the mean of their weights would not."""
    rng = np.random.default_rng(2)
    key, query = rng.normal(size=(2, 2, 3))
    turns = rng.normal(size=(4, 2, 2))
    u = np.stack([np.stack((a @ key, np.linalg.inv(a).T @ query)) for a in turns])
    tokens, v = rng.normal(size=(60, 3, 6)), rng.normal(size=(4, 1, 3))
    found = effective_width(u, tokens, v=v, activation=LinearAttentionUnit(rank=2))
    assert (found.width, found.kind) == (1, "equal")
    assert found.error < 1e-12


def test_small_outputs_are_nothing_next_to_targets_and_all_there_is_without():
    network = network_of(
        "relu", *(1e-6 * part for part in on_rays(np.random.default_rng(0), 2, lines=False))
    )
    start = effective_width(network, X, y=np.ones(len(X)))
    assert start.width == 0
    assert start.narrow is None
    assert start.kind == "zero"
    assert effective_width(network, X).width == 2


def test_a_network_that_uses_all_its_units_is_of_no_kind():
    rng = np.random.default_rng(1)
    network = network_of("tanh", 2 * rng.normal(size=(3, 3)), rng.choice((-1.0, 1.0), 3))
    found = effective_width(network, X)
    assert (found.width, found.kind, found.kinds) == (3, None, ())
    assert "no unit can be spared" in str(found)
    assert found.short > 0.1


def test_where_merging_costs_too_much_nothing_is_merged():
    """Two similar sigmoid units are not merged if the output is their small difference."""
    u, v = np.array([[1.0, 0.0, 0.0], [1.05, 0.05, 0.0]]), np.array([50.0, -50.0])
    network = network_of("sigmoid", u, v)
    found = effective_width(network, from_arrays(X, network.predict(X)), tolerance=0.01)
    assert (found.width, found.kind, found.error) == (2, None, 0.0)
    np.testing.assert_array_equal(found.narrow.u, u)


def test_plain_arrays_give_what_objects_give():
    rng = np.random.default_rng(6)
    u, v = on_rays(rng, 2, lines=False)
    y = rng.normal(size=len(X))
    expected = effective_width(network_of("relu", u, v), X, y=y)
    plain = effective_width(u, X, v=v, activation="relu", y=y)
    own = effective_width(u, X, v=v, activation=lambda a: jnp.maximum(a, 0.0), y=y)
    lists = effective_width(u.tolist(), X.tolist(), v=v.tolist(), activation="relu", y=y.tolist())
    for found in (plain, own, lists):
        assert found.widths == expected.widths
        np.testing.assert_allclose(found.error, expected.error, rtol=1e-9)


@pytest.mark.slow
def test_other_tolerances_of_the_same_answer():
    network = fully_connected(3, WIDE, activation="relu", scale=0.5, key=jax.random.key(3))
    found = effective_width(network, X, tolerance=0.3)
    for tolerance in (0.01, 0.5):
        again = effective_width(network, X, tolerance=tolerance)
        assert found.at(tolerance).width == again.width
    widths = [found.at(tolerance).width for tolerance in (0.5, 0.3, 0.1, 0.01)]
    assert widths == sorted(widths)
    assert widths[1] == found.width
    errors = np.array(list(found.curve.values()))
    assert list(found.curve) == list(range(WIDE + 1))
    assert errors[0] == 1.0
    assert errors[-1] < 1e-9
    assert errors[found.width] <= 0.3 < errors[found.width - 1] == found.short
    ax = found.draw(color="C3")
    assert ax.lines[0].get_color() == "C3"
    np.testing.assert_array_equal(ax.lines[0].get_ydata(), errors)


@functools.cache
def architectures() -> dict[str, tuple[Layer, np.ndarray, Kind]]:
    key = jax.random.key(8)
    rng = np.random.default_rng(9)
    return {
        "kernels": (
            convolutional_1d(4, 2, activation="relu", scale=0.7, key=key),
            rng.normal(size=(30, 4)),
            "proportional",
        ),
        "heads with a residual": (
            attention(2, 2, scale=0.7, key=key),
            rng.normal(size=(30, 3, 4)),
            "zero",
        ),
        "softmax": (
            attention(2, 2, softmax=True, scale=2.0, key=key),
            rng.normal(size=(30, 3, 4)),
            "equal",
        ),
    }


@pytest.mark.parametrize(
    "name",
    [
        pytest.param("kernels", marks=pytest.mark.slow),
        "heads with a residual",
        pytest.param("softmax", marks=pytest.mark.slow),
    ],
)
def test_embedded_networks_of_any_architecture_have_the_width_they_had(name):
    narrow, x, kind = architectures()[name]
    wide = embed_units(narrow, 6, kind, key=jax.random.key(2))
    found = effective_width(wide, from_arrays(x, narrow.predict(x)), tolerance=1e-6)
    assert narrow.width == found.width
    assert kind in found.kinds
    np.testing.assert_allclose(found.narrow.predict(x), narrow.predict(x), atol=1e-9)


def test_confirmed_at_a_saddle_and_not_elsewhere():
    """A network at the minimum of one quadratic unit is confirmed; away from it, it is not.

    The targets are those of Figure 1G, with loss 4/3 at the minimum.
    """
    data = quadratic_teacher(np.eye(2))
    minima = narrow_minima(NeuronUnit(activation("quadratic")), data, loss="half", starts=4)
    wide = embed_units(minima.network.lane(0), 6, "zero")
    found = effective_width(wide, data)
    assert found.width == 1
    assert found.confirmed
    np.testing.assert_allclose([found.loss, found.narrow_loss], 4 / 3, rtol=1e-9)
    found = effective_width(wide.with_parts(0.7 * wide.u, wide.v), data)
    assert found.width == 1  # the same width, but not at a saddle
    assert found.confirmed is found.rests is False
    assert "the network moves" in str(found)
    nothing = wide.with_parts(0.0 * wide.u, 0.0 * wide.v)
    with pytest.raises(ValueError, match=r"Expected a single network, got a batch of shape \(1,\)"):
        effective_width(wide.with_parts(wide.u[None], wide.v[None]), data)
    found = effective_width(nothing, data)
    assert found.confirmed
    assert found.fixed_point is None
    np.testing.assert_allclose(found.narrow_loss, 4.0, rtol=1e-12)


def test_the_fixed_point_is_one():
    """Near a saddle of a wide network, training the narrow network leads to its fixed point."""
    x = np.sqrt(2.0) * np.eye(2)
    u = np.sqrt(3.0) * np.array([[0.6, 0.0], [0.8, 0.01], [0.01, 0.0]])
    data = from_arrays(x, x * [3.0, 1.0])
    found = effective_width(layer_from(NeuronUnit("linear"), u, u), data)
    assert found.width == 1
    assert found.confirmed
    assert stationarity(found.fixed_point, data).relative < 1e-4


@pytest.mark.slow
def test_a_network_as_wide_as_for_mnist_has_two_rays():
    """Find two rays among small weights with 784 inputs, 1000 units, 2000 samples, as for MNIST."""
    rng = np.random.default_rng(5)
    x = rng.normal(size=(2000, 784)) / 28
    rays = rng.normal(size=(2, 784)) / 28
    which = np.arange(1000) % 2
    u = rng.uniform(0.5, 1.5, 1000)[:, None] * rays[which] + 1e-5 * rng.normal(size=(1000, 784))
    v = np.stack((which, 1 - which), axis=1) / 30
    found = effective_width(u, x, v=v, activation="relu")
    assert (found.width, found.kind) == (2, "proportional")


U, V = np.ones((WIDE, 3)), np.ones(WIDE)
RELU = {"v": V, "activation": "relu"}
BAD = [
    (lambda: effective_width(np.nan * U, X, **RELU), "`u` must be finite"),
    (lambda: effective_width(U, X, v=np.inf * V, activation="relu"), "`v` must be finite"),
    (lambda: effective_width(U, np.nan * X, **RELU), "`x` is not finite"),
    (lambda: effective_width(U, X, v=V), "both layers and φ"),
    (lambda: effective_width(U, X, activation="relu"), "both layers and φ"),
    (lambda: effective_width(U, X, v=np.ones((2, WIDE)), activation="relu"), "unit, output"),
    (lambda: effective_width(U.T, X, **RELU), r"Give u\.T\?"),
    (lambda: effective_width(U, X, v=V, activation="rely"), "Unknown activation"),
    (lambda: effective_width(U, X[:, :2], **RELU), "do not fit"),
    (lambda: effective_width(U, X, y=np.ones(7), **RELU), "equally many samples"),
    (
        lambda: effective_width(U[None], X, v=V[None], activation="relu"),
        "Expected a single network",
    ),
    (lambda: effective_width(network_of("relu", U, V), X, v=V), "has its own"),
    (
        lambda: effective_width(network_of("relu", U, V), from_arrays(X, X[:, 0]), y=V),
        "has its own",
    ),
    (lambda: effective_width(U, X, tolerance=0.0, **RELU), "`tolerance`"),
    (
        lambda: effective_width(U, X, tolerance=untyped("1"), **RELU),
        "`tolerance` must be a number, got '1'",
    ),
    (lambda: effective_width(U, X, loss=lambda f, y: 0.0, **RELU), "are for PyTorch and JAX"),
]


@pytest.mark.parametrize(("call", "words"), BAD)
def test_bad_input(call, words, as_a_user):
    with pytest.raises(ValueError, match=words):
        call()


def test_targets_of_zero_are_no_scale():
    rng = np.random.default_rng(0)
    u, x = np.tile(rng.normal(size=(1, 3)), (4, 1)), rng.normal(size=(30, 3))
    plain = {"v": np.ones((4, 1)), "activation": "relu"}
    found = effective_width(u, x, y=np.zeros(30), **plain)
    assert (found.width, found.scale) == (1, effective_width(u, x, **plain).scale)


# Units that no reduction merges


TOKENS = np.random.default_rng(1).normal(size=(60, 3, 6))
HEAD = LinearAttentionUnit(residual=False)


def heads(matrix, query):
    """Return one head for each nonzero eigenvalue of a symmetric matrix, with multiples of one
    query.
    """
    values, vectors = np.linalg.eigh(matrix)
    counts = np.abs(values) > 1e-9 * np.abs(values).max()
    factor = np.array([0.5, -2.0, 1.5])[: counts.sum()]
    keys, queries = vectors.T[counts], factor[:, None] * query
    read = (values[counts] / factor)[:, None, None] * keys[:, None]
    return np.stack((keys, queries), axis=1)[:, :, None], read


def test_two_heads_that_share_their_query_do_what_one_does():
    """The symmetric part of v kᵀ has a positive and a negative eigenvalue: one head for each."""
    rng = np.random.default_rng(2)
    for _ in range(3):
        v, k, q = rng.normal(size=(3, 3))
        u, values = heads((np.outer(v, k) + np.outer(k, v)) / 2, q)
        found = effective_width(u, TOKENS, v=values, activation=HEAD, tolerance=0.01)
        assert (found.units, found.width, found.kinds) == (2, 1, ())
        assert found.error < 0.01
        assert "1 of 2 units; tuned, so not embedded" in str(found)


def test_heads_of_one_sign_or_of_other_queries_are_two():
    basis = np.linalg.qr(np.random.default_rng(3).normal(size=(3, 3)))[0]
    same_sign = heads(basis[:2].T @ basis[:2], basis[2])
    other = np.stack((basis[:2], basis[1:]), axis=1)[:, :, None], basis[:2, None]
    for u, v in (same_sign, other):
        found = effective_width(u, TOKENS, v=v, activation=HEAD)
        assert (found.width, found.kind) == (2, None)
        assert found.short > 0.15


@settings(max_examples=6)
@given(st.integers(0, 10**6), st.integers(1, 2))
def test_quadratic_units_are_as_many_as_their_matrix_has_eigenvalues(seed, rank):
    rng = np.random.default_rng(seed)
    mix, basis = np.linalg.qr(rng.normal(size=(2, 3, 3)))[0]
    u = mix[:, :rank] @ (rng.uniform(0.7, 1.3, rank)[:, None] * basis[:rank])
    found = effective_width(u, X, v=np.ones(3), activation="quadratic", tolerance=0.02)
    assert found.width == rank
    assert found.short > 0.05


@pytest.mark.parametrize(("activation", "rests"), [("tanh", True), ("sigmoid", False)])
def test_weights_of_zero_rest_where_the_gradient_vanishes(activation, rests):
    """A sigmoid unit of zero weights has output ½, so its readout has a gradient."""
    network = layer_from(activation, np.zeros((3, 2)), np.zeros((3, 1)))
    found = effective_width(network, from_arrays(np.eye(2), [1.0, 2.0]))
    assert found.width == 0
    assert found.rests == rests
    assert found.confirmed == rests
