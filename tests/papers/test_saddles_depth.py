"""Figure 5 of the saddle-to-saddle paper: deep networks, on fresh seeds."""

import functools

import numpy as np
import pytest
from pydantic import ValidationError

from experiments import altered, broken, pixels, reloaded, written
from festina.papers import load
from papers.test_figure_1 import is_legible

# Minutes of compilation; the functions themselves are tested in theory, diagnose and dynamics.
pytestmark = pytest.mark.slow

# Cheap enough for every test run: narrower, and three seeds.
SMALL = {"a": {"seeds": 3, "width": 12}}
LETTERS = [
    letter if letter in SMALL else pytest.param(letter, marks=pytest.mark.slow)
    for letter in "abcdef"
]


def panel(letter):
    return load(f"saddles/figure-5{letter}")


@functools.cache
def fresh(letter, **options):
    experiment = panel(letter)
    chosen = {"seed": 100, "seeds": 6} | SMALL.get(letter, {}) | options
    return experiment.run(experiment.parameters(**chosen))


def verdict(experiment, run, words):
    (claim,) = [claim for claim in experiment.claims(run) if claim.claim.startswith(words)]
    return claim


@pytest.mark.parametrize("letter", LETTERS)
def test_no_claim_is_broken_and_a_saved_run_says_the_same(letter, tmp_path):
    experiment, run = panel(letter), fresh(letter)
    assert broken(experiment, run) == []
    claims = written(experiment, run)
    assert len(claims) >= 6
    assert all(f"Figure 5{letter.upper()}" in claims[i]["source"] for i in (0, 2))
    again = reloaded(experiment, run, tmp_path)
    figures = [pixels(experiment.draw(each)) for each in (run, again)]
    np.testing.assert_array_equal(*figures)


@pytest.mark.parametrize("letter", LETTERS)
def test_figures_are_legible(letter):
    figure = panel(letter).draw(fresh(letter))
    assert is_legible(figure)
    assert "theory: levels" in figure.axes[0].get_legend().get_texts()[-1].get_text()


@pytest.mark.parametrize(
    ("letter", "levels", "within"),
    [
        ("a", (5.0, 0.6972244, 0.0), 1e-3),
        pytest.param("b", (1.0, 0.4, 0.0), 1e-2, marks=pytest.mark.slow),
        pytest.param("c", (1.0, 0.5, 0.0), 1e-3, marks=pytest.mark.slow),
        pytest.param("f", (6.0, 8 / 3, 0.0), None, marks=pytest.mark.slow),
    ],
)
def test_levels_of_figure_5(letter, levels, within):
    """Narrow minima by optimisation, and the plateaus that were visited."""
    run = fresh(letter)
    np.testing.assert_allclose(run["theory"]["level"].values, levels, atol=1e-6)
    if within is not None:
        plateaus = run["plateaus"]
        assert (plateaus["count"].values == 3).all()
        np.testing.assert_allclose(plateaus["level"].values[:, 1], levels[1], atol=within)


def test_figure_5a_a_level_or_a_rank_that_is_wrong_is_noticed():
    experiment, run = panel("a"), fresh("a")
    moved = altered(run, "plateaus", "level", lambda level: 1.01 * level, plateau=1)
    assert any("the loss rests" in claim for claim in broken(experiment, moved))
    full = altered(run, "layers", "singular_value", lambda s: s + 1.0)
    assert any("one direction passes" in claim for claim in broken(experiment, full))
    lost = altered(run, "layers", "singular_value", lambda s: 0.1 * s, mode=1)
    assert any("two directions pass" in claim for claim in broken(experiment, lost))


@pytest.mark.slow
def test_figure_5d_split_by_patch_has_no_clean_plateau():
    """By kernel tap 0.40, by patch nothing; the paper leaves open which it is."""
    experiment = panel("d")
    run = fresh("d", split="patch", cleaner=None)
    claim = verdict(experiment, run, "the loss rests")
    assert claim.verdict == claim.expected == "does not hold"
    assert "split by patch" in claim.note
    assert not any("three plateaus" in each.claim for each in experiment.claims(run))
    claim = verdict(experiment, fresh("d"), "the loss rests")
    assert claim.verdict == "holds with a correction"
    assert "does not say how the scalar target is split" in claim.note


