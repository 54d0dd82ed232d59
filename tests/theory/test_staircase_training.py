"""Test predicted staircases against training at small and moderate initial scales."""

import warnings

import numpy as np
import pytest

import festina
from festina.diagnose import plateaus
from festina.networks import attention, deep_linear, diagonal_linear, fully_connected, seeds
from festina.tasks import in_context_regression, linear_teacher
from festina.theory.saddles import Staircase, staircase

SIGMA = [[2.0, 0.6], [0.6, 1.0]]
TASK = linear_teacher([[1.0, 0.3], [0.0, 0.2]], SIGMA)


def quiet(network, task) -> Staircase:
    with warnings.catch_warnings():
        warnings.simplefilter("ignore")
        return staircase(network, task)


def random_case(index, first):
    """Return a network of 10 to 50 units at a random scale, and a linear task of 2 to 5 modes."""
    rng = np.random.default_rng([first, index])
    modes, width = 2 + index % 4, (10, 25, 50)[index // 4 % 3]
    teacher = rng.normal(size=(modes, modes))
    if index % 2:  # no mode is weak
        left, right = (np.linalg.qr(rng.normal(size=(modes, modes)))[0] for _ in range(2))
        teacher = left * np.sort(rng.uniform(0.3, 2.0, modes)) @ right
    root = rng.normal(size=(modes, modes))
    covariance = root @ root.T / modes + 0.3 * np.eye(modes) if index % 3 else np.eye(modes)
    scale, key = 10 ** rng.uniform(-6, -1), seeds(1, first=int(rng.integers(2**31)))[0]
    network = fully_connected(modes, width, modes, scale=scale, key=key)
    return network, linear_teacher(teacher, covariance)


def compared(cases):
    """Return rows: whether a case is doubted, whether counts agree, errors, the prediction."""
    rows = []
    for network, task in cases:
        run = festina.gradient_flow(network, task, max_steps=1_000_000)
        predicted, seen = quiet(network, task), plateaus(run)
        same = len(predicted.times) == len(seen.drop_time)
        error = np.abs(predicted.times - seen.drop_time) if same else np.array([np.inf])
        rows.append((bool(predicted.doubts()), same, error, predicted))
    return rows


def check(rows):
    """Check that every drop is predicted or doubted, and that errors are below the uncertainty."""
    relative = []
    for doubted, same, error, predicted in rows:
        assert same or doubted
        if same:
            assert (error <= predicted.uncertainty + 1e-4 * predicted.times).all()
            relative.append((doubted, (error / predicted.times).max()))
    trusted = [error for doubted, error in relative if not doubted]
    print(
        f"\n{len(rows)} staircases, {sum(row[0] for row in rows)} doubted, "
        f"{sum(not row[1] for row in rows)} with another number of drops; error of times: "
        f"median {np.median([error for _, error in relative]):.2g}, worst without a doubt "
        f"{max(trusted):.2g}"
    )
    assert max(trusted) < 0.05
    assert len(trusted) > 0.5 * len(rows)


@pytest.mark.slow
def test_200_random_tasks_drop_as_predicted_or_as_doubted():
    check(compared(random_case(index, 81) for index in range(200)))


@pytest.mark.slow
@pytest.mark.parametrize("depth", [3, 4])
def test_deep_networks_drop_as_predicted_or_as_doubted(depth):
    rows = []
    for index in range(12):
        rng = np.random.default_rng([depth, index])
        root = rng.normal(size=(3, 3))
        task = linear_teacher(rng.normal(size=(3, 3)), root @ root.T / 3 + 0.3 * np.eye(3))
        scale, key = 10 ** rng.uniform(-2, -0.7), seeds(1, first=index)[0]
        rows.append((deep_linear((3, *(6,) * (depth - 1), 3), scale=scale, key=key), task))
    check(compared(rows))


@pytest.mark.slow
def test_diagonal_networks_drop_as_predicted_or_as_doubted():
    rows = []
    for index in range(30):
        rng = np.random.default_rng([7, index])
        root = rng.normal(size=(4, 4))
        task = linear_teacher(rng.normal(size=(1, 4)), root @ root.T / 4 + 0.2 * np.eye(4))
        key = seeds(1, first=index)[0]
        rows.append((diagonal_linear(4, scale=10 ** rng.uniform(-6, -1), key=key), task))
    check(compared(rows))


@pytest.mark.slow
@pytest.mark.parametrize("context", [8, 32])
def test_later_jumps_of_units_are_within_their_uncertainty(context):
    """The second head starts from weights that moved while the first head was learned."""
    task = in_context_regression(2, context)
    network = attention(2, 4, scale=0.005, key=seeds(8))
    run = festina.gradient_flow(network, task)
    for lane, predicted in enumerate(quiet(network, task).lanes()):
        seen = plateaus(run.lane(lane)).drop_time
        if len(seen) == len(predicted.times):
            assert (np.abs(seen - predicted.times) <= predicted.uncertainty + 1e-3 * seen).all()


@pytest.fixture(scope="module")
def scales():
    """Return one seed at five scales, with its training and its predictions."""
    scale = np.array([1e-4, 2e-3, 5e-3, 1e-2, 5e-2])
    network = fully_connected(2, 20, 2, scale=scale, key=seeds(1)[0])
    return network, festina.gradient_flow(network, TASK), quiet(network, TASK)


def test_plateaus_of_moderate_scales_are_kept(scales):
    """The second plateau has 3.3, 1.7, 1.1 and 0.6 decades; at the largest scale it is absent."""
    _, run, predicted = scales
    assert predicted.count.tolist() == [3, 3, 3, 3, 2]
    for k in range(5):
        seen, found = plateaus(run.lane(k)), predicted.lane(k)
        error = np.abs(found.times - seen.drop_time)
        assert (error < found.uncertainty + 1e-5 * found.times).all()
        assert (error < 0.01 * found.times).all()


def test_uncertainty_falls_with_the_scale(scales):
    second = scales[2].uncertainty[:4, 1]
    assert (np.diff(second) > 0).all()
    assert second[0] < 0.02 * second[3]


def test_a_batch_has_the_staircases_of_its_networks(scales):
    network, _, predicted = scales
    assert predicted.batch_shape == (5,)
    assert np.isnan(predicted.times[4, 1])
    assert np.isnan(predicted.levels[4, 2])
    for k in (1, 4):
        alone, lane = quiet(network.lane(k), TASK), predicted.lane(k)
        assert alone.active == lane.active == predicted.active[k]
        for name in ("levels", "times", "uncertainty", "joined", "initial", "fewest", "most"):
            np.testing.assert_array_equal(getattr(alone, name), getattr(lane, name))
    times = np.linspace(0.0, 40.0, 7)
    np.testing.assert_array_equal(predicted.loss(times)[1], predicted.lane(1).loss(times))
    assert len(predicted.draw().patches) == 5
    assert str(predicted) == "5 staircases of 2 to 3 levels of the loss 'half'"
    with pytest.raises(ValueError, match="one index for each of the axes"):
        predicted.lane()


def test_two_axes_of_a_batch_are_kept():
    scale = np.array([1e-3, 1e-5])[:, None]
    network = fully_connected(2, 4, 2, scale=scale, key=seeds(2))
    found = staircase(network, TASK, loss="mean-square")
    assert found.times.shape == (2, 2, 2)
    assert found.active[1][1] == ((), (0,), (0, 1))
    alone = staircase(network.lane(0, 1), TASK, loss="mean-square")
    np.testing.assert_array_equal(found.lane(0, 1).times, alone.times)


def test_doubts_are_warned_of_and_printed():
    """The doubts are a mode that is worth little, and a plateau whose saddle is far away."""
    network = fully_connected(2, 20, 2, scale=1e-5, key=seeds(1)[0])
    task = linear_teacher(np.diag([1.0, 0.02]))
    with pytest.warns(UserWarning, match="lowers the loss by 0.0004 of the initial loss"):
        found = staircase(network, task)
    assert found.doubts()[0] in str(found)
    batch = fully_connected(2, 20, 2, scale=np.array([1e-5, 0.2]), key=seeds(1)[0])
    with pytest.warns(UserWarning, match=r"2 of 2 staircases .* Network 0: The drop at"):
        found = staircase(batch, task)
    assert any(doubt.startswith("Network 1: ") for doubt in found.doubts())


def test_an_empty_batch_is_refused():
    network = fully_connected(2, 4, 2, scale=1e-3, key=seeds(2))
    empty = network.with_parts(*(part[:0] for part in network.parts))
    with pytest.raises(ValueError, match=r"empty batch \(0,\)"):
        staircase(empty, TASK)
