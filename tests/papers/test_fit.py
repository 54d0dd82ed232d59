"""Test that figures fit on a slide: nothing is clipped, hidden, or on top of something else."""

import itertools

import numpy as np
import pytest
from matplotlib.figure import Figure
from matplotlib.lines import Line2D

from experiments import are_apart, is_whole
from festina.experiments.figures import fit_to_page, fit_to_slide, label_axes, panels
from festina.experiments.figures._fit import covers_data

WORDS = "time until the last of all the modes of the network is learned, in units of τ"
CURVES = {
    "falls": lambda t: np.exp(-3 * t),
    "rises": lambda t: 1 - np.exp(-9 * t),
    "fills": lambda t: 0.5 + 0.5 * np.sin(60 * t),
}


CASES = [*itertools.product((2, 4), CURVES)]


def drawn(count, curve):
    figure, axes = panels("A figure of several panels", count, width=3.4, height=3.4)
    t = np.linspace(0, 1, 400)
    for ax in np.atleast_1d(axes):
        for k in range(4):
            ax.plot(t, CURVES[curve](t) ** (1 + 0.1 * k), label=f"a curve with number {k}")
        label_axes(ax, "time", "loss", WORDS, legend="upper right")
    return figure


@pytest.mark.parametrize(
    ("count", "curve"),
    [
        (1, "fills"),
        *(
            pytest.param(*each, marks=pytest.mark.slow)
            for each in itertools.product((2, 4), CURVES)
        ),
    ],
)
def test_a_slide_shows_all_data_and_words(count, curve):
    figure = drawn(count, curve)
    fit_to_page(figure, 8, 4.5)
    assert tuple(figure.get_size_inches()) == (8, 4.5)
    assert is_whole(figure, slack=0.02)
    assert not any(covers_data(ax) for ax in figure.axes)
    frames = [ax.get_window_extent() for ax in figure.axes]
    for legend in (*filter(None, (ax.get_legend() for ax in figure.axes)), *figure.legends):
        box = legend.get_window_extent()
        assert not any(box.overlaps(ax.bbox) for ax in figure.axes if ax is not legend.axes)
    assert are_apart([ax.title.get_window_extent() for ax in figure.axes])
    assert min(frame.width for frame in frames) > 1.2 * figure.dpi


@pytest.mark.slow
def test_four_panels_stand_in_two_rows_and_three_in_one():
    for count, rows in ((4, 2), (3, 1)):
        figure = drawn(count, "falls")
        fit_to_page(figure, 8, 4.5)
        specs = [ax.get_subplotspec() for ax in figure.axes]
        assert len({spec.rowspan.start for spec in specs if spec is not None}) == rows


def test_a_legend_with_its_own_place_stays():
    figure = Figure(layout="constrained")
    ax = figure.subplots()
    ax.plot([0, 1], [0, 1], label="above")
    ax.legend(loc="lower left", bbox_to_anchor=(0.0, 1.0))
    fit_to_page(figure, 8, 4.5)
    figure.draw_without_rendering()
    legend = ax.get_legend()
    assert legend is not None
    assert legend.get_window_extent().y0 >= ax.bbox.y1 - 1


def panel(**how):
    figure, ax = panels("A figure", width=4, height=3)
    ax.set(xlim=(0, 1), ylim=(0, 1), **how)
    return figure, ax


def full_of(kind, ax):
    """Fill all but the upper left corner of the axes with something of this kind."""
    x, y = (each.ravel() for each in np.meshgrid(*[np.linspace(0.02, 0.98, 25)] * 2))
    x, y = np.transpose([(a, b) for a, b in zip(x, y, strict=True) if a > 0.6 or b < 0.6])
    if kind == "markers":
        ax.plot(x, y, "o", ms=4)
    elif kind == "dots":
        ax.scatter(x, y, s=16)
    elif kind == "error bars":
        ax.errorbar(x, y, 0.01, ls="none")
    elif kind == "words":
        for a, b in zip(x[::3], y[::3], strict=True):
            ax.text(a, b, "ab")
    elif kind == "insets":
        ax.inset_axes((0.5, 0.0, 0.5, 1.0))
        ax.inset_axes((0.0, 0.0, 0.5, 0.6))
    else:
        ax.fill_between([0.5, 1], [1, 1])
        ax.fill_between([0, 0.5], [0.6, 0.6])


