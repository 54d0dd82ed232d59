"""Test that judgements depend on their numbers alone, and verdicts also on known errors."""

import json

import numpy as np
import pytest
import xarray as xr
from hypothesis import given
from hypothesis import strategies as st
from scipy.stats import binom

from festina.experiments.claims import (
    SIGNIFICANCE_LEVEL,
    ClaimCollector,
    Judgement,
    agree,
    all_above,
    all_below,
    claims_from_source,
    decreasing,
    equal_to,
    follows_power_law,
    frequency_agrees,
    headline_claim,
    increasing,
    join_numbers,
    max_error_below,
    mean_agrees,
    most_seeds,
)

NOTHING = np.zeros(0)


@pytest.mark.parametrize(
    ("judged", "holds"),
    [
        (agree(1.1, 1.0, within=0.11), True),
        (agree(1.1, 1.0, within=0.09), False),
        (agree([2.2, 1.0], [2.0, 1.0], within=0.11, relative=True), True),
        (agree([2.0, 1.2], [2.0, 1.0], within=0.11, relative=True), False),
        (max_error_below([1.0, 2.0], [1.0, 2.1], within=0.11), True),
        (max_error_below([1.0, 2.0], [1.0, 2.1], within=0.09), False),
        (max_error_below([10.0], [10.9], within=0.1, relative=True), True),
        (max_error_below([10.0], [10.9], within=0.1, over=5.0), False),
        (all_above([3.0, 2.1], 2.0), True),
        (all_above([3.0, 1.9], 2.0), False),
        (all_below([1.0, 1.9], 2.0), True),
        (all_below([1.0, 2.1], 2.0), False),
        (decreasing([3.0, 2.0, 1.0]), True),
        (decreasing([3.0, 2.0, 2.0]), False),
        (increasing([1.0, 2.0]), True),
        (equal_to("falls", "rises"), False),
        (follows_power_law([1.0, 10.0, 100.0], [2.0, 20.0, 200.0], 1.0, within=1e-9), True),
        (follows_power_law([1.0, 10.0], [[1.0, 1.0], [10.0, 100.0]], 1.0, within=0.5), False),
    ],
)
def test_numbers_decide(judged, holds):
    assert judged.holds is holds


@pytest.mark.parametrize("missing", [np.nan, np.inf, NOTHING], ids=("nan", "inf", "empty"))
@pytest.mark.parametrize(
    "judge",
    [
        lambda x: agree(x, 1.0, within=1e300),
        lambda x: max_error_below(x, within=1e300),
        lambda x: all_above(x, -1e300),
        lambda x: all_below(-x, 1e300),
        lambda x: most_seeds(x > 2.0) if np.size(x) == 0 else agree(x, 0.0),
        lambda x: decreasing(x) if np.size(x) == 0 else decreasing([x, x]),
    ],
)
def test_what_was_not_measured_does_not_hold(judge, missing):
    assert not judge(missing).holds


@pytest.mark.parametrize(
    "judged",
    [
        all_above([1.0, np.inf], 0.0),
        all_below([1.0, -np.inf], 2.0),
        agree([3.0], [np.inf], within=0.1, relative=True),
        max_error_below([3.0], within=0.1, over=np.inf),
        decreasing([1.0]),
        decreasing([2.0, np.nan]),
        mean_agrees(NOTHING, 1.0, 1.0),
        follows_power_law([1.0], [1.0], 1.0, within=0.1),
        follows_power_law([1.0, 2.0], [0.0, 1.0], 1.0, within=np.inf),
    ],
)
def test_what_is_not_finite_anywhere_does_not_hold(judged):
    assert not judged.holds
    assert (
        not judged.is_told or not np.isfinite(np.sum(judged.predicted)) or judged.tolerance == 0.1
    )


@pytest.mark.slow
@given(st.integers(1, 60), st.sampled_from([0.5, 0.75, 0.9]), st.integers(0, 10**6))
def test_a_true_share_of_seeds_fails_as_rarely_as_chance_has_it(total, level, seed):
    few = next(k for k in range(total + 1) if binom.cdf(k, total, level) >= SIGNIFICANCE_LEVEL)
    holds = np.arange(total) < max(few, 1)
    assert most_seeds(holds, level).holds
    assert few == 0 or not most_seeds(np.arange(total) < few - 1, level).holds
    assert not most_seeds(np.zeros(total, bool), level).holds
    assert most_seeds(np.ones(total, bool)).holds
    assert not most_seeds(np.arange(total) > 0).holds
    drawn = np.random.default_rng(seed).random((200, total)) < level
    failed = np.mean([not frequency_agrees(one, level).holds for one in drawn])
    assert failed <= SIGNIFICANCE_LEVEL + 4 * np.sqrt(SIGNIFICANCE_LEVEL / 200)


def test_a_mean_fails_beyond_chance_and_names_the_furthest():
    draws = np.random.default_rng(3).normal(loc=(1.0, 2.0, 3.0), size=(400, 3))
    assert mean_agrees(draws, [1.0, 2.0, 3.0], 1.0).holds
    off = mean_agrees(draws, [1.0, 2.3, 3.0], 1.0)
    assert not off.holds
    assert off.predicted == 2.3
    assert mean_agrees(draws, [1.0, 2.3, 3.0], 1.0, there=20).holds


def test_numbers_are_listed_with_their_places():
    values = xr.DataArray([1.0, 2.5], {"width": [3, 10]}, ("width",))
    assert join_numbers(values) == "1 at width 3, 2.5 at width 10"
    assert join_numbers([1.0, 2.5]) == "1, 2.5"


