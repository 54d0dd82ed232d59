"""Test mini-batches: epochs without replacement, and losses of all samples."""

import jax
import numpy as np
import pytest

import festina
from festina.dynamics import SaveResolution
from festina.networks import attention, fully_connected
from festina.tasks import from_arrays, in_context_regression, linear_teacher

SAMPLES = 12
KEY = jax.random.key(9)


def _data():
    draw = np.random.default_rng(1)
    x = draw.normal(size=(SAMPLES, 2))
    return from_arrays(
        x, x @ np.array([[1.0, 0.5], [-0.5, 2.0]]) + 0.2 * draw.normal(size=(SAMPLES, 2))
    )


DATA = _data()
NETWORK = fully_connected(2, 5, 2, scale=0.3, key=jax.random.key(0))
SEEDS = fully_connected(2, 5, 2, scale=0.3, key=festina.seeds(3))


def gradients(u, v) -> np.ndarray:
    """Return ∂/∂u of ½|y − f|² for every sample, `(sample, unit, input)`, derived by hand."""
    residual = DATA.x @ u.T @ v - DATA.y
    return np.einsum("po,ho,pi->phi", residual, v, DATA.x)


@pytest.mark.parametrize(
    "loss",
    [
        "half",
        *(
            pytest.param(loss, marks=pytest.mark.slow)
            for loss in ("mean-square", "mean-over-outputs")
        ),
        "sum-square",
    ],
)
def test_one_batch_of_all_samples_is_full_batch_descent(loss):
    rate = 0.02 if "sum" not in loss else 0.02 / SAMPLES
    options = {"loss": loss, "resolution": SaveResolution(1e-12, 1e-12)}
    full = festina.gradient_descent(SEEDS, DATA, rate, 60, **options)
    mini = festina.gradient_descent(
        SEEDS, DATA, rate, 60, loss=loss, batch_size=SAMPLES, key=KEY, save_every=1
    )
    np.testing.assert_array_equal(mini.time, full.time)
    np.testing.assert_allclose(mini.network.u, full.network.u, rtol=0, atol=1e-12)
    np.testing.assert_allclose(mini.network.v, full.network.v, rtol=0, atol=1e-12)
    np.testing.assert_allclose(mini.loss, full.loss, rtol=1e-11)
    np.testing.assert_allclose(mini.squared_gradient, full.squared_gradient, rtol=1e-9)


@pytest.mark.parametrize("save_every", [1, 7])
def test_a_heavy_ball_on_all_samples_is_that_of_full_batches(save_every):
    """Each network has its own momentum, kept from one saved step to the next."""
    momentum = np.array([0.0, 0.5, 0.9])
    full = festina.gradient_descent(SEEDS, DATA, 0.02, 42, momentum=momentum)
    mini = festina.gradient_descent(
        SEEDS,
        DATA,
        0.02,
        42,
        batch_size=SAMPLES,
        key=KEY,
        save_every=save_every,
        momentum=momentum,
    )
    np.testing.assert_allclose(mini.final.u, full.final.u, rtol=0, atol=1e-12)
    plain = festina.gradient_descent(SEEDS, DATA, 0.02, 42)
    np.testing.assert_allclose(full.final.u[0], plain.final.u[0], rtol=0, atol=1e-14)
    assert np.abs(full.final.u[1:] - plain.final.u[1:]).min() > 1e-6
    np.testing.assert_array_equal(full.to_dataset()["momentum"], momentum)


@pytest.mark.parametrize("batch_size", [1, 4])
def test_an_epoch_uses_every_sample_once(batch_size):
    """To first order in η, an epoch is one step along the sum of all gradients."""
    steps = SAMPLES // batch_size
    whole = gradients(NETWORK.u, NETWORK.v).sum(axis=0) / batch_size

    def deviation(rate: float) -> float:
        run = festina.gradient_descent(
            NETWORK, DATA, rate, steps, batch_size=batch_size, key=KEY, save_every=steps
        )
        moved = (run.network.u[-1] - run.network.u[0]) / rate
        return float(np.abs(moved + whole).max() / np.abs(whole).max())

    deviations = np.array([deviation(rate) for rate in (1e-3, 1e-4, 1e-5)])
    assert deviations[-1] < 1e-4
    np.testing.assert_allclose(np.diff(np.log10(deviations)), -1.0, atol=0.05)


@pytest.mark.usefixtures("as_a_user")
@pytest.mark.parametrize("number", [int, float])
def test_a_run_keeps_how_it_was_made(number):
    whole = {"steps": number(2), "batch_size": number(5), "save_every": number(1)}
    run = festina.gradient_descent(NETWORK, DATA, 0.1, **whole, key=KEY)
    made = {"steps": 2, "batch_size": 5, "save_every": 1, "learning_rate": 0.1}
    attributes = run.to_dataset().attrs
    assert attributes.items() >= made.items()
    assert all(type(attributes[name]) is int for name in whole)
    assert "converged" not in attributes


