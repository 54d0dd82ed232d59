"""Test stages of individual animals: one side first, then the other, or both at once."""

import numpy as np
import pytest

from festina.theory.decisions import (
    ContrastChoiceLearner,
    mean_field_learning,
    naive_animals,
    stationary_points,
    stimulus_use_times,
    visited_saddles,
)

TIMES = np.arange(0.0, 200.5, 0.5)
ANIMALS = naive_animals([0.1, 0.001, 0.01], [0.001, 0.1, 0.01])  # left, right, equal gains
L, R, C = "left", "right", "constant"


@pytest.mark.parametrize(
    ("teaching", "first", "second", "together"),
    [("total", 13.5, 115.0, 36.5), ("heterogeneous", 12.5, 57.0, 35.0)],
)
def test_deep_animals_use_one_side_first(teaching, first, second, together):
    run = mean_field_learning(ContrastChoiceLearner(teaching=teaching), ANIMALS, TIMES)
    times = stimulus_use_times(run)
    np.testing.assert_array_equal(times, [[first, second], [second, first], [together] * 2])


@pytest.mark.parametrize("teaching", ["total", "heterogeneous"])
def test_shallow_animals_use_both_at_once(teaching):
    model = ContrastChoiceLearner(teaching=teaching, architecture="shallow")
    run = mean_field_learning(model, ANIMALS, TIMES[:21])
    np.testing.assert_array_equal(stimulus_use_times(run), 1.5)
    assert np.abs(run.bias).max() < 0.01


def test_the_one_sided_stage_goes_to_the_other_side_only_with_total_teaching():
    total, heterogeneous = (
        mean_field_learning(ContrastChoiceLearner(teaching=t), ANIMALS, [45.0])
        for t in ("total", "heterogeneous")
    )
    # Near the saddle of left and constant, P(R) is 0.87 on the right.
    np.testing.assert_allclose(total.right_probability[0, 0, 2:], 0.87, atol=0.005)
    np.testing.assert_allclose(
        heterogeneous.right_probability[0, 0], [0.05, 0.18, 0.50, 0.52, 0.53], atol=0.005
    )
    np.testing.assert_allclose(total.bias[:2, 0], [0.37, -0.37], atol=0.005)


def test_not_used_by_the_end_is_infinity():
    run = mean_field_learning(ContrastChoiceLearner(), ANIMALS, TIMES[:101])
    times = stimulus_use_times(run)
    np.testing.assert_array_equal(np.isinf(times), [[False, True], [True, False], [False, False]])
    assert (stimulus_use_times(run, threshold=0.4)[:, 0] > times[:, 0])[[0, 2]].all()


def test_use_comes_later_by_the_logarithm_of_the_gain():
    """At the constant saddle a silent line grows at its escape rate, so Δt = Δ ln v / rate."""
    gains = np.array([1e-4, 1e-5, 1e-6])
    run = mean_field_learning(
        ContrastChoiceLearner(), naive_animals(gains, gains), np.arange(0.0, 200.0, 0.05)
    )
    later = np.diff(stimulus_use_times(run)[:, 0])
    rate = next(p for p in stationary_points(run.model) if p.active == (C,)).escape_rates[L]
    np.testing.assert_allclose(later, np.log(10.0) / rate, atol=0.11)


def test_animals_pass_the_saddles_in_order():
    run = mean_field_learning(ContrastChoiceLearner(), ANIMALS, TIMES)
    points = stationary_points(run.model)
    visits = visited_saddles(run, points)
    assert visits.path(0) == ((), (C,), (L, C), (L, R, C))
    assert visits.path(1) == ((), (C,), (R, C), (L, R, C))
    assert visits.path(2) == ((), (C,), (L, R, C))
    expert = [p.active for p in points].index((L, R, C))
    late = mean_field_learning(run.model, ANIMALS, [2e4])
    assert visited_saddles(late, points).distance[:, 0, expert].max() < 1e-4


def test_smaller_gains_come_closer_to_the_saddles():
    """With smaller initial gains, trajectories come closer to the saddles of the hierarchy."""
    nearest = []
    for gain in (1e-2, 1e-4, 1e-6):
        run = mean_field_learning(
            ContrastChoiceLearner(), naive_animals(gain, gain), np.arange(0.0, 150.0, 0.5)
        )
        visits = visited_saddles(run, stationary_points(run.model))
        constant = [p.active for p in visits.points].index((C,))
        nearest.append(visits.distance[0, :, constant].min())
    assert nearest[0] > 5 * nearest[1] > 25 * nearest[2]
