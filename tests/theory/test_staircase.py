"""Test predicted staircases against training, direct integration and known limits."""

import warnings
from itertools import pairwise

import numpy as np
import pytest
import scipy.integrate
from hypothesis import assume, given, settings
from hypothesis import strategies as st

import festina
from festina._objective import LossConvention
from festina.diagnose import passage_time, plateaus
from festina.networks import (
    DeepLinear,
    NeuronUnit,
    attention,
    diagonal_linear,
    diagonal_linear_from,
    fully_connected,
    layer_from,
    seeds,
)
from festina.tasks import from_moments, in_context_regression, linear_teacher, quadratic_teacher
from festina.theory.saddles import (
    first_unit_to_escape,
    mode_drop_times,
    staircase,
)
from festina.theory.saddles._linear_jump import jump
from festina.theory.saddles._linear_saddles import linear_modes
from festina.theory.saddles._stairs import warn_unless_ended

WEIGHTS = np.array([[1.0, 0.5], [-0.5, 0.25]])  # a teacher whose modes mix those of the inputs
COVARIANCE = np.array([[1.0, 1.0], [1.0, 4.0]])
# Ignore warnings that are correct but not tested here.
DOUBTED = pytest.mark.filterwarnings("ignore:.*times are uncertain", "ignore:The drop at")


def rotation(size, rng):
    return np.linalg.qr(rng.normal(size=(size, size)))[0]


def passages(network, task, predicted, loss: LossConvention = "half", **how):
    """Return times at which training passes the middles between the predicted levels."""
    run = festina.gradient_flow(network, task, loss=loss, **how)
    middles = 0.5 * (predicted.levels[:-1] + predicted.levels[1:])
    slope = -run.squared_gradient
    return np.array([passage_time(run.time, run.loss, level, slope=slope) for level in middles])


def commuting(s, lam, rng):
    q, r = rotation(len(s), rng), rotation(len(s), rng)
    return (q * s) @ r.T, (r * lam) @ r.T


# ---- linear networks


@settings(max_examples=3, deadline=None)
@given(seed=st.integers(0, 2**32 - 1), units=st.integers(3, 12))
def test_shared_directions_give_the_closed_form_of_drop_times(seed, units):
    rng = np.random.default_rng(seed)
    s, lam = np.array([2.0, 1.0, 0.4]), np.array([1.0, 0.7, 0.5])
    correlation, covariance = commuting(s, lam, rng)
    u, v = 1e-8 * rng.normal(size=(2, units, 3))
    found = staircase(layer_from("linear", u, v), from_moments(correlation, covariance))
    np.testing.assert_allclose(
        found.times,
        mode_drop_times(layer_from("linear", u, v), from_moments(correlation, covariance)),
        1e-3,
    )
    share = s**2 / lam / 2
    np.testing.assert_allclose(found.levels, share.sum() - np.cumsum([0, *share]), atol=1e-12)


@pytest.mark.slow
@pytest.mark.parametrize("scale", [1e-3, 1e-8])
def test_modes_that_mix_are_predicted_as_they_train(scale):
    task = linear_teacher(WEIGHTS, COVARIANCE)
    network = fully_connected(2, 6, 2, scale=scale, key=seeds(1, first=7)[0])
    found = staircase(network, task, loss="mean-square")
    np.testing.assert_allclose(found.levels, [3.25, 0.25, 0.0], atol=1e-9)
    assert found.active == ((), (0,), (0, 1))
    seen = passages(network, task, found, "mean-square")
    assert np.all(np.abs(found.times - seen) < found.uncertainty)
    assert np.all(found.uncertainty < 1e-3 * found.times)


def test_width_changes_nothing_but_the_initial_weights():
    rng = np.random.default_rng(3)
    u, v = 1e-6 * rng.normal(size=(2, 40, 2))
    correlation = WEIGHTS @ COVARIANCE
    wide = staircase(layer_from("linear", u, v), from_moments(correlation, COVARIANCE))
    turned = rotation(40, rng)
    other = staircase(
        layer_from("linear", turned @ u, turned @ v), from_moments(correlation, COVARIANCE)
    )
    np.testing.assert_allclose(wide.times, other.times, rtol=1e-6)


