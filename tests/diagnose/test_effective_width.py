"""Effective width by reduction error in function space, on networks whose answer is known."""

import functools
import time

import jax
import jax.numpy as jnp
import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

import festina
from festina.diagnose import confirm, effective_width
from festina.networks import (
    DeepLinear,
    LinearAttentionHead,
    Neuron,
    activation,
    attention,
    convolutional_1d,
    fully_connected,
    layer_from,
)
from festina.tasks import from_arrays, from_moments, linear_teacher, quadratic_teacher
from festina.theory.saddles import embed_units, linear_saddle, narrow_minima

WIDE = 12
X = np.random.default_rng(0).normal(size=(40, 3))


def network_of(name, u, v):
    return layer_from(Neuron(activation(name)), u, v)


def on_rays(rng, count, *, lines):
    """Units along a few directions, far enough apart, of any length and in any order."""
    directions = np.linalg.qr(rng.normal(size=(3, 3)))[0][:count]
    which = np.arange(WIDE) % count
    length = rng.uniform(0.3, 1.5, WIDE) * (rng.choice((-1, 1), WIDE) if lines else 1)
    order = rng.permutation(WIDE)
    # Signs of v agree along a ray, else it might add up to nothing.
    read = rng.uniform(0.5, 1.0, WIDE) * np.sign(length)
    return (length[:, None] * directions[which])[order], read[order]


def few_units(rng, name, count):
    """Weights of the kind that a unit's algebra leads to, and what that kind is called."""
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
    found = effective_width(network, X, y=y)
    if name == "linear":  # into one number there is but one direction, though two may be used
        assert found.width in (1, count)
        assert "linear" in found.ties
    else:
        assert (found.width, found.kind) == (count, kind)
    gap = y - by_hand(found.reduced)
    expected = np.sqrt(np.mean(gap**2) / np.mean(y**2))
    np.testing.assert_allclose(found.error, expected, atol=1e-12)
    assert found.error <= found.tolerance


def test_rank_two_of_a_linear_layer_needs_two_outputs():
    rng = np.random.default_rng(4)
    theta = rng.normal(size=(WIDE, 2)) @ rng.normal(size=(2, 5))
    network = network_of("linear", theta[:, :3], theta[:, 3:])
    found = effective_width(network, X, y=network.predict(X), tolerance=0.02)
    assert (found.width, found.kind, found.equation) == (2, "linear", 7)
    assert found.widths["zero"] > 2
    assert found.widths["proportional"] > 2
    assert "effective width 2 of type (7)" in str(found)


def test_ties_are_reported_and_the_simplest_kind_is_named():
    rng = np.random.default_rng(2)
    line = np.outer(rng.normal(size=WIDE), rng.normal(size=5))
    network = network_of("linear", line[:, :3], line[:, 3:])
    found = effective_width(network, X, y=network.predict(X))
    assert found.width == 1
    assert found.ties == ("proportional", "linear")
    assert found.kind == "proportional"
    assert "(6) and (7)" in str(found)


def test_what_nothing_reads_is_no_direction():
    """Lemma 6: with more inputs than outputs u may hold what no output depends on."""
    rng = np.random.default_rng(3)
    correlation, scales = rng.normal(size=(2, 4)), np.array([1.0, 2.0, 0.5, 3.0])
    saddle = linear_saddle(from_moments(correlation, np.diag(scales**2)), (0,))
    x = scales * np.linalg.qr(rng.normal(size=(40, 4)))[0] * np.sqrt(40)
    network = saddle.network(20, key=jax.random.key(0), unread=1.0)
    found = effective_width(network, x)
    assert (found.width, found.kind) == (1, "linear")
    assert found.error < 1e-12


def test_fewer_directions_are_the_best_linear_maps_of_their_rank():
    """Reduced-rank regression, by an independent route: the singular values of the outputs."""
    rng = np.random.default_rng(5)
    x = X * [3.0, 1.0, 0.3]
    network = network_of("linear", rng.normal(size=(WIDE, 3)), rng.normal(size=(WIDE, 3)))
    (linear,) = (n for n in effective_width(network, x).narrowings if n.kind == "linear")
    s = np.linalg.svd(network.predict(x), compute_uv=False)
    left = np.sqrt(np.append(np.cumsum(s[::-1] ** 2)[::-1], 0.0) / np.sum(s**2))
    np.testing.assert_allclose(linear.error, left, atol=1e-12)


