"""One chain, from one layer to infinitely many."""

import functools

import numpy as np
import pytest

from experiments import altered, broken, is_whole, reloaded
from festina.papers.linear.chains import _learning_curves as experiment


@functools.cache
def default():
    return experiment.run(experiment.Parameters())


def by_words(run, words):
    (claim,) = [claim for claim in experiment.claims(run) if words in claim.claim]
    return claim


def test_no_claim_is_broken():
    claims = experiment.claims(default())
    assert broken(experiment, default()) == []
    corrected = [c.claim for c in claims if c.verdict == "holds with a correction"]
    assert len(corrected) == 3
    assert len(claims) == 5 + 2 + 1 + 1


def test_the_prints_are_wrong_where_the_claims_say_so():
    """The printed exponents are right only for λ_x = 1 and s² = λ_x."""
    assert "as printed it gives 1.272" in by_words(default(), "shallow").note
    right = experiment.Parameters(
        correlation=1.0, input_variance=1.0, initial_strength=0.05, depths=(1, 2)
    )
    run = experiment.run(right)
    assert broken(experiment, run) == []
    for words in ("shallow", "infinitely deep"):
        claim = by_words(run, words)
        printed = float(claim.note.split("it gives ")[1].split()[0])
        assert printed == pytest.approx(claim.measured, rel=1e-3)


def test_other_parameters():
    parameters = experiment.Parameters(
        correlation=0.7, input_variance=3.0, initial_strength=0.01, depths=(2, 5)
    )
    run = experiment.run(parameters)
    assert broken(experiment, run) == []
    # It was not trained.
    assert not any("shallow" in claim.claim for claim in experiment.claims(run))
    assert run["curves"]["depth"].values.tolist() == [2, 5]
    for depth in (2, 5):
        curve = run["curves"].to_dataset().sel(depth=depth)
        # On the clock τ/D: the slope at the start is a₀^(2 − 2/D) (s − λ_x a₀).
        slope = 0.01 ** (2 - 2 / depth) * (0.7 - 3 * 0.01)
        rise = float(curve["strength"][1] - curve["strength"][0]) / float(curve["time"][1])
        assert rise == pytest.approx(slope, rel=0.1)


def test_a_curve_that_differs_breaks_its_claim_alone():
    run = altered(default(), "curves", "strength", lambda a: a + 1e-5, depth=8)
    assert broken(experiment, run) == [
        "depth 8: the trained chain follows the closed form (largest difference)"
    ]


def test_a_saved_run_gives_the_same_claims(tmp_path, monkeypatch):
    run = default()
    monkeypatch.setattr(experiment, "gradient_flow", None)
    reloaded(experiment, run, tmp_path)


def test_the_figure_is_legible():
    figure = experiment.draw(default())
    assert is_whole(figure)
    shallow, deep, deepest = figure.axes
    # A wide line and a dashed one for each depth, beside the target and the legend's samples.
    assert len(deep.lines) == 1 + 2
    assert len(deepest.lines) == 1 + 2 * 4
    assert shallow.get_legend() is not None
    assert np.ptp(deepest.get_xlim()) > np.ptp(deep.get_xlim())


@pytest.mark.parametrize(
    ("bad", "words"),
    [
        ({"initial_strength": 1.0}, "`initial_strength` must lie below half the target"),
        ({"depths": (2, 1)}, "`depths` must be increasing"),
        ({"depths": ()}, "`depths` must be increasing"),
        ({"depths": (0, 1)}, "`depths` must be increasing"),
        ({"input_variance": 0.0}, "greater than 0"),
    ],
)
def test_bad_parameters(bad, words):
    with pytest.raises(ValueError, match=words):
        experiment.Parameters(**bad)
