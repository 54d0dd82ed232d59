"""The experiment that the docs show, held to the contract of every experiment."""

import re
import sys
from pathlib import Path

import pytest

from experiments import is_labelled, is_whole, reloaded
from festina.cli._main import carry_out
from festina.papers import Entry, _registry

PAGE = Path(__file__).parents[1] / "docs" / "experiments.md"


@pytest.fixture
def shown(tmp_path, monkeypatch):
    (code,) = re.findall(r"```python\n(.*?)```", PAGE.read_text(encoding="utf-8"), re.DOTALL)
    assert len(code.splitlines()) <= 200
    (tmp_path / "shown_in_docs.py").write_text(code, encoding="utf-8")
    monkeypatch.syspath_prepend(tmp_path)
    monkeypatch.chdir(tmp_path)
    entry = Entry("linear/scale", "smaller weights learn later", "Mine", 3, "shown_in_docs")
    monkeypatch.setattr(_registry, "ENTRIES", (entry,))
    yield _registry.load("linear/scale")
    sys.modules.pop("shown_in_docs")


def test_the_experiment_of_the_docs_is_one(shown, tmp_path, capsys):
    run = shown.run(shown.parameters())
    claims = shown.claims(run)
    assert [claim.verdict for claim in claims] == ["holds", "holds"]
    figure = shown.draw(reloaded(shown, run, tmp_path))
    assert is_whole(figure)
    assert is_labelled(figure, "xlabel", "ylabel")
    late = run.copy(deep=True)
    late["curves"]["half_time"] = late["curves"]["half_time"] ** 1.1
    assert all(claim.broken for claim in shown.claims(late))
    assert carry_out(["run", "linear/scale", "--target", "2", "--quick"]) == 0
    assert "2 claims: 2 hold, 0 broken." in capsys.readouterr().out
