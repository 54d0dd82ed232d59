"""Test `Rows`, the weights of all units as one array."""

import copy
import pickle

import jax
import numpy as np
import pytest

import festina
from festina.networks import Layer, NeuronUnit, convolutional_1d, fully_connected, layer_from
from festina.networks._rows import Rows
from festina.tasks import linear_teacher
from helpers import untyped


@pytest.mark.parametrize("width", [1, 7, 5000, 20_000])
@pytest.mark.parametrize("columns", [2, 4, 8, 17, pytest.param(48, marks=pytest.mark.slow), 51])
def test_products_of_all_units_to_rounding(columns, width):
    """Products are accurate to rounding, in one or more chunks, for columns of any size."""
    rng = np.random.default_rng(width)
    rows = rng.normal(size=(2, width, columns)) * 10.0 ** -np.arange(columns)
    exact = np.empty((2, columns, columns), np.longdouble)
    for i in range(columns):  # half of the products, because long doubles are slow on some machines
        ahead = np.einsum("ku,kuj->kj", rows[..., i], rows[..., i:], dtype=np.longdouble)
        exact[:, i, i:] = exact[:, i:, i] = ahead
    size = np.sqrt(np.diagonal(exact, axis1=1, axis2=2))
    gram = Rows(rows).gram
    rounding = np.finfo(float).eps * np.sqrt(width)  # rounding error of a sum
    assert (np.abs(gram - exact) <= rounding * size[:, :, None] * size[:, None]).all()


def test_a_layer_looks_into_its_rows():
    drawn = convolutional_1d(6, 5, 2, kernel=3, key=festina.seeds(4))
    given = layer_from(drawn.unit, drawn.u, drawn.v)
    for network in (drawn, given, Layer(drawn.u, drawn.v, drawn.unit), drawn.lane(2)):
        rows = network.rows.array
        front = (*network.batch_shape, network.width, -1)
        np.testing.assert_array_equal(rows[..., :8], network.v.reshape(front))
        np.testing.assert_array_equal(rows[..., 8:], network.u.reshape(front))
    assert np.shares_memory(drawn.rows.array, drawn.u)
    assert np.shares_memory(given.rows.array, given.v)
    assert given.rows.gram is given.rows.gram


def test_many_linear_units_are_read_as_they_are_written():
    """Products are computed with the layer, so training starts equally fast at any width."""

    def been_read(network: Layer) -> bool:
        return "gram" in vars(network.rows)

    drawn = fully_connected(2, 1500, 2, key=jax.random.key(1))
    assert been_read(drawn)
    assert been_read(layer_from(drawn.unit, drawn.u, drawn.v))
    assert not been_read(fully_connected(2, 10, 2, key=jax.random.key(1)))
    assert not been_read(fully_connected(60, 1500, 2, key=jax.random.key(1)))
    assert not been_read(fully_connected(2, 1500, 2, activation="relu", key=jax.random.key(1)))


def test_nobody_changes_what_has_been_read():
    task = linear_teacher(np.eye(2), np.diag([1.0, 3.0]))
    network = fully_connected(2, 1500, 2, scale=0.01, key=jax.random.key(1))
    festina.gradient_flow(network, task, np.array([0.0, 1.0]))
    for array in (network.u, network.v, untyped(network.u).base, network.rows.gram):
        with pytest.raises(ValueError, match="read-only"):
            array[0] = 1.0
    with pytest.raises(ValueError, match="cannot set WRITEABLE"):
        untyped(network.u).flags.writeable = True


@pytest.mark.parametrize("how", ["direct", "pickled", "deep copy"])
def test_weights_that_can_be_changed_are_read_anew(how):
    task = linear_teacher(np.eye(2), np.diag([1.0, 3.0]))
    drawn = fully_connected(2, 1500, 2, scale=0.01, key=jax.random.key(1))
    network = {
        "direct": lambda: Layer(np.array(drawn.u), np.array(drawn.v), NeuronUnit()),
        "pickled": lambda: pickle.loads(pickle.dumps(drawn)),
        "deep copy": lambda: copy.deepcopy(drawn),
    }[how]()
    before = festina.gradient_flow(network, task, np.array([0.0, 1.0]))
    network.u[:] *= 2.0
    after = festina.gradient_flow(network, task, np.array([0.0, 1.0]))
    expected = festina.gradient_flow(
        layer_from(NeuronUnit(), 2.0 * np.asarray(drawn.u), drawn.v), task, np.array([0.0, 1.0])
    )
    np.testing.assert_allclose(after.loss, expected.loss, rtol=1e-12)
    assert abs(after.loss[-1] - before.loss[-1]) > 1e-6
