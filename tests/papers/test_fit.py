"""Figures on the page of a slide: nothing is clipped, hidden or on top of something else."""

import itertools

import numpy as np
import pytest
from matplotlib.figure import Figure

from experiments import are_apart, is_whole
from festina.papers.figures import finish, fit, sheet
from festina.papers.figures._fit import covers_data

WORDS = "time until the last of all the modes of the network is learned, in units of τ"
CURVES = {
    "falls": lambda t: np.exp(-3 * t),
    "rises": lambda t: 1 - np.exp(-9 * t),
    "fills": lambda t: 0.5 + 0.5 * np.sin(60 * t),
}


CASES = [*itertools.product((2, 4), CURVES)]


def drawn(panels, curve):
    figure, axes = sheet("A figure of several panels", panels, width=3.4, height=3.4)
    t = np.linspace(0, 1, 400)
    for ax in np.atleast_1d(axes):
        for k in range(4):
            ax.plot(t, CURVES[curve](t) ** (1 + 0.1 * k), label=f"a curve with number {k}")
        finish(ax, "time", "loss", WORDS, legend="upper right")
    return figure


@pytest.mark.parametrize(
    ("panels", "curve"),
    [
        (1, "fills"),
        *(
            pytest.param(*each, marks=pytest.mark.slow)
            for each in itertools.product((2, 4), CURVES)
        ),
    ],
)
def test_a_slide_shows_all_data_and_words(panels, curve):
    figure = drawn(panels, curve)
    fit(figure, 8, 4.5)
    assert tuple(figure.get_size_inches()) == (8, 4.5)
    assert is_whole(figure, slack=0.02)
    assert not any(covers_data(ax) for ax in figure.axes)
    legends = [ax.get_legend().get_window_extent() for ax in figure.axes]
    frames = [ax.get_window_extent() for ax in figure.axes]
    for k, legend in enumerate(legends):
        assert not any(legend.overlaps(frame) for j, frame in enumerate(frames) if j != k)
    assert are_apart([ax.title.get_window_extent() for ax in figure.axes])
    assert min(frame.width for frame in frames) > 1.2 * figure.dpi


@pytest.mark.slow
def test_four_panels_stand_in_two_rows_and_three_in_one():
    for panels, rows in ((4, 2), (3, 1)):
        figure = drawn(panels, "falls")
        fit(figure, 8, 4.5)
        assert len({ax.get_subplotspec().rowspan.start for ax in figure.axes}) == rows


def test_a_legend_with_its_own_place_stays():
    figure = Figure(layout="constrained")
    ax = figure.subplots()
    ax.plot([0, 1], [0, 1], label="above")
    ax.legend(loc="lower left", bbox_to_anchor=(0.0, 1.0))
    fit(figure, 8, 4.5)
    figure.draw_without_rendering()
    assert ax.get_legend().get_window_extent().y0 >= ax.bbox.y1 - 1


@pytest.mark.slow
def test_formulas_are_not_broken_into_lines():
    figure = drawn(3, "falls")
    figure.axes[0].set_title("a long title with " + r"$a + b + c + d + e + f$" + " in the middle")
    fit(figure, 8, 4.5)
    assert r"$a + b + c + d + e + f$" in figure.axes[0].get_title()
