"""Test saved samples: dense where the loss moves, padded in a batch, with named axes."""

import math

import jax
import numpy as np
import pytest
import xarray as xr

import festina
from festina.diagnose import passage_time
from festina.dynamics import SaveResolution, Trajectory
from festina.networks import NeuronUnit, attention, convolutional_1d, fully_connected, layer_from
from festina.tasks import figure_1c_teacher, in_context_regression, linear_teacher

TASK = linear_teacher(np.eye(2), np.array([[1.0, 1.0], [1.0, 4.0]]))
SEEDS = fully_connected(2, 5, 2, scale=np.array([1e-1, 1e-3, 1e-6]), key=festina.seeds(3))
NAMES = ("time", "loss", "squared_gradient")


def jumps(lane: Trajectory) -> tuple[float, float]:
    """Return the largest steps of loss / initial loss and of log₁₀ of the rate between samples."""
    loss = np.abs(np.diff(lane.loss)).max() / lane.loss[0]
    return float(loss), float(np.abs(np.diff(np.log10(lane.squared_gradient))).max())


@pytest.mark.parametrize("resolution", [SaveResolution(), SaveResolution(0.02, 0.2)])
def test_samples_of_descent_lie_where_the_loss_moves(resolution):
    run = festina.gradient_descent(SEEDS, TASK, 0.001, resolution=resolution)
    for index in range(3):
        lane = run.lane(index)
        loss, rate = jumps(lane)
        # A sample lies at most one step behind the requested change; this is the longest step.
        step = 0.001 * lane.squared_gradient.max() / lane.loss[0]
        assert loss < resolution.loss + 1.1 * step
        assert rate < 1.5 * resolution.rate
        assert lane.saves < 0.3 * lane.time[-1]


def test_samples_of_a_flow_are_its_steps_and_as_dense_as_asked_for():
    """Samples of a flow are its steps, which may be longer than the resolution, unlike `times`."""
    coarse = festina.gradient_flow(SEEDS, TASK, rtol=1e-4)
    fine = festina.gradient_flow(SEEDS, TASK, rtol=1e-10)
    for index in range(3):
        assert jumps(fine.lane(index))[0] < 0.5 * jumps(coarse.lane(index))[0]
    times = np.linspace(0.0, float(fine.time.max()), 3000)
    for index in range(3):
        dense = festina.gradient_flow(SEEDS, TASK, times).lane(index)
        assert jumps(dense)[0] < 0.02


def test_a_finer_resolution_saves_more():
    coarse, fine = (
        festina.gradient_descent(SEEDS, TASK, 0.02, resolution=resolution)
        for resolution in (SaveResolution(0.1, 1.0), SaveResolution(1e-3, 0.01))
    )
    assert (fine.saves > 2 * coarse.saves).all()
    for index in range(3):
        few, many = coarse.lane(index), fine.lane(index)
        assert set(few.time) <= set(many.time)
        assert (few.loss[0], few.loss[-1]) == (many.loss[0], many.loss[-1])


def test_drops_read_off_the_samples_do_not_depend_on_the_resolution():
    def drops(resolution: SaveResolution) -> np.ndarray:
        run = festina.gradient_flow(SEEDS, TASK, resolution=resolution)
        lanes = [run.lane(index) for index in range(3)]
        return np.array(
            [
                passage_time(lane.time, lane.loss, level, slope=-lane.squared_gradient)
                for lane in lanes
                for level in (1.4, 0.2)
            ]
        )

    fine = drops(SaveResolution(1e-12, 1e-12))
    np.testing.assert_allclose(drops(SaveResolution()), fine, rtol=1e-4)


def test_a_loss_that_never_rests_is_not_sampled_without_end():
    """Beyond its stability limit f = uv ends in a cycle of two steps, so the loss always moves."""
    task = linear_teacher(np.eye(1), np.eye(1))
    start = layer_from(NeuronUnit("linear"), np.array([[0.9]]), np.array([[0.9]]))
    most = int(SaveResolution().most)
    short = festina.gradient_descent(start, task, 1.1, max_steps=most)
    assert short.saves == most + 1
    long = festina.gradient_descent(start, task, 1.1, max_steps=20 * most)
    added = math.log(20) / math.log(1.01)
    assert 0.9 * added < long.saves - most < 1.1 * added
    np.testing.assert_array_equal(long.time[:most], np.arange(most))
    assert (np.diff(long.time) < 0.01 * long.time[:-1] + 2).all()
    assert long.time[-1] == 20 * most
    product = long.network.u[:, 0, 0] * long.network.v[:, 0, 0]
    np.testing.assert_allclose(long.loss, (1 - product) ** 2 / 2, rtol=1e-12)


