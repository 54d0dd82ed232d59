"""Test that every registered experiment has the functions that the command line calls."""

import importlib.util
import shlex
from typing import Any

import pytest

from festina import papers
from festina.cli._flags import application
from festina.cli._parameters import resolve
from festina.experiments import load_experiment
from festina.experiments._flags import setting
from festina.experiments._parameters import to_toml


@pytest.mark.parametrize("entry", papers.EXPERIMENTS, ids=lambda entry: entry.name)
def test_an_experiment_is_ready_for_the_command_line(entry, tmp_path, capsys):
    if importlib.util.find_spec(entry.module) is None:
        pytest.skip("not written yet")
    experiment = load_experiment(entry.name)
    for name in experiment.parameters.model_fields:
        assert experiment.parameters.docstrings().get(name), f"`{name}` has no docstring"
    for preset in (None, *experiment.presets):
        parameters = resolve(experiment, preset=preset)
        file = tmp_path / "parameters.toml"
        file.write_text(to_toml(parameters, entry), encoding="utf-8")
        assert resolve(experiment, file=file) == parameters
    for values in ({}, *experiment.presets.values(), experiment.quick):
        typed: dict[str, Any] = {}
        parameters = experiment.parameters(**values)
        stored = parameters.model_dump(mode="json")
        line = " ".join(setting(name, value) for name, value in stored.items())
        application(experiment, lambda typed=typed, **flags: typed.update(flags) or 0)(
            shlex.split(line)
        )
        assert resolve(experiment, flags=typed) == parameters
    application(experiment, lambda **_: 0)(["--help"])
    page = capsys.readouterr().out
    for name in experiment.parameters.model_fields:
        assert f"--{name.replace('_', '-')}" in page
