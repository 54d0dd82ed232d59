"""Test that identifiers of claims are read and checked when an experiment is loaded."""

import importlib.util
from importlib.machinery import ModuleSpec

import pytest

from festina.experiments import experiment_names, load_experiment
from festina.experiments._identifiers import identifiers
from festina.experiments._runner import check_identifiers

HEAD = """
from festina.experiments.claims import ClaimCollector

def claims(run, claim: ClaimCollector):
"""


@pytest.fixture
def read(tmp_path):
    """Return a function that reads the identifiers of a module with the given lines."""

    def read(body, head=HEAD):
        path = tmp_path / "mine.py"
        path.write_text(head + body)
        spec = importlib.util.spec_from_file_location("mine", path)
        assert spec is not None
        return identifiers(importlib.util.module_from_spec(spec))

    return read


def lines(*statements):
    return "".join(f"    {each}\n" for each in statements)


def test_literals_and_f_strings_are_read(read):
    body = lines(
        "claim('drop-times', 'words', run)", "for n in run:", "    claim(f'{n}-level', '')"
    )
    assert read(body) == ("drop-times", "*-level")
    assert read(lines("claim(words='…', id='drop-times')")) == ("drop-times",)


@pytest.mark.parametrize(
    "statement",
    [
        "claim(run.id, 'words')",
        "more(run, claim)",
        "[claim(*each) for each in run]",
        "say = claim",
    ],
)
def test_what_is_not_written_is_not_known(statement, read):
    assert read(lines("claim('drop-times', '')", statement)) is None


def test_claims_that_are_made_elsewhere_are_not_known(read):
    assert read("", head="from other import claims\n") is None


def test_functions_of_the_module_belong_to_it(read):
    more = "\n\ndef more(run, say: ClaimCollector):\n    say('level', '')\n"
    assert read(lines("claim('drop-times', '')", "more(run, claim)") + more) == (
        "drop-times",
        "level",
    )


def test_two_claims_of_one_identifier_are_refused_with_both_lines(read):
    body = lines("claim('drop-times', '')", "if run:", "    claim('level', '')")
    body += lines("claim(", "    'drop-times', ''", ")")
    with pytest.raises(ValueError, match=r"'drop-times': mine\.py:5 and mine\.py:8\. Rename"):
        read(body)
    with pytest.raises(ValueError, match=r"mine\.py:6 and mine\.py:7"):
        read(lines("if run:", "    claim('level', '')", "claim('level', '')"))


@pytest.mark.parametrize(
    "body",
    [
        lines("if run:", "    claim('level', '')", "else:", "    claim('level', '')"),
        lines("if run:", "    claim('level', '')", "    return", "claim('level', '')"),
        lines("if run:", "    claim('level', '')", "elif claims:", "    claim('level', '')"),
        lines("claim('level', '', case='1')", "claim('level', '', case='2')"),
        lines("match run:", "    case 1:", "        claim('level', '')")
        + lines("    case 2:", "        claim('level', '')"),
    ],
)
def test_cases_of_which_one_happens_may_make_the_same_claim(body, read):
    assert read(body) == ("level",)


@pytest.mark.parametrize(
    "id", ["Drop-times", "drop times", "drop_times", "-drop", "drop--times", ""]
)
def test_identifiers_are_kebab_case(id, read):
    with pytest.raises(ValueError, match=r"^mine\.py:5: .* must be kebab-case"):
        read(lines(f"claim({id!r}, '')"))


def test_a_module_without_source_has_none():
    assert identifiers(importlib.util.module_from_spec(ModuleSpec("x", None))) is None


def test_an_unknown_identifier_is_told_with_the_nearest():
    check_identifiers(["drop-times", "relu-level"], ["drop-times", "*-level"])
    with pytest.raises(ValueError, match=r"Unknown claim 'drop-tims'\. .* 'drop-times'\?"):
        check_identifiers(["drop-tims"], ["drop-times", "*-level", "a/b#drop-times"])
    with pytest.raises(ValueError, match=r"Did you mean 'a/b#drop-times'\?"):
        check_identifiers(["a/b#drop-tims"], ["drop-times", "*-level", "a/b#drop-times"])
    with pytest.raises(ValueError, match=r"Did you mean '…-level'\?"):
        check_identifiers(["*-level"], ["drop-times", "*-level"])


@pytest.mark.parametrize("source", ["linear", "race", "haste", "coding", "saddles"])
def test_every_experiment_loads(source):
    for name in experiment_names():
        if name.startswith(f"{source}/"):
            known = load_experiment(name).identifiers
            assert known is None or known
