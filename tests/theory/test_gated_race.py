"""Test races between gatings: XoR with a margin, objects in contexts."""

from typing import Any

import matplotlib.pyplot as plt
import numpy as np
import pytest
from scipy.optimize import brentq

from festina.networks import gated_from, with_decoupled_weights
from festina.tasks import from_arrays, objects_in_contexts, xor
from festina.theory.gated import path_directions, race_of_gatings, race_reduction
from plain_flow import flow


def candidates(data):
    """Return gatings: one example, one side of the third input, one side of the first input."""
    y = data.y[:, 0]
    return {
        **{f"example {k}": data.labels["example"] == k for k in range(4)},
        "y > 0": y > 0,
        "y < 0": y < 0,
        "half": data.x[:, 0] > 0,
    }


def named(found, values):
    return dict(zip(found.names, values, strict=True))


@pytest.mark.parametrize("delta", [0.3, 0.8, 0.83, 1.2, 1.5])
def test_who_wins_changes_at_the_predicted_distance(delta):
    data = xor(delta)
    found = race_of_gatings(data, candidates(data), initial_strength=1e-40)
    rate, consistent = named(found, found.rate), named(found, found.consistent)
    np.testing.assert_allclose(rate["y > 0"], delta / 2, rtol=1e-12)
    np.testing.assert_allclose(rate["example 0"], np.sqrt(2 + delta**2) / 4, rtol=1e-12)
    assert rate["half"] > rate["example 0"]  # the fastest gating, but not self-consistent
    assert not consistent["half"]
    assert consistent["y > 0"]
    assert consistent["example 0"] == (delta < np.sqrt(2))
    assert ("example" in found.winner) == (delta < np.sqrt(2 / 3))
    assert found.held
    np.testing.assert_allclose(found.loss[-1], 0, atol=1e-6)
    np.testing.assert_allclose(found.share.sum(), 1)


def test_the_transition_to_nonlinearity_is_at_the_root_of_two_thirds():
    def ahead(delta):
        rate = race_of_gatings(xor(delta), candidates(xor(delta))).rate
        return rate[4] - rate[0]

    root: Any = brentq(ahead, 0.5, 1.2, xtol=1e-12)
    np.testing.assert_allclose(root, np.sqrt(2 / 3), atol=1e-9)


@pytest.mark.parametrize(("delta", "gamma"), [(0.6, 0.438), (0.7, 0.226), (1.2, 0.454)])
def test_the_loser_keeps_a_power_of_the_scale(delta, gamma):
    """The losing strength falls as σ^γ with γ = 2(1 − S_slow/S_fast), between σ = 10⁻⁴ and 10⁻⁶.

    The closer the rates, the smaller γ.
    """
    data = xor(delta)
    slow, fast = sorted([delta / 2, np.sqrt(2 + delta**2) / 4])
    np.testing.assert_allclose(2 * (1 - slow / fast), gamma, atol=5e-4)
    lost = "y" if delta < np.sqrt(2 / 3) else "example"

    def exponent(scales):
        found = [
            race_of_gatings(data, candidates(data), initial_strength=scale**2) for scale in scales
        ]
        left = [sum(s for n, s in named(each, each.share).items() if lost in n) for each in found]
        return np.log(left[0] / left[1]) / np.log(scales[0] / scales[1])

    errors = [abs(exponent(np.array(pair)) - gamma) for pair in ((1e-4, 1e-6), (1e-8, 1e-10))]
    assert errors[0] < 0.03
    assert errors[1] < 0.3 * errors[0]


def test_examples_of_xor_race_as_their_closed_form_says():
    """Only sets of one example are self-consistent; their mode is half learned at 12.535."""
    found = race_of_gatings(xor(), "example", initial_strength=1e-4)
    assert len(found.names) == 15
    assert {n for n, runs in named(found, found.runs).items() if runs} == {
        f"example {k}" for k in range(4)
    }
    np.testing.assert_allclose(found.rate[:4], np.sqrt(2) / 4, rtol=1e-12)
    np.testing.assert_allclose(found.half_time[:4], 12.535, rtol=0, atol=1e-3)
    np.testing.assert_allclose(found.half_time[4:], np.inf)
    pi = found.strength[:, 0]
    np.testing.assert_allclose(found.loss, 0.5 * (1 - np.sqrt(2) * pi) ** 2, atol=1e-9)
    np.testing.assert_allclose(
        race_of_gatings(xor(), "example", initial_strength=1e-4, tau=3.0).time, 3 * found.time
    )