@pytest.mark.parametrize("name", ["tanh", "sine", "cubic"])
def test_an_odd_unit_and_its_negative_are_one(name):
    rng = np.random.default_rng(1)
    sign = rng.choice((-1.0, 1.0), WIDE)
    v = sign * rng.uniform(0.5, 1.0, WIDE)
    found = effective_width(sign[:, None] * rng.normal(size=3), X, v=v, activation=name)
    assert (found.width, found.kind) == (1, "equal")
    assert found.error < 1e-12


def test_heads_are_copies_whatever_their_keys_and_queries():
    """K → AK and Q → A⁻ᵀQ change no response: the mean of such weights is none of them."""
    rng = np.random.default_rng(2)
    key, query = rng.normal(size=(2, 2, 3))
    turns = rng.normal(size=(4, 2, 2))
    u = np.stack([np.stack((a @ key, np.linalg.inv(a).T @ query)) for a in turns])
    tokens, v = rng.normal(size=(60, 3, 6)), rng.normal(size=(4, 1, 3))
    found = effective_width(u, tokens, v=v, activation=LinearAttentionHead(rank=2))
    assert (found.width, found.kind) == (1, "equal")
    assert found.error < 1e-12


def test_small_outputs_are_nothing_next_to_targets_and_all_there_is_without():
    network = network_of(
        "relu", *(1e-6 * part for part in on_rays(np.random.default_rng(0), 2, lines=False))
    )
    start = effective_width(network, X, y=np.ones(len(X)))
    assert start.width == 0
    assert start.reduced is None
    assert start.kind == "zero"
    assert effective_width(network, X).width == 2


def test_a_network_that_uses_all_its_units_is_of_no_kind():
    rng = np.random.default_rng(1)
    network = network_of("tanh", 2 * rng.normal(size=(3, 3)), rng.choice((-1.0, 1.0), 3))
    found = effective_width(network, X)
    assert (found.width, found.kind, found.ties) == (3, None, ())
    assert "no narrower" in str(found)


def test_where_merging_costs_too_much_nothing_is_merged():
    """Two sigmoids that are alike, whose small difference is all that is read."""
    u, v = np.array([[1.0, 0.0, 0.0], [1.05, 0.05, 0.0]]), np.array([50.0, -50.0])
    network = network_of("sigmoid", u, v)
    found = effective_width(network, X)
    assert found.widths == {"equal": None}
    assert (found.width, found.kind, found.error) == (2, None, 0.0)
    np.testing.assert_array_equal(found.reduced.u, u)
    assert found.at(2.0).width == 1  # sigmoids are never silent


def test_plain_arrays_give_what_objects_give():
    rng = np.random.default_rng(6)
    u, v = on_rays(rng, 2, lines=False)
    y = rng.normal(size=len(X))
    expected = effective_width(network_of("relu", u, v), from_arrays(X, y))
    plain = effective_width(u, X, v=v, activation="relu", y=y)
    own = effective_width(u, X, v=v, activation=lambda a: jnp.maximum(a, 0.0), y=y)
    lists = effective_width(u.tolist(), X.tolist(), v=v.tolist(), activation="relu", y=y.tolist())
    for found in (plain, own, lists):
        assert found.widths == expected.widths
        np.testing.assert_allclose(found.error, expected.error, rtol=1e-9)


def test_other_tolerances_of_the_same_answer():
    network = fully_connected(3, WIDE, activation="relu", scale=0.5, key=jax.random.key(3))
    found = effective_width(network, X, tolerance=0.3)
    for tolerance in (0.01, 0.1, 0.5):
        again = effective_width(network, X, tolerance=tolerance)
        assert found.at(tolerance).widths == again.widths
    widths = [found.at(tolerance).width for tolerance in (0.5, 0.3, 0.1, 0.01)]
    assert widths == sorted(widths)


@functools.cache
def architectures():
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
    found = effective_width(wide, x, tolerance=1e-6)
    assert found.widths[kind] == narrow.width == found.width
    np.testing.assert_allclose(found.reduced.predict(x), narrow.predict(x), atol=1e-9)