def test_noise_along_a_plateau_hides_no_drop(monkeypatch):
    """A coarse flow jitters along a stiff valley for thousands of steps before the next drop."""
    draw = np.random.default_rng(1)
    x = draw.normal(size=(15, 3)) * np.linspace(0.7, 1.3, 3)
    y = x @ draw.normal(size=(3, 1)) + 0.3 * draw.normal(size=(15, 1))
    task = festina.tasks.from_arrays(x, y, weight=draw.uniform(0.5, 1.5, size=15))
    network = fully_connected(3, 5, activation="quadratic", scale=0.02, key=jax.random.key(5))
    some = festina.gradient_flow(network, task, rtol=1e-4, solver="explicit")
    monkeypatch.setattr(SaveResolution, "most", math.inf)
    every = festina.gradient_flow(network, task, rtol=1e-4, solver="explicit")
    assert every.saves > 1.5 * some.saves
    levels = np.linspace(every.loss[0], every.loss[-1], 202)[1:-1]
    first, second = (
        [passage_time(run.time, run.loss, level, slope=-run.squared_gradient) for level in levels]
        for run in (some, every)
    )
    np.testing.assert_allclose(first, second, rtol=1e-4)


def test_the_first_sample_is_the_start_and_the_last_the_end():
    for run in (
        festina.gradient_flow(SEEDS, TASK),
        festina.gradient_descent(SEEDS, TASK, 0.02),
    ):
        np.testing.assert_array_equal(run.time[:, 0], 0.0)
        np.testing.assert_array_equal(run.network.u[:, 0], SEEDS.u)
        np.testing.assert_array_equal(run.network.v[:, 0], SEEDS.v)
        assert (run.loss[:, -1] < 1e-8).all()
        for index in range(3):
            assert (np.diff(run.lane(index).time) > 0).all()


def test_padding_repeats_the_last_sample_and_a_lane_is_without_it():
    run = festina.gradient_descent(SEEDS, TASK, 0.02)
    assert len(set(run.saves.tolist())) > 1
    assert run.time.shape == (3, run.saves.max())
    for index, count in enumerate(run.saves):
        lane = run.lane(index)
        assert lane.batch_shape == ()
        assert len(lane.time) == count == lane.saves
        for name in NAMES:
            whole, part = getattr(run, name)[index], getattr(lane, name)
            np.testing.assert_array_equal(whole[:count], part)
            np.testing.assert_array_equal(whole[count:], part[-1])
        np.testing.assert_array_equal(run.network.u[index, :count], lane.network.u)
        assert (run.network.u[index, count:] == lane.network.u[-1]).all()
        assert lane.endings == (run.endings[index],)
        assert lane.evaluations == run.evaluations[index]


@pytest.mark.parametrize("index", [(), (0, 0)])
def test_a_lane_needs_one_index_for_each_axis(index):
    run = festina.gradient_descent(SEEDS, TASK, 0.02, 3)
    with pytest.raises(ValueError, match="one index for each of the axes"):
        run.lane(*index)


def test_a_lane_that_is_not_there(sweep, as_a_user):
    run = festina.gradient_descent(SEEDS, TASK, 0.02, 3)
    for index in (9, 3, -4):
        with pytest.raises(ValueError, match=f"Index {index} of `lane` is out of range for 3 netw"):
            run.lane(index)
    with pytest.raises(ValueError, match=r"`lane` takes whole numbers as indices, got 1\.5"):
        run.lane(1.5)  # pyright: ignore[reportArgumentType]
    with pytest.raises(ValueError, match=r"Index 5 .* out of range for 3 networks along axis 1"):
        sweep.lane(1, 5)
    np.testing.assert_array_equal(run.lane(-1).loss, run.lane(2).loss)