@pytest.mark.parametrize("delta", [0.5, 1.1])
def test_a_race_of_directions_that_stay_is_the_reduction_of_a_network(delta):
    """Both pathways, for y > 0 and y < 0, start from balanced weights along their directions."""
    data = xor(delta)
    gatings = {"y > 0": data.y[:, 0] > 0, "y < 0": data.y[:, 0] < 0}
    weights, gates = {}, {}
    for name, gate in zip("ab", gatings.values(), strict=True):
        weights |= {f"x-{name}": np.ones((1, 3)), f"{name}-y": np.ones((1, 1))}
        gates[name] = gate
    network = gated_from(weights, gates=gates, x=data.x)
    network = with_decoupled_weights(network, path_directions(network, data), initial_strength=1e-2)
    errors = []
    for rtol in (1e-6, 1e-11):
        found = race_of_gatings(data, gatings, initial_strength=1e-4, rtol=rtol)
        assert found.held
        seen = race_reduction(network, data)(found.time[::10])
        errors.append(np.abs(seen.loss - found.loss[::10]).max())
    assert errors[1] < 1e-9
    assert errors[1] < 1e-3 * errors[0]


def network_of(data, gatings, initial):
    """Return the network of a race from weights without a direction, with one more unit."""
    n, m = data.x.shape[1], data.y.shape[1]
    z = np.sqrt(2 * initial) * np.eye(n + m, n + m + 1)
    weights, gates = {}, {}
    for k, gate in enumerate(gatings.values()):
        weights |= {f"x-h{k}": z[:n].T, f"h{k}-y": z[n:]}
        gates[f"h{k}"] = gate
    return gated_from(weights, gates=gates, x=data.x)


def test_a_race_whose_directions_turn_is_that_of_a_network():
    rng = np.random.default_rng(0)
    data = from_arrays(rng.normal(size=(4, 3)), rng.normal(size=(4, 2)))
    gatings = {"first": np.arange(4) < 3, "last": np.arange(4) > 0, "some": rng.normal(size=4)}
    found = race_of_gatings(data, gatings, initial_strength=1e-2, only_self_consistent=False)
    assert not found.held
    moments = np.flatnonzero(found.time < 15.0)[::40]
    parts = flow(network_of(data, gatings, 1e-2), data, found.time[moments])
    maps = [parts[2 * k + 1] @ parts[2 * k] for k in range(3)]
    said = sum(
        np.asarray(gate, float)[:, None] * (data.x @ each.swapaxes(1, 2))
        for gate, each in zip(gatings.values(), maps, strict=True)
    )
    loss = 0.5 * np.mean(np.sum((data.y - said) ** 2, axis=2), axis=1)
    np.testing.assert_allclose(found.loss[moments], loss, atol=1e-7)
    strength = np.linalg.svd(maps, compute_uv=False).sum(axis=2).T
    np.testing.assert_allclose(found.strength[moments], strength, atol=1e-6)


