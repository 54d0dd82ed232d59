"""Test that observed quantities equal those computed from saved weights."""

import itertools

import jax
import numpy as np
import pytest

import festina
from festina import gradient_descent, gradient_flow
from festina.networks import deep_linear, final_networks, fully_connected
from festina.tasks import from_arrays, linear_teacher

POPULATION = linear_teacher(np.eye(2), [[1.0, 1.0], [1.0, 4.0]])
X = np.random.default_rng(0).normal(size=(12, 2))
POINTS = from_arrays(X, np.sin(X))
TIMES = np.linspace(0.0, 3.0, 5)


def flow(network, task, **options):
    return gradient_flow(network, task, t_end=8.0, **options)


def flow_at_times(network, task, **options):
    return gradient_flow(network, task, TIMES, **options)


def descent(network, task, **options):
    return gradient_descent(network, task, 0.05, 300, **options)


def mini_batches(network, task, **options):
    key = jax.random.key(1)
    return gradient_descent(
        network, POINTS, 0.05, 60, batch_size=4, save_every=7, key=key, **options
    )


def singular_values(network):
    return np.linalg.svd(network.u, compute_uv=False)


def products(network):
    return network.v.T @ network.u


OBSERVE = {"values": singular_values, "map": products, "units": lambda network: network.width}


@pytest.mark.parametrize("train", [flow, flow_at_times, descent, mini_batches])
@pytest.mark.parametrize(
    ("activation", "batch"),
    [
        ("linear", (2, 3)),
        *(
            pytest.param(*each, marks=pytest.mark.slow)
            for each in itertools.product(("linear", "tanh"), ((), (3,), (2, 3)))
            if each != ("linear", (2, 3))
        ),
    ],
)
def test_as_seen_in_the_weights(train, batch, activation):
    """For linear units only a few combined units are trained, but observations see all units."""
    key = festina.seeds(3) if batch else jax.random.key(0)
    scale = np.array([[0.1], [0.2]]) if len(batch) == 2 else 0.1
    network = fully_connected(2, 9, 2, activation=activation, scale=scale, key=key)
    task = POPULATION if activation == "linear" else POINTS
    whole, seen = train(network, task), train(network, task, observe=OBSERVE)
    np.testing.assert_array_equal(seen.time, whole.time)
    np.testing.assert_array_equal(seen.loss, whole.loss)
    expected = {
        "values": np.linalg.svd(whole.network.u, compute_uv=False),
        "map": np.swapaxes(whole.network.v, -1, -2) @ whole.network.u,
        "units": np.full(whole.loss.shape, 9.0),
    }
    assert seen.observed.keys() == expected.keys()
    for name, array in expected.items():
        np.testing.assert_allclose(seen.observed[name], array, rtol=1e-9, atol=1e-12)
    for part, same in zip(seen.final.parts, whole.final.parts, strict=True):
        np.testing.assert_allclose(part, same, rtol=1e-12)
    with pytest.raises(ValueError, match="`observe`"):
        _ = seen.network


def test_of_one_lane():
    network = fully_connected(2, 4, 2, activation="tanh", scale=0.3, key=festina.seeds(3))
    seen = flow(network, POINTS, observe=singular_values)
    lane = seen.lane(1)
    saves = int(seen.saves[1])
    np.testing.assert_array_equal(lane.observed["observed"], seen.observed["observed"][1, :saves])
    np.testing.assert_array_equal(lane.final.u, seen.final.u[1])
    np.testing.assert_allclose(singular_values(lane.final), lane.observed["observed"][-1])
    with pytest.raises(ValueError, match="only of the `final` network"):
        _ = lane.network


@pytest.mark.parametrize(("train", "axis"), [(flow, "save"), (mini_batches, "time")])
def test_in_a_data_set(train, axis):
    network = fully_connected(2, 4, 2, activation="tanh", scale=0.3, key=festina.seeds(3))
    data = train(network, POINTS, observe=OBSERVE).to_dataset()
    assert data["map"].dims == ("seed", axis, "map_0", "map_1")
    assert data["units"].dims == ("seed", axis)
    assert "u" not in data
    assert data.attrs["unit"] == repr(network.unit)


@pytest.mark.parametrize(
    "train",
    [
        flow,
        *(pytest.param(train, marks=pytest.mark.slow) for train in (flow_at_times, descent)),
        mini_batches,
    ],
)
@pytest.mark.parametrize("observe", [{}, {"u": lambda network: network.v, "loose": products}])
def test_trained_networks_are_saved_whatever_is_observed(train, observe, tmp_path):
    network = fully_connected(2, 4, 2, activation="tanh", scale=0.3, key=festina.seeds(3))
    run = train(network, POINTS, observe=observe)
    loaded = final_networks(festina.save(run, tmp_path / "run"))
    for part, same in zip(loaded.parts, run.final.parts, strict=True):
        np.testing.assert_array_equal(part, same)
    np.testing.assert_array_equal(loaded.labels["seed"], run.final.labels["seed"])


