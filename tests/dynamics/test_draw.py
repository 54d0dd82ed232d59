"""`Trajectory.draw`: which lines, which words, which axes."""

import matplotlib.pyplot as plt
import numpy as np
import pytest

import festina
from festina.dynamics import _draw
from festina.networks import fully_connected
from festina.tasks import linear_teacher

TASK = linear_teacher(np.diag([3.0, 1.0]))


@pytest.fixture(autouse=True)
def figures():
    yield
    plt.close("all")


def flow(scale=1e-2, key=None, task=TASK, **options):
    key = festina.seeds(2) if key is None else key
    network = fully_connected(2, 3, 2, scale=scale, key=key)
    return festina.gradient_flow(network, task, rtol=1e-4, **options)


def words(ax):
    legend = ax.get_legend()
    return [] if legend is None else [text.get_text() for text in legend.get_texts()]


def test_a_line_for_each_network_up_to_its_own_end():
    run = flow(np.array([1e-1, 1e-3]))
    ax = run.draw()
    assert ax is run.draw(ax)
    for k, line in enumerate(ax.lines[:2]):
        one = run.lane(k)
        np.testing.assert_array_equal(line.get_xydata(), np.stack([one.time, one.loss], axis=1))
    assert ax.get_xlabel() == r"flow time $t/\tau$"
    assert ax.get_ylabel() == "loss ½⟨‖y − f‖²⟩"


def test_lines_are_named_by_what_networks_differ_in():
    scales = np.array([1e-1, 1e-3])
    assert words(flow(key=festina.seeds(1)[0]).draw()) == []
    assert words(flow(key=festina.seeds(2, first=7)).draw()) == ["seed 7", "seed 8"]
    both = flow(scales[:, None]).draw()
    assert words(both) == [f"scale {s:.4g}, seed {n}" for s in scales for n in (0, 1)]
    many = flow(scales[:, None], festina.seeds(5)).draw()
    assert words(many) == ["scale 0.1", "scale 0.001"]
    assert len({line.get_color() for line in many.lines[:5]}) == 1
    assert len(many.lines) == 10
    assert words(flow(key=festina.seeds(9)).draw()) == ["9 networks"]
    assert words(flow(np.geomspace(1e-3, 1e-2, 9), festina.seeds(9)).draw()) == ["9 networks"]


def test_descent_is_drawn_in_steps_and_named_by_its_rates():
    network = fully_connected(2, 3, 2, scale=[1e-2, 1e-2], key=festina.seeds(1)[0])
    run = festina.gradient_descent(
        network, TASK, learning_rate=np.array([0.02, 0.1]), steps=50, loss="mean-square"
    )
    ax = run.draw()
    assert words(ax) == ["learning rate 0.02", "learning rate 0.1"]
    assert ax.get_xlabel() == "steps"
    assert ax.get_ylabel() == "loss ⟨‖y − f‖²⟩"


def test_axes_are_logarithmic_where_the_small_would_not_be_seen():
    assert flow().draw().get_xscale() == flow().draw().get_yscale() == "linear"
    ax = flow(1e-3, task=linear_teacher(np.diag([100.0, 0.1]))).draw()
    assert ax.get_xscale() == ax.get_yscale() == "log"


def test_networks_without_a_sample_have_no_line():
    run = flow(np.array([1.0, 1e-8]), times=np.array([0.1, 100.0]), max_steps=1)
    assert not run.saves.any()
    assert len(run.draw().lines) == 0


def test_of_very_many_some_are_drawn_and_the_legend_says_so(monkeypatch):
    monkeypatch.setattr(_draw, "_LINES", 3)
    ax = flow(key=festina.seeds(10), t_end=1.0).draw()
    assert len(ax.lines) == 3
    assert ax.get_legend().get_title().get_text() == "3 of 10 are drawn"
