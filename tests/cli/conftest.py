import shutil
import subprocess
import sys
from collections.abc import Sequence
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
        """Return the only error line of the output; fail if there is another number or a
        traceback.
        """
        lines = [line for line in self.err.splitlines() if line.startswith("festina: ")]
        assert len(lines) == 1, self.err
        assert "Traceback" not in self.err
        assert self.out == ""
        return lines[0].removeprefix("festina: ")


@pytest.fixture
def here(tmp_path, monkeypatch):
    """Change to an empty folder; compiled programs stay in the cache that all tests share."""
    monkeypatch.chdir(tmp_path)
    return tmp_path


@pytest.fixture
def festina(here, monkeypatch, capsys):
    """Return a function that runs the command line in this process with the toy experiments."""
    monkeypatch.setattr(papers, "EXPERIMENTS", toy.EXPERIMENTS)
    # Functions that a test replaces are replaced in this process only
    monkeypatch.setattr("festina.cli._reproduce._command.usual_processes", lambda: 1)
    monkeypatch.setenv("COLUMNS", "140")  # independent of the width of the terminal

    def command(*tokens: str) -> Outcome:
        status = carry_out(list(tokens))
        return Outcome(status, *capsys.readouterr())

    return command


@pytest.fixture(scope="session")
def saved_runs():
    return dict[tuple[str, ...], Path]()


@pytest.fixture
def saved(festina, here, saved_runs, tmp_path_factory):
    """Return a function that makes the files of some commands in the current folder.

    The commands run once for all tests, and each test gets copies of the files. This is not for
    experiment files of users: their runs know the folder of the file.
    """

    def copy(*commands: str) -> None:
        if commands not in saved_runs:
            folder = tmp_path_factory.mktemp("saved")
            with pytest.MonkeyPatch.context() as patch:
                patch.chdir(folder)
                for command in commands:
                    outcome = festina(*command.split())
                    assert outcome.status == 0, outcome.err
            saved_runs[commands] = folder
        shutil.copytree(saved_runs[commands], here, dirs_exist_ok=True)

    return copy


@pytest.fixture
def process(here):
    """Return a function that starts the command line, with toy or real experiments, in a new
    process. `before` is a program that starts Python.
    """

    def start(
        *tokens: str, real: bool = False, before: Sequence[str] = (), **options
    ) -> subprocess.Popen[str]:
        program = ["-m", "festina"] if real else [str(TOY)]
        return subprocess.Popen(
            [*before, sys.executable, *program, *tokens],
            stdout=subprocess.PIPE,
            stderr=subprocess.PIPE,
            text=True,
            **options,
        )

    return start


def everything(folder: Path) -> list[str]:
    """Return the paths of everything in a folder, hidden files included."""
    return sorted(path.relative_to(folder).as_posix() for path in folder.rglob("*"))