@claims_from_source("Somebody", "Figure 1", note="drawn by hand")
def claims(run, claim):
    """Make three claims on a level: one holds, one is corrected, one is a misprint."""
    level = float(run["data"]["level"])
    claim("level", "the level is two", agree(level, 2.0, within=0.1))
    half = agree(level / 2, 1.0, within=0.1)
    claim("half", "… of another", half, at="Eq. (3)", corrected="halved", note="see Eq. (4)")
    claim(
        "misprint",
        "the level is three",
        agree(level, 3.0, within=0.1),
        wrong="a misprint",
        instead=agree(level, 2.0, within=0.1),
    )


def verdicts(level):
    tree = xr.DataTree.from_dict({"/data": xr.Dataset({"level": level})})
    tree.attrs["experiment"] = "toy/one"
    return claims(tree)


def test_claims_say_what_is_known_and_what_is_broken():
    made = one, two, three = verdicts(2.0)
    assert [claim.name for claim in made] == ["toy/one#level", "toy/one#half", "toy/one#misprint"]
    known = ["holds", "holds with a correction", "does not hold"]
    assert [claim.verdict for claim in made] == known
    assert [claim.expected for claim in made] == known
    assert not any(claim.broken for claim in made)
    assert one.place == "Somebody, Figure 1"
    assert two.place == "Somebody, Eq. (3)"
    assert two.note == "see Eq. (4); drawn by hand"
    assert three.remarks == "a misprint; instead 2, measured 2; drawn by hand"
    written = [claim.to_json() for claim in made]
    assert json.loads(json.dumps(written, allow_nan=False)) == written
    assert [entry["broken"] for entry in written] == [False] * 3
    assert [entry["correction"] for entry in written] == ["", "halved", ""]
    assert written[2]["wrong"] == "a misprint"
    instead = written[2]["instead"]
    assert isinstance(instead, dict)
    assert instead["holds"]
    assert claims.__doc__ is not None
    assert claims.__doc__.startswith("Make three claims")


@pytest.mark.parametrize("level", [3.0, np.nan, 2.5], ids=("it holds", "nan", "another number"))
def test_a_statement_known_to_be_wrong_can_break(level):
    *_, three = verdicts(level)
    assert three.broken
    assert three.expected == "does not hold"


@pytest.fixture
def claim():
    return ClaimCollector("toy/one", "Somebody", "Figure 1")


def test_what_is_wrong_needs_what_is_right(claim):
    with pytest.raises(TypeError, match="instead"):
        claim("level", "the level is three", equal_to(2, 3), wrong="a misprint")
    with pytest.raises(TypeError, match="instead"):
        claim("level", "the level is three", equal_to(3, 3), instead=equal_to(3, 3))


@pytest.mark.parametrize("id", ["", "Level", "two levels", "level-", "2-levels", "level_2"])
def test_an_identifier_is_kebab_case(claim, id):
    with pytest.raises(ValueError, match=f"'{id}' cannot be the identifier .* kebab-case"):
        claim(id, "the level is two", equal_to(2, 2))
    assert not claim


def test_an_identifier_is_taken_once(claim):
    claim("level", "the level is two", equal_to(2, 2))
    with pytest.raises(ValueError, match=r"called 'level': \S+:\d+ and \S+:\d+"):
        claim("level", "the level is three", equal_to(3, 3))
    assert len(claim) == 1


@pytest.mark.parametrize("cases", [("", "C = 2"), ("C = 1", "")])
def test_a_claim_without_a_case_is_no_case_of_another(claim, cases):
    claim("level", "the level is two", equal_to(2, 2), case=cases[0])
    with pytest.raises(ValueError, match="called 'level'") as raised:
        claim("level", "the level is two", equal_to(3, 2), case=cases[1])
    assert ("Only the second one has a `case`, 'C = 2'." in str(raised.value)) is bool(cases[1])
    assert claim[0].judged.holds


@pytest.mark.parametrize("second", [4.0, 5.0, np.nan])
def test_cases_are_one_claim_which_holds_where_all_do(claim, second):
    claim("zero", "the offset is none", equal_to(0, 0))
    for count, level in enumerate((1.0, second)):
        claim(
            "level",
            "levels are squares",
            agree(level, (count + 1) ** 2, within=0.1),
            note="of a toy",
            headline=count == 1,
            case=f"C = {count + 1}",
        )
    claim("last", "the last level is none", equal_to(0, 0))
    assert [one.id for one in claim] == ["zero", "level", "last"]
    level = headline_claim(claim)
    assert level is not None
    assert level.predicted == [1.0, 4.0]
    assert level.measured == pytest.approx([1.0, second], nan_ok=True)
    assert level.tolerance == 0.1
    assert level.judged.holds is (second == 4.0)
    assert level.remarks.endswith("of a toy; C = 1; C = 2")


def test_a_wrong_statement_in_two_cases_needs_what_is_right_in_both(claim):
    for seen in (2.0, 3.0):
        right = agree(seen, 2.0, within=0.1)
        three = all_above([seen, 5.0], 10.0)
        claim("level", "above ten", three, wrong="a misprint", instead=right, case=f"s = {seen:g}")
    (level,) = claim
    assert level.measured == [2.0, 3.0]
    assert level.instead.measured == [2.0, 3.0]
    assert level.broken
    assert level.judged.remark == "s = 2: smallest of 2; s = 3: smallest of 2"


def test_only_what_is_finite_is_told():
    assert Judgement(1.0, [1.0, 2.0], 0.1, True).is_told
    assert Judgement(1.0, "words", 0.1, True).is_told
    assert not Judgement(1.0, [1.0, np.nan], 0.1, True).is_told
    assert not Judgement(1.0, np.inf, 0.1, True).is_told