def test_equal_singular_values_are_learned_together():
    rng = np.random.default_rng(0)
    u, v = 1e-8 * rng.normal(size=(2, 8, 3))
    found = staircase(layer_from("linear", u, v), from_moments(np.diag([1.0, 1.0, 0.2]), np.eye(3)))
    assert found.active == ((), (0, 1), (0, 1, 2))
    assert found.joined[0] == found.joined[1] < found.joined[2]


@pytest.mark.parametrize(
    ("strengths", "scale"),
    [((1.0, 0.7, 0.02), 1e-6), ((1.0, 0.7, 0.02), 1e-16), ((1.0, 0.5, 0.1), 1e-30)],
)
def test_a_mode_joins_when_it_is_learned_however_little_it_is_worth(strengths, scale):
    """A mode worth 0.03 % of the loss joins, even for weights smaller than rounding errors."""
    network, sigma = fully_connected(3, 6, 3, scale=scale, key=seeds(1)[0]), np.diag(strengths)
    with warnings.catch_warnings():  # about a drop that `plateaus` does not report
        warnings.simplefilter("ignore")
        predicted = staircase(
            layer_from("linear", network.u, network.v), from_moments(sigma, np.eye(3))
        )
    closed = mode_drop_times(
        layer_from("linear", network.u, network.v), from_moments(sigma, np.eye(3))
    )
    np.testing.assert_allclose(predicted.joined, closed, rtol=1e-3)


@pytest.mark.slow
@DOUBTED
def test_modes_that_are_ever_slower_end_as_not_followed_and_never_as_learned():
    network = fully_connected(3, 6, 3, scale=1e-6, key=seeds(2)[1])
    weights = network.u, network.v
    for third in (5e-3, 2e-3, 1.5e-3, 5e-5, 1e-6):
        sigma = np.diag([1.0, 0.5, third])
        found = staircase(layer_from("linear", *weights), from_moments(sigma, np.eye(3)))
        closed = mode_drop_times(layer_from("linear", *weights), from_moments(sigma, np.eye(3)))[
            : len(found.times)
        ]
        assert np.all(np.abs(found.times - closed) < found.uncertainty)
        assert np.isfinite(found.joined).sum() == len(found.times)


def test_a_jump_that_does_not_end_is_warned_of():
    class Solution:
        status, t, message = 0, np.array([0.0, 7.0]), ""

    with pytest.warns(UserWarning, match="had not come to rest 7 after the start"):
        warn_unless_ended(Solution())
    Solution.status, Solution.message = -1, "Step size is too small"
    with pytest.warns(UserWarning, match="Step size is too small"):
        warn_unless_ended(Solution())


def test_a_mode_without_weights_is_never_learned():
    rng = np.random.default_rng(0)
    u, v = 1e-6 * rng.normal(size=(2, 5, 3))
    u[:, 1] = v[:, 1] = 0.0
    s = np.array([1.0, 0.6, 0.3])
    task = from_moments(np.diag(s), target_power=np.sum(s**2) + 2 * 0.1)
    found = staircase(layer_from("linear", u, v), task)
    np.testing.assert_array_equal(np.isinf(found.joined), [False, True, False])
    assert found.levels[-1] == pytest.approx(0.1 + 0.5 * 0.36)


def test_fewer_units_than_modes_learn_as_many_modes_as_units():
    rng = np.random.default_rng(1)
    u, v = 1e-6 * rng.normal(size=(2, 2, 3))
    found = staircase(layer_from("linear", u, v), from_moments(np.diag([1.0, 0.6, 0.3]), np.eye(3)))
    assert found.active[-1] == (0, 1)
    assert found.levels[-1] == pytest.approx(0.5 * 0.09)


@pytest.mark.parametrize("over_units", [(1.0, 2.0, -0.5), (1.0, 1.0), (1.0,) * 4])
@pytest.mark.parametrize("scale", [1e-3, 1e-6, 1e-9])
def test_units_that_depend_on_each_other_learn_as_one(over_units, scale):
    """Units with proportional weights learn one mode (Theorem 3); rounding does not add another."""
    rng = np.random.default_rng(len(over_units))
    u, v = (scale * np.outer(over_units, rng.normal(size=n)) for n in (3, 2))
    correlation = np.array([[2.0, 0.0, 0.0], [0.0, 1.0, 0.0]])
    found = staircase(layer_from("linear", u, v), from_moments(correlation, np.eye(3)))
    assert found.active == ((), (0,))
    assert found.levels[-1] == pytest.approx(0.5)
    assert np.isinf(
        mode_drop_times(layer_from("linear", u, v), from_moments(correlation, np.eye(3)))[1]
    )


