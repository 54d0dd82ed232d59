"""Test learning curves of one chain, from one layer to infinitely many."""

import pytest

from experiments import broken
from festina.papers.linear.chains import _learning_curves as experiment


def claims_from_source(run):
    return {claim.id: claim for claim in experiment.claims(run)}


@pytest.mark.slow
def test_the_prints_are_wrong_where_the_claims_say_so():
    """The printed exponents are correct only for λ_x = 1 and s² = λ_x."""
    run = experiment.run(experiment.Parameters(depths=(1,)))
    for id, printed in (("shallow", "1.272"), ("infinite-depth", "0.03246")):
        note = claims_from_source(run)[f"{id}-as-printed"].note
        assert f"the printed form gives {printed}" in note
    right = {"correlation": 1.0, "input_variance": 1.0, "initial_strength": 0.05, "depths": (1, 2)}
    run = experiment.run(experiment.Parameters(**right))
    assert broken(experiment, run) == []
    for id in ("shallow-as-printed", "infinite-depth-as-printed"):
        claim = claims_from_source(run)[id]
        printed = float(claim.note.split("the printed form gives ")[1].split()[0])
        assert printed == pytest.approx(claim.measured, rel=1e-3)


@pytest.mark.slow
def test_other_parameters():
    parameters = experiment.Parameters(
        correlation=0.7, input_variance=3.0, initial_strength=0.01, depths=(2, 5)
    )
    run = experiment.run(parameters)
    assert broken(experiment, run) == []
    assert "shallow-as-printed" not in claims_from_source(run)  # this depth was not trained
    for depth in (2, 5):
        curve = run["curves"].to_dataset().sel(depth=depth)
        # In units of τ/D the initial slope is a₀^(2 − 2/D) (s − λ_x a₀).
        slope = 0.01 ** (2 - 2 / depth) * (0.7 - 3 * 0.01)
        rise = float(curve["strength"][1] - curve["strength"][0]) / float(curve["time"][1])
        assert rise == pytest.approx(slope, rel=0.1)


@pytest.mark.parametrize(
    ("bad", "words"),
    [
        ({"initial_strength": 1.0}, "`initial_strength` must be below half the target"),
        ({"depths": (2, 1)}, "increasing numbers from 1 up"),
        ({"depths": ()}, "increasing numbers from 1 up"),
        ({"depths": (0, 1)}, "increasing numbers from 1 up"),
        ({"input_variance": 0.0}, "greater than 0"),
    ],
)
def test_bad_parameters(bad, words):
    with pytest.raises(ValueError, match=words):
        experiment.Parameters(**bad)
