"""Effective width on every plateau of a training run."""

import functools

import numpy as np
import pytest

from festina.diagnose import plateau_widths, plateaus
from festina.dynamics import gradient_descent
from festina.networks import fully_connected, seeds
from festina.tasks import quadratic_teacher


def setting():
    network = fully_connected(2, 10, activation="quadratic", scale=5e-3, key=seeds(3, first=2))
    return network, quadratic_teacher(np.eye(2))


@functools.cache
def trained():
    network, data = setting()
    return gradient_descent(network, data, 0.04, loss="mean-square"), data


def test_the_staircase_of_figure_1g_has_widths_zero_one_two():
    run, data = trained()
    for seed in range(3):
        stairs = plateau_widths(run.lane(seed), data)
        assert stairs.clean.all()
        np.testing.assert_array_equal(stairs.width, [0, 1, 2])
        np.testing.assert_array_equal(stairs.fewest, [0, 1, 2])
        assert stairs.fitted[2].short > 0.5
        assert [each.equation for each in stairs.found] == [5, 5, 5]
        assert stairs.message == ""
        assert str(stairs).count("(5)") == 3


def test_where_no_plateau_is_clean_no_width_is_given():
    run, data = trained()
    lane = run.lane(0)
    strict = plateau_widths(lane, data, strength=lane_strength(lane) + 0.1)
    assert strict.width[1] == -1
    assert strict.found[1] is None
    assert (strict.fitted[1], strict.fewest[1]) == (None, -1)
    assert "No clean plateau at loss" in strict.message
    assert "2.667: it slows down" in strict.message
    assert "not clean" in str(strict)


def lane_strength(lane) -> float:
    return float(plateaus(lane).strength[1])


@pytest.mark.parametrize("steps", [1, 5])
def test_a_loss_that_never_drops_is_said_to(steps):
    network, data = setting()
    early = gradient_descent(network, data, 0.04, steps, loss="mean-square")
    stairs = plateau_widths(early.lane(0), data)
    assert stairs.found == (None,)
    np.testing.assert_array_equal(stairs.width, [-1])
    assert "never drops" in stairs.message


@pytest.mark.parametrize("given", [None, "a run"])
def test_what_is_no_trajectory_is_refused(given, as_a_user):
    with pytest.raises(ValueError, match="`trajectory` must be what"):
        plateau_widths(given, setting()[1])


def test_a_batch_is_refused():
    run, data = trained()
    with pytest.raises(ValueError, match="One trajectory at a time"):
        plateau_widths(run, data)
