"""Test that many linear units learn the same map as few."""

import pickle

import jax
import jax.numpy as jnp
import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

import festina
from festina.dynamics import _simulate
from festina.dynamics._width import as_it_is, condense
from festina.networks import ConvolutionUnit, Layer, convolutional_1d, fully_connected, layer_from
from festina.tasks import figure_1c_teacher, linear_teacher

TASK = linear_teacher(np.array([[1.0, 0.3], [-0.2, 0.5]]), [[1, 1], [1, 4]])


def at_full_width(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(_simulate, "condense", lambda network: (network, as_it_is))


@pytest.mark.parametrize(
    ("kind", "method"),
    [
        ("fully-connected", "flow"),
        ("convolutional", "descent"),
        pytest.param("fully-connected", "descent", marks=pytest.mark.slow),
        pytest.param("convolutional", "flow", marks=pytest.mark.slow),
    ],
)
def test_few_units_take_the_way_of_many(monkeypatch, kind, method):
    key = festina.seeds(3)
    if kind == "fully-connected":
        network, task = fully_connected(2, 30, 2, scale=0.05, key=key), TASK
    else:
        network = convolutional_1d(4, 30, kernel=2, stride=2, scale=0.05, key=key)
        task = figure_1c_teacher()
    assert condense(network)[0].width == network.structure.size // network.width < 30

    def train() -> festina.dynamics.Trajectory:
        if method == "flow":
            return festina.gradient_flow(network, task, np.linspace(0.0, 12.0, 40), rtol=1e-10)
        return festina.gradient_descent(network, task, 0.05, 200)

    few = train()
    at_full_width(monkeypatch)
    many = train()
    for ours, theirs in (
        (few.loss, many.loss),
        (few.squared_gradient, many.squared_gradient),
        (few.network.u, many.network.u),
        (few.network.v, many.network.v),
    ):
        np.testing.assert_allclose(ours, theirs, rtol=1e-7, atol=1e-9)


@settings(max_examples=20)
@given(seed=st.integers(0, 10_000), width=st.integers(5, 40), zero=st.booleans())
def test_there_and_back(seed, width, zero):
    """Compressing and expanding units keeps small weights to rounding, and zero weights zero."""
    rng = np.random.default_rng(seed)
    u, v = rng.normal(size=(2, width, 2)), 1e-9 * rng.normal(size=(2, width, 2))
    if zero:
        u[:, 0], v[:, 0] = 0.0, 0.0
    few, widen = condense(Layer(u, v, fully_connected(2, 1, key=jax.random.key(0)).unit))
    moved = Layer(np.stack([few.u, 2 * few.u], 1), np.stack([few.v, 2 * few.v], 1), few.unit)
    wide = widen(moved, slice(None))
    np.testing.assert_array_equal(wide.u[:, 0], u)
    np.testing.assert_array_equal(wide.v[:, 0], v)
    np.testing.assert_allclose(wide.u[:, 1], 2 * u, atol=1e-14)
    np.testing.assert_allclose(wide.v[:, 1], 2 * v, atol=1e-23)
    assert not zero or not (wide.u[:, :, 0].any() or wide.v[:, :, 0].any())


@pytest.mark.parametrize("angle", [10.0, 1e-4])
def test_columns_that_are_nearly_dependent_come_back_too(angle):
    rng = np.random.default_rng(1)
    u, v = rng.normal(size=(2000, 2)), 1e-9 * rng.normal(size=(2000, 2))
    u[:, 1] = u[:, 0] + angle * u[:, 1]
    few, widen = condense(Layer(u, v, fully_connected(2, 1, key=jax.random.key(0)).unit))
    assert few.width == 4
    wide = widen(Layer(2 * few.u[None, None], 2 * few.v[None, None], few.unit), slice(None))
    np.testing.assert_allclose(wide.u[0, 0], 2 * u, atol=1e-14)
    np.testing.assert_allclose(wide.v[0, 0], 2 * v, atol=1e-23)


def test_all_units_are_there_when_they_are_looked_at():
    network = fully_connected(2, 5000, 2, scale=1e-2, key=jax.random.key(0))
    run = festina.gradient_flow(network, TASK, np.array([0.0, 12.0]))
    assert "network" not in vars(run)
    assert run.final.u.shape == (5000, 2)
    assert "network" not in vars(run)
    np.testing.assert_array_equal(run.network.u[0], network.u)
    np.testing.assert_array_equal(run.network.u[-1], run.final.u)
    np.testing.assert_array_equal(pickle.loads(pickle.dumps(run)).final.v, run.final.v)


def test_what_is_not_linear_or_narrow_is_left_alone():
    relu = fully_connected(2, 30, activation="relu", key=jax.random.key(0))
    narrow = fully_connected(2, 4, 2, key=jax.random.key(0))
    kernels = layer_from(ConvolutionUnit(size=2), np.ones((5, 2)), np.ones((5, 1, 3)))
    assert all(condense(network)[0] is network for network in (relu, narrow, kernels))


@pytest.mark.parametrize("factors", ["alike", "proportional"])
def test_units_that_span_one_direction_stay_on_the_saddle(factors):
    """Compression in a rotated basis would move rank-one weights off their invariant manifold."""
    size = np.ones(30) if factors == "alike" else 2.0 ** np.arange(-15, 15)
    u, v = np.outer(size, [1e-3, 2e-3]), np.outer(size, [2e-3, -1e-3])
    network = layer_from(fully_connected(2, 1, key=jax.random.key(0)).unit, u, v)
    assert condense(network)[0] is network
    flow = festina.gradient_flow(network, TASK, np.array([0.0, 12.0]))
    rows = np.concatenate((flow.final.u, flow.final.v), axis=1)
    assert np.linalg.matrix_rank(rows, tol=1e-9 * np.abs(rows).max()) == 1


def test_an_activation_that_is_linear_near_zero_alone_is_left_alone():
    clipped = fully_connected(
        2, 200, 2, activation=lambda a: jnp.clip(a, -10, 10), scale=2.0, key=jax.random.key(0)
    )
    assert not clipped.unit.algebra.linear
    assert condense(clipped)[0] is clipped
    data = linear_teacher(np.eye(2), samples=50, key=jax.random.key(1))
    flow = festina.gradient_flow(clipped, data, np.array([0.0, 1e-3]))
    expected = 0.5 * np.mean(np.sum((clipped.predict(data.x) - data.y) ** 2, axis=1))
    assert flow.loss[0] == pytest.approx(expected)
