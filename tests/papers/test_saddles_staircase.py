"""The experiment on predicted staircases, on seeds and sizes that nothing was tuned on."""

import functools

import numpy as np
import pytest
import xarray as xr

from experiments import altered, broken, is_whole, reloaded
from festina.papers import load
from festina.papers.saddles.theorems._staircase_claims import _falls, later_claims

# Minutes of compilation; the functions themselves are tested in theory, diagnose and dynamics.
pytestmark = pytest.mark.slow

EXPERIMENT = load("saddles/staircase")
SMALL = {
    "seeds": 2,
    "repeats": 1,
    "scales": (1e-3, 1e-8),
    "dimension": 4,
    "modes": 3,
    "features": 4,
    "coefficients": (2.0, -1.0),
    "token_dimension": 1,
    "heads": 2,
    "attention_scale": 1e-2,
    "seed": 11,
}


@functools.cache
def small():
    return EXPERIMENT.run(EXPERIMENT.parameters(**SMALL))


def test_no_claim_breaks_on_another_seed():
    assert broken(EXPERIMENT, small()) == []


@pytest.mark.slow
def test_no_claim_breaks_at_the_quick_parameters():
    quick = EXPERIMENT.parameters(**EXPERIMENT.quick, seed=5)
    assert broken(EXPERIMENT, EXPERIMENT.run(quick)) == []


def test_claims_survive_disk(tmp_path):
    reloaded(EXPERIMENT, small(), tmp_path)


@pytest.mark.parametrize(
    ("group", "name", "change", "words"),
    [
        ("mixed", "jump", lambda t: 1.1 * t, "modes that mix: jump times"),
        ("power", "rest", lambda level: 1.05 * level, "power law: plateaus"),
        ("diagonal", "seen", lambda seen: 1.0 - seen, "predicted active coordinates"),
        ("attention", "jump", lambda t: 1.3 * t, "first jump of every seed"),
        ("attention", "rest", lambda level: 1.1 * level, "attention: plateaus of training"),
    ],
)
def test_a_wrong_prediction_breaks_its_claim(group, name, change, words):
    assert any(
        words in claim for claim in broken(EXPERIMENT, altered(small(), group, name, change))
    )


def test_errors_that_do_not_fall_break_their_claim():
    """Jumps that come 3 % late at every ε, which alone is within what 1e-8 allows."""
    wrong = altered(small(), "diagonal", "jump", lambda t: 1.03 * t)
    found = [claim for claim in broken(EXPERIMENT, wrong) if "diagonal" in claim]
    assert len(found) == 1
    assert "a small part of the time" in found[0]


@pytest.mark.parametrize(
    ("error", "holds"),
    [
        (lambda log: 0.004 / log, True),
        (lambda log: 0.0005 + 0 * log, False),  # does not fall
        (lambda log: 1e-4 * log / 7, False),  # grows
        (lambda log: 0.5 / log, True),  # falls, though it is large
    ],
)
def test_errors_have_to_fall_as_the_logarithm_of_the_scale_rises(error, holds):
    scales, jump = np.array([1e-3, 1e-6, 1e-12]), np.array([1.0, 2.0, 4.0])
    log = np.log(1 / scales)[:, None, None]
    jumps = log * jump * np.ones((3, 4, 1))
    axes = ("scale", "seed", "fall")
    table = xr.Dataset(
        {"jump": (axes, jumps), "passage": (axes, jumps / (1 + error(log)))}, {"scale": scales}
    )
    size, fall = _falls("diagonal", table, correlated=False)
    assert (fall.verdict == "holds") == holds
    assert (size.verdict == "holds") == (error(log[-1]).max() * log.max() < 0.15)


def test_linear_networks_are_held_to_their_error_at_every_scale():
    where = {"scale": SMALL["scales"][0]}
    wrong = altered(small(), "power", "jump", lambda t: 1.002 * t, **where)
    assert any("at every ε" in claim for claim in broken(EXPERIMENT, wrong))


def jumps(seeds, wrong=1.0):
    """Two jumps of each seed, predicted to 2 %; of one seed the last comes after its training."""
    rng = np.random.default_rng(0)
    jump = np.cumsum(rng.lognormal(size=(seeds, 3)), axis=1)
    passage = jump * rng.lognormal(sigma=0.02, size=jump.shape)
    passage[0, 2] = np.nan
    axes = ("seed", "fall")
    table = {
        "jump": (axes, wrong * jump),
        "passage": (axes, passage),
        "end": ("seed", [1e3] * seeds),
    }
    return xr.Dataset(table)


def test_later_jumps_are_compared_over_seeds():
    assert [claim.verdict for claim in later_claims(jumps(16))] == ["holds", "holds"]
    assert later_claims(jumps(16, wrong=1.4))[0].broken
    assert [claim.broken for claim in later_claims(jumps(16, wrong=4.0))] == [True, True]
    few = later_claims(jumps(8))  # too few for a distance of distributions to mean anything
    assert [claim.verdict for claim in few] == ["holds"]
    assert later_claims(jumps(16).isel(fall=slice(0, 1))) == []


def test_the_figure_is_legible():
    figure = EXPERIMENT.draw(small())
    assert is_whole(figure)
    for ax in figure.axes:
        legend = ax.get_legend().get_window_extent()
        for line in ax.get_lines():
            points = ax.transData.transform(np.column_stack(line.get_data()))
            assert not legend.count_contains(points[np.isfinite(points).all(axis=1)])


@pytest.mark.parametrize(
    ("change", "words"),
    [
        ({"scales": (1e-8, 1e-4)}, "falling"),
        ({"scales": (1e-1, 1e-4)}, "no plateaus"),
        ({"modes": 11}, "`modes`"),
        ({"coefficients": (1.0, 0.0)}, "`coefficients`"),
        ({"attention_scale": 0.5}, "attention_scale"),
    ],
)
def test_impossible_parameters_are_refused(change, words):
    with pytest.raises(ValueError, match=words):
        EXPERIMENT.parameters(**change)
