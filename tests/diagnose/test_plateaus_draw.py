"""Test the figure of a loss curve with its plateaus."""

import matplotlib.pyplot as plt
import numpy as np
import pytest

from festina.diagnose import plateaus

TIME = np.linspace(0.0, 100.0, 1001)


def staircase(*levels: float) -> np.ndarray:
    """Return a loss that passes through these K levels, with drops at 100/K, 200/K, …."""
    at = np.linspace(0.0, 100.0, len(levels) + 1)[1:-1]
    falls = np.subtract(levels[:-1], levels[1:])
    return np.add(
        levels[-1],
        sum(fall / (1 + np.exp(TIME - t)) for fall, t in zip(falls, at, strict=True)),
    )


@pytest.fixture
def ax():
    figure, axes = plt.subplots()
    yield axes
    plt.close(figure)


def test_everything_found_is_in_the_picture(ax):
    loss = staircase(3.0, 2.0, 0.5)
    found = plateaus(TIME, loss)
    assert found.draw(ax, times=TIME, loss=loss) is ax
    curve, *drops = ax.get_lines()
    np.testing.assert_array_equal(curve.get_ydata(), loss)
    np.testing.assert_allclose([line.get_xdata()[0] for line in drops], found.drop_time)
    (segments,) = [part.get_segments() for part in ax.collections]
    np.testing.assert_allclose(
        segments,
        [[[a, y], [b, y]] for a, b, y in zip(found.start, found.end, found.level, strict=True)],
    )
    assert [text.get_text() for text in ax.get_legend().get_texts()] == [
        *("loss", "plateaus", "drops")
    ]
    assert ax.get_yscale() == "linear"
    assert (ax.get_xlabel(), ax.get_ylabel()) == ("time", "loss")


def test_levels_that_are_decades_apart_have_a_logarithmic_axis(ax):
    for loss in (staircase(3.0, 0.1, 1e-3), staircase(3.0, 0.06)):
        ax.set_yscale("linear")
        plateaus(TIME, loss, levels="log").draw(ax, times=TIME, loss=loss)
        assert ax.get_yscale() == "log"


def test_what_was_passed_over_is_shaded(ax):
    loss = staircase(3.0, 1.0) + 0.5 * np.exp(-((TIME - 20.0) ** 2) / 20.0)
    found = plateaus(TIME, loss)
    assert len(found.rises) == 1
    found.draw(ax, times=TIME, loss=loss)
    (shade,) = ax.patches
    assert shade.get_x() == pytest.approx(found.rises[0, 0])


def test_axes_of_its_own():
    axes = plateaus(TIME, staircase(3.0, 1.0)).draw(
        times=list(TIME), loss=list(staircase(3.0, 1.0))
    )
    assert axes.figure is plt.gcf()
    plt.close("all")


@pytest.mark.parametrize(
    ("time", "loss"), [(TIME[:5], TIME[:5]), (TIME, TIME[:-1]), (TIME[None], TIME[None])]
)
def test_another_curve_is_refused(time, loss):
    with pytest.raises(ValueError, match="that the plateaus were found in"):
        plateaus(TIME, staircase(3.0, 1.0)).draw(times=time, loss=loss)


def test_other_times_are_refused():
    with pytest.raises(ValueError, match="the `times` that the plateaus were found in"):
        plateaus(TIME, staircase(3.0, 1.0)).draw(times=7 * TIME, loss=staircase(3.0, 1.0))
