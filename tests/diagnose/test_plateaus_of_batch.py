"""Test plateaus and passages of a batch against single networks and against a logistic curve."""

import functools
from dataclasses import replace

import jax
import numpy as np
import pytest
import scipy.interpolate

from festina.diagnose import passage_time, plateaus, plateaus_of_batch
from festina.dynamics import gradient_descent, gradient_flow
from festina.networks import fully_connected, layer_from, seeds
from festina.networks._units import unit_of
from festina.tasks import from_arrays, quadratic_teacher


@functools.cache
def trained():
    """Train three seeds at each of two scales; the larger scale has fewer plateaus."""
    scale = np.array([5e-3, 0.2])[:, None]
    network = fully_connected(2, 10, activation="quadratic", scale=scale, key=seeds(3, first=2))
    return gradient_descent(network, quadratic_teacher(np.eye(2)), 0.04, loss="mean-square")


def test_each_network_has_the_plateaus_of_its_lane():
    run = trained()
    table = plateaus_of_batch(run)
    assert len(np.unique(table["count"])) > 1
    assert set(table.data_vars) == {
        "count", "level", "strength", "start", "end", "index", "drop_time"
    }  # fmt: skip
    for scale, seed in np.ndindex(run.batch_shape):
        lane = run.lane(scale, seed)
        alone = plateaus(lane.time, lane.loss, lane.squared_gradient, slope=lane.slope)
        row = table.isel(scale=scale, seed=seed)
        assert row["count"] == len(alone)
        for name in ("level", "strength", "start", "end", "index"):
            np.testing.assert_array_equal(row[name][: len(alone)], getattr(alone, name))
        np.testing.assert_array_equal(row["drop_time"][: len(alone) - 1], alone.drop_time)
        beyond = row.isel(plateau=slice(len(alone), None), fall=slice(len(alone) - 1, None))
        assert (beyond["index"] == -1).all()
        for name in ("level", "strength", "start", "end", "drop_time"):
            assert beyond[name].isnull().all()


def test_a_trajectory_has_all_that_plateaus_need():
    run = trained()
    lane = run.lane(0, 1)
    assert str(plateaus(lane)) == str(
        plateaus(lane.time, lane.loss, lane.squared_gradient, slope=lane.slope)
    )
    assert len(plateaus(lane, merge=0.9)) < len(plateaus(lane))
    with pytest.raises(ValueError, match=r"one network, got \(2, 3\) of them.*\(run\)` for all"):
        plateaus(run)
    with pytest.raises(ValueError, match="a trajectory has its own"):
        plateaus(lane, lane.loss)


def test_merging_drops_leaves_fewer_plateaus():
    assert (
        plateaus_of_batch(trained(), merge=0.9)["count"] <= plateaus_of_batch(trained())["count"]
    ).all()
    assert (
        plateaus_of_batch(trained(), merge=0.9)["count"].sum()
        < plateaus_of_batch(trained())["count"].sum()
    )


def test_axes_are_those_of_the_trajectory():
    run = trained()
    table, record = plateaus_of_batch(run, [4.0, 1.0, 0.0]), run.to_dataset()
    for name in ("scale", "seed"):
        np.testing.assert_array_equal(table[name], record[name])
    assert table["level"].dims == ("scale", "seed", "plateau")
    assert table["drop_time"].dims == ("scale", "seed", "fall")
    assert table["passage"].dims == table["save"].dims == ("scale", "seed", "middle")
    assert "drop" not in table.dims
    assert table["index"].dtype.kind == table["save"].dtype.kind == "i"


def scalar(start: np.ndarray):
    """Return the networks x ↦ v u x with u = v and v u = `start`, one for each entry."""
    root = np.sqrt(start)[:, None, None]
    return layer_from(unit_of("linear"), root, root)


def test_passages_follow_the_logistic():
    s, start = 2.0, np.array([1e-2, 1e-4, 1e-6])
    run = gradient_flow(scalar(start), from_arrays([[1.0]], [[s]]), rtol=1e-10)
    table = plateaus_of_batch(run, [s**2 / 2, 0.0])
    # Product vu at which the loss (s − vu)²/2 is half of its value for zero weights
    half = s * (1 - np.sqrt(0.5))
    exact = np.log(half * (s - start) / (start * (s - half))) / (2 * s)
    np.testing.assert_allclose(table["passage"][:, 0], exact, rtol=1e-6)
    # The initial loss is a little lower than for zero weights, so the drop is a little later.
    np.testing.assert_allclose(table["drop_time"][1:, 0], exact[1:], rtol=1e-4)
    for lane, save in enumerate(table["save"][:, 0].values):
        assert run.loss[lane, save] <= s**2 / 4 < run.loss[lane, save - 1]


def test_what_is_never_passed_has_no_time():
    run = gradient_flow(scalar(np.array([1e-2, 1.0])), from_arrays([[1.0]], [[2.0]]))
    # The second network starts at a loss of one half.
    table = plateaus_of_batch(run, [2.0, 0.0, -1.0])
    np.testing.assert_array_equal(table["passage"].isnull(), [[False, True], [True, True]])
    np.testing.assert_array_equal(table["save"] == -1, table["passage"].isnull())