def test_in_a_line_no_lane_hides_another():
    """The text counts every ending and gives the range of final losses of all networks."""
    run = festina.gradient_descent(SEEDS, TASK, np.array([0.02, 0.02, 5.0]))
    assert run.endings[2].reason == "diverged"
    assert "2 of 3 converged, 1 diverged)" in repr(run)
    final = run.loss[:, -1]
    assert f" to {final.min():.4g}…{final.max():.4g}, " in repr(run)
    both = festina.gradient_descent(SEEDS, TASK, 0.02, 3)
    assert repr(both).endswith(f"all {both.endings[0].reason})")
    lane = run.lane(0)
    end = f"loss from {lane.loss[0]:.4g} to {lane.loss[-1]:.4g}, converged)"
    assert repr(lane).endswith(end)


def test_a_lane_that_fails_before_the_first_time_has_no_sample():
    """The failed network has NaN values and a reason; the other networks are unaffected."""
    batch = fully_connected(2, 5, 2, scale=np.array([1e-1, 3.0, 1e-2]), key=festina.seeds(3))
    times = np.array([1.0, 2.0])
    run = festina.gradient_flow(batch, TASK, times, max_steps=50)
    assert run.saves[0] > run.saves[1] == 0
    whole = festina.gradient_flow(batch, TASK, times)
    np.testing.assert_array_equal(run.loss[0, 0], whole.loss[0, 0])
    np.testing.assert_array_equal(run.network.u[0, 0], whole.network.u[0, 0])
    for array in (run.loss, run.squared_gradient, run.network.u, run.final.v):
        assert np.isfinite(array[0]).all()
        assert np.isnan(array[1]).all()
    others = run.loss[[0, 2], -1]
    assert f" to {others.min():.4g}…{others.max():.4g}, all out of steps)" in repr(run)

    none = run.lane(1)
    assert repr(none) == "Trajectory(gradient flow, no samples, out of steps)"
    assert none.to_dataset().sizes["time"] == 0
    with pytest.raises(
        ValueError, match=r"last sample, .* has a sample: Training stopped after 50 steps"
    ):
        _ = none.final


@pytest.mark.parametrize("rate", [4.0, 30.0])
def test_divergence_is_an_ending_and_no_warning(rate):
    network = fully_connected(2, 5, 2, activation="tanh", scale=0.3, key=jax.random.key(0))
    x = np.random.default_rng(0).normal(size=(12, 2))
    run = festina.gradient_descent(network, festina.tasks.from_arrays(x, x), rate)
    assert run.endings[0].reason == "diverged"
    assert run.loss[-1] > 1e300


def test_a_run_does_not_see_what_becomes_of_your_arrays_later():
    """Arrays are copied, because the weights of many linear units are computed only when read."""
    u, v = np.random.default_rng(0).normal(size=(2, 3, 1500, 2)) / 40
    rates = np.array([0.01, 0.02, 0.03])
    flow = festina.gradient_flow(layer_from(NeuronUnit("linear"), u, v), TASK, np.array([0.1, 0.2]))
    descent = festina.gradient_descent(SEEDS, TASK, rates, 3)
    before = flow.final.u
    u *= 3
    rates *= 3
    np.testing.assert_array_equal(flow.final.u, before)
    np.testing.assert_array_equal(descent.learning_rate, [0.01, 0.02, 0.03])


def test_a_single_trajectory_is_its_own_lane():
    network = fully_connected(2, 5, 2, scale=0.1, key=jax.random.key(0))
    run = festina.gradient_descent(network, TASK, 0.02, 30)
    np.testing.assert_array_equal(run.lane().loss, run.loss)
    assert run.batch_shape == ()
    assert run.to_dataset()["loss"].dims == ("save",)


# Datasets


@pytest.fixture(scope="module")
def sweep():
    network = fully_connected(2, 5, 2, scale=np.array([[1e-1], [1e-3]]), key=festina.seeds(3))
    return festina.gradient_descent(network, TASK, 0.02)


def test_a_dataset_names_its_axes(sweep):
    data = sweep.to_dataset(("scale", "seed"))
    batch = ("scale", "seed")
    assert data["loss"].dims == (*batch, "save")
    assert data["squared_gradient"].dims == (*batch, "save")
    assert data["time"].dims == (*batch, "save")
    assert data["u"].dims == (*batch, "save", "unit", "input")
    assert data["v"].dims == (*batch, "save", "unit", "output")
    assert data["saves"].dims == batch
    assert data["ending"].dims == batch
    assert set(np.ravel(data["ending"].values)) == {"converged"}
    assert data.attrs["loss_convention"] == "half"
    assert data.attrs["clock"] == "steps"
    assert data.attrs["learning_rate"] == 0.02
    np.testing.assert_array_equal(data["loss"].values, sweep.loss)
    # Labels are read by name.
    one = data.sel(scale=1e-3, seed=2)
    np.testing.assert_array_equal(one["loss"].values, sweep.loss[1, 2])


