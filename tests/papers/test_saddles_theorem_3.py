"""Test Theorem 3 as an experiment, with another seed and other sizes."""

import pytest

from experiments import altered, broken
from festina.experiments import load_experiment

NAME = "saddles/theorem-3"


@pytest.mark.slow
def test_no_claim_is_broken_for_any_architecture():
    experiment = load_experiment(NAME)
    run = experiment.run(experiment.parameters(seed=31, **experiment.quick))
    assert broken(experiment, run) == []
    found = [claim.id for claim in experiment.claims(run)]
    assert sum(id.startswith(("mirrored", "opposite")) for id in found) == 4
    assert sum(id.startswith("control") for id in found) == 4
    stays = altered(run, "drift", "distance", lambda values: 0 * values, case="relu: γ < 0")
    assert broken(experiment, stays) == ["control-relu-proportional"]


@pytest.mark.parametrize(
    ("change", "words"),
    [
        ({"width": 3}, "width"),
        ({"steps": 100, "learning_rate": 0.01}, "time to leave the relation"),
        ({"scale": 0.01}, "scale"),
        ({"architectures": ()}, "architectures"),
    ],
)
def test_parameters_without_a_meaning_are_refused(change, words):
    with pytest.raises(ValueError, match=words):
        load_experiment(NAME).parameters(**change)


def test_a_learning_rate_that_diverges_is_said_to():
    experiment = load_experiment(NAME)
    with pytest.raises(ValueError, match="Training of quadratic diverged"):
        experiment.run(
            experiment.parameters(
                architectures=("quadratic",), scale=2.0, learning_rate=0.05, seeds=2, steps=500
            )
        )
