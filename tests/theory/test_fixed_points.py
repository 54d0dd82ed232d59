"""Test fixed points: construction, detection, and directions of escape."""

import functools

import jax
import jax.numpy as jnp
import numpy as np
import pytest

from festina.networks import Layer, NeuronUnit, attention, fully_connected, seeds
from festina.networks import layer_from as make_layer
from festina.tasks import from_arrays as make_task
from festina.tasks import from_moments, linear_teacher
from festina.theory.saddles import (
    _escape_directions,
    embed_units,
    escape_directions,
    linear_saddle,
    stationarity,
)
from festina.theory.saddles import task_with_fixed_point as manufacture
from helpers import untyped

KEY = jax.random.key(9)
X = np.random.default_rng(3).normal(size=(40, 3))


def plain_loss(u, v, task):
    return 0.5 * np.mean(np.sum((task.y - np.tanh(task.x @ u.T) @ v) ** 2, axis=1))


@functools.cache
def tanh_point():
    network = fully_connected(3, 2, 2, activation="tanh", scale=0.6, key=KEY)
    return network, manufacture(network, X, residual=0.7, key=KEY)


def test_the_loss_changes_in_second_order_only():
    """Steps ten times larger change the loss by a factor of 100; with a slope it would be ten."""
    network, task = tanh_point()
    rng = np.random.default_rng(0)
    there = plain_loss(network.u, network.v, task)
    assert np.mean((task.y - network.predict(X)) ** 2) == pytest.approx(0.49, rel=1e-12)
    for _ in range(5):
        du, dv = rng.normal(size=network.u.shape), rng.normal(size=network.v.shape)
        change = lambda h: plain_loss(network.u + h * du, network.v + h * dv, task) - there  # noqa: B023
        assert change(1e-2) / change(1e-3) == pytest.approx(100, rel=0.2)


def test_how_far_from_a_fixed_point():
    network, task = tanh_point()
    assert stationarity(network, task).gradient < 1e-14
    sizes = np.array([1e-2, 1e-3, 1e-4])
    batch = Layer(
        network.u + sizes[:, None, None] * np.ones_like(network.u),
        np.broadcast_to(network.v, (3, *network.v.shape)),
        network.unit,
    )
    away = stationarity(batch, task)
    np.testing.assert_allclose(np.diff(np.log10(away.relative)), -1.0, atol=0.02)
    # Central differences
    u, h = batch.u[0], 1e-6
    slopes = []
    for part, other, flip in ((u, network.v, False), (network.v, u, True)):
        for index in np.ndindex(part.shape):
            step = np.zeros_like(part)
            step[index] = h
            ends = [(part + s * step, other) for s in (1, -1)]
            up, down = (plain_loss(end[flip], end[1 - flip], task) for end in ends)
            slopes.append((up - down) / (2 * h))
    assert away.gradient[0] == pytest.approx(np.linalg.norm(slopes), rel=1e-6)
    scale = np.linalg.norm([*u.ravel(), *network.v.ravel()]) / (0.5 * np.mean(task.y**2) * 2)
    assert away.relative[0] == pytest.approx(away.gradient[0] * scale, rel=1e-12)


def test_a_factor_in_the_loss_is_one_in_the_gradient():
    network, task = tanh_point()
    moved = Layer(1.1 * network.u, network.v, network.unit)
    half, whole = (stationarity(moved, task, loss=loss) for loss in ("half", "mean-square"))
    assert whole.gradient == pytest.approx(2 * half.gradient)
    assert whole.relative == pytest.approx(half.relative)


def test_the_point_of_no_network_and_no_target():
    network = make_layer(tanh_point()[0].unit, np.zeros((2, 3)), np.zeros((2, 2)))
    assert stationarity(network, tanh_point()[1]) == (0.0, 0.0)
    assert stationarity(network, make_task(X, np.zeros((40, 2)))) == (0.0, 0.0)


