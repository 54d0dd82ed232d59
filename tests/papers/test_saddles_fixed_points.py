"""Theorem 1 and Lemma 6 as experiments."""

import functools

import numpy as np
import pytest

from experiments import altered, broken, is_whole, reloaded
from festina.papers.saddles.theorems import _lemma_6 as lemma
from festina.papers.saddles.theorems import _theorem_1 as theorem

# Minutes of compilation; the functions themselves are tested in theory, diagnose and dynamics.
pytestmark = pytest.mark.slow


@functools.cache
def points(**changes):
    return lemma.run(lemma.Parameters(**changes))


@functools.cache
def embeddings(**changes):
    return theorem.run(theorem.Parameters(**(theorem.QUICK | changes)))


def by_words(experiment, run, words):
    (claim,) = [claim for claim in experiment.claims(run) if words in claim.claim]
    return claim


def is_legible(figure):
    """Nothing is cut off, and no legend lies on a curve."""
    assert is_whole(figure)
    for ax in figure.axes:
        if ax.get_legend() is None:
            continue
        box = ax.get_legend().get_window_extent()
        for line in ax.lines:
            ends = ax.transData.transform(np.column_stack(line.get_data()))
            between = np.linspace(0, 1, 50)[:, None, None]
            dots = (ends[:-1] * (1 - between) + ends[1:] * between).reshape(-1, 2)
            assert not box.count_contains(dots)


def test_lemma_6_and_what_it_misses():
    run = points()
    assert broken(lemma, run) == []
    necessity = by_words(lemma, run, "is necessary")
    assert necessity.verdict == "does not hold"
    assert necessity.measured > 0.1
    assert by_words(lemma, run, "kernel of Σ̃_yz, v_i").verdict == "holds with a correction"


@pytest.mark.parametrize(
    "changes",
    [
        {"seed": 7},
        pytest.param({"seed": 3, "inputs": 3, "outputs": 4, "width": 5}, marks=pytest.mark.slow),
        pytest.param({"seed": 5, "inputs": 10, "outputs": 2, "width": 30}, marks=pytest.mark.slow),
        pytest.param({"seed": 5, "inputs": 1, "outputs": 1, "width": 2}, marks=pytest.mark.slow),
    ],
    ids=str,
)
def test_lemma_6_of_other_tasks(changes):
    assert broken(lemma, points(**changes)) == []


@pytest.mark.slow
def test_with_as_many_inputs_as_outputs_the_lemma_is_complete():
    run = points(seed=1, inputs=3, outputs=3)
    assert broken(lemma, run) == []
    assert not any("necessary" in claim.claim for claim in lemma.claims(run))


def test_a_point_that_moves_breaks_the_lemma():
    run = points()
    grown = altered(run, "points", "gradient", lambda g: g + 1e-10, point="{1}")
    assert len(broken(lemma, grown)) == 1
    slower = altered(run, "leaving", "distance", lambda d: d**0.99, point="{1, 2}")
    assert broken(lemma, slower) == ["training leaves each saddle at that rate"]
    higher = altered(run, "points", "measured_loss", lambda loss: loss + 1e-9, point="{2}")
    assert len(broken(lemma, higher)) == 1


def test_a_saved_lemma_gives_the_same_claims(tmp_path, monkeypatch):
    run = points()
    monkeypatch.setattr(lemma, "gradient_flow", None)
    is_legible(lemma.draw(reloaded(lemma, run, tmp_path)))


@pytest.mark.slow
def test_theorem_1():
    run = embeddings()
    assert broken(theorem, run) == []
    corrected = [c for c in theorem.claims(run) if c.verdict == "holds with a correction"]
    assert len(corrected) == 3
    table = run["embeddings"].to_dataset()
    assert table.sizes["architecture"] == 11
    after = table["after"].transpose("architecture", "case", "seed").values
    admitted = table["admitted"].transpose("architecture", "case").values
    assert after[admitted].max() < 1e-12
    # Between fixed points and controls lie ten decades; but for silent units in all seeds.
    assert np.median(after[~admitted], axis=1).min() > 1e-2
    zero = list(table["case"].values).index("zero")
    silent = np.arange(admitted.shape[1]) == zero
    assert after[~admitted & ~silent].min() > 1e-2
    # Units with u = 0 that are read as the others are: silent where φ(z; 0) = 0, and else heard.
    heard = table["heard_after"].transpose("architecture", "seed").values
    assert heard[~admitted[:, zero]].min() > 1e-2
    assert table["heard"].transpose("architecture", "seed").values[admitted[:, zero]].max() == 0
    # Copies are admitted everywhere, combinations by the two linear architectures alone.
    assert admitted.sum(axis=0).tolist() == [11, 9, 6, 2, 2]


@pytest.mark.slow
@pytest.mark.parametrize(
    "changes",
    [
        {"seed": 11, "units": 3, "width": 4},
        {"seed": 12, "units": 1, "width": 9, "scale": 0.9, "samples": 300},
        {"seed": 13, "units": 4, "width": 8, "scale": 1.0, "samples": 100},
        {"seed": 14, "scale": 0.3},
    ],
    ids=str,
)
def test_theorem_1_of_other_networks(changes):
    assert broken(theorem, embeddings(**changes)) == []


@pytest.mark.slow
def test_theorem_1_can_fail_and_survives_saving(tmp_path):
    run = embeddings()
    where = {"architecture": "conv ReLU", "case": "proportional"}
    moved = altered(run, "embeddings", "after", lambda g: g + 1e-11, **where)
    assert broken(theorem, moved) == [
        "Eq. (6): fixed points stay so in the wider network (largest |∂L/∂θ|)"
    ]
    where = {"architecture": "tanh", "case": "linear"}
    still = altered(run, "embeddings", "after", lambda g: 0 * g, **where)
    assert len(broken(theorem, still)) == 1
    where = {"architecture": "sigmoid"}
    unheard = altered(run, "embeddings", "heard_after", lambda g: 0 * g, **where)
    assert len(broken(theorem, unheard)) == 1
    minimum = altered(run, "panels", "gain", lambda g: -g, panel="G")
    with np.errstate(invalid="ignore"):
        assert len(broken(theorem, minimum)) == 1
    printed = altered(run, "section_e", "corrected", lambda d: d + 1e-3)
    assert len(broken(theorem, printed)) == 1
    printed = altered(run, "section_e", "corrected_v", lambda d: d + 1e-3)
    assert len(broken(theorem, printed)) == 1
    is_legible(theorem.draw(reloaded(theorem, run, tmp_path)))


@pytest.mark.parametrize(
    ("kind", "bad", "words"),
    [
        (lemma.Parameters, {"width": 3}, "`width` must be above the number of modes, 3, got 3"),
        (lemma.Parameters, {"outputs": 9}, "less than or equal to 4"),
        (theorem.Parameters, {"units": 4, "width": 4}, "`width` must be above `units` 4, got 4"),
        (theorem.Parameters, {"units": 6, "samples": 80, "width": 9}, "`samples` must be at least"),
        (theorem.Parameters, {"scale": 0.0}, "greater than or equal to 0.3"),
    ],
)
def test_bad_parameters(kind, bad, words):
    with pytest.raises(ValueError, match=words):
        kind(**bad)