def test_two_directions_over_units_learn_two_modes():
    rng = np.random.default_rng(4)
    over_units, left, right = rng.normal(size=(6, 2)), rotation(3, rng), rotation(3, rng)
    u, v = (1e-6 * over_units @ rng.normal(size=(2, 3)) for _ in range(2))
    correlation = (left * [2.0, 1.0, 0.5]) @ right.T
    found = staircase(layer_from("linear", u, v), from_moments(correlation, np.eye(3)))
    assert found.active == ((), (0,), (0, 1))
    np.testing.assert_allclose(
        found.times,
        mode_drop_times(layer_from("linear", u, v), from_moments(correlation, np.eye(3)))[:2],
        rtol=1e-3,
    )


@pytest.mark.slow
@DOUBTED
@pytest.mark.parametrize("scale", [1e-3, 1e-1])
def test_units_that_wake_when_all_is_learned_end_the_staircase(scale):
    """Dormant units that grow after all modes have been learned add no step."""
    rng = np.random.default_rng(3)
    s, lam = np.array([1.0, 0.35, 0.2, *[0.0] * 7]), np.arange(1.0, 11.0) ** -0.5
    correlation, covariance = commuting(s, lam, rng)
    for _ in range(2):
        u, v = scale * rng.normal(size=(2, 10, 10))
        found = staircase(layer_from("linear", u, v), from_moments(correlation, covariance))
        assert found.active[-1] == (0, 1, 2)
        assert np.all(np.diff(found.times) > 0)


def test_inputs_that_do_not_vary_are_left_out():
    rng = np.random.default_rng(1)
    u, v = 1e-6 * rng.normal(size=(2, 4, 3))
    flat = np.diag([1.0, 0.5, 0.0])
    found = staircase(layer_from("linear", u, v), from_moments(np.diag([1.0, 0.4, 0.0]), flat))
    inner = staircase(
        layer_from("linear", u[:, :2], v),
        from_moments(np.diag([1.0, 0.4, 0.0])[:, :2], flat[:2, :2]),
    )
    np.testing.assert_allclose(found.times, inner.times, rtol=1e-6)


@pytest.mark.slow
@settings(max_examples=5, deadline=None)
@given(seed=st.integers(0, 2**32 - 1), inputs=st.integers(2, 4), part=st.floats(0.0, 1.1))
def test_from_any_moment_the_drops_to_come_are_those_of_training(seed, inputs, part):
    """The forecast starts on a plateau, in a drop or at the end, for modes that mix."""
    rng = np.random.default_rng(seed)
    root, strengths = rng.normal(size=(inputs, inputs)), np.diag([2.0, 0.7, 0.25, 0.0][:inputs])
    covariance = root @ root.T / inputs + 0.3 * np.eye(inputs)
    correlation = rotation(inputs, rng) @ strengths @ rotation(inputs, rng).T
    u, v = 1e-4 * rng.normal(size=(2, 6, inputs))
    whole = staircase(layer_from("linear", u, v), from_moments(correlation, covariance))
    rate, inverse = 4e-3, np.linalg.inv(covariance)
    start, losses, found, warned = round(part * whole.times[-1] / rate), [], whole, []
    for step in range(round(1.2 * whole.times[-1] / rate)):
        if step == start:
            with warnings.catch_warnings(record=True, action="always") as warned:
                found = staircase(layer_from("linear", u, v), from_moments(correlation, covariance))
        drive = correlation - v.T @ u @ covariance
        losses.append(0.5 * np.sum((drive @ inverse) * drive))
        u, v = u + rate * v @ drive, v + rate * u @ drive.T
    passage = lambda staircase: [
        rate * np.argmax(np.array(losses) <= middle)
        for middle in 0.5 * (staircase.levels[:-1] + staircase.levels[1:])
    ]
    whole_seen, seen = passage(whole), passage(found)
    # During a drop, a warning says that times may be wrong.
    assume(not warned)
    # During a drop, it is a matter of definition whether the drop has passed.
    assume(np.abs(np.array(whole_seen) - rate * start).min() > 0.02 * whole.times[-1])
    # Near the next drop weights are far from those of a saddle; `uncertainty` says how far.
    off = np.abs(rate * start + found.times - seen)
    assert (off < found.uncertainty + 3e-3 * whole.times[-1]).all()
    assert len(seen) == np.sum(np.array(whole_seen) > rate * start)
    np.testing.assert_allclose(found.levels, whole.levels[len(whole_seen) - len(seen) :], atol=1e-9)
    np.testing.assert_array_equal(found.joined[list(found.active[0])], 0.0)