def test_requested_times_are_a_shared_axis():
    times = np.array([0.0, 1.0, 4.0])
    data = festina.gradient_flow(SEEDS, TASK, times).to_dataset()
    assert data["loss"].dims == ("seed", "time")
    np.testing.assert_array_equal(data["time"].values, times)
    assert data.attrs["clock"] == "flow time"
    assert data.sel(time=4.0)["loss"].shape == (3,)


def test_kernels_and_heads_have_axes_of_their_own():
    kernels = convolutional_1d(4, 3, kernel=2, stride=2, scale=0.1, key=jax.random.key(0))
    data = festina.gradient_descent(kernels, figure_1c_teacher(), 0.02, 3).to_dataset()
    assert data["u"].dims == ("save", "unit", "tap")
    assert data["v"].dims == ("save", "unit", "output", "position")
    heads = attention(2, 3, scale=0.1, key=jax.random.key(0))
    data = festina.gradient_descent(heads, in_context_regression(), 0.02, 3).to_dataset()
    assert data["u"].dims == ("save", "unit", "key_query", "rank", "embedding")
    assert data["v"].dims == ("save", "unit", "output", "embedding_read")


def test_names_must_fit_the_axes(sweep):
    with pytest.raises(ValueError, match="`dims` must have one name for each"):
        sweep.to_dataset(("seed",))


def test_a_dataset_comes_back_from_disk_bit_for_bit(sweep, tmp_path):
    data = sweep.to_dataset(("scale", "seed"))
    festina.save(xr.DataTree.from_dict({"/simulation": data}), tmp_path / "run.zarr")
    again = festina.load(tmp_path / "run.zarr")["simulation"].to_dataset()
    xr.testing.assert_identical(again, data)


def test_the_rates_of_a_sweep_come_back_from_disk(tmp_path):
    rates = np.array([0.01, 0.02, 0.03])
    data = festina.gradient_descent(SEEDS, TASK, rates, 20).to_dataset()
    assert data.attrs["learning_rate"] == rates.tolist()
    festina.save(xr.DataTree.from_dict({"/simulation": data}), tmp_path / "run.zarr")
    again = festina.load(tmp_path / "run.zarr")["simulation"].to_dataset()
    assert again.attrs["learning_rate"] == rates.tolist()


def test_progress_is_told_in_words_and_reaches_one():
    told: list[tuple[str, float]] = []
    festina.gradient_descent(
        SEEDS, TASK, 0.02, progress=lambda words, done: told.append((words, done))
    )
    assert told[-1][1] == 1.0
    assert all(0 <= done <= 1 for _, done in told)
    assert (np.diff([done for _, done in told]) >= 0).all()
    assert any("loss" in words for words, _ in told)


def test_progress_knows_how_much_of_the_time_asked_for_is_over():
    told = []
    festina.gradient_descent(
        SEEDS, TASK, 0.001, 3000, progress=lambda words, done: told.append(done)
    )
    assert told == sorted(told)
    assert any(0.1 < done < 0.9 for done in told)
    assert told[-1] == 1.0


def test_the_slope_is_how_fast_the_loss_falls():
    """The slope equals differences of the loss over time h up to h², over steps η up to η²."""
    network = fully_connected(2, 3, 2, scale=0.3, key=jax.random.key(0))
    apart = []
    for samples in (51, 101):
        run = festina.gradient_flow(network, TASK, np.linspace(0.0, 1.0, samples), rtol=1e-11)
        apart.append(np.abs(np.gradient(run.loss, run.time) - run.slope)[samples // 2])
    assert 3.8 < apart[0] / apart[1] < 4.2
    rates = np.array([1e-3, 5e-4])
    both = fully_connected(2, 3, 2, scale=np.array([0.3, 0.3]), key=jax.random.key(0))
    run = festina.gradient_descent(both, TASK, rates, steps=1)
    coarse, fine = np.abs(run.loss[:, 1] - run.loss[:, 0] - run.slope[:, 0])
    assert 3.8 < coarse / fine < 4.2