def test_samples_that_fill_no_batch_are_left_for_another_epoch():
    """With two batches of five, an epoch uses ten of twelve samples once each."""
    rate = 1e-7
    run = festina.gradient_descent(NETWORK, DATA, rate, 2, batch_size=5, key=KEY, save_every=1)
    by_sample = gradients(NETWORK.u, NETWORK.v).reshape(SAMPLES, -1)
    moved = (run.network.u[-1] - run.network.u[0]).ravel() * -5 / rate
    pairs = {
        (i, j)
        for i in range(SAMPLES)
        for j in range(i)
        if np.allclose(by_sample.sum(axis=0) - by_sample[i] - by_sample[j], moved, rtol=1e-4)
    }
    assert len(pairs) == 1


def test_epochs_are_shuffled_anew():
    """With one sample per step, the order of the second epoch differs from that of the first."""
    rate = 1e-7
    run = festina.gradient_descent(
        NETWORK, DATA, rate, 2 * SAMPLES, batch_size=1, key=KEY, save_every=1
    )
    by_sample = gradients(NETWORK.u, NETWORK.v).reshape(SAMPLES, -1)
    moved = -np.diff(run.network.u, axis=0).reshape(2 * SAMPLES, -1) / rate
    distance = np.linalg.norm(moved[:, None] - by_sample, axis=2)
    order = np.argmin(distance, axis=1)
    assert distance.min(axis=1).max() < 1e-3
    first, second = order[:SAMPLES], order[SAMPLES:]
    assert sorted(first) == sorted(second) == list(range(SAMPLES))
    assert (first != second).any()


def test_the_same_key_gives_the_same_run_and_another_key_another():
    def weights(key):
        run = festina.gradient_descent(SEEDS, DATA, 0.02, 30, batch_size=4, key=key)
        return run.network.u

    np.testing.assert_array_equal(weights(KEY), weights(KEY))
    assert np.abs(weights(KEY) - weights(jax.random.key(10)))[:, -1].max() > 1e-4


def test_lanes_shuffle_independently():
    same = type(SEEDS)(
        *(np.broadcast_to(w[:1], w.shape) for w in (SEEDS.u, SEEDS.v)), unit=SEEDS.unit
    )
    run = festina.gradient_descent(same, DATA, 0.02, 20, batch_size=4, key=KEY)
    assert np.abs(run.network.u[0, -1] - run.network.u[1, -1]).max() > 1e-5


@pytest.mark.usefixtures("as_a_user")
def test_every_lane_may_have_a_key_of_its_own():
    keys = festina.seeds(3)
    options = {"learning_rate": 0.02, "steps": 20, "batch_size": 4}
    run = festina.gradient_descent(SEEDS, DATA, **options, key=keys)
    # A network does not depend on the other networks of its batch.
    last = type(SEEDS)(SEEDS.u[1:], SEEDS.v[1:], SEEDS.unit)
    again = festina.gradient_descent(last, DATA, **options, key=keys[1:])
    np.testing.assert_allclose(again.network.u, run.network.u[1:], rtol=0, atol=1e-14)
    with pytest.raises(ValueError, match=r"each of the \(3,\) networks, got \(5,\) keys"):
        festina.gradient_descent(SEEDS, DATA, **options, key=festina.seeds(5))


def test_a_lane_is_the_run_of_its_network_alone_with_its_key():
    keys = festina.seeds(3, first=5)
    options = {"learning_rate": 0.05, "steps": 40, "batch_size": 4}
    together = festina.gradient_descent(SEEDS, DATA, **options, key=keys)
    for lane in range(3):
        alone = festina.gradient_descent(SEEDS.lane(lane), DATA, **options, key=keys[lane])
        np.testing.assert_allclose(
            together.lane(lane).network.u, alone.network.u, rtol=0, atol=1e-13
        )
        np.testing.assert_allclose(together.lane(lane).loss, alone.loss, rtol=1e-11)


def test_keys_of_the_old_kind_are_keys():
    runs = [
        festina.gradient_descent(NETWORK, DATA, 0.02, 20, batch_size=4, key=make(9))
        for make in (jax.random.key, jax.random.PRNGKey)
    ]
    np.testing.assert_array_equal(runs[0].network.u, runs[1].network.u)


def test_samples_come_every_so_many_steps_and_at_the_end():
    run = festina.gradient_descent(
        SEEDS,
        DATA,
        0.02,
        25,
        batch_size=4,
        key=KEY,
        save_every=10,
        progress=lambda words, done: None,
    )
    np.testing.assert_array_equal(run.time, np.tile([0.0, 10.0, 20.0, 25.0], (3, 1)))
    assert [ending.reason for ending in run.endings] == ["finished"] * 3
    for lane in range(3):
        residual = DATA.x @ run.network.u[lane, -1].T @ run.network.v[lane, -1] - DATA.y
        by_hand = 0.5 * np.mean(np.sum(residual**2, axis=1))
        assert run.loss[lane, -1] == pytest.approx(by_hand, rel=1e-12)


