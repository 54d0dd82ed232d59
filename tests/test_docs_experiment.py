"""Tests of the experiment in the docs: it is a valid experiment, and its commands work."""

import re
from pathlib import Path

import pytest

import festina
from experiments import is_labelled, is_whole, reloaded
from festina.cli._main import carry_out
from festina.experiments import load_experiment

PAGE = Path(__file__).parents[1] / "docs" / "guides" / "experiment.md"


@pytest.fixture
def shown(tmp_path, monkeypatch):
    (code,) = re.findall(r"```python\n(.*?)```", PAGE.read_text(encoding="utf-8"), re.DOTALL)
    assert len(code.splitlines()) <= 200
    (tmp_path / "mine.py").write_text(code, encoding="utf-8")
    monkeypatch.chdir(tmp_path)
    return load_experiment("mine.py")


def test_the_experiment_of_the_docs_is_one(shown, tmp_path):
    run = shown.run(shown.parameters())
    claims = shown.claims(run)
    assert [claim.verdict for claim in claims] == ["holds", "holds"]
    figure = shown.draw(reloaded(shown, run, tmp_path))
    assert is_whole(figure)
    assert is_labelled(figure, "xlabel", "ylabel")
    late = run.copy(deep=True)
    late["curves"]["half_time"] = late["curves"]["half_time"] ** 1.1
    assert all(claim.broken for claim in shown.claims(late))


def test_its_commands_do_what_the_page_says(shown, tmp_path, capsys):
    (commands,) = re.findall(r"```sh\n(.*?)```", PAGE.read_text(encoding="utf-8"), re.DOTALL)
    said = []
    for line in commands.splitlines():
        assert carry_out(line.partition("#")[0].split()[1:]) == 0
        said.append(capsys.readouterr().out)
    explained, run, chosen, drawn, packed, reproduced = said
    assert "The number s that is learned." in explained
    assert "How long two layers take to learn one number" in run
    assert run.splitlines()[-1] == drawn.splitlines()[-1] == "2 claims: 2 hold, 0 broken."
    assert "1 claim: 1 holds, 0 broken." in chosen
    assert packed.startswith("mine-001.zip: 1 run, ")
    where = "1 of 1 run. All results are in runs/reproduce-mine/001: open report.html in a browser."
    assert where in " ".join(reproduced.split())  # the line may be wrapped
    saved = festina.load(tmp_path / "runs" / "mine" / "001")
    assert [claim.verdict for claim in shown.claims(saved)] == ["holds", "holds"]
    assert carry_out(["reproduce", "./mine.py"]) == 0
    assert "1 of them was already finished" in capsys.readouterr().out