NOTHING = ([[0.0, 0.0]], [[0.0], [1.0], [0.5]])
# Solved by one column, beside a unit that is not needed
SOLVED = ([[1.0, 0.0]], [[1.0, 0.0], [1.0, 0.0], [0.0, 0.5]])


@pytest.mark.parametrize(("correlation", "columns"), [NOTHING, SOLVED], ids=["nothing", "solved"])
def test_without_a_drive_a_jump_ends_where_it_starts(correlation, columns):
    modes = linear_modes(from_moments(correlation).statistics(NeuronUnit()), 1e-9)
    way, active, _ = jump(modes, np.array(columns), np.zeros((3, 0)), 2.0, 1e-2)
    assert way.settled
    assert way.start == way.end == 2.0
    assert way.excess[-1] == 0.0
    np.testing.assert_array_equal(active, columns)


def test_a_column_too_many_undoes_what_it_adds():
    """Only its own error drives the extra column, because the others have learned everything."""
    columns = np.array([[1.0, 0.3], [1.0, 0.0], [0.0, 0.5]])
    modes = linear_modes(from_moments([[1.0, 0.0]]).statistics(NeuronUnit()), 1e-9)
    way, *_ = jump(modes, columns, np.zeros((3, 0)), 0.0, 1e-2)
    assert way.settled
    assert way.excess[-1] < 1e-6 * way.excess[0]


# ---- diagonal networks

FEATURES = np.array([[1.0, 0.2, 0.8, 0], [0.2, 1, 0.75, 0], [0.8, 0.75, 1.2, 0], [0, 0, 0, 0.3]])
TARGET = np.array([1.0, 0.9, 0.0, 0.6])


def mirror_flow(u, v, b, c, end):
    """Return β(t) by mirror flow, whose variable is of the order of a logarithm."""
    p, m = 0.5 * (u + v), 0.5 * (u - v)
    beta = lambda s: p**2 * np.exp(2 * s) - m**2 * np.exp(-2 * s)
    run = scipy.integrate.solve_ivp(
        lambda _, s: b - c @ beta(s), (0, end), np.zeros(len(b)), "LSODA", rtol=1e-10, atol=1e-10,
        dense_output=True,
    )  # fmt: skip
    return lambda t: beta(run.sol(t))


def test_a_coordinate_that_leaves_again():
    b = FEATURES @ TARGET
    errors = []
    for scale in (1e-4, 1e-8, 1e-12):
        network = diagonal_linear(4, scale=scale, key=seeds(1)[0])
        u, v = np.asarray(network.u), np.asarray(network.v)
        found = staircase(diagonal_linear_from(u, v), from_moments(b[None], FEATURES))
        assert found.active[1] == (2,)
        assert found.active[-2:] == ((0, 1), (0, 1, 3))
        assert found.levels[-1] < 1e-12
        exact = mirror_flow(u, v, b, FEATURES, 1.2 * found.times[-1])

        def above(t, level, exact=exact):
            apart = exact(t) - TARGET
            return 0.5 * apart @ FEATURES @ apart - level

        middle = 0.5 * (found.levels[[0, -2]] + found.levels[[1, -1]])
        seen = [
            scipy.optimize.brentq(above, 0, 1.2 * found.times[-1], args=(level,))
            for level in middle
        ]
        errors.append(np.abs(found.times[[0, -1]] / seen - 1).max())
    assert errors[1] < 0.01
    assert errors[2] < errors[1] < errors[0]