@pytest.mark.parametrize(
    "kind",
    [
        "words",
        *(
            pytest.param(kind, marks=pytest.mark.slow)
            for kind in ("markers", "dots", "error bars", "insets", "filled areas")
        ),
    ],
)
def test_a_legend_moves_to_the_free_corner(kind):
    figure, ax = panel()
    full_of(kind, ax)
    ax.plot([], [], label="data")
    ax.legend(loc="lower right")
    fit_to_page(figure, 4, 3)
    box, middle = ax.get_legend().get_window_extent(), ax.bbox.p0 + ax.bbox.size / 2
    assert box.x1 < middle[0] + 0.1 * ax.bbox.width
    assert box.y0 > middle[1]
    assert ax.get_ylim() == (0, 1)


def test_dots_that_no_line_joins_leave_room_between_them():
    figure, ax = panel()
    ax.plot([0.1, 0.9], [0.9, 0.9], "o", ls="none", label="dots")
    ax.legend(loc="upper center")
    fit_to_page(figure, 4, 3)
    box = ax.get_legend().get_window_extent()
    assert (box.x0 + box.x1) / 2 == pytest.approx((ax.bbox.x0 + ax.bbox.x1) / 2, abs=2)


@pytest.mark.slow
@pytest.mark.parametrize("scale", ["linear", "log"])
def test_axes_that_are_raised_for_a_legend_have_no_ticks_beside_it(scale):
    figure, axes = panels("A figure", 2, width=3, height=3, sharey=True)
    t = np.linspace(0, 1, 200)
    for ax in axes:
        for k in range(3):
            ax.plot(t, 0.55 + 0.45 * np.sin(50 * t + k), label=f"curve {k}")
        ax.set(yscale=scale, ylim=(0.1, 1.0))
        ax.legend()
    fit_to_page(figure, 6, 3)
    assert not any(covers_data(ax) for ax in axes)
    low, high = axes[0].yaxis.get_transform().transform(axes[0].get_ylim())
    unit = np.ptp(axes[0].yaxis.get_transform().transform([0.1, 1.0]))
    assert 1.1 < (high - low) / unit < 1.7  # shared axes were extended once
    assert all((ax.get_yticks(minor=minor) <= 1.0).all() for ax in axes for minor in (False, True))


@pytest.mark.slow
def test_legends_that_find_no_room_stand_below_with_their_marks():
    figure, axes = panels("A figure", 3, width=3, height=3)
    t = np.linspace(0, 1, 300)
    for k, ax in enumerate(axes):
        for j in range(7):
            curve = ax.errorbar if j == 0 else ax.plot
            marks = {"ls": "none", "marker": "o"} if j == 0 else {}
            curve(t, np.sin(60 * t + j), **marks, label=f"one curve of panel {k}, number {j}")
        ax.legend(loc="center")
    fit_to_page(figure, 8, 4.5)
    assert not any(ax.get_legend() for ax in axes)
    (legend,) = figure.legends
    assert len(legend.get_texts()) == 21
    assert is_whole(figure, slack=0.02)
    box = legend.get_window_extent()
    assert not any(box.overlaps(ax.get_window_extent()) for ax in axes)
    assert sum(line.get_marker() == "o" for line in legend.findobj(Line2D)) == 3


def labels_of(ax):
    low, high = ax.get_xlim()
    ticks = [tick for tick in ax.xaxis.get_major_ticks() if low <= tick.get_loc() <= high]
    return [tick.label1 for tick in ticks if tick.label1.get_text()]


