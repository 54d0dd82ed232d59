"""Test that tables fit terminals of any width, and that settings of matplotlib do not matter."""

import io
from pathlib import Path

import matplotlib as mpl
import pytest
from matplotlib.figure import Figure
from rich.console import Console

from festina.cli._table import claims_table, print_results
from festina.experiments._perform import Done
from festina.experiments._runner import write_figure
from festina.experiments.claims import Claim, ClaimCollector, Judgement, agree, headline_claim
from festina.experiments.figures._fit import covers_data

RIGHT = Judgement("falls", "falls", "exact", True)
WORDS = {
    "holds": (True, {}),
    "holds with a correction": (True, {"correction": "a factor of two"}),
    "does not hold: broken": (False, {}),
    "does not hold, as known": (False, {"wrong": "it rises", "instead": RIGHT}),
}


@pytest.mark.parametrize("width", [72, 80, 109, 110, 140])
@pytest.mark.parametrize("shown", WORDS)
def test_the_verdict_is_never_shortened(shown, width):
    holds, known = WORDS[shown]
    seen = [1.23456, 2.34567, 3.45678, 4.56789, 5.67891, 6.78912, 7.89123]
    claim = Claim(
        experiment="saddles/figure-1b",
        id="plateau-level",
        words="the plateau is within 0.01 of the optimised minimum of a width-1 network",
        source="Zhang, Saxe & Latham",
        at="Theorem 1",
        judged=Judgement("≥ 0.9 of seeds and some more words", seen, "1 % test", holds),
        **known,
    )
    output = io.StringIO()
    table = claims_table([claim], width=width)
    Console(file=output, width=width).print(table)
    lines = output.getvalue().splitlines()
    start = next(line.index("verdict") for line in lines if "verdict" in line)
    words = " ".join(line[start:] for line in lines).split()
    assert " ".join(word for word in words if word.strip("─")) == f"verdict {shown}"
    assert max(map(len, lines)) <= width


NAME, PRESET = "saddles/figure-1f", "unit-trace"
LABEL = f"{NAME} ({PRESET})"


@pytest.mark.parametrize("every_claim", [False, True])
@pytest.mark.parametrize("width", [40, 60, 80, 109, 110, 140, 200])
def test_names_are_whole_and_lines_fit(width, every_claim, monkeypatch, capsys):
    monkeypatch.setenv("COLUMNS", str(width))
    judged = Judgement("all seeds", 1.0, "all", True, "8 of 8 seeds")
    words = [f"the loss shows {k} plateaus" for k in range(3)]
    claims = [Claim(NAME, "plateaus", each, "", "", judged, preset=PRESET) for each in words]
    shows = "linear attention on in-context regression: one head, then two"
    done = [Done(LABEL, shows, claims, Path("a/b"), [Path("a/b/figure.png")])] * 2
    print_results(done, [("saddles/figure-1c", "why")], every_claim=every_claim)
    lines = capsys.readouterr().out.splitlines()
    assert sum(LABEL in line for line in lines) == (1 if every_claim else 2)
    assert max(map(len, lines)) <= width
    assert lines.count("Figures: a/*/figure.png") == 1
    assert "saddles/figure-1c failed: why" in lines
    said = " ".join(" ".join(lines).split())
    assert said.endswith("6 claims: 6 hold, 0 broken, 1 experiment failed.")
    assert ("8 of 8 seeds" in said) or width == 40  # a width of 40 breaks words


def test_the_headline_is_the_claim_that_says_so_or_the_first():
    ledger = ClaimCollector("toy", "Toy", "Figure 1")
    for k in range(4):
        ledger(f"claim-{k}", "words", agree(k, k), headline=k in (2, 3))
    assert headline_claim(ledger) is ledger[2]
    assert headline_claim(ledger[:2]) is ledger[0]
    assert headline_claim([]) is None


def test_a_figure_is_laid_out_once_whatever_matplotlib_was_told(tmp_path):
    with mpl.rc_context({"figure.constrained_layout.use": True}):
        figure = Figure()
        figure.subplots()
        write_figure(figure, tmp_path / "figure")
        layout = figure.get_layout_engine()
    assert layout is None or layout.__class__.__name__ == "PlaceHolderLayoutEngine"


def test_a_legend_of_a_figure_in_its_own_size_covers_no_data(tmp_path):
    figure = Figure(layout="constrained")
    ax = figure.subplots()
    ax.plot([0, 1, 1], [0, 0, 1], label="below and right")
    ax.legend(loc="lower right")
    write_figure(figure, tmp_path / "figure", formats=("png",))
    assert not covers_data(ax)