def test_independent_features_follow_logistic_curves():
    b, c = np.array([1.0, -0.5]), np.diag([1.0, 0.8])
    half, size, errors = 1 - 1 / np.sqrt(2), np.abs(b) / np.diag(c), []
    for scale in (1e-3, 1e-5, 1e-7):
        u, v = scale * np.array([[1.0, -0.7], [0.4, 1.3]])
        found = staircase(diagonal_linear_from(u, v), from_moments(b[None], c))
        seed = np.array([0.5 * (u + v)[0], 0.5 * (u - v)[1]]) ** 2
        expected = np.log(half / (1 - half) * size / seed) / (2 * np.abs(b))
        errors.append(np.abs(found.times - expected))
        assert (errors[-1] < found.uncertainty + 1e-6).all()
        np.testing.assert_allclose(found.levels, [0.5 + 0.15625, 0.15625, 0.0], atol=1e-12)
    assert (errors[1] < 0.1 * errors[0]).all()
    assert (errors[2] < 0.1 * errors[1]).all()


@pytest.mark.slow
def test_diagonal_networks_are_predicted_as_they_train():
    task = linear_teacher(TARGET[None], FEATURES)
    network = diagonal_linear(4, scale=1e-8, key=seeds(1, first=2)[0])
    found = staircase(network, task)
    seen = passages(network, task, found)
    np.testing.assert_allclose(found.times[[0, -1]], seen[[0, -1]], rtol=0.01)
    assert found.active[-1] == (0, 1, 3)


@pytest.mark.slow
@DOUBTED
@pytest.mark.parametrize("seed", [2, 11])
def test_a_coordinate_that_wakes_within_a_jump_is_part_of_it(seed):
    rng = np.random.default_rng(100 + seed)
    root = rng.normal(size=(6, 6))
    task = linear_teacher(rng.normal(size=(1, 6)), root @ root.T / 6 + 0.2 * np.eye(6))
    network = diagonal_linear(6, scale=1e-8, key=seeds(1, first=seed)[0])
    predicted = staircase(network, task)
    assert (np.diff(predicted.times) > 0).all()
    assert any(len(set(after) - set(before)) == 2 for before, after in pairwise(predicted.active))
    large = -np.diff(predicted.levels) > 0.02 * predicted.levels[0]
    seen = passages(network, task, predicted)
    np.testing.assert_allclose(predicted.times[large], seen[large], rtol=0.01)


@pytest.mark.parametrize("scale", [1e-3, 1e-8])
@pytest.mark.parametrize("seed", [0, 2])
def test_coordinates_of_equal_pull_join_at_one_jump(seed, scale):
    """Random weights spread their times by less than a jump takes."""
    b, c = np.array([1.0, 1.0, -1.0]), np.eye(3)
    u, v = scale * np.random.default_rng(seed).normal(size=(2, 3))
    found = staircase(diagonal_linear_from(u, v), from_moments(b[None], c))
    assert found.active == ((), (0, 1, 2))
    exact = mirror_flow(u, v, b, c, 30.0)
    half = scipy.optimize.brentq(lambda t: np.sum((exact(t) - b) ** 2) - 1.5, 0.0, 30.0)
    np.testing.assert_allclose(found.times, [half], rtol=1e-6)


def test_coordinates_far_enough_apart_have_a_plateau_in_between():
    """Small weights have plateaus between all coordinates, larger ones fewer, as the exact flow."""
    b, c = np.array([1.0, 0.8, -0.6, 0.5]), np.eye(4)
    initial = np.random.default_rng(0).normal(size=(2, 4))
    counts = []
    for scale in (1e-8, 1e-4, 1e-2):
        u, v = scale * initial
        with warnings.catch_warnings():  # about a plateau close to half a decade
            warnings.simplefilter("ignore")
            found = staircase(diagonal_linear_from(u, v), from_moments(b[None], c))
        time = np.linspace(0.0, 2.0 * found.times[-1], 2000)
        exact = mirror_flow(u, v, b, c, time[-1])
        beta = np.array([exact(t) for t in time])
        norm = np.sqrt(4 * beta**2 + (u**2 - v**2) ** 2)  # u² + v², because u² − v² is conserved
        left = (b - beta) ** 2
        seen = plateaus(time, 0.5 * np.sum(left, axis=1), np.sum(left * norm, axis=1))
        assert len(found.levels) == len(seen.level)
        np.testing.assert_allclose(found.times, seen.drop_time, rtol=1e-3)
        counts.append(len(found.levels))
    assert counts == [5, 3, 2]


