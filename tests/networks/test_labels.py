"""Test that networks keep the values they were drawn with, and name their axes after them."""

import copy
import pickle
from typing import Any

import jax
import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from festina import gradient_descent, seeds
from festina.networks import (
    NeuronUnit,
    attention,
    decoupled,
    deep_convolutional,
    deep_linear,
    diagonal_linear,
    fully_connected,
    greedy_pretrained_linear,
    lambda_balanced,
    layer_from,
    low_rank_layer,
    orthogonal,
)
from festina.networks._labels import axis_names, coordinates, labels_from
from festina.tasks import linear_teacher

SCALES = np.array([0.3, 0.1, 0.02])
TASK = linear_teacher(np.diag([1.0, 0.5]))


def small(*, scale: Any = 0.1, **how: Any):
    return fully_connected(2, 3, 2, scale=scale, **how)


def data_of(network, **how):
    return gradient_descent(network, TASK, 0.1, 2, **how).to_dataset()


def test_a_sweep_of_scales_and_seeds_is_labelled_by_them():
    data = data_of(small(scale=SCALES[:, None], key=seeds(4, first=10)))
    assert data["loss"].dims == ("scale", "seed", "save")
    np.testing.assert_array_equal(data["scale"], SCALES)
    np.testing.assert_array_equal(data["seed"], [10, 11, 12, 13])
    table = data["loss"].isel(save=-1).to_dataframe()["loss"]
    assert table.index.names == ["scale", "seed"]
    alone = gradient_descent(small(scale=0.1, key=jax.random.key(12)), TASK, 0.1, 2)
    assert table.loc[0.1, 12] == pytest.approx(alone.loss[-1], rel=1e-14)


def test_seeds_in_rows_are_two_axes_that_nobody_has_named():
    data = data_of(small(key=seeds(6).reshape(2, 3)))
    assert data["loss"].dims == ("batch_0", "batch_1", "save")
    np.testing.assert_array_equal(data["seed"], np.arange(6).reshape(2, 3))
    assert data["scale"].dims == ()
    assert float(data["scale"]) == 0.1


def test_keys_without_a_number_have_no_seed():
    data = data_of(small(scale=SCALES[:, None], key=jax.random.split(jax.random.key(0), 2)))
    assert data["loss"].dims == ("scale", "batch_1", "save")
    assert "seed" not in data.coords
    np.testing.assert_array_equal(data["batch_1"], [0, 1])


def test_scales_with_a_seed_each_lie_along_the_seeds():
    data = data_of(small(scale=SCALES, key=seeds(3, first=5)))
    assert data["loss"].dims == ("seed", "save")
    assert data["scale"].dims == ("seed",)
    np.testing.assert_array_equal(data["scale"].sel(seed=6), SCALES[1])


@pytest.mark.parametrize("kind", ["threefry2x32", "rbg", "unsafe_rbg"])
@pytest.mark.parametrize("number", [0, 7, 2**32 - 1])
def test_the_number_of_a_key_is_read_back(kind, number):
    network = small(key=jax.random.key(np.uint32(number), impl=kind))
    assert network.labels["seed"] == number
    split = jax.random.split(jax.random.key(0, impl=kind), 2)
    assert "seed" not in small(key=split).labels


FRAME = np.eye(2)
DRAWS = {
    "deep": (lambda s, k: deep_linear((2, 3, 2), scale=s, key=k), "scale"),
    "diagonal": (lambda s, k: diagonal_linear(2, scale=s, key=k), "scale"),
    "attention": (lambda s, k: attention(2, 3, scale=s, key=k), "scale"),
    "stack": (lambda s, k: deep_convolutional(4, (3, 2, 1), scale=s, key=k), "scale"),
    "low rank": (
        lambda s, k: low_rank_layer(NeuronUnit(), (2,), 4, rank=1, strength=1.0, scale=s, key=k),
        "scale",
    ),
    "balanced": (lambda s, k: lambda_balanced((2, 2, 2), balance=s, scale=0.3, key=k), "balance"),
    "orthogonal": (lambda s, k: orthogonal((2, 3, 2), gain=s, key=k), "gain"),
    "pretrained": (
        lambda s, k: greedy_pretrained_linear((3, 2, 2), readout_scale=s, key=k),
        "readout_scale",
    ),
    "decoupled": (
        lambda s, k: decoupled(
            FRAME, FRAME, (2,), initial_strength=np.broadcast_to(s[..., None], (3, 1, 2)), key=k
        ),
        "initial_strength",
    ),
}


