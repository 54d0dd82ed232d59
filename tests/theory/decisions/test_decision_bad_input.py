"""Test that invalid input is refused with a message that says what to do."""

import jax
import numpy as np
import pytest

from festina.theory.decisions import (
    AnimalWeights,
    ContrastChoiceLearner,
    asymptotic_weights,
    draw_naive_animals,
    mean_field_learning,
    naive_animals,
    simulate_learning,
    stationary_points,
    stimulus_use_times,
    visited_saddles,
)

pytestmark = pytest.mark.usefixtures("as_a_user")
KEY = jax.random.key(0)
ANIMAL = naive_animals(0.1, 0.1)


@pytest.mark.parametrize(
    ("options", "message"),
    [
        ({"inverse_temperature": -1.0}, "`inverse_temperature` must not be negative, got -1"),
        ({"inverse_temperature": np.nan}, "`inverse_temperature` must be a finite number"),
        ({"tau": 0.0}, "`tau` must be positive"),
        ({"contrasts": (0.5, np.inf)}, "`contrasts` must be finite"),
        ({"contrasts": (0.0, 0.5)}, "at least one below zero"),
        ({"contrasts": ()}, "at least one below zero"),
        ({"teaching": "hetero"}, "got 'hetero'. Did you mean 'heterogeneous'?"),
        ({"teaching": "totl"}, "'total' or 'heterogeneous', got 'totl'. Did you mean 'total'?"),
        ({"architecture": "shalow"}, "Did you mean 'shallow'?"),
    ],
)
def test_models(options, message):
    with pytest.raises(ValueError, match=message.replace("?", r"\?")):
        ContrastChoiceLearner(**options)


@pytest.mark.parametrize(
    ("gains", "striatum", "message"),
    [
        (np.ones(2), np.ones((2, 3)), r"`gains` must have shape \(animal, 3\)"),
        (np.ones(3), np.ones((3, 2)), r"`striatum` must have shape \(animal, 2, 3\)"),
        (np.ones((4, 3)), np.ones((2, 2, 3)), "animals, at least one, got 4 and 2"),
        (np.ones((0, 3)), np.ones((0, 2, 3)), "at least one, got 0 and 0"),
        ([1, np.nan, 1], np.ones((2, 3)), "`gains` must be finite, but 1 of its 3"),
        (np.ones((1, 1, 3)), np.ones((2, 3)), "`gains` must have shape"),
    ],
)
def test_weights(gains, striatum, message):
    with pytest.raises(ValueError, match=message):
        AnimalWeights(gains, striatum)


def test_drawing():
    with pytest.raises(ValueError, match="`smallest` must not be above `largest`, got 1 and"):
        draw_naive_animals(3, smallest=1.0, key=KEY)
    with pytest.raises(ValueError, match="`count` must be at least 1"):
        draw_naive_animals(0, key=KEY)
    with pytest.raises(ValueError, match=r"same length, got the shapes `left_gain` \(2,\)"):
        naive_animals([0.1, 0.2], [0.1, 0.2, 0.3])
    with pytest.raises(ValueError, match="`right_gain` must be finite"):
        naive_animals(0.1, np.inf)
    with pytest.raises(ValueError, match="`count` must be at least 1"):
        ANIMAL.repeated(0)


@pytest.mark.parametrize(
    ("times", "message"),
    [
        ([-1.0, 2.0], "must not be negative"),
        ([2.0, 1.0], "`times` must increase"),
        ([1.0, 1.0], "`times` must increase"),
        ([np.nan], "must be finite"),
        ([], "at least one"),
    ],
)
def test_times(times, message):
    with pytest.raises(ValueError, match=message):
        mean_field_learning(ContrastChoiceLearner(), ANIMAL, times)


def test_tolerances():
    with pytest.raises(ValueError, match="`rtol` must be positive"):
        mean_field_learning(ContrastChoiceLearner(), ANIMAL, [1.0], rtol=0.0)


def test_trials():
    options = {"learning_rate": 0.1, "key": KEY}
    with pytest.raises(ValueError, match="`trials` must be a whole number from 1 up"):
        simulate_learning(ContrastChoiceLearner(), ANIMAL, 0, **options)
    with pytest.raises(ValueError, match="multiple of `save_every`, got 10 and 4: use 8 trials"):
        simulate_learning(ContrastChoiceLearner(), ANIMAL, 10, save_every=4, **options)
    with pytest.raises(ValueError, match="use 20 trials"):
        simulate_learning(ContrastChoiceLearner(), ANIMAL, 10, save_every=20, **options)
    with pytest.raises(ValueError, match="`learning_rate` must be positive"):
        simulate_learning(ContrastChoiceLearner(), ANIMAL, 10, learning_rate=-0.1, key=KEY)


def test_points_that_are_not_isolated():
    model = ContrastChoiceLearner(contrasts=(-0.5, 0.5), teaching="heterogeneous")
    for function in (stationary_points, asymptotic_weights):
        with pytest.raises(ValueError, match="Add a contrast, such as 0"):
            function(model)
    # Learning itself does not need isolated points
    run = mean_field_learning(model, ANIMAL, [10.0])
    assert run.reward[0, 0] > 0.5


def test_choices_too_sharp_for_a_stationary_point():
    with pytest.raises(RuntimeError, match=r"not to 2000.* almost never chosen"):
        stationary_points(ContrastChoiceLearner(inverse_temperature=2000.0))


def test_summaries():
    run = mean_field_learning(ContrastChoiceLearner(), ANIMAL, [1.0])
    with pytest.raises(ValueError, match="`threshold` must lie between 0 and 1"):
        stimulus_use_times(run, threshold=1.5)
    with pytest.raises(ValueError, match="`points` is empty"):
        visited_saddles(run, ())