def test_a_weight_of_the_wrong_sign_never_grows():
    b, c = np.array([1.0, 0.5]), np.eye(2)
    found = staircase(
        diagonal_linear_from([1e-5, 1e-5], [1e-5, -1e-5]), from_moments(b[None], c)
    )  # u = −v: only downwards
    assert found.active == ((), (0,))
    assert np.isinf(found.joined[1])
    assert found.levels[-1] == pytest.approx(0.125)


# ---- units


@pytest.mark.slow
@pytest.mark.parametrize("seed", [12, 23])
def test_a_weak_direction_is_waited_for(seed):
    """The third direction is a thousand times slower; its stiff jump must not take much longer."""
    task = quadratic_teacher(np.diag([1.0, 0.8, 0.03]))
    key = festina.seeds(24)[seed]
    network = fully_connected(3, 12, activation="quadratic", scale=1e-4, key=key)
    with pytest.warns(UserWarning, match="4e-07 of the initial loss" if seed == 23 else "initial"):
        predicted = staircase(network, task)
    assert len(predicted.times) == 3
    first = predicted.times[0]
    found = passages(network, task, predicted, t_end=1.5 * first)[0]
    np.testing.assert_allclose(found, first, rtol=1e-2)
    assert predicted.times[-1] > 10 * first


@pytest.mark.parametrize(
    ("gap", "seed"),
    [
        (5e-3, 8),
        *(
            pytest.param(gap, seed, marks=pytest.mark.slow)
            for gap, seed in (
                (1e-4, 3),
                (1e-4, 8),
                (1e-3, 3),
                (1e-3, 8),
                (5e-3, 3),
                (1e-2, 3),
                (1e-2, 8),
            )
        ),
    ],
)
def test_directions_that_are_nearly_as_good_do_not_hold_up_the_first_jump(gap, seed):
    """The first unit grows large before it turns to the better direction."""
    task = quadratic_teacher(np.diag([1.0, 1.0 - gap]))
    network = fully_connected(2, 6, activation="quadratic", scale=1e-4, key=seeds(9)[seed])
    predicted = staircase(network, task)
    np.testing.assert_allclose(passages(network, task, predicted)[0], predicted.times[0], rtol=1e-3)
    assert (np.diff(predicted.times) > 0).all()


@pytest.mark.slow
@DOUBTED
def test_first_jump_and_unit_of_a_quadratic_network():
    """The first unit passes half of the drop a time of O(1) after its predicted divergence."""
    task = quadratic_teacher(np.eye(2))
    distance = []
    for scale in (1e-2, 1e-4):
        network = fully_connected(2, 10, activation="quadratic", scale=scale, key=seeds(1)[0])
        found = staircase(network, task)
        np.testing.assert_allclose(found.levels, [4.0, 4 / 3, 0.0], atol=1e-5)
        first, time = first_unit_to_escape(network, task)
        assert found.active[1] == (int(first),)
        distance.append(found.times[0] - time)
    np.testing.assert_allclose(distance, distance[0], rtol=0.05)


@pytest.mark.slow
def test_attention_levels_and_jumps_as_they_train():
    lam, n = np.array([1.0, 0.5]), 32
    task = in_context_regression(2, n, token_covariance=np.diag(lam))
    network = attention(2, 5, scale=2e-3, key=seeds(1, first=1)[0])
    found = staircase(network, task, loss="mean-square")
    gain = lam / (1 + (1 + lam.sum() / lam) / n)
    np.testing.assert_allclose(found.levels, lam.sum() - np.cumsum([0, *gain]), rtol=1e-5)
    seen = passages(network, task, found, "mean-square")
    np.testing.assert_allclose(found.times, seen, rtol=0.02)


# ---- deep networks of two layers


