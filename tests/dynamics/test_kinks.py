"""Test flows that slide along kinks: both sides push towards the kink; every step crosses it."""

import jax
import numpy as np
import pytest

import festina
from festina.networks import fully_connected
from festina.tasks import from_arrays


def own_data(seed: int):
    rng = np.random.default_rng(seed)
    return from_arrays(rng.normal(size=(5, 2)), rng.normal(size=5))


@pytest.mark.slow
@pytest.mark.parametrize("seed", range(6))
def test_a_relu_network_on_any_data_gets_where_descent_gets(seed):
    """The reference is descent with tiny steps, which also jumps across kinks."""
    network = fully_connected(2, 20, activation="relu", scale=0.01, key=jax.random.key(seed))
    flow = festina.gradient_flow(network, own_data(seed), t_end=20.0)
    assert flow.endings[0].reason in ("finished", "converged")
    descent = festina.gradient_descent(network, own_data(seed), 1e-3, 20_000, max_steps=20_000)
    assert flow.loss[-1] == pytest.approx(descent.loss[-1], rel=0.02, abs=1e-3 * flow.loss[0])


def test_a_slide_is_owned_up_to():
    said = []
    for seed in range(6):
        network = fully_connected(2, 20, activation="relu", scale=0.01, key=jax.random.key(seed))
        flow = festina.gradient_flow(network, own_data(seed), t_end=20.0)
        said.append("slid along kinks" in flow.endings[0].message)
    assert any(said)


@pytest.mark.parametrize(
    "name",
    ["tanh", *(pytest.param(name, marks=pytest.mark.slow) for name in ("linear", "quadratic"))],
)
def test_nothing_is_loosened_where_there_is_no_kink(name):
    network = fully_connected(2, 8, activation=name, scale=0.1, key=festina.seeds(4))
    flow = festina.gradient_flow(network, own_data(0), t_end=50.0)
    assert not any("slid" in ending.message for ending in flow.endings)


def xor_drops(scale, width, tolerances, count=4):
    """Return the times at which networks learn XoR, by flow at each tolerance and by descent."""
    x = np.array([[0.0, 0.0, 1.0], [0.0, 1.0, 1.0], [1.0, 0.0, 1.0], [1.0, 1.0, 1.0]])
    xor = from_arrays(x, [0.0, 1.0, 1.0, 0.0])
    network = fully_connected(3, width, activation="relu", scale=scale, key=festina.seeds(count))
    flows = [festina.gradient_flow(network, xor, rtol=rtol) for rtol in tolerances]
    assert {ending.reason for flow in flows for ending in flow.endings} == {"converged"}
    rate = 5e-3
    descent = festina.gradient_descent(network, xor, rate, max_steps=200_000)
    half = lambda run: np.interp(-0.0625, -np.minimum.accumulate(run.loss), run.time)
    drops = lambda run: np.array([half(run.lane(seed)) for seed in range(count)])
    return [drops(flow) for flow in flows], rate * drops(descent)


@pytest.mark.slow
def test_xor_where_most_units_slide_is_learned_when_descent_learns_it():
    """Each unit moves to the kinks of two samples and keeps growing there."""
    (flow,), descent = xor_drops(1e-6, 10, [None])
    np.testing.assert_allclose(flow, descent, rtol=0.1)


@pytest.mark.slow
def test_the_error_of_sliding_units_falls_with_the_tolerance():
    """Errors along a kink accumulate like noise, so they fall with the root of the tolerance.

    In a few networks of a hundred the errors are several times larger; the test bounds the median
    and the maximum.
    """
    flows, descent = xor_drops(1e-3, 30, [1e-5, 1e-6, 1e-7], count=16)
    off = np.abs(np.array(flows) / descent - 1)
    typical = np.median(off, axis=1)
    assert typical[1] < typical[0] / 2
    assert typical[2] < typical[1] / 2
    assert typical[2] < 5e-3
    assert off[2].max() < 0.03


def test_points_on_a_circle_are_cheap_at_the_default_tolerance():
    """The default tolerance gives the drop times of a hundredfold tighter one at lower cost."""
    angles = 2.0 * np.pi * np.arange(8) / 8
    x = np.stack([np.cos(angles), np.sin(angles)], axis=1)
    for seed in range(2):
        data = from_arrays(x, np.random.default_rng(seed).normal(size=8))
        network = fully_connected(2, 20, activation="relu", scale=1e-3, key=jax.random.key(seed))
        usual, tight = (
            festina.gradient_flow(network, data, t_end=100.0, rtol=rtol) for rtol in (None, 1e-7)
        )
        assert usual.evaluations < 12_000
        assert usual.evaluations < tight.evaluations / 3
        levels = tight.loss[-1] + np.array([0.9, 0.5, 0.2]) * (tight.loss[0] - tight.loss[-1])
        drops = [
            np.interp(-levels, -np.minimum.accumulate(run.loss), run.time) for run in (usual, tight)
        ]
        np.testing.assert_allclose(*drops, rtol=2e-3)