@pytest.mark.parametrize("name", DRAWS)
def test_every_way_to_draw_remembers(name):
    draw, label = DRAWS[name]
    network = draw(SCALES[:, None], seeds(2, first=3))
    assert network.batch_shape == (3, 2)
    assert axis_names(network.labels, (3, 2)) == (label, "seed")
    np.testing.assert_array_equal(np.ravel(network.labels[label]), SCALES)
    np.testing.assert_array_equal(network.labels["seed"], [3, 4])


def test_labels_stay_with_the_weights():
    network = small(scale=SCALES[:, None], key=seeds(4))
    one = network.lane(1, 3)
    assert {name: float(each) for name, each in one.labels.items()} == {"scale": 0.1, "seed": 3.0}
    for same in (
        network.with_parts(*(2 * part for part in network.parts)),
        copy.deepcopy(network),
        pickle.loads(pickle.dumps(network)),
        gradient_descent(network, TASK, 0.1, 2).final,
    ):
        assert same.labels.keys() == {"scale", "seed"}
        np.testing.assert_array_equal(same.labels["scale"], SCALES[:, None])
    # Other batches and general trees have no labels.
    assert network.with_parts(*(part[0] for part in network.parts)).labels == {}
    assert jax.tree.map(lambda part: part, network).labels == {}
    run = gradient_descent(network, TASK, 0.1, 2)
    assert float(run.network.lane(2, 1, 0).labels["scale"]) == 0.02
    assert float(run.lane(2, 1).to_dataset()["seed"]) == 1


def test_arrays_of_your_own_can_be_labelled():
    network = layer_from(NeuronUnit(), np.ones((2, 3, 2)), np.ones((2, 3, 2))).labelled(seed=[7, 9])
    np.testing.assert_array_equal(data_of(network)["seed"], [7, 9])
    with pytest.raises(ValueError, match=r"`seed` must .* networks \(2,\), got shape \(3,\)"):
        network.labelled(seed=[1, 2, 3])
    with pytest.raises(ValueError, match="`seed` must"):
        network.lane(0).labelled(seed=[1, 2])


def test_other_names_for_the_axes_keep_the_labels():
    run = gradient_descent(small(scale=SCALES, key=jax.random.key(3)), TASK, 0.1, 2)
    np.testing.assert_array_equal(run.to_dataset(("size",))["size"], SCALES)
    with pytest.raises(ValueError, match="must not rename the batch axis 'scale' to 'seed'"):
        run.to_dataset(("seed",))


def test_what_is_observed_goes_before_a_label():
    network = lambda_balanced(
        (2, 2, 2), balance=np.array([0.1, 0.2]), scale=0.3, key=jax.random.key(0)
    )
    data = data_of(network, observe={"balance": lambda one: one.weights[0]})
    assert data["balance"].dims == ("batch_0", "save", "balance_0", "balance_1")
    assert "balance" in data.data_vars


def test_rates_of_a_sweep_are_coordinates():
    network = small(key=seeds(3))
    data = gradient_descent(network, TASK, np.array([0.1, 0.2, 0.3]), 2).to_dataset()
    assert data["learning_rate"].dims == ("seed",)


def test_labels_compile_nothing_anew():
    run: Any = jax.jit(lambda network: sum(part.sum() for part in network.parts))
    for first in (0, 5):
        run(small(key=seeds(2, first=first)).labelled(place=[first, 1]))
    assert run._cache_size() == 1


@st.composite
def labelled_batches(draw):
    batch = tuple(draw(st.lists(st.integers(1, 3), max_size=3)))
    labels = {}
    for name in draw(st.lists(st.sampled_from(["seed", "scale", "gain"]), unique=True)):
        tail = batch[draw(st.integers(0, len(batch))) :]
        shape = tuple(length if draw(st.booleans()) else 1 for length in tail)
        labels[name] = np.arange(5, 5 + np.prod(shape, dtype=int)).reshape(shape)
    return batch, labels


@given(labelled_batches())
@settings(max_examples=200, deadline=None)
def test_coordinates_say_of_every_network_what_its_labels_do(made):
    batch, labels = made
    dims = axis_names(labels, batch)
    assert len(set(dims)) == len(dims)
    table = coordinates(labels, batch, dims)
    again = labels_from(table, dims)
    assert again.keys() == labels.keys()
    for name, values in labels.items():
        expected = np.broadcast_to(values, batch)
        np.testing.assert_array_equal(np.broadcast_to(again[name], batch), expected)
    assert axis_names(again, batch) == dims
    for axis, dim in enumerate(dims):
        assert dim in labels or dim == f"batch_{axis}"