def test_one_network_has_no_axis_of_a_batch():
    lane = trained().lane(0, 1)
    table = plateaus_of_batch(lane, [4.0, 1.0])
    assert table["count"].dims == ()
    assert table.identical(
        plateaus_of_batch(trained(), [4.0, 1.0])
        .isel(scale=0, seed=1)
        .isel(plateau=slice(int(table["count"])), fall=slice(int(table["count"]) - 1))
    )


def test_a_network_that_failed_at_once_has_none():
    run = trained()
    saves, loss = run.saves.copy(), run.loss.copy()
    saves[1, 2], loss[1, 2] = 0, np.nan
    table = plateaus_of_batch(replace(run, saves=saves, loss=loss), [4.0, 1.0])
    assert table["count"][1, 2] == 0
    assert table["level"][1, 2].isnull().all()
    assert table["passage"][1, 2].isnull().all()
    assert (table["save"][1, 2] == -1).all()
    others = plateaus_of_batch(run, [4.0, 1.0])
    assert table.isel(scale=0).identical(others.isel(scale=0))


def test_mini_batches_are_judged_by_the_loss():
    x = np.random.default_rng(0).standard_normal((64, 2))
    network = fully_connected(2, 4, activation="linear", scale=1e-2, key=seeds(2))
    data = from_arrays(x, x @ [[3.0], [1.0]] + 0.1 * np.sin(50 * x[:, :1]))
    run = gradient_descent(network, data, 0.02, 400, batch_size=8, key=jax.random.key(0))
    table = plateaus_of_batch(run)
    for seed in range(2):
        alone = plateaus(run.lane(seed).time, run.lane(seed).loss)
        assert str(plateaus(run.lane(seed))) == str(alone)
        assert table["count"][seed] == len(alone)
        np.testing.assert_array_equal(table["level"][seed][: len(alone)], alone.level)


@pytest.mark.parametrize(
    "levels", [np.ones(()), [1.0], [0.0, 1.0], [1.0, 1.0], [1.0, np.nan], [[1.0, 0]]]
)
def test_levels_fall(levels):
    with pytest.raises(ValueError, match="expected at least two losses, one below the other"):
        plateaus_of_batch(trained(), levels)


def test_what_is_no_trajectory_is_said(as_a_user):
    with pytest.raises(
        ValueError, match=r"`trajectory` must be a trajectory .* got ndarray\. For a loss"
    ):
        plateaus_of_batch(trained().loss)  # pyright: ignore[reportArgumentType]


def test_passages_of_a_batch_are_those_of_each_curve_at_each_level():
    rng = np.random.default_rng(0)
    time = np.cumsum(rng.random((4, 2, 30)), axis=-1)
    loss, slope = (
        3.0 - np.cumsum(rng.normal(0.2, 0.3, time.shape), axis=-1),
        -rng.random(time.shape),
    )
    levels = np.array([1.0, -1.0, -9.0])
    seen = passage_time(time[..., None, :], loss[..., None, :], levels, slope=slope[..., None, :])
    assert np.isnan(seen).any()
    assert not np.isnan(seen).all()
    for at in np.ndindex(4, 2):
        alone = [passage_time(time[at], loss[at], level, slope=slope[at]) for level in levels]
        np.testing.assert_array_equal(seen[at], alone)
    shared = passage_time(time[0, 0], loss, 1.0)
    assert shared.shape == (4, 2)
    assert shared[0, 0] == passage_time(time[0, 0], loss[0, 0], 1.0)


@pytest.mark.parametrize("container", [list, tuple, np.array])
def test_levels_come_in_what_numpy_makes_an_array_of(container):
    time = np.linspace(0.0, 1.0, 11)
    seen = passage_time(container(time), (1 - time)[None], container([0.5, 0.25]))
    np.testing.assert_allclose(seen, [0.5, 0.75], atol=1e-12)


def test_a_passage_is_where_the_cubic_through_values_and_slopes_is():
    """Compare times with SciPy's Hermite cubic between distant samples, also for slopes of zero."""
    time, loss, slope = [0.0, 2.0], [1.0, 0.0], np.array([[-0.1, -1.2], [0.0, 0.0], [-1.5, -1.5]])
    levels = np.linspace(0.02, 0.98, 25)
    for each in slope:
        curve = scipy.interpolate.CubicHermiteSpline(time, loss, each)
        seen = passage_time(time, loss, levels, slope=each)
        np.testing.assert_allclose(curve(seen), levels, atol=1e-13)


@pytest.mark.parametrize(
    ("level", "words"), [([1.0, 2.0], "`level` must be one number, or of a shape"), ("no", "level")]
)
def test_levels_that_do_not_fit_are_refused(level, words):
    with pytest.raises(ValueError, match=words):
        passage_time(np.arange(5), np.ones((3, 5)), level)