ANGLES = 2.0 * np.pi * np.arange(8) / 8
CIRCLE = from_arrays(
    np.stack([np.cos(ANGLES), np.sin(ANGLES)], 1), np.random.default_rng(0).normal(size=8)
)


def on_circle(seeds, **options):
    network = fully_connected(2, 20, activation="relu", scale=0.01, key=festina.seeds(seeds))
    return festina.gradient_flow(network, CIRCLE, **options)


@pytest.mark.slow
@pytest.mark.parametrize("seeds", [4, 10])
def test_a_slide_ends_when_loss_and_weights_rest(seeds):
    """A slide that does not end would take 50,000 steps and 300,001 gradients."""
    flow = on_circle(seeds)
    assert [ending.reason for ending in flow.endings] == ["converged"] * seeds
    assert "At rest on kinks" in flow.endings[0].message
    assert flow.evaluations.max() < 40_000
    longer = on_circle(seeds, t_end=3.0 * flow.time.max())
    np.testing.assert_allclose(flow.loss[:, -1], longer.loss[:, -1], rtol=1e-4)


def test_a_slide_that_is_given_a_last_time_goes_there():
    flow = on_circle(1, t_end=10_000.0)
    assert flow.endings[0].reason == "finished"
    assert flow.time[0, -1] == 10_000.0


@pytest.mark.slow
def test_a_slide_comes_to_rest_where_descent_does():
    rate, steps = 0.02, 100_000
    network = fully_connected(2, 20, activation="relu", scale=0.01, key=festina.seeds(4))
    descent = festina.gradient_descent(network, CIRCLE, rate, steps, max_steps=steps)
    np.testing.assert_allclose(on_circle(4).loss[:, -1], descent.loss[:, -1], rtol=0.01)


@pytest.mark.parametrize("scale", [pytest.param(1e-2, marks=pytest.mark.slow), 1e-3, 1e-5])
def test_a_slide_does_not_end_before_a_feature_that_is_learned_much_later(scale):
    """The gradient of the third input is a hundred times smaller than that of the others."""
    x, y = np.zeros((10, 3)), np.random.default_rng(201).normal(size=10)
    x[:8, :2], x[8:, 2], y[8:] = CIRCLE.x, (0.1, -0.1), (0.1, -0.07)
    network = fully_connected(3, 12, activation="relu", scale=scale, key=festina.seeds(2)[1])
    flow = festina.gradient_flow(network, from_arrays(x, y))
    assert "At rest on kinks" in flow.endings[0].message
    np.testing.assert_allclose(flow.final.predict(x)[8:, 0], y[8:], rtol=1e-4)


@pytest.mark.slow
def test_a_slide_does_not_end_before_its_last_drop():
    """From time 1,000 to 16,000 the loss stays within 1 %; at 27,000 the network fits the data."""
    rng = np.random.default_rng(0)
    rng.normal(size=16)
    x = rng.normal(size=(15, 3))
    late = from_arrays(x, np.sin(2 * x[:, :1]) + 0.1 * rng.normal(size=(15, 1)))
    network = fully_connected(3, 20, activation="relu", scale=0.01, key=festina.seeds(3)[2])
    early = festina.gradient_flow(network, late, t_end=4_000.0)
    assert np.interp(2_000.0, early.time, early.loss) == pytest.approx(early.loss[-1], rel=0.02)
    flow = festina.gradient_flow(network, late, max_steps=100_000)
    assert flow.endings[0].reason == "out of steps" or flow.loss[-1] < 1e-6


def test_advice_on_slides_that_run_out_of_steps_is_right():
    few, twice, loose = (
        on_circle(1, **options)
        for options in ({"max_steps": 1000}, {"max_steps": 2000}, {"max_steps": 1000, "rtol": 1e-3})
    )
    message = few.endings[0].message
    assert few.endings[0].reason == "out of steps"
    near = float(message.split("value at time ")[1].split(":")[0])
    assert near < few.time[0, -1] / 5
    assert on_circle(1, t_end=near).loss[0, -1] == pytest.approx(few.loss[0, -1], rel=0.011)
    assert twice.time[0, -1] > 1.5 * loose.time[0, -1]
    at_times = on_circle(1, times=np.array([50.0, 200.0, 1e5]), max_steps=1000)
    assert "value at time 200:" in at_times.endings[0].message


def test_flows_that_do_not_slide_get_no_advice_about_kinks():
    network = fully_connected(2, 20, activation="relu", scale=0.01, key=jax.random.key(0))
    ending = festina.gradient_flow(network, own_data(0), max_steps=10).endings[0]
    assert ending.reason == "out of steps"
    assert "kinks" not in ending.message
