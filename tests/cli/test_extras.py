"""Test that a missing optional package is reported before an experiment runs or writes anything."""

import dataclasses
import sys

import jax
import pytest

from festina import papers
from festina.experiments import find_entry, load_experiment
from festina.experiments._describe import describe

from . import toy
from .conftest import everything

INSTALL = "This experiment needs no_such_package, which is not installed: pip install 'festina[x]'."


@pytest.fixture
def lacking(festina, monkeypatch):
    """Make the first toy experiment need a package that is not installed."""
    one, *others = toy.EXPERIMENTS
    needs = dataclasses.replace(one, extra="x", packages=("numpy", "no_such_package"))
    monkeypatch.setattr(papers, "EXPERIMENTS", (needs, *others))


@pytest.mark.usefixtures("lacking")
@pytest.mark.parametrize("command", ["run toy/one", "sweep toy/one --over width=1,2"])
def test_a_missing_package_is_one_line_before_any_work(command, festina, here):
    outcome = festina(*command.split())
    assert outcome.complaint == INSTALL
    assert outcome.err == f"festina: {INSTALL}\n"
    assert outcome.status == 2
    assert everything(here) == []


@pytest.mark.usefixtures("lacking")
def test_help_needs_no_package(festina):
    assert "--width" in festina("run", "toy/one", "--help").out


@pytest.mark.usefixtures("lacking")
def test_reproduce_reports_it_first_and_runs_the_others(festina, here):
    outcome = festina("reproduce", "toy", "--quick", "--quiet")
    assert outcome.status == 1
    assert outcome.err.splitlines()[0] == f"festina: toy/one failed: {INSTALL}"
    assert (here / "runs" / "reproduce-toy" / "001" / "two" / "run.zarr").exists()


def test_reproduce_takes_over_a_run_that_was_made_with_the_package(festina, here, monkeypatch):
    festina("reproduce", "toy", "--quick", "--quiet")
    one, *others = toy.EXPERIMENTS
    needs = dataclasses.replace(one, extra="x", packages=("no_such_package",))
    monkeypatch.setattr(papers, "EXPERIMENTS", (needs, *others))
    outcome = festina("reproduce", "toy", "--quick", "--quiet")
    assert outcome.status == 0, outcome.err
    assert "2 of them were already finished" in " ".join(outcome.out.split())


@pytest.mark.parametrize("package", ["blackjax", "arviz_stats"])
def test_every_experiment_on_codes_needs_the_extra_posterior(package, monkeypatch):
    monkeypatch.setitem(sys.modules, package, None)
    experiment = load_experiment("coding/schemes")
    with pytest.raises(ValueError, match=rf"needs {package}.*pip install 'festina\[posterior\]'"):
        experiment.check_packages()
    names = [entry.name for entry in papers.EXPERIMENTS if entry.name.startswith("coding/")]
    assert all(find_entry(name).extra == "posterior" for name in names)


def test_an_error_within_a_compiled_program_is_told_without_jaxs_remark():
    @jax.jit
    def program(x):
        raise ValueError("the learning rate is too large.")

    with pytest.raises(ValueError, match="learning rate") as caught:
        program(1.0)
    caught.value.add_note("The run is kept.")
    assert describe(caught.value) == "the learning rate is too large. The run is kept."


def test_an_error_of_pydantic_within_a_run_is_a_sentence():
    with pytest.raises(ValueError, match="validation error") as caught:
        toy.Parameters(width=0, spectrum=("a",), other=1)  # pyright: ignore[reportCallIssue]
    assert describe(caught.value) == (
        "`width` must be at least 1, got 0. `spectrum[0]` must be a number, got 'a'. "
        "`other`: there is no such parameter."
    )
