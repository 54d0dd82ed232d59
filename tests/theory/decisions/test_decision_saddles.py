"""Test the hierarchy of saddle points: reference numbers, Jacobians, and the flow."""

import numpy as np
import pytest

from festina.theory.decisions import (
    AnimalWeights,
    ContrastChoiceLearner,
    mean_field_learning,
    stationary_points,
    weight_velocity,
)

L, R, C = "left", "right", "constant"


def hierarchy(**options):
    return {point.active: point for point in stationary_points(ContrastChoiceLearner(**options))}


def test_random_choices_printed_numbers():
    points = hierarchy(inverse_temperature=0.0)
    table = {  # loss, escape rates of silent lines
        (): (0.225, {L: 0.15, R: 0.15, C: 0.353553}),
        (C,): (0.1, {L: 0.106066, R: 0.106066}),
        (L,): (0.135, {R: 0.15, C: 0.2596}),
        (R,): (0.135, {L: 0.15, C: 0.2596}),
        (L, R): (0.045, {C: 0.0990}),
        (L, C): (0.0296875, {R: 0.0464}),
        (R, C): (0.0296875, {L: 0.0464}),
        (L, R, C): (0.01, {}),
    }
    assert set(points) == set(table)
    for active, (loss, rates) in table.items():
        assert points[active].loss == pytest.approx(loss, abs=1e-9)
        assert points[active].escape_rates == pytest.approx(rates, abs=5e-5)
        assert points[active].index == 3 - len(active)
        np.testing.assert_array_equal(points[active].right_probability, 0.5)


def test_random_choices_are_least_squares_on_the_active_lines():
    model = ContrastChoiceLearner(inverse_temperature=0.0)
    for point in stationary_points(model):
        use = [line in point.active for line in (L, R, C)]
        expected = np.zeros((2, 3))
        if any(use):
            expected[:, use] = np.linalg.lstsq(model.stimuli[:, use], model.rewards)[0].T
        np.testing.assert_allclose(point.products, expected, atol=1e-12)


def test_softmax_printed_numbers():
    points = hierarchy(inverse_temperature=5.0)
    losses = {
        (): 0.225,
        (C,): 0.1,
        (L,): 0.144211,
        (R,): 0.144211,
        (L, R): 0.063421,
        (L, C): 0.025700,
        (R, C): 0.025700,
        (L, R, C): 0.007099,
    }
    assert {k: p.loss for k, p in points.items()} == pytest.approx(losses, abs=1e-6)
    one_sided, expert = points[L, C].right_probability, points[L, R, C].right_probability
    np.testing.assert_allclose(one_sided, [6.4e-5, 0.02047, 0.8722, 0.8722, 0.8722], atol=5e-5)
    assert one_sided[0] == pytest.approx(6.4e-5, abs=1e-6)
    np.testing.assert_allclose(expert, [2.3e-4, 0.01496, 0.5, 0.985, 0.9998], atol=5e-5)
    assert all(point.index == 3 - len(active) for active, point in points.items())


@pytest.mark.parametrize("teaching", ["total", "heterogeneous"])
@pytest.mark.parametrize("beta", [0.0, 5.0, 50.0])
def test_they_rest_and_silent_lines_have_opposite_eigenvalues(beta, teaching):
    model = ContrastChoiceLearner(inverse_temperature=beta, teaching=teaching, tau=2.0)
    points = stationary_points(model)
    assert len(points) == (8 if teaching == "total" else 5)
    for point in points:
        moves = weight_velocity(model, point.animals)
        assert max(np.abs(moves.gains).max(), np.abs(moves.striatum).max()) < 1e-12
        np.testing.assert_allclose(point.animals.products[0], point.products, atol=1e-14)
        assert point.index == 3 - len(point.active)
        for rate in point.escape_rates.values():
            for value in (rate, -rate):
                assert np.abs(point.eigenvalues - value).min() < 1e-8


def test_eigenvalues_are_those_of_finite_differences():
    model = ContrastChoiceLearner()
    point = hierarchy()[L, C]
    here = np.concatenate([point.animals.gains[0], point.animals.striatum[0].ravel()])

    def flow(theta):
        moves = weight_velocity(model, AnimalWeights(theta[:3], theta[3:].reshape(2, 3)))
        return np.concatenate([moves.gains[0], moves.striatum[0].ravel()])

    step = 1e-5
    jacobian = np.stack(
        [(flow(here + step * e) - flow(here - step * e)) / (2 * step) for e in np.eye(9)], axis=1
    )
    for value in np.linalg.eigvals(jacobian):  # neutral eigenvalues may mix, so sets are compared
        assert np.abs(point.eigenvalues - value).min() < 1e-6


@pytest.mark.parametrize("teaching", ["total", "heterogeneous"])
def test_a_silent_line_leaves_at_its_escape_rate(teaching):
    model = ContrastChoiceLearner(teaching=teaching)
    point = next(p for p in stationary_points(model) if p.active == (C,))
    gains = point.animals.gains[0].copy()
    gains[0] = 1e-6
    times = np.array([30.0, 60.0])
    run = mean_field_learning(
        model, AnimalWeights(gains, point.animals.striatum[0]), times, atol=1e-18
    )
    rate = np.diff(np.log(run.gains[0, :, 0]))[0] / 30.0
    assert rate == pytest.approx(point.escape_rates[L], rel=1e-3)


def test_silent_lines_may_carry_weights_that_the_pull_does_not_see():
    """With v = 0 and u ⟂ g the weights also rest, with the same behaviour and index."""
    model = ContrastChoiceLearner()
    point = hierarchy()[(C,)]
    tilted = point.animals.striatum[0].copy()
    tilted[:, 0] = [0.3, 0.3]  # the pull on the left line is along (1, −1)
    moves = weight_velocity(model, AnimalWeights(point.animals.gains[0], tilted))
    assert max(np.abs(moves.gains).max(), np.abs(moves.striatum).max()) < 1e-14