@pytest.mark.slow
@pytest.mark.parametrize("letter", "df")
def test_figure_5_a_run_that_rests_nowhere_would_be_noticed(letter):
    experiment, run = panel(letter), fresh(letter)
    restless = altered(run, "plateaus", "strength", lambda strength: 0.1 * strength)
    assert verdict(experiment, restless, "the loss rests within").broken
    restless = altered(run, "cleaner", "strength", lambda strength: 0.1 * strength)
    found = broken(experiment, restless)
    assert any("the loss rests within" in claim for claim in found)
    assert any("in half of the seeds" in claim for claim in found)


@pytest.mark.slow
def test_figure_5c_later_drops_than_plain_descent_has_would_be_noticed():
    experiment, run = panel("c"), fresh("c")
    late = altered(run, "drops", "step", lambda step: 2 * step)
    found = [claim for claim in broken(experiment, late) if "mean step" in claim]
    assert len(found) == 2
    late = altered(run, "drops", "step", lambda step: step + 0.6)
    assert len(broken(experiment, late)) == 1  # from the same weights they come at the same step
    never = altered(run, "drops", "plain_step", lambda step: np.nan * step, seed=0, drop=1)
    assert len(broken(experiment, never)) == 1


@pytest.mark.slow
def test_figure_5e_controls_learn_nothing_and_are_checked():
    experiment, run = panel("e"), fresh("e")
    for name in ("without_residual", "uncorrelated"):
        assert np.abs(run["controls"][name].values).max() < 1e-6
        learned = altered(run, "controls", name, lambda share: share + 0.5)
        assert len(broken(experiment, learned)) == 1


@pytest.mark.slow
def test_figure_5e_escapes_in_inverse_proportion_to_an_accident_of_the_sample():
    """Drop times of data sets differ as the inverse of their correlation of target and query."""
    products = {}
    for samples in (1024, 8192):
        run = fresh("e", samples=samples, seeds=4)
        size = float(run["theory"]["correlation"])
        products[samples] = size, size * run["drops"]["step"].values[:, 0].mean()
    (few, fast), (many, slow) = products.values()
    assert few > 1.5 * many
    np.testing.assert_allclose(fast, slow, rtol=0.35)


@pytest.mark.slow
def test_figure_5e_what_its_prediction_leaves_out_falls_with_the_initial_scale():
    errors = []
    for scale in (5e-3, 1e-3):
        run = fresh("e", scale=scale, seeds=4)
        ratio = run["drops"]["step"].values[:, 0] / run["theory"]["drop_step"].values[:, 0]
        errors.append(np.median(np.abs(ratio - 1)))
    assert errors[0] < 0.05
    assert errors[1] < 0.35 * errors[0]


@pytest.mark.slow
def test_figure_5e_a_drop_or_a_sample_that_is_off_would_be_noticed():
    experiment, run = panel("e"), fresh("e")
    late = altered(run, "drops", "step", lambda step: 1.2 * step)
    (found,) = broken(experiment, late)
    assert found.startswith("first drop predicted")
    # So strong a drive that only the strongest of correlations would let descent be so late.
    strong = altered(run, "theory", "wait", lambda wait: 2 * wait)
    (found,) = broken(experiment, strong)
    assert found.startswith("drops at 44000 to 72000 steps")


@pytest.mark.slow
def test_figure_5f_is_cleaner_from_smaller_weights():
    run = fresh("f")
    levels = [run[name]["level"].values[:, 1] for name in ("plateaus", "cleaner")]
    away = [np.nanmedian(np.abs(each / (8 / 3) - 1)) for each in levels]
    assert away[1] < 0.2 * away[0]


def test_bad_parameters_are_refused():
    with pytest.raises(ValueError, match="`samples` must be none"):
        panel("c").run(panel("c").parameters(samples=5))
    with pytest.raises(ValueError, match="`samples` must be a number"):
        panel("e").run(panel("e").parameters(samples=None))
    with pytest.raises(ValidationError, match="split"):
        panel("d").parameters(split="half")
