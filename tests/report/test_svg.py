"""Test that a page can contain an SVG file of a stranger."""

import json
import re
import xml.etree.ElementTree as ET

import numpy as np
import pytest
from matplotlib.figure import Figure

from festina.experiments._runner import write_figure
from festina.experiments.figures import SIMULATION_STYLE, THEORY_STYLE
from festina.report._svg import cleaned

HEAD = '<svg xmlns="http://www.w3.org/2000/svg" xmlns:xlink="http://www.w3.org/1999/xlink"'


def svg(inside, more=""):
    return f'{HEAD} width="9pt" height="9pt" viewBox="0 0 9 9" {more}>{inside}</svg>'


@pytest.mark.parametrize(
    "inside",
    [
        "<script>alert(1)</script>",
        '<g onload="alert(1)"/>',
        '<a xlink:href="javascript:alert(1)"><path d="M0 0"/></a>',
        '<image xlink:href="http://example.org/alert.png"/>',
        '<image xlink:href="data:image/svg+xml;base64,alert"/>',
        '<use xlink:href="other.svg#alert"/>',
        '<path style="fill: url(http://example.org/alert)"/>',
        '<path style="fill: URL( http://example.org/alert)"/>',
        r'<path style="fill: u\72l(alert)"/>',
        "<style>@import url(http://example.org/alert)</style>",
        "<foreignObject><iframe src='alert'/></foreignObject>",
        '<animate attributeName="href" values="javascript:alert(1)"/>',
        '<g id="axes {alert"/>',
    ],
)
def test_nothing_active_is_left(inside):
    assert "alert" not in cleaned(svg(inside), "f0-", "words")


@pytest.mark.parametrize("text", ["", "no markup", "<svg", "<html/>", svg("<g>")])
def test_other_text_is_refused(text):
    with pytest.raises(ValueError, match="SVG"):
        cleaned(text, "f0-", "words")


def test_names_of_two_figures_do_not_clash():
    inside = '<path id="a" clip-path="url(#b)"/><use xlink:href="#a"/>'
    clean = cleaned(svg(inside), "f7-", "words")
    assert 'id="f7-a"' in clean
    assert "url(#f7-b)" in clean
    assert 'href="#f7-a"' in clean


def test_words_are_escaped():
    words = '"><script>alert(1)</script>'
    assert ET.fromstring(cleaned(svg(""), "", words)).get("aria-label") == words


@pytest.fixture
def drawn(tmp_path):
    """Return the cleaned SVG of a figure with theory and training on logarithmic axes."""
    figure = Figure(figsize=(5, 3))
    ax = figure.subplots()
    ax.loglog([1e-3, 1e3], [0.1, 10.0], **SIMULATION_STYLE)
    ax.loglog([1e-3, 1e3], [0.2, 20.0], **THEORY_STYLE)
    (path,) = write_figure(figure, tmp_path / "figure", formats=("svg",))
    return ET.fromstring(cleaned(path.read_text(), "f0-", "a line"))


def part(root, name):
    (found,) = (each for each in root.iter() if each.get("class") == name)
    return found


def test_theory_and_training_have_classes(drawn):
    dashed = [each.get("style", "") for each in part(drawn, "theory").iter()]
    assert any("stroke-dasharray" in style for style in dashed)
    wide = [each.get("style", "") for each in part(drawn, "training").iter()]
    assert any("stroke-width: 3" in style for style in wide)


def test_marks_turn_positions_into_values(drawn):
    (marks,) = (
        json.loads(each.get("data-axes")) for each in drawn.iter() if "data-axes" in each.attrib
    )
    (line,) = (each.get("d") for each in part(drawn, "training").iter() if each.get("d"))
    seen = np.array([float(each) for each in re.findall(r"[\d.]+", line)]).reshape(-1, 2)
    left, top, right, low = marks["box"]
    shares = (seen[:, 0] - left) / (right - left), (low - seen[:, 1]) / (low - top)
    for share, limits, values in zip(
        shares, marks["limits"], ([1e-3, 1e3], [0.1, 10.0]), strict=True
    ):
        start, end = np.log10(limits)
        np.testing.assert_allclose(10 ** (start + share * (end - start)), values, rtol=2e-3)