@pytest.mark.parametrize(
    "words",
    [
        ["outputs of labels", "outputs of mixed", "units of modular", "maps of modular"] * 2,
        [f"{k}.000001" for k in range(-12, 13)],
    ],
    ids=["words", "numbers"],
)
def test_tick_labels_are_apart(words):
    figure, ax = panels("A figure", width=8, height=3)
    ax.set_xticks(range(len(words)), words)
    fit_to_page(figure, 4, 3)
    labels = labels_of(ax)
    assert are_apart([label.get_window_extent() for label in labels])
    if words[0][0] == "o":
        assert [label.get_text().replace("\n", " ") for label in labels] == words
    else:
        assert [label.get_text() for label in labels] == words[:: len(words) // (len(labels) - 1)]


def test_long_words_below_narrow_axes_are_tilted():
    figure, ax = panels("A figure", width=8, height=3)
    words = [f"{kind} embedding" for kind in ("smaller", "larger", "equal")]
    ax.set_xticks(range(3), words)
    fit_to_page(figure, 1.8, 3)
    assert [(label.get_text(), label.get_rotation()) for label in labels_of(ax)] == [
        (word, 30) for word in words
    ]
    assert is_whole(figure, slack=0.02)


@pytest.mark.parametrize("letters", range(90, 108, 3))
def test_a_title_ends_at_the_edge_of_the_page(letters):
    figure, _ = panel(title=("longer than the page by a little " * 4)[:letters])
    fit_to_page(figure, 8, 4.5)
    assert is_whole(figure, slack=0.02)


def test_words_below_all_panels_are_broken_into_lines():
    figure, ax = panel()
    handles = [ax.plot([], [], label=f"distinctions at level {k}")[0] for k in range(5)]
    figure.legend(handles=handles, loc="outside lower center", ncols=5)
    fit_to_page(figure, 4.2, 3)
    assert is_whole(figure, slack=0.02)
    (legend,) = figure.legends
    assert [text.get_text() for text in legend.get_texts()] == [
        each.get_label() for each in handles
    ]


@pytest.mark.slow
def test_rows_say_once_what_their_axes_are():
    figure, axes = panels("A figure", 2, 3, width=3, height=3)
    for k, ax in enumerate(axes.ravel()):
        label_axes(ax, "time", "loss" if k != 3 else "share")
    fit_to_page(figure, 8, 4.5)
    assert [[ax.get_xlabel() for ax in row] for row in axes] == [[""] * 2] * 2 + [["time"] * 2]
    said = [[ax.get_ylabel() for ax in row] for row in axes]
    assert said == [["loss", ""], ["loss", "share"], ["loss", ""]]


@pytest.mark.slow
def test_formulas_are_not_broken_into_lines():
    figure = drawn(3, "falls")
    figure.axes[0].set_title("a long title with " + r"$a + b + c + d + e + f$" + " in the middle")
    fit_to_page(figure, 8, 4.5)
    assert r"$a + b + c + d + e + f$" in figure.axes[0].get_title()


def test_the_text_of_a_slide_is_large_if_there_is_room():
    few = fit_to_slide(lambda: panels("Two panels", 2)[0])
    many = fit_to_slide(lambda: panels("Eighteen panels", 6, 3)[0])
    for figure in (few, many):
        width, height = figure.get_size_inches()
        assert width / height == pytest.approx(16 / 9)
    assert few.get_figwidth() == 7.2
    assert many.get_figwidth() > few.get_figwidth()
    assert min(ax.bbox.height for ax in many.axes) > 0.6 * many.dpi


def test_a_long_title_is_broken():
    figure, _ = panels("A title that is longer than the page " * 3, 2)
    fit_to_page(figure, 7.2, 4.05)
    assert is_whole(figure, slack=0.02)
    assert "\n" in figure.get_suptitle()


def test_panels_with_fixed_places_fill_a_wide_page():
    figure = Figure(figsize=(4, 5))
    figure.suptitle("A title", y=0.98, ha="left", x=0.02)
    above = figure.add_axes((0.1, 0.5, 0.8, 0.3))
    below = [figure.add_axes((x, 0.1, 0.3, 0.3)) for x in (0.1, 0.6)]
    above.plot([0, 1], [1, 0], label="loss")
    above.legend(loc="lower left", bbox_to_anchor=(0, 1.02))
    fit_to_page(figure, 7.2, 4.05)
    left, *right = (ax.get_window_extent() for ax in (above, *below))
    assert left.height > 0.6 * figure.bbox.height
    assert all(box.x0 > left.x1 for box in right)
    assert right[0].y0 > right[1].y1
    (title,) = figure.texts
    legend = above.get_legend()
    assert legend is not None
    assert not title.get_window_extent().overlaps(legend.get_window_extent())