def test_confirmed_at_a_saddle_and_not_elsewhere():
    """The minimum of one quadratic unit, 8/3 on the targets of Figure 1G, in a wider network."""
    data = quadratic_teacher(np.eye(2))
    minima = narrow_minima(Neuron(activation("quadratic")), data, loss="mean-square", starts=4)
    wide = embed_units(minima.network.lane(0), 6, "zero")
    found = effective_width(wide, data)
    answer = confirm(wide, data, found, loss="mean-square")
    assert found.width == 1
    assert answer.agrees
    np.testing.assert_allclose([answer.loss, answer.optimised_loss], 8 / 3, rtol=1e-9)
    elsewhere = wide.with_parts(0.7 * wide.u, wide.v)
    found = effective_width(elsewhere, data)
    answer = confirm(elsewhere, data, found, loss="mean-square")
    assert found.width == 1  # as narrow, but no saddle
    assert not answer.agrees
    np.testing.assert_allclose(answer.optimised_loss, 8 / 3, rtol=1e-6)
    nothing = wide.with_parts(0.0 * wide.u, 0.0 * wide.v)
    with pytest.raises(ValueError, match=r"One network at a time, got a batch \(1,\)"):
        confirm(wide.with_parts(wide.u[None], wide.v[None]), data, found)
    answer = confirm(nothing, data, effective_width(nothing, data), loss="mean-square")
    assert answer.agrees
    assert answer.network is None
    np.testing.assert_allclose(answer.optimised_loss, 8.0, rtol=1e-12)


def test_not_confirmed_where_the_narrow_network_comes_to_no_rest():
    """z tanh z fits sums of |x| the better the larger u is, at the same loss to many digits."""

    def z_tanh(a):
        return a * jnp.tanh(a)

    y = np.abs(X).sum(axis=1)
    u, v = np.zeros((WIDE, 3)), np.zeros(WIDE)
    u[0], v[0] = (3.0, 1.5, 1.5), 0.5
    plain = {"v": v, "activation": z_tanh, "y": y}
    for _ in range(2):  # the second time from where the first one ended
        found = effective_width(u, X, tolerance=0.6, **plain)
        answer = confirm(u, X, found, **plain)
        u[0], v[0] = answer.network.u[0], answer.network.v[0, 0]
    assert answer.loss == pytest.approx(answer.optimised_loss, rel=1e-6)
    assert (answer.stationary, answer.agrees) == (False, False)
    assert "comes to no rest" in str(answer)


def test_plain_arrays_are_confirmed_as_objects_are():
    """One unit along each of two rays that fit exactly: at rest without a step."""
    u, v = on_rays(np.random.default_rng(6), 2, lines=False)
    network = network_of("relu", u, v)
    y = network.predict(X)
    found = effective_width(u, X, v=v, activation="relu", y=y)
    plain = confirm(u, X, found, v=v, activation="relu", y=y)
    objects = confirm(network, from_arrays(X, y), found)
    assert plain.agrees
    assert (plain.loss, plain.optimised_loss) == (objects.loss, objects.optimised_loss)
    assert str(plain).startswith("a fixed point of ")
    with pytest.raises(ValueError, match="give `y`"):
        confirm(u, X, found, v=v, activation="relu")


def test_a_width_of_another_network_confirms_nothing(as_a_user):
    rng = np.random.default_rng(3)
    u, v, y = rng.normal(size=(9, 3)), rng.normal(size=9), rng.normal(size=len(X))
    plain = {"v": v, "activation": "relu", "y": y}
    narrower = effective_width(u[:6], X, v=v[:6], activation="tanh", y=y)
    bent = effective_width(u, X, v=v, activation="tanh", y=y)
    moved = effective_width(1.01 * u, X, **plain)
    for found in (narrower, bent, moved):
        with pytest.raises(ValueError, match="`found` is the width of another network"):
            confirm(u, X, found, **plain)


