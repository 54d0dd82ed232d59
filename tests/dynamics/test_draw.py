"""Test `Trajectory.draw`: its lines, legends and axes."""

import importlib
import inspect
import pkgutil

import matplotlib.pyplot as plt
import numpy as np
import pytest
from numpy.typing import ArrayLike

import festina
from festina.dynamics import _draw
from festina.networks import fully_connected
from festina.tasks import linear_teacher

TASK = linear_teacher(np.diag([3.0, 1.0]))


@pytest.fixture(autouse=True)
def figures():
    yield
    plt.close("all")


def flow(scale: ArrayLike = 1e-2, key=None, task=TASK, **options):
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
    assert ax.get_xlabel() == "time $t/τ$"
    assert ax.get_ylabel() == "loss ½⟨‖y − f‖²⟩"


def test_lines_are_named_by_what_networks_differ_in():
    scales = np.array([1e-1, 1e-3])
    assert words(flow(key=festina.seeds(1)[0]).draw()) == []
    assert words(flow(key=festina.seeds(2, first=7)).draw()) == [
        "training, seed 7",
        "training, seed 8",
    ]
    both = flow(scales[:, None]).draw()
    assert words(both) == [f"training, scale {s:.4g}, seed {n}" for s in scales for n in (0, 1)]
    many = flow(scales[:, None], festina.seeds(5)).draw()
    assert words(many) == ["training, scale 0.1", "training, scale 0.001"]
    assert len({line.get_color() for line in many.lines[:5]}) == 1
    assert len(many.lines) == 10
    assert words(flow(key=festina.seeds(9)).draw()) == ["training, 9 networks"]
    assert words(flow(np.geomspace(1e-3, 1e-2, 9), festina.seeds(9)).draw()) == [
        "training, 9 networks"
    ]


def test_descent_is_drawn_in_steps_and_named_by_its_rates():
    network = fully_connected(2, 3, 2, scale=[1e-2, 1e-2], key=festina.seeds(1)[0])
    run = festina.gradient_descent(
        network, TASK, learning_rate=np.array([0.02, 0.1]), steps=50, loss="mean-square"
    )
    ax = run.draw()
    assert words(ax) == ["training, learning rate 0.02", "training, learning rate 0.1"]
    assert ax.get_xlabel() == "step"
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
    legend = ax.get_legend()
    assert legend is not None
    assert legend.get_title().get_text() == "3 of 10 networks drawn"


@pytest.mark.parametrize("style", [{"linewidth": 5}, {"lw": 5}])
def test_style_goes_to_matplotlib(style):
    run = flow()
    ax = run.draw(color="red", ls=":", label="mine", **style)
    assert {line.get_color() for line in ax.lines} == {"red"}
    assert {(line.get_linewidth(), line.get_linestyle()) for line in ax.lines} == {(5, ":")}
    assert words(ax) == ["mine"]
    with pytest.raises(AttributeError, match="unexpected keyword argument 'colour'"):
        run.draw(colour="red")


def staircase():
    network = fully_connected(2, 3, 2, scale=1e-2, key=festina.seeds(1)[0])
    return festina.theory.saddles.staircase(network, TASK)


@pytest.mark.filterwarnings("ignore")  # warnings about the limits of the prediction
def test_a_legend_names_training_and_prediction():
    run, predicted = flow(key=festina.seeds(1)[0]), staircase()
    assert words(predicted.draw(run.draw())) == ["training", "theory: staircase"]
    assert sorted(words(run.draw(predicted.draw()))) == ["theory: staircase", "training"]
    ax = predicted.draw(color="red", lw=3, label="theory")
    assert ax.patches[0].get_edgecolor() == (1.0, 0.0, 0.0, 1.0)
    assert ax.patches[0].get_linewidth() == 3
    assert words(predicted.draw(ax, label="theory")) == ["theory"]


def results():
    """Return every public class of festina that has a method `draw`."""
    for module in pkgutil.walk_packages(festina.__path__, "festina."):
        if not module.name.startswith(("festina.papers", "festina.cli", "festina.__main__")):
            for kind in vars(importlib.import_module(module.name)).values():
                if isinstance(kind, type) and kind.__module__ == module.name:
                    yield from [kind] * callable(getattr(kind, "draw", None))


def test_every_draw_takes_axes_and_style():
    found = list(results())
    assert len(found) >= 12
    for kind in found:
        arguments = inspect.signature(kind.draw).parameters
        assert "ax" in arguments, kind
        assert any(each.kind is each.VAR_KEYWORD for each in arguments.values()), kind
