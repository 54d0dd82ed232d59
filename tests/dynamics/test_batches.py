"""Test that each network of a batch learns as if alone, without compiling again."""

import functools
import pickle
import threading

import jax
import numpy as np
import pytest

import festina
from compiled import programs
from festina import _lanes
from festina.diagnose import passage_time
from festina.dynamics import LossConvention, _drive, _program, _worker
from festina.networks import Layer, fully_connected
from festina.tasks import from_arrays, linear_teacher
from helpers import untyped

COVARIANCE = np.array([[1.0, 1.0], [1.0, 4.0]])
TASK = linear_teacher(np.eye(2), COVARIANCE)
TIMES = np.linspace(0.0, 10.0, 6)


def networks(scale, key) -> Layer:
    return fully_connected(2, 5, 2, scale=scale, key=key)


def alone(batch: Layer, *index: int) -> Layer:
    """Return one network of a batch."""
    return Layer(batch.u[index], batch.v[index], batch.unit)


SWEEP = networks(np.array([1e-1, 1e-4])[:, None], festina.seeds(3))
"""Two scales by three seeds."""

MANY = networks(np.geomspace(1e-8, 1e-1, 70), festina.seeds(70, first=50))
"""More than the compiled program has lanes, and of very different durations, the longest first."""


def test_a_seed_is_the_same_network_whoever_is_beside_it():
    np.testing.assert_array_equal(networks(0.1, festina.seeds(1, first=2)).u[0], SWEEP.u[0, 2])


def test_a_batch_of_descents_is_the_descents_one_by_one():
    together = festina.gradient_descent(SWEEP, TASK, 0.01)
    assert together.batch_shape == (2, 3)
    for index in np.ndindex(2, 3):
        single = festina.gradient_descent(alone(SWEEP, *index), TASK, 0.01)
        lane = together.lane(*index)
        np.testing.assert_array_equal(lane.time, single.time)
        np.testing.assert_allclose(lane.loss, single.loss, rtol=1e-9)
        np.testing.assert_allclose(lane.network.u, single.network.u, rtol=1e-9, atol=1e-13)
        assert lane.endings == single.endings
        assert lane.evaluations == single.evaluations


def test_a_batch_of_flows_is_the_flows_one_by_one():
    together = festina.gradient_flow(SWEEP, TASK, TIMES)
    for index in np.ndindex(2, 3):
        single = festina.gradient_flow(alone(SWEEP, *index), TASK, TIMES)
        np.testing.assert_array_equal(together.time[index], TIMES)
        np.testing.assert_allclose(together.loss[index], single.loss, rtol=1e-6, atol=1e-9)
        np.testing.assert_allclose(together.network.u[index], single.network.u, atol=1e-6)


def test_more_descents_than_lanes_all_arrive_in_their_places():
    together = festina.gradient_descent(MANY, TASK, 0.02)
    assert {ending.reason for ending in together.endings} == {"converged"}
    lengths = []
    for index in range(0, 70, 3):
        single = festina.gradient_descent(alone(MANY, index), TASK, 0.02)
        lane = together.lane(index)
        np.testing.assert_array_equal(lane.time, single.time)
        np.testing.assert_allclose(lane.loss, single.loss, rtol=1e-6, atol=1e-14)
        for ours, theirs in (
            (lane.network.u, single.network.u),
            (lane.network.v, single.network.v),
        ):
            np.testing.assert_allclose(ours, theirs, rtol=1e-6, atol=1e-12)
        lengths.append(lane.time[-1])
    assert max(lengths) > 3 * min(lengths)


def test_more_flows_than_lanes_all_arrive_in_their_places():
    together = festina.gradient_flow(MANY, TASK)
    assert {ending.reason for ending in together.endings} == {"converged"}
    for index in range(0, 70, 3):
        lane = together.lane(index)
        single = festina.gradient_flow(alone(MANY, index), TASK)
        np.testing.assert_array_equal(lane.network.u[0], MANY.u[index])
        assert (np.diff(lane.time) > 0).all()
        assert lane.loss[-1] < 1e-8 * lane.loss[0]
        drops = [
            passage_time(run.time, run.loss, 1.0, slope=-run.squared_gradient)
            for run in (lane, single)
        ]
        assert drops[0] == pytest.approx(drops[1], rel=1e-6)