def test_a_slope_that_is_no_number_is_named():
    u, v, y = np.full((2, 3), 1e90), np.full(2, 1e90), np.ones(len(X))
    plain = {"v": v, "activation": "relu", "y": y}
    with np.errstate(all="ignore"):
        answer = confirm(u, X, effective_width(u, X, **plain), **plain)
    assert not answer.agrees
    assert "Numbers overflow there" in str(answer)


def test_a_network_as_wide_as_for_mnist_takes_seconds():
    """784 inputs, 1000 units, 2000 samples: two rays among small weights."""
    rng = np.random.default_rng(5)
    x = rng.normal(size=(2000, 784)) / 28
    rays = rng.normal(size=(2, 784)) / 28
    which = np.arange(1000) % 2
    u = rng.uniform(0.5, 1.5, 1000)[:, None] * rays[which] + 1e-5 * rng.normal(size=(1000, 784))
    v = np.stack((which, 1 - which), axis=1) / 30
    start = time.process_time()
    found = effective_width(u, x, v=v, activation="relu")
    assert time.process_time() - start < 8
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
    (lambda: effective_width(U[None], X, v=V[None], activation="relu"), "One network at a time"),
    (lambda: effective_width(network_of("relu", U, V), X, v=V), "has its own"),
    (
        lambda: effective_width(network_of("relu", U, V), from_arrays(X, X[:, 0]), y=V),
        "has its own",
    ),
    (lambda: effective_width(DeepLinear((np.eye(3), np.eye(3))), X), "one hidden layer as arrays"),
    (lambda: effective_width(U, X, tolerance=0.0, **RELU), "`tolerance`"),
    (lambda: effective_width(U, X, tolerance="1", **RELU), "`tolerance` must be a number, got '1'"),
    (lambda: effective_width(U, X, angle="1", **RELU), "`angle` must be a number, got '1'"),
    (lambda: effective_width(U, X, angle=2.0, **RELU), "`angle`"),
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


def test_the_mechanism_goes_with_the_answer():
    rng = np.random.default_rng(0)
    u, v, x = rng.normal(size=(4, 3)), rng.normal(size=(4, 1)), rng.normal(size=(20, 3))
    for phi, separates in (("relu", "directions"), (jnp.square, "units")):
        assert effective_width(u, x, v=v, activation=phi).mechanism.separates == separates


# Units that answer to nothing, and what losses do not tell


def test_units_that_are_never_silent_are_no_fewer_than_one():
    """Sigmoid units with zero weights compute nothing, but rest nowhere: Eq. (4) copies a unit."""
    x = np.random.default_rng(0).normal(size=(100, 3))
    y = np.tanh(x[:, :1]) + 0.8
    plain = {"v": np.zeros((4, 1)), "activation": "sigmoid", "y": y}
    found = effective_width(np.zeros((4, 3)), x, **plain)
    assert (found.width, found.ties) == (1, ("equal",))
    assert not confirm(np.zeros((4, 3)), x, found, **plain).agrees
    silent = effective_width(np.zeros((4, 3)), x, **(plain | {"activation": "tanh"}))
    assert silent.width == 0


def test_a_saddle_of_the_narrow_network_is_told_from_a_passage():
    """The weaker mode alone is a fixed point, from which one unit descends to the stronger."""
    weights = np.array([[1e-5, 0.6], [0.0, 0.8], [0.0, 0.0]])
    network = layer_from(Neuron("linear"), weights, weights.copy())
    data = linear_teacher(np.diag([3.0, 1.0]), np.eye(2))
    answer = confirm(network, data, effective_width(network, data))
    assert not answer.agrees
    assert answer.start_slope < 1e-4
    assert "as from a saddle of its own" in repr(answer)


def test_where_hardly_any_loss_is_left_the_wide_network_has_to_rest_as_well():
    x = np.random.default_rng(3).normal(size=(300, 3))
    data = from_arrays(x, np.tanh(2 * x[:, :2]) * [2.0, 0.6])
    network = fully_connected(3, 20, 2, activation="sigmoid", scale=1e-6, key=festina.seeds(1)[0])
    on_its_way = festina.gradient_flow(network, data, t_end=300.0).final
    answer = confirm(on_its_way, data, effective_width(on_its_way, data))
    assert not answer.agrees
    assert answer.wide_slope > 0.02
    assert "train on" in repr(answer)