def test_index_and_rates_are_those_of_the_second_derivative():
    """The reference Hessian comes from second differences of the loss in NumPy."""
    network, task = tanh_point()
    wide = embed_units(network, 3, "zero")
    found = escape_directions(wide, task)
    start = np.concatenate((wide.u.ravel(), wide.v.ravel()))
    loss = lambda w: plain_loss(w[:9].reshape(3, 3), w[9:].reshape(3, 2), task)
    h, n = 1e-4, len(start)
    step = h * np.eye(n)
    hessian = np.array(
        [
            [
                (
                    loss(start + step[i] + step[j])
                    - loss(start + step[i] - step[j])
                    - loss(start - step[i] + step[j])
                    + loss(start - step[i] - step[j])
                )
                / (4 * h * h)
                for j in range(n)
            ]
            for i in range(n)
        ]
    )
    values, _ = np.linalg.eigh(hessian)
    negative = values[values < -1e-5]
    assert found.index == len(negative) > 0
    np.testing.assert_allclose(found.rates, -negative, rtol=1e-4, atol=1e-7)
    assert found.sharpness == pytest.approx(np.abs(values).max(), rel=1e-5)
    assert found.directions.batch_shape == (found.index,)
    there = loss(start)
    for lane, rate in enumerate(found.rates):
        direction = found.directions.lane(lane)
        along = np.concatenate((direction.u.ravel(), direction.v.ravel()))
        assert np.linalg.norm(along) == pytest.approx(1)
        drop = there - 0.5 * (loss(start + 1e-3 * along) + loss(start - 1e-3 * along))
        assert drop == pytest.approx(0.5 * rate * 1e-6, rel=1e-3)


CORRELATION = np.array([[1.4, 0.3, 0.1], [0.2, -0.9, 0.4]])
COVARIANCE = np.array([[1.0, 0.2, 0.0], [0.2, 0.7, 0.1], [0.0, 0.1, 1.3]])


@functools.cache
def linear_point(width):
    target = CORRELATION @ np.linalg.inv(COVARIANCE)
    saddle = linear_saddle(from_moments(CORRELATION, COVARIANCE), (1,))
    return saddle, saddle.network(width, key=KEY), linear_teacher(target, COVARIANCE)


def test_lanczos_finds_what_the_whole_hessian_has(monkeypatch):
    """Eigenvalues have multiplicity eleven, but Lanczos finds one copy at a time."""
    saddle, network, task = linear_point(12)
    dense = escape_directions(network, task)
    monkeypatch.setattr(_escape_directions, "_DENSE", 0)
    sparse = escape_directions(network, task)
    assert sparse.index == dense.index == saddle.index(12) == 12
    np.testing.assert_allclose(sparse.rates, dense.rates, rtol=1e-9)
    assert sparse.sharpness == pytest.approx(dense.sharpness, rel=1e-9)
    columns = network.structure.columns(*sparse.directions.parts)
    np.testing.assert_allclose(columns.T @ columns, np.eye(12), atol=1e-9)
    few = escape_directions(network, task, most=3)
    assert few.index is None
    assert "at least 3 directions of negative curvature, escape rates" in str(few)
    monkeypatch.undo()
    of_all = escape_directions(network, task, most=3)
    assert of_all.index == 12
    assert str(of_all).endswith("(the 3 fastest)")
    for found in (few, of_all):
        np.testing.assert_allclose(found.rates, dense.rates[:3], rtol=1e-9)


@pytest.mark.parametrize("most", [1, 3, 6, None])
def test_the_fastest_are_found_with_all_their_copies(most, monkeypatch):
    """Without rounding, Lanczos finds one of four copies, so it repeats until none is faster."""
    spectrum = np.concatenate((np.repeat([-1.0, -0.5, -0.2], 4), np.linspace(0.0, 1.0, 8)))

    def one_of_each(operator, k, which, **_):
        values, vectors = np.linalg.eigh(operator @ np.eye(20))
        _, first = np.unique(np.round(values, 9), return_index=True)
        chosen = first[-k:] if which == "LA" else [np.abs(values).argmax()]
        return values[chosen], vectors[:, chosen]

    monkeypatch.setattr("scipy.sparse.linalg.eigsh", one_of_each)
    product = lambda x: spectrum * x.ravel()
    values, vectors, sharpness = _escape_directions._negative(product, 20, 1e-8, most)
    np.testing.assert_allclose(values[:most], spectrum[: most or 12], atol=1e-12)
    np.testing.assert_allclose(spectrum[:, None] * vectors, vectors * values, atol=1e-12)
    assert sharpness == pytest.approx(1.0)


