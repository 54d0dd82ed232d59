"""Test figures of sweeps: their data, scales and axis labels."""

import numpy as np
import pytest
import xarray as xr
from matplotlib.collections import QuadMesh
from matplotlib.figure import Figure
from matplotlib.patches import StepPatch

from festina.experiments.figures import draw_collapse, draw_distribution, phase_diagram

SIGNED = np.concatenate((-np.geomspace(0.1, 10, 5)[::-1], np.geomspace(0.1, 10, 5)))


def axes():
    return Figure(layout="constrained").subplots()


def grid(x, y):
    values = xr.DataArray(
        np.add.outer(np.arange(len(y)), np.zeros(len(x))), {"y": y, "x": x}, ("y", "x"), "what"
    )
    values["x"].attrs["long_name"] = "words for x"
    return values


@pytest.mark.parametrize(
    ("x", "scale"),
    [(np.geomspace(1e-6, 1, 7), "log"), (np.linspace(1, 5, 5), "linear"), (SIGNED, "symlog")],
)
def test_a_phase_diagram_has_the_scale_of_its_grid(x, scale):
    ax = phase_diagram(axes(), grid(x, [1.0, 2.0, 4.5]).T, x="x")
    assert (ax.get_xscale(), ax.get_yscale()) == (scale, "linear")
    assert (ax.get_xlabel(), ax.get_ylabel()) == ("words for x", "y")
    assert ax.figure.axes[1].get_ylabel() == "what"
    mesh = ax.collections[0]
    assert isinstance(mesh, QuadMesh)
    edges = np.asarray(mesh.get_coordinates())[0, :, 0]
    assert (edges[:-1] < x).all()
    assert (x < edges[1:]).all()
    np.testing.assert_array_equal(np.asarray(mesh.get_array())[:, 0], [0.0, 1.0, 2.0])
    if scale == "log":
        np.testing.assert_allclose(edges[1:-1] ** 2, x[:-1] * x[1:])


def test_few_values_have_a_tick_each_and_many_those_of_the_scale():
    ticks = lambda axis: [label.get_text() for label in axis.get_ticklabels()]
    ax = phase_diagram(axes(), grid([4.0, 8.0, 16.0, 32.0], [2, 3, 5]), x="x")
    assert ticks(ax.xaxis) == ["4", "8", "16", "32"]
    assert ticks(ax.yaxis) == ["2", "3", "5"]
    assert not ax.xaxis.get_ticklocs(minor=True).size
    ax = phase_diagram(axes(), grid(np.geomspace(1e-6, 1, 7), [1.0, 2.0, 300.0]), x="x")
    assert "1e-06" not in ticks(ax.xaxis)
    assert ticks(ax.yaxis) != ["1", "2", "300"]  # labels at 1 and 2 would overlap
    ax = phase_diagram(axes(), grid([1000001.0, 1000002.0, 1000003.0], [1.0, 2.0]), x="x")
    assert "1e+06" not in ticks(ax.xaxis)  # three equal labels


@pytest.mark.parametrize("claim", ["decay", ["decay"]])
def test_the_colours_of_a_claim_say_which_one_it_is(claim):
    two = xr.concat([grid([1.0, 2.0], [1.0, 2.0])] * 2, "claim").rename("measured")
    chosen = two.assign_coords(claim=["decay", "growth"]).sel(claim=claim)
    ax = phase_diagram(axes(), chosen, x="x")
    assert ax.figure.axes[1].get_ylabel() == "measured: decay"
    assert (ax.get_xlabel(), ax.get_ylabel()) == ("words for x", "y")


def test_a_boundary_is_a_line_over_either_axis_or_a_contour():
    values = grid(np.linspace(0, 1, 5), np.linspace(0, 4, 5))
    over_y = xr.DataArray([0.2, 9.0], {"y": [0.0, 4.0]}, ("y",))
    ax = phase_diagram(axes(), values, over_y, x="x")
    np.testing.assert_allclose(np.asarray(ax.lines[0].get_xydata()), [[0.2, 0.0], [9.0, 4.0]])
    assert ax.get_xlim()[1] < 2  # a line that leaves the map does not widen it
    over_x = xr.DataArray([1.0, 3.0], {"x": [0.0, 1.0]}, ("x",))
    ax = phase_diagram(axes(), values, over_x, x="x")
    np.testing.assert_allclose(np.asarray(ax.lines[0].get_xydata()), [[0.0, 1.0], [1.0, 3.0]])
    contour = phase_diagram(axes(), values, values, x="x", level=1.5).collections[-1]
    np.testing.assert_allclose(np.asarray(contour.get_paths()[0].vertices)[:, 1], 1.5)


def test_draws_that_never_end_count():
    draws = xr.DataArray([1.0, 2.0, 3.0, np.inf], dims="seed", name="time")
    law = xr.DataArray([0.0, 1.0], {"t": [0.0, 4.0]}, ("t",))
    ax = draw_distribution(axes(), draws, law, bins=[0.0, 2.5, 5.0])
    (steps,) = ax.patches
    assert isinstance(steps, StepPatch)
    np.testing.assert_allclose(steps.get_data()[0], [0.2, 0.1])
    assert ax.lines[0].get_linestyle() == "--"
    ax = draw_distribution(axes(), draws, cumulative=True)
    np.testing.assert_allclose(
        np.asarray(ax.lines[0].get_xydata()), [[1, 0.25], [2, 0.5], [3, 0.75]]
    )
    assert (ax.get_xlabel(), ax.get_ylabel()) == ("time", "share of 4 samples")


def test_curves_are_drawn_on_the_common_coordinate():
    curves = xr.DataArray([[0.0, 1.0], [0.0, 2.0]], {"s": [1.0, 3.0], "t": [1.0, 2.0]}, ("s", "t"))
    theory = xr.DataArray([0.5, 0.6], {"z": [1.0, 6.0]}, ("z",))
    ax = draw_collapse(axes(), curves, curves["t"] * curves["s"], theory, over="s", symbol="s =")
    np.testing.assert_allclose(np.asarray(ax.lines[1].get_xydata()), [[3.0, 0.0], [6.0, 2.0]])
    assert [line.get_label() for line in ax.lines[:2]] == ["s = 1", "s = 3"]
    assert ax.lines[2].get_linestyle() == "--"


@pytest.mark.parametrize(
    ("values", "x"),
    [
        (grid([1.0, 2.0], [1.0, 2.0]), "wrong"),
        (grid([1.0, 2.0], [1.0, 2.0]).expand_dims(z=2), "x"),
        (grid([1.0, 2.0], [1.0, 2.0]).astype(str), "x"),
    ],
)
def test_a_phase_diagram_of_something_else_is_refused(values, x):
    with pytest.raises(ValueError, match="`values` must be numbers over two dimensions"):
        phase_diagram(axes(), values, x=x)


def test_an_axis_of_one_value_is_left_out_of_a_phase_diagram():
    values = grid([1.0, 2.0], [1.0, 2.0])
    assert phase_diagram(axes(), values.expand_dims(entry=1), x="x").get_xlabel() == "words for x"
