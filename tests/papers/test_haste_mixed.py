"""Test mixed and modular networks: contexts in which units are active, and reference numbers."""

import numpy as np
import pytest
from pydantic import ValidationError

import festina
from festina.networks import Layer, fully_connected
from festina.papers.haste import _mixed, _why
from festina.tasks import objects_in_contexts


def test_units_are_counted_by_the_contexts_that_they_are_on_in():
    task = objects_in_contexts(4, 3)
    u = np.zeros((5, 7))
    u[0] = 1.0  # always
    u[1] = [1, 1, 1, 1, -2, 0, 0]  # in all contexts but the first
    u[2] = [-1, -1, -1, -1, 2, 0, 0]  # in the first context
    u[3] = [1, -3, -3, -3, 0, 0, 0]  # for one object, less than half of the objects
    u[4] = -1.0  # never
    layer = fully_connected(7, 5, 28, activation="relu", key=festina.seeds(1)[0])
    layer = layer.with_parts(u, np.ones((5, 28)))
    assert isinstance(layer, Layer)
    strength = np.linalg.norm(u, axis=1)
    expected = np.array([strength[3] + strength[4], strength[2], strength[1], strength[0]])
    np.testing.assert_allclose(_mixed._share(layer, task, 3), expected / expected.sum())


@pytest.mark.parametrize(
    ("given", "words"),
    [
        ({"objects": 6}, "power of two"),
        ({"widths": (120,)}, "one entry for each of the 3 entries of"),
        ({"widths": (120, 120, 10)}, "4 units for each of 6 pathways"),
        ({"contexts": (1, 2, 3)}, "contexts"),
    ],
)
def test_parameters_that_cannot_be(given, words):
    with pytest.raises(ValidationError, match=words):
        _mixed.Parameters(**given)


@pytest.mark.slow
def test_three_contexts_at_the_size_of_the_table():
    """Times to 50, 10 and 1 % of the loss, areas and shares of units match reference numbers."""
    run = _mixed.run(_mixed.Parameters(seeds=3, contexts=(3,), widths=(120,)))
    data = run["contexts_3"].ds
    passed = data["passage"].sel(network="ReLU", level=[0.5, 0.1, 0.01]).mean("seed")
    np.testing.assert_allclose(passed, [14, 63, 136], rtol=0.15)
    area = data["area"].mean("seed").sel(network=list(_mixed._COLORS))
    np.testing.assert_allclose(area, [24.3, 19.9, 25.0, 32.6], rtol=0.1)
    share = data["share"].isel(time=-1).mean("seed")
    np.testing.assert_allclose(share.sel(on=2), 0.86, atol=0.06)
    np.testing.assert_allclose(share.sel(on=slice(0, 1)).sum(), 0.01, atol=0.04)


@pytest.mark.slow
def test_the_open_race_of_three_contexts():
    found = _why._open(_why.Parameters(scales=(1e-3, 1e-5), race_contexts=(3,)), 3)["share"]
    off = np.abs(found.sel(scale=1e-3).values - [0.020, 0.225, 0.264])
    assert (off < [0.01, 0.02, 0.04]).all()