def test_units_that_are_not_there_leave_at_the_singular_values():
    """Every silent unit has each escape rate of Lemma 6, and the Hessian has no faster one."""
    saddle = linear_saddle(from_moments(CORRELATION, COVARIANCE), ())
    network = make_layer(linear_point(12)[1].unit, np.zeros((12, 3)), np.zeros((12, 2)))
    found = escape_directions(network, linear_point(12)[2])
    singular = np.linalg.svd(CORRELATION, compute_uv=False)
    np.testing.assert_allclose(saddle.escape_rates, singular, rtol=1e-12)
    np.testing.assert_allclose(found.rates, np.repeat(singular, 12), rtol=1e-9)


def test_flat_directions_do_not_count():
    """A least-squares solution has no escape direction, although its kernel is flat."""
    saddle = linear_saddle(from_moments(CORRELATION, COVARIANCE), (0, 1))
    minimum = saddle.network(12, key=KEY)
    found = escape_directions(minimum, linear_point(12)[2])
    assert found.index == 0
    assert found.rates.shape == (0,)
    # Flat directions have eigenvalues of either sign, by rounding.
    exact = escape_directions(minimum, linear_point(12)[2], tolerance=0.0)
    assert exact.index is not None
    assert exact.index > 0
    assert exact.rates.max() < 1e-12


def test_a_saddle_of_higher_order_has_no_index(monkeypatch):
    network = fully_connected(3, 2, 2, activation="quadratic", scale=1.0, key=KEY)
    silent = network.with_parts(0 * network.u, 0 * network.v)
    task = make_task(X, np.ones((40, 2)))
    assert (escape_directions(silent, task).index, escape_directions(silent, task).blind) == (0, 2)
    # A readout weight makes the second order in u visible.
    seen = escape_directions(
        silent.with_parts(silent.u, silent.v + np.array([[0.0], [1e-3]])), task
    )
    assert seen.index is not None
    assert (seen.index > 0, seen.blind) == (True, 1)
    monkeypatch.setattr(_escape_directions, "_DENSE", 0)
    sparse = escape_directions(silent, task)
    assert (sparse.index, sparse.sharpness) == (0, 0.0)


def test_silent_rectifiers_leave_though_no_curvature_is_negative():
    """The loss falls along a direction (u, v), although the Hessian has no negative eigenvalue."""
    task = make_task(X, X[:, :1])
    network = fully_connected(3, 4, activation="relu", scale=1.0, key=KEY)
    found = escape_directions(network.with_parts(0 * network.u, 0 * network.v), task)
    assert (found.index, found.blind) == (0, 4)
    assert "does not describe 4 silent units" in str(found)
    loss = lambda h: 0.5 * np.mean((X[:, 0] - h * np.maximum(h * X[:, 0], 0.0)) ** 2)
    assert loss(1e-3) < loss(0.0)
    tanh = escape_directions(embed_units(tanh_point()[0], 3, "zero"), tanh_point()[1])
    assert tanh.blind == 0
    assert str(tanh).startswith(f"{tanh.index} direction")


@pytest.mark.parametrize(
    ("phi", "blind"),
    [
        (lambda a: jnp.tanh(jax.nn.relu(a)), 2),
        (lambda a: jax.nn.relu(a) + a**2, 2),
        (jax.nn.selu, 2),
        (lambda a: jax.nn.relu(a - 0.2), 2),
        (jax.nn.hard_tanh, 0),  # the kinks are elsewhere
    ],
)
def test_silent_units_of_your_own_function(phi, blind):
    network = Layer(np.diag([0.0, 0.0, 1.0]), np.diag([0.0, 0.0, 1.0]), NeuronUnit(phi))
    assert _escape_directions._blind(network, 1e-8) == blind