def test_on_policy_stationary_points_are_not_those_of_the_loss():
    """Near the expert, the flow increases the loss on one side and decreases it on the other."""
    model = ContrastChoiceLearner(architecture="shallow", inverse_temperature=2.0)
    (expert,) = stationary_points(model)
    rng = np.random.default_rng(1)
    aside = 1e-5 * rng.normal(size=(10, 2, 3))
    start = AnimalWeights(np.ones((20, 3)), expert.products + np.concatenate([aside, -aside]))
    run = mean_field_learning(model, start, [0.0, 0.1], rtol=1e-12)
    up = (run.loss[:, 1] > run.loss[:, 0]).reshape(2, 10)
    assert (up[0] != up[1]).all()
    # With a fixed policy the loss never increases.
    animals = AnimalWeights(rng.normal(size=(20, 3)), rng.normal(size=(20, 2, 3)))
    blind = mean_field_learning(
        ContrastChoiceLearner(inverse_temperature=0.0), animals, np.linspace(0, 20, 81)
    )
    assert (np.diff(blind.loss, axis=1) < 1e-12).all()


@pytest.mark.parametrize("teaching", ["total", "heterogeneous"])
def test_shallow_animals_end_at_one_point_from_many_starts(teaching):
    """For a softmax policy there is no proof that the stationary point is unique."""
    model = ContrastChoiceLearner(architecture="shallow", teaching=teaching)
    (point,) = stationary_points(model)
    assert point.index == 0
    assert point.eigenvalues.shape == (6,)
    starts = np.random.default_rng(0).uniform(-1.0, 1.0, size=(12, 2, 3))
    run = mean_field_learning(model, AnimalWeights(np.ones((12, 3)), starts), [4e4])
    np.testing.assert_allclose(run.products[:, 0], [point.products] * 12, atol=1e-6)


@pytest.mark.parametrize("active", [(L,), (L, R), (L, C), (L, R, C)])
def test_no_second_point_is_found_from_many_starts(active):
    """Points are found by least squares for each action, weighted by its probability."""
    model = ContrastChoiceLearner()
    use = [line in active for line in (L, R, C)]
    x, r = model.stimuli[:, use], model.rewards
    w = np.random.default_rng(2).uniform(-1.0, 1.0, size=(30, 2, sum(use)))
    for _ in range(600):
        q = np.einsum("ci,sai->sca", x, w)
        policy = 1.0 / (1.0 + np.exp(np.clip(5.0 * (q[..., ::-1] - q), -100.0, 100.0)))
        policy /= policy.max(axis=1, keepdims=True)  # least squares does not depend on the scale
        moments = np.einsum("sca,ci,cj->saij", policy, x, x)
        target = np.einsum("sca,ca,ci->sai", policy, r, x)
        w += 0.2 * (np.linalg.solve(moments, target[..., None])[..., 0] - w)
    found = hierarchy()[active].products[:, use]
    np.testing.assert_allclose(w, np.broadcast_to(found, w.shape), atol=1e-8)


def test_an_action_that_seems_bad_is_not_tried_again():
    """An action with a low estimate is hardly ever tried, so half the rewards are lost for long."""
    averse = AnimalWeights(np.ones(3), [[0.0, 0.0, -3.0], [0.0, 0.0, 0.5]])
    run = mean_field_learning(ContrastChoiceLearner(architecture="shallow"), averse, [1e2, 1e4])
    np.testing.assert_allclose(run.reward, 0.5, atol=1e-3)


def test_deep_and_shallow_experts_are_the_same():
    (shallow,) = stationary_points(ContrastChoiceLearner(architecture="shallow"))
    np.testing.assert_allclose(shallow.products, hierarchy()[L, R, C].products, atol=1e-10)


def test_contrasts_need_not_be_symmetric():
    points = hierarchy(contrasts=(-1.0, -0.5, 0.125, 0.5), inverse_temperature=1.0)
    assert points[(L,)].loss != pytest.approx(points[(R,)].loss, abs=1e-3)
    assert all(p.index == 3 - len(a) for a, p in points.items())


def test_on_policy_there_may_be_two_stable_points():
    """If one stimulus is always weaker, there is a second stable point."""
    options = {"contrasts": (-1.0, -0.5, 0.125, 0.5), "architecture": "shallow"}
    model = ContrastChoiceLearner(inverse_temperature=2.0, **options)
    starts = [[[0.5, -2.0, 0.6], [-1.5, 0.1, 1.0]], [[0.0, -8.0, 1.0], [-1.5, 0.1, 1.0]]]
    run = mean_field_learning(model, AnimalWeights(np.ones((2, 3)), starts), [1e5])
    assert np.abs(weight_velocity(model, run.final).striatum).max() < 1e-9
    near, far = run.products[:, 0]
    assert np.abs(near - far).max() > 5.0
    (followed,) = stationary_points(model)
    np.testing.assert_allclose(followed.products, near, atol=1e-5)
    assert followed.index == 0
    # Beyond 2.15 only the point `far` exists.
    sharp = ContrastChoiceLearner(inverse_temperature=3.0, **options)
    with pytest.raises(RuntimeError, match=r"up to an `inverse_temperature` of 2\.15"):
        stationary_points(sharp)
    ends = mean_field_learning(sharp, AnimalWeights(np.ones((2, 3)), starts), [1e6]).products[:, 0]
    np.testing.assert_allclose(ends[0], ends[1], atol=1e-5)
