"""Judgements hold or not by their numbers alone, and claims by what is known beforehand."""

import json

import numpy as np
import pytest
import xarray as xr
from hypothesis import given
from hypothesis import strategies as st
from scipy.stats import binom

from festina.experiments.claims import (
    CHANCE,
    Judgement,
    Ledger,
    above,
    agree,
    apart,
    asserts,
    below,
    exponent,
    falls,
    listed,
    mean,
    most,
    rises,
    same,
    share,
)

NOTHING = np.zeros(0)


@pytest.mark.parametrize(
    ("judged", "holds"),
    [
        (agree(1.1, 1.0, within=0.11), True),
        (agree(1.1, 1.0, within=0.09), False),
        (agree([2.2, 1.0], [2.0, 1.0], within=0.11, relative=True), True),
        (agree([2.0, 1.2], [2.0, 1.0], within=0.11, relative=True), False),
        (apart([1.0, 2.0], [1.0, 2.1], within=0.11), True),
        (apart([1.0, 2.0], [1.0, 2.1], within=0.09), False),
        (apart([10.0], [10.9], within=0.1, relative=True), True),
        (apart([10.0], [10.9], within=0.1, over=5.0), False),
        (above([3.0, 2.1], 2.0), True),
        (above([3.0, 1.9], 2.0), False),
        (below([1.0, 1.9], 2.0), True),
        (below([1.0, 2.1], 2.0), False),
        (falls([3.0, 2.0, 1.0]), True),
        (falls([3.0, 2.0, 2.0]), False),
        (rises([1.0, 2.0]), True),
        (same("falls", "rises"), False),
        (exponent([1.0, 10.0, 100.0], [2.0, 20.0, 200.0], 1.0, within=1e-9), True),
        (exponent([1.0, 10.0], [[1.0, 1.0], [10.0, 100.0]], 1.0, within=0.5), False),
    ],
)
def test_numbers_decide(judged, holds):
    assert judged.holds is holds


@pytest.mark.parametrize("missing", [np.nan, np.inf, NOTHING], ids=("nan", "inf", "empty"))
@pytest.mark.parametrize(
    "judge",
    [
        lambda x: agree(x, 1.0, within=1e300),
        lambda x: apart(x, within=1e300),
        lambda x: above(x, -1e300),
        lambda x: below(-x, 1e300),
        lambda x: most(x > 2.0) if np.size(x) == 0 else agree(x, 0.0),
        lambda x: falls(x) if np.size(x) == 0 else falls([x, x]),
    ],
)
def test_what_was_not_measured_does_not_hold(judge, missing):
    assert not judge(missing).holds


@pytest.mark.parametrize(
    "judged",
    [
        above([1.0, np.inf], 0.0),
        below([1.0, -np.inf], 2.0),
        agree([3.0], [np.inf], within=0.1, relative=True),
        apart([3.0], within=0.1, over=np.inf),
        falls([1.0]),
        falls([2.0, np.nan]),
        mean(NOTHING, 1.0, 1.0),
        exponent([1.0], [1.0], 1.0, within=0.1),
        exponent([1.0, 2.0], [0.0, 1.0], 1.0, within=np.inf),
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
    few = next(k for k in range(total + 1) if binom.cdf(k, total, level) >= CHANCE)
    holds = np.arange(total) < max(few, 1)
    assert most(holds, level).holds
    assert few == 0 or not most(np.arange(total) < few - 1, level).holds
    assert not most(np.zeros(total, bool), level).holds
    assert most(np.ones(total, bool)).holds
    assert not most(np.arange(total) > 0).holds
    drawn = np.random.default_rng(seed).random((200, total)) < level
    failed = np.mean([not share(one, level).holds for one in drawn])
    assert failed <= CHANCE + 4 * np.sqrt(CHANCE / 200)


def test_a_mean_fails_beyond_chance_and_names_the_furthest():
    draws = np.random.default_rng(3).normal(loc=(1.0, 2.0, 3.0), size=(400, 3))
    assert mean(draws, [1.0, 2.0, 3.0], 1.0).holds
    off = mean(draws, [1.0, 2.3, 3.0], 1.0)
    assert not off.holds
    assert off.predicted == 2.3
    assert mean(draws, [1.0, 2.3, 3.0], 1.0, there=20).holds


def test_numbers_are_listed_with_their_places():
    values = xr.DataArray([1.0, 2.5], {"width": [3, 10]}, ("width",))
    assert listed(values) == "1 at width 3, 2.5 at width 10"
    assert listed([1.0, 2.5]) == "1, 2.5"


@asserts("Somebody", "Figure 1")
def claims(run, say):
    """What somebody says."""
    level = float(run["data"]["level"])
    say("the level is two", agree(level, 2.0, within=0.1))
    say("… of another", agree(level / 2, 1.0, within=0.1), "Eq. (3)", corrected="halved")
    say(
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
    one, two, three = verdicts(2.0)
    assert [claim.verdict for claim in (one, two, three)] == [
        "holds",
        "holds with a correction",
        "does not hold",
    ]
    assert [claim.expected for claim in (one, two, three)] == [
        claim.verdict for claim in (one, two, three)
    ]
    assert not any(claim.broken for claim in (one, two, three))
    assert one.source == "Somebody, Figure 1"
    assert two.source == "Somebody, Eq. (3)"
    assert three.note == "a misprint; instead 2, measured 2"
    written = [claim.to_json() for claim in (one, two, three)]
    assert json.loads(json.dumps(written, allow_nan=False)) == written
    assert [entry["broken"] for entry in written] == [False] * 3
    assert claims.__doc__ == "What somebody says."


@pytest.mark.parametrize("level", [3.0, np.nan, 2.5], ids=("it holds", "nan", "another number"))
def test_a_statement_known_to_be_wrong_can_break(level):
    *_, three = verdicts(level)
    assert three.broken
    assert three.expected == "does not hold"


def test_what_is_wrong_needs_what_is_right():
    say = Ledger("toy/one", "Somebody", "Figure 1")
    with pytest.raises(TypeError, match="instead"):
        say("the level is three", same(2, 3), wrong="a misprint")
    with pytest.raises(TypeError, match="instead"):
        say("the level is three", same(3, 3), instead=same(3, 3))


def test_only_what_is_finite_is_told():
    assert Judgement(1.0, [1.0, 2.0], 0.1, True).is_told
    assert Judgement(1.0, "words", 0.1, True).is_told
    assert not Judgement(1.0, [1.0, np.nan], 0.1, True).is_told
    assert not Judgement(1.0, np.inf, 0.1, True).is_told