def test_every_lane_has_its_own_learning_rate():
    rates = np.array([0.01, 0.02, 0.04])
    run = festina.gradient_descent(SEEDS, DATA, rates, 10, batch_size=SAMPLES, key=KEY)
    full = festina.gradient_descent(SEEDS, DATA, rates, 10)
    np.testing.assert_allclose(run.network.u[:, -1], full.network.u[:, -1], atol=1e-12)
    np.testing.assert_array_equal(run.learning_rate, rates)


def test_sequences_come_in_mini_batches_too():
    data = in_context_regression(2, 5, samples=16, key=jax.random.key(3))
    network = attention(2, 2, scale=0.3, key=jax.random.key(4))
    full = festina.gradient_descent(network, data, 0.05, 20)
    mini = festina.gradient_descent(network, data, 0.05, 20, batch_size=16, key=KEY)
    np.testing.assert_allclose(mini.network.u[-1], full.network.u[-1], atol=1e-12)


def test_divergence_is_a_result_without_nan():
    rates = np.array([0.01, 5.0, 0.01])
    run = festina.gradient_descent(SEEDS, DATA, rates, 200, batch_size=4, key=KEY)
    assert [ending.reason for ending in run.endings] == ["finished", "diverged", "finished"]
    assert "not finite after step" in run.endings[1].message
    assert "5" in run.endings[1].message
    for array in (run.time, run.loss, run.squared_gradient, run.network.u, run.network.v):
        assert np.isfinite(array).all()
    assert run.saves[1] < run.saves[0]
    assert len(run.lane(1).loss) == run.saves[1]


def test_a_run_that_diverged_ends_at_its_last_finite_sample():
    """A diverged network has the same samples alone and in a batch, up to its last finite loss."""
    batch = festina.gradient_descent(
        SEEDS, DATA, 5.0, 200, batch_size=4, key=festina.seeds(3), save_every=1
    )
    for lane in range(3):
        together = batch.lane(lane)
        alone = festina.gradient_descent(
            SEEDS.lane(lane), DATA, 5.0, 200, batch_size=4, key=festina.seeds(3)[lane], save_every=1
        )
        assert alone.endings[0].reason == "diverged"
        assert len(alone.time) == len(alone.loss) == alone.saves == len(together.time)
        assert f"after step {alone.time[-1]:.0f}." in alone.endings[0].message
        np.testing.assert_array_equal(alone.loss, together.loss)
    assert len(batch.time[0]) == batch.saves.max()


@pytest.mark.usefixtures("as_a_user")
@pytest.mark.parametrize(
    ("options", "message"),
    [
        ({"batch_size": 0}, "`batch_size` must be a whole number from 1 up, got 0"),
        ({"batch_size": 13}, "`batch_size` must be at most .* samples, 12, got 13"),
        ({"batch_size": 2.5}, "`batch_size` must be a whole number"),
        ({"batch_size": -3}, "`batch_size`"),
        ({"key": None}, r"needs a random `key` .* jax\.random\.key\(0\), got None"),
        ({"key": 0}, r"needs a random `key` .* jax\.random\.key\(0\), got 0"),
        ({"key": np.zeros(7, np.uint32)}, r"jax\.random\.key\(0\), got array"),
        ({"key": np.ones(2)}, r"jax\.random\.key\(0\), got array"),
        ({"key": festina.seeds(3)}, r"jax\.random\.key\(0\), got \(3,\) keys"),
        ({"steps": None}, "needs `steps`, the number"),
        ({"steps": 0}, "`steps` must be a whole number from 1 up, got 0"),
        ({"save_every": 0}, "`save_every` must be a whole number"),
        ({"save_every": 1.5}, "`save_every` must be a whole number"),
        ({"batch_size": None, "save_every": 3}, "`save_every` applies to mini-batches"),
        ({"learning_rate": -0.1}, "`learning_rate` must be positive"),
        ({"learning_rate": "0.1"}, "`learning_rate` must be a number .* the text '0.1'"),
        ({"learning_rate": np.array([0.1, 0.2])}, "`learning_rate`.*batch"),
        ({"loss": "mse"}, "Unknown loss 'mse'"),
        ({"task": linear_teacher(np.eye(2))}, "finite number of samples"),
        ({"task": from_arrays(DATA.x, DATA.y, weight=np.arange(12.0))}, "unequal weight"),
        ({"task": from_arrays(DATA.x[:, :1], DATA.y)}, "do not fit"),
    ],
)
def test_bad_input_is_one_clear_line(options, message):
    given = {"task": DATA, "learning_rate": 0.01, "steps": 5, "batch_size": 4, "key": KEY} | options
    with pytest.raises(ValueError, match=message) as caught:
        festina.gradient_descent(NETWORK, **given)
    assert "\n" not in str(caught.value)
