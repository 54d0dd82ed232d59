"""Test learning by trials: the mean is the mean field, fluctuations fall with the learning rate."""

import jax
import numpy as np
import pytest

from festina.theory.decisions import (
    AnimalWeights,
    ContrastChoiceLearner,
    mean_field_learning,
    simulate_learning,
)

ANIMAL = AnimalWeights([0.3, 0.1, 0.2], [[0.15, -0.05, 0.2], [-0.15, 0.05, 0.2]])


@pytest.mark.parametrize("teaching", ["total", "heterogeneous"])
def test_sixteen_runs_follow_the_mean_field(teaching):
    """The distance to the mean field is below 0.1; it falls with the rate at fixed time."""
    model = ContrastChoiceLearner(teaching=teaching)

    def deviations(rate, trials):
        run = simulate_learning(
            model,
            ANIMAL.repeated(16),
            trials,
            learning_rate=rate,
            save_every=trials // 60,
            key=jax.random.key(1),
        )
        np.testing.assert_allclose(run.time, np.arange(61.0), atol=1e-12)
        theory = mean_field_learning(model, ANIMAL, run.time).products
        spread = np.sqrt(((run.products - theory) ** 2).mean())
        return np.abs(run.products.mean(axis=0) - theory[0]).max(), spread

    mean, spread = deviations(0.01, 6000)
    assert mean < 0.1
    if teaching == "total":
        fine_mean, fine_spread = deviations(0.01 / 16, 96_000)
        assert fine_mean < 0.5 * mean
        # Fluctuations scale as √η, so they are four times smaller; 16 runs have large standard
        # errors.
        assert 3.0 < spread / fine_spread < 5.5


@pytest.mark.parametrize("architecture", ["deep", "shallow"])
def test_the_mean_change_of_one_trial_is_the_velocity(architecture):
    """The mean change over many animals with one trial is the velocity, to five standard errors."""
    model = ContrastChoiceLearner(architecture=architecture, teaching="heterogeneous", tau=3.0)
    herd = ANIMAL.repeated(20_000)
    run = simulate_learning(model, herd, 1, learning_rate=1e-3, key=jax.random.key(0))
    change = (run.striatum[:, 1] - run.striatum[:, 0]) / 1e-3
    theory = mean_field_learning(model, ANIMAL, [0.0, 1e-4])
    slope = 3.0 * (theory.striatum[0, 1] - theory.striatum[0, 0]) / 1e-4
    error = change.std(axis=0) / np.sqrt(len(herd))
    assert (np.abs(change.mean(axis=0) - slope) < 5.0 * error + 1e-4 * np.abs(slope)).all()
    # Only the chosen action learns.
    assert ((change != 0).any(axis=2).sum(axis=1) == 1).all()
    assert run.time[1] == pytest.approx(3e-3)


def test_luck_belongs_to_the_animal_and_the_trial():
    options = {"learning_rate": 0.05, "save_every": 20, "key": jax.random.key(2)}
    many = simulate_learning(ContrastChoiceLearner(), ANIMAL.repeated(5), 40, **options)
    few = simulate_learning(ContrastChoiceLearner(), ANIMAL.repeated(2), 20, **options)
    np.testing.assert_allclose(few.products, many.products[:2, :2], atol=1e-14)
    assert many.products.shape == (5, 3, 2, 3)
    assert np.ptp(many.products[:, -1], axis=0).max() > 1e-3


def test_too_large_a_learning_rate_is_reported():
    with pytest.raises(ValueError, match="diverged at `learning_rate` 50"):
        simulate_learning(
            ContrastChoiceLearner(),
            ANIMAL,
            1000,
            learning_rate=50.0,
            save_every=1000,
            key=jax.random.key(0),
        )