def test_a_silent_leaky_unit_has_the_rate_of_its_leak():
    """An active unit grows ten times as fast, so `blind` warns that the rate is incomplete."""
    task = make_task(np.ones((1, 1)), np.ones((1, 1)))
    silent = Layer(np.zeros((1, 1)), np.zeros((1, 1)), NeuronUnit("leaky-relu"))
    found = escape_directions(silent, task)
    np.testing.assert_allclose(found.rates, [0.1])
    assert found.blind == 1
    assert str(found).startswith("1 direction of negative curvature, escape rate 0.1; ")
    awake = escape_directions(silent.with_parts(silent.u + 1e-9, silent.v), task, stationary=1.0)
    np.testing.assert_allclose(awake.rates, [1.0])


def test_bad_input(as_a_user):
    network, task = tanh_point()
    away = Layer(network.u + 0.1, network.v, network.unit)
    batch = fully_connected(3, 2, 2, activation="tanh", scale=0.6, key=seeds(2))
    moved = float(stationarity(away, task).gradient)
    for call, words in (
        (
            lambda: escape_directions(away, task),
            rf"not at a fixed point: \|∂L/∂θ\| is {moved:.3g}, .* above",
        ),
        (
            lambda: escape_directions(batch, task),
            r"got a batch of shape \(2,\)\. Select one network with network\.lane\(0\)",
        ),
        (
            lambda: escape_directions(network, task, most=0),
            "`most` must be a whole number from 1 up",
        ),
        (
            lambda: escape_directions(untyped(network.u), task),
            r"Your own weights .*`festina\.networks\.layer_from\(unit, u",
        ),
        (lambda: stationarity(untyped(network.u), task), "got ndarray and Task"),
        (
            lambda: manufacture(batch, X, key=KEY),
            r"got a batch of shape \(2,\)\. Select one network with network\.lane\(0\)",
        ),
        (
            lambda: manufacture(network, X[:5], key=KEY),
            "too few samples: the 10 weights .* more than 5 ",
        ),
        (lambda: manufacture(network, X, residual=0.0, key=KEY), "`residual` must be a positive"),
        (lambda: manufacture(network, np.nan * X, key=KEY), "not finite for all `x`"),
        (lambda: stationarity(Layer(network.u * np.nan, network.v, network.unit), task), "finite"),
    ):
        with pytest.raises(ValueError, match=words):
            call()


@pytest.mark.slow
def test_few_samples_suffice_where_weights_do_the_same():
    """Heads of rank one move the outputs in fewer directions than they have weights."""
    network = attention(2, 3, scale=0.5, key=KEY)
    x = np.random.default_rng(1).normal(size=(27, 3, 4))
    task = manufacture(network, x, key=KEY)
    assert network.structure.size >= 27
    assert stationarity(network, task).gradient < 1e-12


def test_zero_weights_of_units_that_answer_to_nothing_are_no_fixed_point():
    """At zero weights a sigmoid has a gradient in v; at the best v for u = 0 it rests."""
    x = np.random.default_rng(0).normal(size=(100, 3))
    task = make_task(x, np.tanh(x[:, :1]) + 0.8)
    zero = make_layer(NeuronUnit("sigmoid"), np.zeros((4, 3)), np.zeros((4, 1)))
    assert stationarity(zero, task).relative == pytest.approx(1.0)
    with pytest.raises(ValueError, match="not at a fixed point"):
        escape_directions(zero, task)
    target = make_task(x, np.full((100, 1), 0.8))  # a slope cannot explain these targets
    uniform = make_layer(NeuronUnit("sigmoid"), np.zeros((4, 3)), np.full((4, 1), 0.4))
    assert stationarity(uniform, target).relative < 1e-12