def test_more_flows_than_lanes_at_requested_times():
    together = festina.gradient_flow(MANY, TASK, TIMES)
    assert together.time.shape == (70, len(TIMES))
    for index in range(0, 70, 3):
        single = festina.gradient_flow(alone(MANY, index), TASK, TIMES)
        np.testing.assert_array_equal(together.time[index], TIMES)
        np.testing.assert_allclose(together.loss[index], single.loss, rtol=1e-6, atol=1e-9)


def test_every_lane_has_its_own_learning_rate():
    seeds = networks(0.1, festina.seeds(3))
    rates = np.array([0.005, 0.01, 0.02])
    together = festina.gradient_descent(seeds, TASK, rates)
    for index, rate in enumerate(rates):
        single = festina.gradient_descent(alone(seeds, index), TASK, float(rate))
        lane = together.lane(index)
        np.testing.assert_array_equal(lane.time, single.time)
        np.testing.assert_allclose(lane.loss, single.loss, rtol=1e-9)
        np.testing.assert_array_equal(lane.slope, -rate * lane.squared_gradient)
    over_scales = festina.gradient_descent(SWEEP, TASK, np.array([[0.01], [0.02]]), 50)
    np.testing.assert_array_equal(over_scales.learning_rate, [[0.01] * 3, [0.02] * 3])
    lane = over_scales.lane(1, 2)
    np.testing.assert_array_equal(lane.slope, over_scales.slope[1, 2, : lane.saves])


def test_one_lane_that_fails_leaves_the_others_alone():
    seeds = networks(0.1, festina.seeds(3))
    together = festina.gradient_descent(seeds, TASK, np.array([0.01, 5.0, 0.01]))
    assert [ending.reason for ending in together.endings] == ["converged", "diverged", "converged"]
    assert together.failed
    single = festina.gradient_descent(alone(seeds, 2), TASK, 0.01)
    np.testing.assert_allclose(together.lane(2).loss, single.loss, rtol=1e-9)
    for array in (together.loss, together.squared_gradient, together.network.u, together.network.v):
        assert np.isfinite(array).all()


# Compilation once, not once per value


def _data(seed: int):
    draw = np.random.default_rng(seed)
    x = draw.normal(size=(9, 2))
    return from_arrays(x, x @ draw.normal(size=(2, 2)) + 0.1 * draw.normal(size=(9, 2)))


def test_the_listener_sees_a_compilation():
    with programs() as names:
        jax.jit(lambda x: 3.0 * x + 0.125)(1.0)
    assert names


def test_other_values_of_a_flow_compile_nothing():
    def flow(seed: int, scale: float, rtol: float, loss: LossConvention):
        network = networks(scale, festina.seeds(3, first=seed))
        return festina.gradient_flow(network, _data(seed), rtol=rtol, loss=loss)

    flow(0, 1e-2, 1e-8, "half")
    with programs() as names:
        first = flow(1, 1e-3, 1e-6, "mean-square")
        second = flow(2, 1e-1, 1e-9, "sum-square")
    assert names == []
    assert first.loss[0, 0] != second.loss[0, 0]


def test_other_times_and_ends_compile_nothing():
    network = networks(1e-2, festina.seeds(3))
    festina.gradient_flow(network, TASK, TIMES)
    festina.gradient_flow(network, TASK, t_end=3.0)
    with programs() as names:
        festina.gradient_flow(network, TASK, 0.7 * TIMES, rtol=1e-6, atol=1e-9)
        festina.gradient_flow(network, TASK, t_end=2.0, converged=1e-6, max_steps=20_000)
    assert names == []


