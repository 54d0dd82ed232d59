"""Theorem 3 as an experiment, on another seed and with other sizes."""

import functools

import pytest

from experiments import altered, broken, is_whole, reloaded
from festina.papers import load

# Minutes of compilation; the functions themselves are tested in theory, diagnose and dynamics.
pytestmark = pytest.mark.slow

NAME = "saddles/theorem-3"


FEW = ("relu",)


@functools.cache
def made(architectures=FEW):
    experiment = load(NAME)
    chosen = {} if architectures is None else {"architectures": architectures}
    return experiment.run(experiment.parameters(seed=31, **experiment.quick, **chosen))


def verdicts(run):
    return [(claim.claim, claim.verdict) for claim in load(NAME).claims(run)]


def test_no_claim_is_broken_on_another_seed():
    assert broken(load(NAME), made()) == []
    corrected = [words for words, verdict in verdicts(made()) if verdict.endswith("correction")]
    assert sum("same speed" in words for words in corrected) == 1


@pytest.mark.slow
def test_no_claim_is_broken_for_any_architecture():
    run = made(None)
    assert broken(load(NAME), run) == []
    found = verdicts(run)
    assert sum("even φ" in words or "odd φ" in words for words, _ in found) == 4
    assert sum("control" in words for words, _ in found) == 4
    assert broken(load(NAME), altered(run, "drift", "distance", lambda values: values + 1e-3))


def test_claims_survive_saving(tmp_path):
    reloaded(load(NAME), made(), tmp_path)


@pytest.mark.parametrize(
    ("group", "variable", "where", "words"),
    [
        ("drift", "distance", {"case": "relu: proportional"}, "proportional units"),
        ("drift", "reduction_error", {"case": "relu: equal"}, "with one unit less"),
        ("drift", "flow_error", {"case": "relu: proportional", "form": "even"}, "same speed"),
        ("embedding", "distance", {"kind": "linear"}, "lie on the manifold"),
    ],
)
def test_claims_notice_what_is_not_so(group, variable, where, words):
    run = altered(made(), group, variable, lambda values: values + 1e-3, **where)
    assert any(words in claim for claim in broken(load(NAME), run))


def test_a_control_that_stays_is_noticed():
    run = altered(made(), "drift", "distance", lambda values: 0 * values, case="relu: γ < 0")
    assert broken(load(NAME), run) == ["control, relu: γ < 0: training leaves it (median)"]


def test_the_figure_is_legible():
    figure = load(NAME).draw(made())
    assert is_whole(figure)
    left, right = figure.axes
    assert not left.get_tightbbox().overlaps(right.get_tightbbox())
    assert len(left.lines) > len(right.get_yticks())


@pytest.mark.parametrize(
    ("change", "words"),
    [
        ({"width": 3}, "width"),
        ({"steps": 100, "learning_rate": 0.01}, "no time to leave"),
        ({"scale": 0.01}, "scale"),
        ({"architectures": ()}, "architectures"),
    ],
)
def test_parameters_without_a_meaning_are_refused(change, words):
    with pytest.raises(ValueError, match=words):
        load(NAME).parameters(**change)


def test_a_learning_rate_that_diverges_is_said_to():
    experiment = load(NAME)
    with pytest.raises(ValueError, match="Training of quadratic diverged"):
        experiment.run(
            experiment.parameters(
                architectures=("quadratic",), scale=2.0, learning_rate=0.05, seeds=2, steps=500
            )
        )
