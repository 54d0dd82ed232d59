import subprocess
import sys
from pathlib import Path
from typing import NamedTuple

import pytest

from festina import papers
from festina.cli._main import carry_out

from . import toy

TOY = Path(toy.__file__)


class Outcome(NamedTuple):
    status: int
    out: str
    err: str

    @property
    def complaint(self) -> str:
        """The one line that an error is; anything else fails the test."""
        lines = [line for line in self.err.splitlines() if line.startswith("festina: ")]
        assert len(lines) == 1, self.err
        assert "Traceback" not in self.err
        assert self.out == ""
        return lines[0].removeprefix("festina: ")


@pytest.fixture
def here(tmp_path, monkeypatch):
    """An empty folder to stand in; programs are kept where those of all tests are."""
    monkeypatch.chdir(tmp_path)
    return tmp_path


@pytest.fixture
def festina(here, monkeypatch, capsys):
    """The command line, in this process, on the toy experiments."""
    monkeypatch.setattr(papers, "EXPERIMENTS", toy.EXPERIMENTS)
    monkeypatch.setenv("COLUMNS", "140")  # whatever the terminal has

    def command(*tokens: str) -> Outcome:
        status = carry_out(list(tokens))
        return Outcome(status, *capsys.readouterr())

    return command


@pytest.fixture
def process(here):
    """The command line in a process of its own, on the toy experiments or the real ones."""

    def start(*tokens: str, real: bool = False, **options) -> subprocess.Popen[str]:
        program = ["-m", "festina"] if real else [str(TOY)]
        return subprocess.Popen(
            [sys.executable, *program, *tokens],
            stdout=subprocess.PIPE,
            stderr=subprocess.PIPE,
            text=True,
            **options,
        )

    return start


def everything(folder: Path) -> list[str]:
    """All that is in a folder, hidden files too."""
    return sorted(path.relative_to(folder).as_posix() for path in folder.rglob("*"))
