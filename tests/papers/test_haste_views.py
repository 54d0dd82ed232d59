"""Test experiments on views at their published sizes, and initial strengths of networks."""

import numpy as np
import pytest

import festina
from festina.networks import fully_connected, gated_from
from festina.papers.haste import _conflict, _tasks, _views
from festina.tasks import conflicting_views, multi_view_classes


def test_contributions_are_those_of_each_view_alone():
    a = np.array([2.0, 1.0])
    data = multi_view_classes(a, 3)
    maps = [0.3 * np.eye(3), np.diag([0.1, 0.2, 0.6])]
    network = gated_from({"x-h": np.eye(6), "h-y": np.hstack(maps)})
    np.testing.assert_allclose(_views.contributions(network, data, 2), [0.6, 0.3])


def test_modes_of_two_tasks_start_with_what_grows_of_them():
    """Weights along one mode have only the strength of that mode."""
    a, k, rng = np.array([1.5, 1.0]), 4, np.random.default_rng(0)
    unit = rng.normal(size=5)
    unit /= np.linalg.norm(unit)
    of_one_view = np.append(np.array([1.0, -1.0, 0, 0]) / np.sqrt(2), np.zeros(k))
    in_, out = (np.repeat(each, k) / np.linalg.norm(each) / np.sqrt(k) for each in (a, [1.0, 1.0]))
    layer = fully_connected(2 * k, 5, 2 * k, scale=1.0, key=festina.seeds(1)[0])
    for first, second, expected in (
        (of_one_view, of_one_view, [4 / (k - 1), 0, 0]),
        (in_, out, [0, 0, 4]),
    ):
        parts = [2 * np.outer(unit, each) for each in (first, second)]
        np.testing.assert_allclose(_tasks._begun(layer.with_parts(*parts), a), expected, atol=1e-12)


def test_the_gating_index_is_one_for_a_network_that_heeds_the_cue():
    data, both = conflicting_views(0.5, 3), np.eye(3)
    pick = {"x-a": np.eye(3, 8), "x-b": np.eye(3, 8, 3), "a-y": both, "b-y": both}
    for heeded, index in ((0, 1.0), (1, -1.0)):
        gates = {"a": data.labels["cue"] == heeded, "b": data.labels["cue"] != heeded}
        network = gated_from(pick, gates=gates, x=data.x)
        assert _conflict._index(network, data) == pytest.approx(index)


@pytest.mark.slow
def test_the_time_to_heed_the_cue_is_38_over_the_share_of_conflict():
    run = _conflict.run(_conflict.Parameters(seeds=4, shares=(0.1, 0.2, 1.0)))
    half = run["conflict"].ds["half"].mean("seed").values
    np.testing.assert_allclose(half[:2], 37.6, rtol=0.08)


@pytest.mark.slow
def test_what_a_bottleneck_leaves_in_either_head():
    parameters = _tasks.Parameters(scales=(1e-2, 1e-3), overlaps=(0.0, 0.95, 0.99))
    final = _tasks.run(parameters)["heads"].ds["loss"].isel(time=-1, scale=-1).mean("seed")
    np.testing.assert_allclose(final.sel(width=5), [0.062, 0.338], atol=0.03)
    np.testing.assert_allclose(final.sel(width=4), [0.136, 0.364], atol=0.03)