@pytest.mark.parametrize(
    ("objects", "contexts"), [(4, 3), pytest.param(8, 3, marks=pytest.mark.slow)]
)
def test_pathways_for_all_contexts_and_for_all_but_one_win(objects, contexts):
    """In an open race, pathways for fewer contexts get less, the more so for smaller σ."""
    small, smaller = (
        race_of_gatings(
            objects_in_contexts(objects, contexts),
            "context",
            only_self_consistent=False,
            initial_strength=each,
            rtol=1e-6,
        )
        for each in (1e-5, 1e-9)
    )
    assert not small.held
    left = []
    for found in (small, smaller):
        strength = found.strength[-1] / found.strength[-1].sum()
        by_size = [strength[np.char.count(found.names, "+") == k] for k in range(contexts)]
        assert all(np.ptp(each) < 1e-3 for each in by_size)
        single, *_, most, common = (each.mean() for each in by_size)
        assert single < 0.15 * most
        assert common > most
        left.append(single)
        if objects == 8:  # shares in random networks: 0.020, 0.225, 0.264 and 0.0045, 0.227, 0.306
            seen = (0.020, 0.225, 0.264) if found is small else (0.0045, 0.227, 0.306)
            np.testing.assert_allclose((single, most, common), seen, rtol=0, atol=0.01)
    assert left[1] < 0.5 * left[0]


def test_what_a_race_says_and_draws():
    found = race_of_gatings(xor(0.5), candidates(xor(0.5)))
    said = str(found).splitlines()
    assert found.winner in said[1]
    assert "no, out" in said[-2]
    assert "directions stay" in said[-1]
    ax = found.draw()
    labels = ax.get_legend_handles_labels()[1]  # gatings that are not self-consistent have no line
    assert labels == ["example 0 (+3 equal)", "y > 0 (+1 equal)"]
    plt.close("all")


@pytest.mark.parametrize(
    ("gatings", "message"),
    [
        ("view", "label of the task, which has example, .* got 'view'"),
        ({}, "at least one gating"),
        ({"a": [1.0, 0.0]}, "for each of 4 examples"),
        ({"a": [1.0, np.nan, 0, 0]}, "finite"),
        ({"a": [0.0, 0.0, 0.0, 0.0]}, "No gating in `gatings` has"),
        ({"half": [1, 1, 0, 0]}, "self-consistent.* Use `only_self_consistent=False`"),
    ],
)
def test_gatings_that_cannot_race(gatings, message):
    with pytest.raises(ValueError, match=message):
        race_of_gatings(xor(0.5), gatings)


@pytest.mark.parametrize(
    ("options", "message"),
    [
        ({"initial_strength": 0.0}, "`initial_strength` must be positive"),
        ({"initial_strength": [1e-3, 1e-3]}, "one for each of 15"),
        ({"tau": -1.0}, "`tau` must be positive"),
    ],
)
def test_races_that_cannot_start(options, message):
    with pytest.raises(ValueError, match=message):
        race_of_gatings(xor(0.5), "example", **options)


def test_sets_of_too_many_labels_are_counted_and_refused():
    data = from_arrays(np.eye(13), np.ones(13), labels={"item": np.arange(13)})
    with pytest.raises(ValueError, match="13 values and 8,191 sets"):
        race_of_gatings(data, "item")


def test_small_data_race_as_large_ones_do():
    data = xor(0.7)
    small = from_arrays(1e-8 * data.x, 1e-8 * data.y)
    found, same = race_of_gatings(data, candidates(data)), race_of_gatings(small, candidates(data))
    np.testing.assert_allclose(same.share, found.share, rtol=1e-5, atol=1e-9)


@pytest.mark.parametrize("angle", [0.0, 0.3, 0.8, 2.0])
def test_of_equal_values_any_direction_may_open_the_gates(angle):
    turned = np.array([[np.cos(angle), -np.sin(angle)], [np.sin(angle), np.cos(angle)]])
    assert race_of_gatings(from_arrays(np.eye(2), turned), {"all": np.ones(2)}).consistent.all()


def test_inputs_of_very_different_variance_race_to_the_end():
    """A rate is 10⁴ times the slowest one, so an explicit solver would take 10⁵ steps."""
    x = np.array([[-0.67, 0.6], [-1.3, -1.6], [0.03, 0.0], [0.18, 1.03]])
    data = from_arrays(x, np.array([[-2.3], [1.1], [-0.6], [-0.8]]))
    gatings = {"first": np.array([1.0, 1.0, 0.0, 0.0]), "all": np.ones(4)}
    assert (
        race_of_gatings(data, gatings, initial_strength=0.01, only_self_consistent=False).loss[-1]
        < 1e-9
    )
