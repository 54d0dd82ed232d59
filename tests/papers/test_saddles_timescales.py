"""Theorem 4 and Proposition 5."""

import functools
import json

import numpy as np
import pytest
from matplotlib.backends.backend_agg import FigureCanvasAgg

import festina
from experiments import altered, broken
from festina.papers.saddles import _proposition_5 as units
from festina.papers.saddles import _theorem_4 as directions
from festina.papers.saddles._units_flow import blow_up

SMALL = {
    directions: {
        "ratios": (0.6, 0.3),
        "multiplicities": (1, 1),
        "scales": (1e-5, 1e-7, 1e-9),
        "width": 20,
        "seed": 11,
    },
    units: {"seeds": 4, "units": 60, "draws": 100, "seed": 11, "scales": (5e-3, 5e-4)},
}
each = pytest.mark.parametrize("experiment", list(SMALL), ids=["theorem-4", "proposition-5"])


@functools.cache
def small(experiment):
    return experiment.run(experiment.Parameters(**SMALL[experiment]))


@each
def test_no_claim_is_broken(experiment):
    assert broken(experiment, small(experiment)) == []


@pytest.mark.slow
@each
@pytest.mark.parametrize("quick", [False, True])
def test_quick_has_the_verdicts_of_the_whole(experiment, quick):
    changes = experiment.QUICK if quick else {}
    claims = experiment.claims(experiment.run(experiment.Parameters(**changes)))
    assert [claim.claim for claim in claims if claim.broken] == []
    known = [claim for claim in claims if claim.expected == "does not hold"]
    assert all(claim.verdict == "does not hold" for claim in known)


@each
def test_a_saved_run_gives_the_same_claims_and_figure(experiment, tmp_path):
    run = small(experiment)
    claims = [claim.to_json() for claim in experiment.claims(run)]
    assert json.loads(json.dumps(claims, allow_nan=False)) == claims
    festina.save(run, tmp_path / "run.zarr")
    again = festina.load(tmp_path / "run.zarr")
    assert [claim.to_json() for claim in experiment.claims(again)] == claims
    assert len(experiment.draw(again).axes) == 2


@each
def test_the_figure_is_legible(experiment):
    figure = experiment.draw(small(experiment))
    FigureCanvasAgg(figure).draw()
    drawn, page = figure.get_tightbbox(), figure.bbox_inches
    assert (drawn.min >= page.min).all()
    assert (drawn.max <= page.max).all()
    for ax in figure.axes:
        assert ax.get_xlabel()
        assert ax.get_title()


@pytest.mark.parametrize(
    ("experiment", "group", "name", "change", "where", "words"),
    [
        (directions, "linear", "escape_measured", lambda t: t + 1e-5, {}, "is one at"),
        (directions, "linear", "exponent", lambda p: p + 0.01, {"spectrum": 1}, "left of a unit"),
        (directions, "network", "exponent", lambda p: p + 0.02, {"spectrum": 0}, "in the network"),
        (units, "both_signs", "measured", lambda t: t * (1 + 2e-5), {}, "both signs"),
        (units, "one_sign", "never", lambda b: ~b, {}, "never escape"),
        (units, "networks", "strongest", lambda i: i + 1, {}, "makes the first drop"),
        (units, "networks", "drop_time", lambda t: 1.01 * t, {}, "shortest escape time"),
        (units, "rivals", "second", lambda x: x / x["scale"], {}, "others are O(ε)"),
        (units, "gradients", "u", lambda x: x + 1e-6, {}, "44b"),
    ],
)
def test_data_that_differ_break_the_claim(experiment, group, name, change, where, words):
    found = broken(experiment, altered(small(experiment), group, name, change, **where))
    assert any(words in claim for claim in found)


def test_what_the_paper_misprints_is_said():
    known = {
        claim.claim: claim
        for claim in units.claims(small(units))
        if claim.expected == "does not hold"
    }
    assert len(known) == 5
    assert all(claim.verdict == "does not hold" for claim in known.values())


def test_equation_56_is_imaginary_for_a_unit_that_bounces():
    s = np.array([1.0, 0.4, -0.7])
    # v against a strong drive: it must stop and turn.
    assert np.isnan(units._printed(np.array([2.0, 1.0, 0.1]), -0.5, s))
    assert np.isfinite(units._printed(np.array([2.0, 1.0, 0.1]), 0.5, s))


def test_a_single_number_blows_up_at_its_inverse():
    """v' = v²: t = 1/v, and a negative one never does."""
    times, _ = blow_up(lambda v: v**2, np.array([[0.5], [2.0], [-1.0]]))
    np.testing.assert_allclose(times[:2], (2.0, 0.5), rtol=1e-9)
    assert times[2] == np.inf


@pytest.mark.parametrize(
    ("experiment", "bad", "words"),
    [
        (directions, {"ratios": (1.0,), "multiplicities": (1,)}, "between 0.15"),
        (directions, {"multiplicities": (1,)}, "for each of the 5 ratios"),
        (directions, {"scales": (1e-6, 1e-8)}, "four decades"),
        (directions, {"scales": (1e-8, 1e-6)}, "must fall"),
        (units, {"eigenvalues": (1.0, 0.5)}, "both signs"),
        (units, {"eigenvalues": (1.0, -0.01)}, "factor of ten"),
        (units, {"scales": (0.1, 0.01)}, "falling"),
    ],
)
def test_bad_parameters(experiment, bad, words):
    with pytest.raises(ValueError, match=words):
        experiment.Parameters(**bad)
