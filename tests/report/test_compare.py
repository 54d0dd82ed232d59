"""Test the comparison of claims of two runs."""

import math
from dataclasses import replace
from pathlib import Path

import pytest

from festina.report import Section, changes
from festina.report._page import render

CLAIM = {"id": "drop", "words": "the loss drops", "verdict": "holds", "broken": False, "at": ""}
CLAIM |= {"correction": "", "wrong": "", "instead": None, "note": ""}


def section(*claims, **changed):
    numbers = {"predicted": 2.0, "measured": 2.0, "tolerance": 0.1}
    return Section(
        "mine", "", Path("a"), claims=tuple(CLAIM | numbers | changed | c for c in claims)
    )


@pytest.mark.parametrize(
    ("before", "after", "tolerance", "moved"),
    [
        (2.0, 2.05, 0.1, 0.5),
        (2.0, 2.05, "5 %", 0.5),
        ([1.0, 2.0], [1.0, 1.8], 0.1, 2.0),
        (2.0, 2.0, 0.0, 0.0),
        (2.0, 2.0, "exact", math.nan),
        (2.0, [2.0, 2.0], 0.1, math.nan),
        (None, 2.0, 0.1, math.nan),
        ("one", "two", 0.1, math.nan),
    ],
)
def test_values_move_in_units_of_the_tolerance(before, after, tolerance, moved):
    first = section({}, measured=before, tolerance=tolerance)
    (change,) = changes(first, section({}, measured=after, tolerance=tolerance))
    assert change.moved == pytest.approx(moved, nan_ok=True)
    assert not change.turned


def test_any_change_beyond_a_tolerance_of_zero_is_infinite():
    (change,) = changes(section({}, tolerance=0.0), section({}, tolerance=0.0, measured=2.1))
    assert change.moved == math.inf


def test_changed_verdicts_come_first():
    ids = [{"id": id} for id in ("same", "moved", "turned", "gone")]
    after = [{"id": "same"}, {"id": "moved", "measured": 2.01}, {"id": "turned", "broken": True}]
    found = changes(section(*ids), section(*after, {"id": "new"}))
    assert [change.id for change in found] == ["turned", "gone", "new", "moved", "same"]
    assert [change.before for change in found][:3] == ["holds", "holds", "not there"]
    assert [change.after for change in found][:3] == ["broken", "not there", "holds"]


def test_predictions_of_both_runs_are_told():
    first, second = section({}), section({}, predicted=3.0)
    (change,) = changes(first, second)
    assert change.predictions == (2.0, 3.0)
    text = render([first, replace(second, anchor="again")])
    assert "The prediction differs too: 2 in the first run, 3 in the second." in text
