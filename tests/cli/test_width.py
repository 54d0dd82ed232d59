"""Test that the output of every command fits a narrow terminal, and is not wrapped in a pipe."""

import pytest

from festina.cli._main import COMMANDS

HELP = [*((command, "--help") for command in COMMANDS), ("run", "toy/one", "--help"), ("help",)]
PRINTED = {
    ("list",): "a loss that falls",
    ("doctor",): "pip install 'festina[posterior]'",
    ("run", "toy/one"): "a loss that falls",
    ("run", "toy/one", "--claims"): "the text says it rises",
    ("show", "runs/toy/one/001"): "a loss that falls",
    ("show", "runs/toy/one/001", "--claims"): "the text says it rises",
    ("reproduce", "toy"): "a loss that falls",
    ("report", "runs/toy/one/001"): "1 × holds; 1 × holds with a correction; 1 × does not hold",
    ("sweep", "toy/one", "--over", "width=4,5", "seed=0,1"): "4 of 4 pieces",
    ("sweep", "sweepable:energy", "--over", "scale=1,2"): "0.3333",
    ("cite", "toy/one"): "Saddle-to-Saddle Dynamics",
}
"""Commands, and a part of a row that `grep` must find whole."""

FUNCTION = """
def energy(scale):
    return {"energy": scale**2 / 3, "a_result_with_a_name_of_more_than_forty_letters": 2.0 * scale}
"""


def _too_long(text, width):
    """Return the lines that are wider than the terminal; a single long word cannot be wrapped."""
    return [line for line in text.splitlines() if len(line) > width and len(line.split()) > 1]


@pytest.fixture
def printed(festina, saved, here, monkeypatch):
    """Return a function that runs a command for a terminal of some width, or for a pipe."""

    def output(tokens, columns):
        if tokens[0] in ("show", "report"):
            saved("run toy/one --quiet")
        if tokens[0] == "sweep":
            (here / "sweepable.py").write_text(FUNCTION)
            monkeypatch.syspath_prepend(here)
            tokens = (*tokens, "--processes", "0")
        if tokens[0] == "doctor":
            monkeypatch.setattr("festina.cli._doctor._version", lambda package: "")
        if columns:
            monkeypatch.setenv("COLUMNS", str(columns))
        else:
            monkeypatch.delenv("COLUMNS")
        return festina(*tokens).out

    return output


@pytest.mark.parametrize("tokens", [*HELP, *PRINTED], ids=" ".join)
def test_lines_fit_sixty_columns(tokens, printed):
    text = printed(tokens, 60)
    assert text
    assert not _too_long(text, 60)
    assert PRINTED.get(tokens, "") in " ".join(text.split())  # no word is broken


@pytest.mark.parametrize("tokens", PRINTED, ids=" ".join)
def test_each_row_is_one_line_in_a_pipe(tokens, printed):
    lines = printed(tokens, None).splitlines()
    assert sum(PRINTED[tokens] in line for line in lines) >= 1
    assert max(map(len, lines)) < 1000  # nothing is padded to the width of an endless line
