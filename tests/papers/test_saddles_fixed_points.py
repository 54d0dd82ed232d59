"""Test Theorem 1 and Lemma 6 as experiments on other networks than the default ones."""

import pytest

from experiments import altered, broken
from festina.papers.saddles.theorems import _lemma_6 as lemma
from festina.papers.saddles.theorems import _theorem_1 as theorem

slow = pytest.mark.slow  # minutes of compilation


@pytest.mark.parametrize(
    "changes",
    [
        {"seed": 7, "inputs": 2, "outputs": 3, "width": 4},
        pytest.param({"seed": 7}, marks=slow),
        pytest.param({"seed": 5, "inputs": 10, "outputs": 2, "width": 30}, marks=slow),
        pytest.param({"seed": 5, "inputs": 1, "outputs": 1, "width": 2}, marks=slow),
    ],
    ids=str,
)
def test_lemma_6_of_other_tasks(changes):
    run = lemma.run(lemma.Parameters(**changes))
    assert broken(lemma, run) == []
    # For as many inputs as outputs, the lemma is complete.
    needed = [claim for claim in lemma.claims(run) if claim.id == "spans-necessary"]
    square = lemma.Parameters(**changes).inputs == lemma.Parameters(**changes).outputs
    assert [claim.verdict for claim in needed] == [] if square else ["does not hold"]


@slow
@pytest.mark.parametrize(
    "changes",
    [
        {},
        {"seed": 11, "units": 3, "width": 4},
        {"seed": 12, "units": 1, "width": 9, "scale": 0.9, "samples": 300},
        {"seed": 13, "units": 4, "width": 8, "scale": 1.0, "samples": 100},
        {"seed": 14, "scale": 0.3},
    ],
    ids=str,
)
def test_theorem_1_of_other_networks(changes):
    run = theorem.run(theorem.Parameters(**(theorem.QUICK | changes)))
    assert broken(theorem, run) == []
    table = run["embeddings"].to_dataset()
    # All architectures admit copies; only the two linear ones admit combinations.
    assert table["admitted"].sum("architecture").values.tolist() == [11, 9, 6, 2, 2]
    if not changes:
        where = {"architecture": "conv ReLU", "case": "proportional"}
        moved = altered(run, "embeddings", "after", lambda g: g + 1e-11, **where)
        assert broken(theorem, moved) == ["proportional-embeddings"]
        still = altered(
            run, "embeddings", "after", lambda g: 0 * g, architecture="tanh", case="linear"
        )
        assert len(broken(theorem, still)) == 1


@pytest.mark.parametrize(
    ("kind", "bad", "words"),
    [
        (
            lemma.Parameters,
            {"width": 3},
            "`width` must be above the number of modes, 3, got 3",
        ),
        (lemma.Parameters, {"outputs": 9}, "less than or equal to 4"),
        (
            theorem.Parameters,
            {"units": 4, "width": 4},
            "`width` must be above `units`, got 4 and 4",
        ),
        (theorem.Parameters, {"units": 6, "samples": 80, "width": 9}, "`samples` must be at least"),
        (theorem.Parameters, {"scale": 0.0}, "greater than or equal to 0.3"),
    ],
)
def test_bad_parameters(kind, bad, words):
    with pytest.raises(ValueError, match=words):
        kind(**bad)