def test_a_deep_network_of_two_layers_is_the_same_layer():
    task = linear_teacher(WEIGHTS, COVARIANCE)
    network = fully_connected(2, 4, 2, scale=1e-6, key=seeds(1)[0])
    deep = DeepLinear.from_layer(network)
    np.testing.assert_array_equal(staircase(network, task).times, staircase(deep, task).times)


def test_the_convention_rescales_levels_and_clock():
    task = linear_teacher(WEIGHTS, COVARIANCE)
    network = fully_connected(2, 4, 2, scale=1e-6, key=seeds(1)[0])
    half, full = staircase(network, task), staircase(network, task, loss="mean-square")
    np.testing.assert_allclose(full.levels, 2 * half.levels)
    np.testing.assert_allclose(full.times, half.times / 2)
    assert full.convention == "mean-square"
    middle = 0.5 * (full.times[0] + full.times[1])
    np.testing.assert_array_equal(full.loss(np.array([0.0, middle])), full.levels[:2])


def test_weights_that_cannot_be_followed_are_refused():
    with pytest.raises(ValueError, match="`u` and `v` have weights of size"):
        staircase(
            layer_from("linear", np.full((3, 2), 1e4), np.ones((3, 2))), from_moments(np.eye(2))
        )


def test_networks_without_a_predictor_are_refused():
    task = linear_teacher(WEIGHTS, COVARIANCE, nodes=4)
    relu = fully_connected(2, 4, 2, activation="relu", scale=1e-3, key=seeds(1)[0])
    with pytest.raises(ValueError, match=r"no staircase predictor.* which samples activate them"):
        staircase(relu, task)
    tanh = fully_connected(2, 4, 2, activation="tanh", scale=1e-3, key=seeds(1)[0])
    with pytest.raises(ValueError, match=r"escape as .* p = 1 as in a linear network"):
        staircase(tanh, task)
    with pytest.raises(ValueError, match="do not fit"):
        staircase(diagonal_linear_from([1.0, 1.0], [1.0, 1.0]), task)


def test_a_layer_of_no_weights_goes_nowhere():
    quadratic = fully_connected(2, 3, activation="quadratic", key=seeds(1)[0]).unit
    still = layer_from(quadratic, np.zeros((3, 2)), np.zeros((3, 1)))
    found = staircase(still, quadratic_teacher(np.eye(2)))
    assert found.times.size == 0
    assert found.active == ((),)


def test_in_words():
    network = fully_connected(2, 20, 2, scale=1e-4, key=seeds(1)[0])
    predicted = staircase(network, linear_teacher(WEIGHTS, COVARIANCE))
    count, heading, first, *_, last = str(predicted).splitlines()
    assert count == "3 levels of the loss 'half'"
    assert heading.split() == ["level", "left", "at", "±", "active", "modes"]
    level, time, error = predicted.levels[0], predicted.times[0], predicted.uncertainty[0]
    assert first.split() == [f"{level:.6g}", f"{time:.6g}", f"{error:.1g}", "none"]
    assert last.endswith("   0, 1")


@pytest.mark.parametrize("scale", [0.5, 3.0])
def test_large_weights_are_warned_of(scale):
    network = fully_connected(2, 20, 2, scale=scale, key=seeds(1)[0])
    task = linear_teacher(WEIGHTS, COVARIANCE)
    initial = festina.gradient_flow(network, task, np.array([0.0])).loss[0]
    with pytest.warns(UserWarning, match=f"weights have the loss {initial:.6g}"):
        staircase(network, task)


@pytest.mark.slow
@DOUBTED
def test_units_that_escape_together():
    """Two units escape together; the second must not grow for ever."""
    u = 1e-4 * np.array([[1.0, 0.3], [1.0 + 1e-9, 0.3], [0.2, -0.9]])
    network = layer_from(NeuronUnit("quadratic"), u, 1e-4 * np.array([1.0, 1.0, 0.4]))
    data = quadratic_teacher(np.diag([1.0, 0.5]))
    predicted = staircase(network, data)
    assert (np.diff(predicted.levels) < 0).all()
    assert np.isfinite(predicted.times).all()
    run = festina.gradient_flow(network, data)
    assert predicted.levels[-1] == pytest.approx(run.loss[-1], abs=1e-6)
    trained = passages(network, data, predicted)
    assert predicted.times[0] == pytest.approx(trained[0], rel=1e-2)