def test_other_values_of_descent_compile_nothing():
    def descend(seed: int, scale: float, rate: float | np.ndarray, steps: int | None):
        network = networks(scale, festina.seeds(3, first=seed))
        return festina.gradient_descent(network, _data(seed), rate, steps)

    descend(0, 1e-2, 0.01, None)
    with programs() as names:
        descend(1, 1e-3, 0.02, None)
        descend(2, 1e-1, np.array([0.01, 0.02, 0.03]), 77)
    assert names == []


def test_more_networks_than_lanes_compile_nothing_more():
    many = {n: networks(1e-2, festina.seeds(n)) for n in (130, 250)}
    festina.gradient_descent(many[130], TASK, 0.02, 200)
    with programs() as names:
        festina.gradient_descent(many[250], TASK, 0.02, 200)
    assert [name for name in names if "advance" in name] == []


@pytest.mark.parametrize("cores", [1, 2, 3, 6, 12, 16])
@pytest.mark.parametrize("weights", [4, 150, 31_000])
def test_programs_are_the_same_up_to_the_next_power_of_two(monkeypatch, cores, weights):
    """Batches up to the same power of two share programs on every machine; buffers stay small."""
    monkeypatch.setattr(_drive, "cores", lambda: cores)
    for most in (2, 64, 1024, 16_384):
        sizes = [_drive._sizes(weights, total, 3 + weights) for total in (most // 2 + 1, most)]
        assert len({each[1:] for each in sizes}) == 1
        room = sizes[0].pool * sizes[0].rows * (3 + weights)
        assert room <= max(_drive._MOST_NUMBERS, 64 * (3 + weights))


# Precision


@pytest.mark.parametrize("wide", [False, True])
def test_the_users_precision_is_left_alone(wide):
    with jax.enable_x64(wide):
        before = untyped(jax.config).jax_enable_x64
        flow = festina.gradient_flow(SWEEP, TASK, TIMES)
        descent = festina.gradient_descent(SWEEP, TASK, 0.01, 20)
        assert untyped(jax.config).jax_enable_x64 is before is wide
        assert jax.numpy.ones(1).dtype == (np.float64 if wide else np.float32)
    for run in (flow, descent):
        arrays = (run.time, run.loss, run.squared_gradient, run.network.u, run.network.v)
        for array in arrays:
            assert type(array) is np.ndarray
            assert array.dtype == np.float64


def test_an_error_leaves_the_users_precision_alone():
    assert not untyped(jax.config).jax_enable_x64
    with pytest.raises(ValueError, match="`rtol`"):
        festina.gradient_flow(SWEEP, TASK, rtol=0.5)
    assert not untyped(jax.config).jax_enable_x64


# Several threads


def test_whatever_breaks_off_stops_all_threads(monkeypatch):
    """An exception in `progress`, such as Ctrl-C, reaches the caller and ends all threads."""
    monkeypatch.setattr(_drive, "cores", lambda: 3)
    monkeypatch.setattr(_drive, "_CACHE", 100)  # few networks for each worker
    calls, threads, before = [], set(), threading.active_count()

    def interrupt(words: str, fraction: float) -> None:
        threads.add(threading.get_ident())
        calls.append(len(threads))
        if len(threads) == 3:
            raise KeyboardInterrupt  # raised in the last worker to report

    with pytest.raises(KeyboardInterrupt):
        festina.gradient_flow(MANY, TASK, progress=interrupt)
    assert calls.count(3) == 1, "somebody trained on and reported"
    assert threading.active_count() == before


def test_threads_change_nothing(monkeypatch):
    monkeypatch.setattr(_drive, "_CACHE", 100)
    results = []
    monkeypatch.setattr(_lanes, "_MANY_NUMBERS", 1)
    monkeypatch.setattr(_lanes, "_BLOCK", 4)
    for cores in (1, 3):
        monkeypatch.setattr(_drive, "cores", lambda cores=cores: cores)
        monkeypatch.setattr(_lanes, "cores", lambda cores=cores: cores)
        results.append(festina.gradient_flow(MANY, TASK))
    one, three = results
    np.testing.assert_array_equal(one.saves, three.saves)
    np.testing.assert_array_equal(one.loss, three.loss)
    np.testing.assert_array_equal(one.network.u, three.network.u)


def test_room_for_few_samples_changes_nothing(monkeypatch):
    """With a full buffer, a network waits until its samples are fetched; the result is the same."""
    some = networks(np.geomspace(1e-8, 1e-1, 12), festina.seeds(12))
    roomy = festina.gradient_flow(some, TASK)
    monkeypatch.setattr(_drive, "_MOST_NUMBERS", 1)
    narrow = festina.gradient_flow(some, TASK)
    assert roomy.saves.max() > 8, "or there was room for all"
    np.testing.assert_array_equal(roomy.saves, narrow.saves)
    # Programs with larger buffers are compiled separately and may round differently.
    np.testing.assert_allclose(roomy.time, narrow.time, rtol=1e-6)
    np.testing.assert_allclose(roomy.network.u, narrow.network.u, rtol=1e-5, atol=1e-7)


def test_one_that_takes_long_does_not_hold_up_the_others(monkeypatch):
    """The loop replaces finished networks by waiting ones without returning to the host."""
    monkeypatch.setattr(_drive, "cores", lambda: 1)
    monkeypatch.setattr(_drive, "_CACHE", 100)  # eight slots, thirty-two networks in the pool
    calls = []
    advance = _worker.advance
    monkeypatch.setattr(
        _worker, "advance", lambda *args, **kw: calls.append(1) or advance(*args, **kw)
    )
    some = networks(np.r_[1e-8, np.full(31, 1e-1)], festina.seeds(32))
    # So few samples that they fit into the buffer
    coarse = festina.dynamics.SaveResolution(loss=0.05, rate=1.0)
    run = festina.gradient_flow(some, TASK, t_end=40.0, resolution=coarse)
    assert run.evaluations[0] > 2 * np.median(run.evaluations)
    assert len(calls) <= 3


@pytest.mark.parametrize(
    "how",
    [
        {"rtol": 1e-6},
        {"rtol": 1e-6, "max_steps": 130},
        pytest.param({"rtol": 1e-6, "times": np.linspace(0.5, 20.0, 9)}, marks=pytest.mark.slow),
        pytest.param({"rtol": 1e-6, "observe": {}}, marks=pytest.mark.slow),
        {"rtol": 1e-6, "observe": {"size": lambda network: np.sum(network.u**2)}},
        {"learning_rate": 0.05, "steps": 400, "momentum": 0.5},
    ],
    ids=lambda how: "-".join(how),
)
def test_who_takes_very_many_steps_goes_on_when_all_others_have_ended(monkeypatch, how):
    """The last network continues in a separate program and ends as it would have otherwise."""
    some = networks(np.r_[1e-1, 1e-8, np.full(10, 1e-1)], festina.seeds(12))
    said = []
    kind = festina.gradient_descent if "steps" in how else festina.gradient_flow
    train = lambda: kind(some, TASK, **how, progress=lambda *words: said.append(words))
    expected, pools = train(), []
    steps = (expected.evaluations - 1) // (1 if "steps" in how else 6)
    many = int(np.sort(steps)[-2]) + 5
    assert steps[1] > many
    advance = _worker.advance
    monkeypatch.setattr(
        _worker,
        "advance",
        lambda state, *args, **kw: (
            pools.append(state.weights.shape[-1]) or advance(state, *args, **kw)
        ),
    )
    monkeypatch.setattr(_drive, "_MANY_STEPS", many)
    said.clear()
    seen = train()
    assert (pools[0], pools[-1]) == (16, 1)
    assert said[-1] == ("trained 12 of 12", 1.0)
    assert max(fraction for _, fraction in said) <= 1.0
    np.testing.assert_array_equal(seen.evaluations, expected.evaluations)
    np.testing.assert_array_equal(seen.saves, expected.saves)
    # The other program rounds differently, and leaving saddles amplifies the difference.
    np.testing.assert_allclose(seen.time, expected.time, rtol=1e-6)
    np.testing.assert_allclose(seen.loss, expected.loss, rtol=1e-6, atol=1e-7)
    np.testing.assert_allclose(seen.final.u, expected.final.u, rtol=1e-6, atol=1e-9)
    for name, values in expected.observed.items():
        np.testing.assert_allclose(seen.observed[name], values, rtol=1e-6, atol=1e-9)
    assert list(seen.endings) == list(expected.endings)


def test_far_above_what_there_is_to_learn_nothing_has_converged():
    """Convergence requires a small loss compared with the targets, at any tolerance.

    A network that stops early has no loss at the later `times`.
    """
    huge = fully_connected(
        2, 8, activation="relu", scale=np.array([1e-1, 1e3]), key=festina.seeds(2)
    )
    data = from_arrays(np.eye(2), [[1.0], [2.0]])
    train = functools.partial(festina.gradient_flow, huge, data, max_steps=300)
    to_learn = np.mean(data.y**2)
    for one in (train(), train(rtol=1e-3)):
        assert [ending.reason for ending in one.endings] == ["converged"] * 2
        ends = np.take_along_axis(one.loss, one.saves[:, None] - 1, axis=1)
        assert (ends < 1e-3 * to_learn).all()
    short = train(max_steps=20)
    assert repr(short.endings) == "1 converged, 1 out of steps"
    assert short.lane(1).loss[-1] > 1e-3 * to_learn
    run = train(np.linspace(0.0, 30.0, 4))
    assert run.saves.tolist() == [4, 1]
    assert np.isnan(run.loss[1, 1:]).all()
    assert np.isnan(run.squared_gradient[1, 1:]).all()
    assert np.isfinite(run.loss[0]).all()
    assert np.isfinite(run.final.u).all()
    assert "nan" not in repr(run)


def test_parts_of_a_batch_are_of_as_many_networks():
    whole = fully_connected(2, 5, 2, activation="relu", scale=0.1, key=festina.seeds(4))
    lame = Layer(whole.u[:2], whole.v, whole.unit)
    with pytest.raises(ValueError, match="the same number of networks, got 2, 4"):
        festina.gradient_flow(lame, from_arrays(np.eye(2), np.eye(2)))


def test_samples_are_packed_lane_by_lane():
    rows = np.random.default_rng(0).normal(size=(5, 7, 5))
    counts = np.array([2, 0, 7, 1, 3])
    expected = np.concatenate([lane[:count] for lane, count in zip(rows, counts, strict=True)])
    numbers, weights = _program.packed(rows.astype(np.float32), counts, 16)
    packed = np.vstack((numbers, weights.T)).T
    np.testing.assert_array_equal(packed[: counts.sum()], expected.astype(np.float32))


def test_pickles_hold_weights_once_and_load_the_same():
    """Pickles hold weights once, whether or not `run.network` was read before."""
    for run in (festina.gradient_flow(MANY, TASK), festina.gradient_flow(MANY, TASK, observe={})):
        assert np.isfinite(run.final.u).all()  # computes the weights of all units
        before = pickle.dumps(run)
        if not run.losses_alone:
            assert run.network.u.shape[:2] == run.loss.shape
        after = pickle.dumps(run)
        padding = run.loss.size / run.saves.sum()
        assert len(after) < 1.1 * padding * len(before)
        for loaded in map(pickle.loads, (before, after)):
            np.testing.assert_array_equal(loaded.final.u, run.final.u)
            np.testing.assert_array_equal(loaded.loss, run.loss)
            if not run.losses_alone:
                np.testing.assert_array_equal(loaded.network.u, run.network.u)


@pytest.mark.parametrize("how", [{}, {"times": np.linspace(0.5, 3.0, 4)}, {"observe": {}}])
def test_weights_whose_loss_overflows_are_said_to_be_too_large(how):
    some = networks(np.array([1e200, 1e-1]), festina.seeds(2))
    run = festina.gradient_flow(some, TASK, **how)
    assert run.endings[0].reason == "diverged"
    assert "so large that the loss overflows" in run.endings[0].message
    assert run.endings[1].reason in ("converged", "finished")
    assert "nan" not in repr(run)