def test_what_is_observed_under_the_name_of_a_layer_is_none():
    deep = deep_linear((2, 3, 2), scale=0.1, key=jax.random.key(0))
    run = flow(deep, POINTS, observe={"w3": lambda network: np.eye(2)})
    assert len(final_networks(run.to_dataset()).parts) == 2


def test_a_lane_that_diverges_is_observed_as_long_as_it_is_finite():
    network = fully_connected(2, 4, 2, scale=0.3, key=festina.seeds(2))
    for options in ({}, {"batch_size": 4, "key": jax.random.key(0), "save_every": 1}):
        rates = np.array([0.01, 100.0])
        run = gradient_descent(network, POINTS, rates, 60, observe=singular_values, **options)
        assert [ending.reason for ending in run.endings] == ["finished", "diverged"]
        assert np.isfinite(run.observed["observed"]).all()
        last = run.lane(1)
        np.testing.assert_allclose(singular_values(last.final), last.observed["observed"][-1])


def test_where_there_is_no_sample_nothing_is_observed():
    network = fully_connected(2, 4, 2, activation="tanh", scale=0.3, key=festina.seeds(2))
    run = gradient_flow(network, POINTS, np.array([50.0]), max_steps=2, observe=singular_values)
    assert not run.saves.any()
    assert np.isnan(run.observed["observed"]).all()
    with pytest.raises(ValueError, match="no network of this run has a sample"):
        _ = run.final


@pytest.mark.parametrize(
    "train",
    [
        flow,
        *(pytest.param(train, marks=pytest.mark.slow) for train in (flow_at_times, descent)),
        mini_batches,
    ],
)
def test_losses_alone(train):
    """With nothing to observe, losses and final networks are the same."""
    batch = fully_connected(2, 9, 2, activation="tanh", scale=0.1, key=festina.seeds(3))
    whole, alone = train(batch, POINTS), train(batch, POINTS, observe={})
    np.testing.assert_array_equal(alone.loss, whole.loss)
    np.testing.assert_array_equal(alone.final.u, whole.final.u)
    assert not alone.observed
    assert not {"u", "v"} & {*alone.to_dataset()}
    with pytest.raises(ValueError, match="only of the `final` network"):
        _ = alone.network


@pytest.mark.parametrize(
    ("observe", "words"),
    [
        ("u", "must be a function"),
        ({"u": 3}, "must contain functions"),
        ({1: products}, "cannot use the name 1"),
        ({"loss": products}, "cannot use the name 'loss'"),
        ({"final_u": products}, "cannot use the name 'final_u'"),
        ({"a/b": products}, "cannot use the name 'a/b'"),
        ({"": products}, "cannot use the name ''"),
        ({"unit": products}, "'unit', because it is the name of an axis"),
        ({"learning_rate": products}, "cannot use the name 'learning_rate'"),
        ({"map": products, "map_1": products}, "'map_1', because it is the name of an axis"),
        (lambda network: "large", "an array of real numbers"),
        (lambda network: None, "an array of real numbers"),
        (lambda network: 1j * network.u, "an array of real numbers"),
        (lambda network: [[1.0], [1.0, 2.0]], "an array of real numbers"),
        ({"both": lambda network: (network.u, network.v)}, "'both' returns a tuple of 2. For sev"),
    ],
)
@pytest.mark.parametrize("train", [descent, mini_batches])
def test_bad_observers(observe, words, train, as_a_user):
    network = fully_connected(2, 3, 2, scale=0.1, key=jax.random.key(0))
    with pytest.raises(ValueError, match=words):
        train(network, POINTS, observe=observe)


def test_errors_of_observers_say_whose_they_are():
    network = fully_connected(2, 3, 2, scale=0.1, key=jax.random.key(0))
    with pytest.raises(AttributeError) as caught:
        descent(network, POINTS, observe={"map": products, "bias": lambda network: network.b})
    assert caught.value.__notes__ == ["This error was raised in the `observe` function 'bias'."]


@pytest.mark.parametrize("train", [flow, descent, mini_batches])
def test_arrays_that_grow(train):
    network = fully_connected(2, 3, 2, scale=0.1, key=jax.random.key(0))
    growing = lambda now: np.zeros(1 if (now.u == network.u).all() else 2)
    with pytest.raises(ValueError, match=r"arrays of the same shape.*'observed' has shape \(2,\)"):
        train(network, POINTS, observe=growing)


def test_an_axis_of_the_batch_is_no_name_either():
    network = fully_connected(2, 3, 2, scale=0.1, key=jax.random.split(jax.random.key(0)))
    with pytest.raises(ValueError, match="'batch_0', because it is the name of an axis"):
        descent(network, POINTS, observe={"batch_0": products})
    run = descent(network, POINTS)
    for taken in ("unit", "time", "u", "loss"):
        with pytest.raises(ValueError, match=f"uses the name '{taken}' for an axis"):
            run.to_dataset((taken,))
