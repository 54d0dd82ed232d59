"""Test `festina reproduce`: it runs all experiments of a source, even if some fail."""

import dataclasses
import json
import sys
import types

import pytest

from festina import papers

from . import toy
from .conftest import everything
from .test_run import FIELDS

RUNS = ["one", "one-printed", "two", "two-printed"]
FILES = ["claims.json", "report.html"]
LABELS = ["toy/one", "toy/one (printed)", "toy/two", "toy/two (printed)"]


def label(claim):
    return claim["experiment"] + (f" ({claim['preset']})" if claim["preset"] else "")


@pytest.fixture
def second(monkeypatch):
    """Return a copy of the module of `toy/two`, so that it can run differently from `toy/one`."""
    module = types.ModuleType("toy_two")
    vars(module).update({k: v for k, v in vars(toy).items() if not k.startswith("__")})
    monkeypatch.setitem(sys.modules, "toy_two", module)

    def replace(**changes):
        vars(module).update(changes)
        one, two = toy.EXPERIMENTS
        entries = (one, dataclasses.replace(two, module="toy_two"))
        monkeypatch.setattr(papers, "EXPERIMENTS", entries)

    return replace


def fail(error):
    def run(*_, **__):
        raise error

    return run


def test_several_sources_are_one_job(festina, here, monkeypatch):
    one, two = toy.EXPERIMENTS
    entries = (one, dataclasses.replace(two, name="other/two"))
    monkeypatch.setattr(papers, "EXPERIMENTS", entries)
    outcome = festina("reproduce", "toy/one", "other", "toy", "--quick", "--seeds", "2")
    top = here / "runs" / "reproduce-toy-one-other-toy" / "001"
    assert outcome.status == 0
    assert f"2 of 2 runs. All results are in {top.relative_to(here)}: open report" in outcome.out
    figures = top.relative_to(here) / "*" / "*" / "figure.png"
    assert f"Figures: {figures}" in outcome.out.splitlines()
    assert {str(path.parent.relative_to(top)) for path in top.glob("*/*/figure.png")} == {
        "toy/one",
        "other/two",
    }


def test_every_experiment_with_every_preset(festina, here):
    outcome = festina("reproduce", "toy", "--seeds", "2", "--seed", "4")
    assert outcome.status == 0
    top = here / "runs" / "reproduce-toy" / "001"
    assert {path.name for path in top.iterdir()} == {*FILES, *RUNS}
    assert "12 claims: 4 hold, 4 hold with a correction, 4 known not to hold, 0 broken." in (
        outcome.out
    )
    *_, whole, _ = outcome.out.splitlines()
    where = top.relative_to(here)
    assert whole == f"4 of 4 runs. All results are in {where}: open report.html in a browser."
    where = str(top.relative_to(here) / "*" / "figure.png")
    assert f"Figures: {where}" in outcome.out.splitlines()
    assert {path.parent.name for path in here.glob(where)} == set(RUNS)
    claims = json.loads((top / "claims.json").read_text())
    assert list(dict.fromkeys(map(label, claims))) == LABELS
    text = (top / "two-printed" / "parameters.toml").read_text()
    assert "seeds = 2\n" in text
    assert "seed = 4\n" in text
    assert festina("show", str(top / "two-printed")).status == 0
    festina("reproduce", "toy")  # other parameters
    assert (top.parent / "002").is_dir()


def test_only_names_that_begin_alike(festina, here):
    assert festina("reproduce", "toy/t", "--seeds", "2").status == 0
    top = here / "runs" / "reproduce-toy-t" / "001"
    assert {path.name for path in top.iterdir()} == {*FILES, "two", "two-printed"}


def test_all_and_json(festina, here):
    outcome = festina("reproduce", "all", "--out", "a", "--json")
    assert outcome.status == 0
    assert outcome.out == (here / "a" / "claims.json").read_text()
    assert sorted(path.name for path in (here / "a" / "toy").iterdir()) == RUNS


