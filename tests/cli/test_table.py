"""Tables and figures, whatever the terminal and the settings of matplotlib."""

import io

import matplotlib as mpl
import pytest
from matplotlib.figure import Figure
from rich.console import Console

from festina.cli._perform import save_figure
from festina.cli._table import claims_table
from festina.papers.claims import Claim, Judgement

WORDS = {
    "holds": (True, {}),
    "holds with a correction": (True, {"correction": "a factor of two"}),
    "does not hold: broken": (False, {}),
    "does not hold, as known": (False, {"wrong": "it rises"}),
}


@pytest.mark.parametrize("width", [60, 80, 109, 110, 140])
@pytest.mark.parametrize("shown", WORDS)
def test_the_verdict_is_never_shortened(shown, width):
    holds, known = WORDS[shown]
    seen = [1.23456, 2.34567, 3.45678, 4.56789, 5.67891, 6.78912, 7.89123]
    claim = Claim(
        experiment="saddles/figure-1b",
        claim="the plateau is within 0.01 of the optimised minimum of a width-1 network",
        source="Zhang, Saxe & Latham, Theorem 1",
        judged=Judgement("≥ 0.9 of seeds and some more words", seen, "1 % test", holds),
        **known,
    )
    output = io.StringIO()
    table = claims_table([claim], [("saddles/figure-1c", "why")], width=width)
    Console(file=output, width=width).print(table)
    lines = output.getvalue().splitlines()
    start = next(line.index("verdict") for line in lines if "verdict" in line)
    words = " ".join(line[start:] for line in lines).split()
    assert " ".join(word for word in words if word.strip("─")) == f"verdict {shown} failed"
    assert max(map(len, lines)) <= width


def test_a_figure_is_laid_out_once_whatever_matplotlib_was_told(tmp_path):
    with mpl.rc_context({"figure.constrained_layout.use": True}):
        figure = Figure()
        figure.subplots()
        save_figure(figure, tmp_path)
        layout = figure.get_layout_engine()
    assert layout is None or layout.__class__.__name__ == "PlaceHolderLayoutEngine"
