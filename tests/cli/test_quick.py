"""Test `--quick`: an experiment's cheaper parameters, which presets, files and flags override."""

import tomllib

import pytest

from festina import experiments, papers
from festina.cli._parameters import resolve

from . import toy


def parameters(folder):
    return toy.Parameters(**tomllib.loads((folder / "parameters.toml").read_text()))


def test_quick_replaces_the_defaults(festina, here):
    assert festina("run", "toy/one", "--quick", "--out", "a").status == 0
    assert parameters(here / "a") == toy.Parameters(seeds=2, width=4)


def test_presets_files_and_flags_go_before_quick(festina, here):
    (here / "mine.toml").write_text("seeds = 3\n")
    line = "run toy/one --quick --preset printed --parameters mine.toml --seed 7 --out a"
    assert festina(*line.split()).status == 0
    # The preset sets width 3, `--quick` width 4; the file sets 3 seeds, `--quick` 2.
    assert parameters(here / "a") == toy.Parameters(width=3, samples=20, seeds=3, seed=7)


def test_reproduce_quick_makes_each_quick(festina, here):
    assert festina("reproduce", "toy", "--quick", "--out", "a").status == 0
    assert parameters(here / "a" / "one") == toy.Parameters(seeds=2, width=4)
    assert not (here / "a" / "two-printed").exists()  # `--quick` skips presets
    festina("reproduce", "toy", "--quick", "--seeds", "5", "--out", "b")
    assert parameters(here / "b" / "two") == toy.Parameters(seeds=5, width=4)


def test_an_experiment_without_quick_parameters_stays_as_it_is(festina, here, monkeypatch):
    monkeypatch.delattr(toy, "QUICK")
    outcome = festina("run", "toy/one", "--quick", "--out", "a")
    assert outcome.status == 0
    assert "festina: toy/one has no quick version" in outcome.err
    assert parameters(here / "a") == toy.Parameters()
    assert "--quick:" not in festina("run", "toy/one", "--help").out


def test_help_says_what_quick_changes(festina):
    assert "--quick: --seeds 2 --width 4" in festina("run", "toy/one", "--help").out


def test_quick_is_no_name_for_a_parameter():
    with pytest.raises(TypeError, match="a parameter cannot be called quick"):

        class Bad(toy.Common):
            quick: bool = True


@pytest.mark.parametrize("entry", papers.EXPERIMENTS, ids=lambda entry: entry.name)
def test_quick_parameters_of_every_experiment_are_valid(entry):
    experiment = experiments.load_experiment(entry.name)
    for preset in (None, *experiment.presets):
        quick = resolve(experiment, preset=preset, quick=True)
        if preset is None:
            assert {name: getattr(quick, name) for name in experiment.quick} == {
                name: getattr(experiment.parameters(**experiment.quick), name)
                for name in experiment.quick
            }
    assert not experiment.quick or resolve(experiment, quick=True) != resolve(experiment)