def test_claims_are_chosen_by_identifier(festina, here):
    outcome = festina("reproduce", "toy", "--claims", "width", "toy/two#decay", "--out", "a")
    assert outcome.status == 0
    assert outcome.out.count("[width] as printed") == 4
    assert outcome.out.count("the loss falls") == 2
    assert "rises" not in outcome.out
    assert "6 claims: 2 hold, 4 hold with a correction, 0 broken." in outcome.out
    assert len(json.loads((here / "a" / "claims.json").read_text())) == 12
    chosen = festina("reproduce", "toy", "--claims", "toy/two#decay", "--json", "--out", "a")
    assert [claim["preset"] for claim in json.loads(chosen.out)] == ["", "printed"]


def test_only_claims_that_are_chosen_make_the_exit_status(festina, second):
    second(PRESETS={"wrong": {"ending": "wrong"}})
    assert festina("reproduce", "toy", "--claims", "width").status == 0
    assert festina("reproduce", "toy", "--claims", "decay").status == 1


def test_a_broken_claim_is_exit_status_one(festina, second):
    second(PRESETS={"wrong": {"ending": "wrong"}})
    outcome = festina("reproduce", "toy")
    assert outcome.status == 1
    assert "1 broken" in outcome.out


@pytest.mark.parametrize("error", [ValueError("too wide\nfor this"), TypeError("too wide")])
def test_one_that_fails_does_not_stop_the_others(error, festina, second, here):
    second(run=fail(error))
    outcome = festina("reproduce", "toy", "--out", "a")
    assert outcome.status == 1
    complaints = [line for line in outcome.err.splitlines() if line.startswith("festina: ")]
    assert len(complaints) == 2
    assert all("toy/two" in line and "too wide" in line for line in complaints)
    assert "2 experiments failed" in outcome.out
    entries = json.loads((here / "a" / "claims.json").read_text())
    assert [entry["verdict"] for entry in entries[-2:]] == ["failed", "failed"]
    assert "too wide" in entries[-1]["note"]
    assert {path.name for path in (here / "a").iterdir()} == {*FILES, *RUNS[:2]}


def test_one_that_cannot_be_loaded_does_not_stop_the_others(festina, monkeypatch, here):
    one, two = toy.EXPERIMENTS
    entries = (dataclasses.replace(one, module="no_such_module"), two)
    monkeypatch.setattr(papers, "EXPERIMENTS", entries)
    outcome = festina("reproduce", "toy", "--out", "a")
    assert outcome.status == 1
    assert "no_such_module" in outcome.err
    assert {path.name for path in (here / "a").iterdir()} == {*FILES, *RUNS[2:]}


def test_nothing_is_left_if_all_fail(festina, monkeypatch, here):
    monkeypatch.setattr(toy, "run", fail(ValueError("no")))
    assert festina("reproduce", "toy").status == 1
    assert everything(here) == []


def test_an_interruption_keeps_what_was_finished(festina, second, here):
    second(run=fail(KeyboardInterrupt()))
    outcome = festina("reproduce", "toy", "--out", "a")
    assert outcome.status == 130
    assert outcome.err.splitlines()[-1].startswith("festina: Interrupted; finished runs are in")
    assert "6 claims" in outcome.out
    assert "Interrupted: 2 of 4 runs are finished" in outcome.out
    assert {path.name for path in (here / "a").iterdir()} == {*FILES, *RUNS[:2]}
    claims = json.loads((here / "a" / "claims.json").read_text())
    assert [claim["verdict"] for claim in claims[6:]] == ["interrupted", "not run"]
    assert [label(claim) for claim in claims[6:]] == LABELS[2:]
    assert [list(claim) for claim in claims] == [FIELDS] * 8
    assert claims[6]["predicted"] is claims[6]["measured"] is claims[6]["tolerance"] is None
    assert claims[6]["note"] == "the command ended during this run"
    assert claims[7]["note"] == "not finished when claims.json was written"
    assert {claim["verdict"] for claim in claims[:6]} == {
        *("holds", "holds with a correction", "does not hold")
    }
    assert festina("show", "a/one-printed").status == 0


def test_an_interruption_at_once_leaves_nothing(festina, monkeypatch, here):
    monkeypatch.setattr(toy, "run", fail(KeyboardInterrupt()))
    outcome = festina("reproduce", "toy")
    assert outcome.status == 130
    assert outcome.out.startswith("Interrupted: 0 of 4 runs are finished")
    assert outcome.err.splitlines()[-1] == "festina: Interrupted; nothing was written."
    assert everything(here) == []
