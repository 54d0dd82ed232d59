"""Test that `gating` finds planted gates, and reports activities without stable gates."""

import time

import jax
import matplotlib
import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from festina import gradient_descent, seeds
from festina.diagnose import gate_changes, gating
from festina.diagnose._gating_clusters import rand_index
from festina.networks import (
    deep_network,
    fully_connected,
    gated_equivalent,
    layer_from,
    rectifier_gates,
)
from festina.tasks import objects_in_contexts, xor

TASK = objects_in_contexts(4, 3)


def planted(pathways, units, examples, noise, seed, dead=0.2, spread=(0.3, 0.8)):
    """Return activities `(example, unit)` of units in pathways, with some wrong gates."""
    rng = np.random.default_rng(seed)
    sets = rng.random((pathways, examples)) < rng.uniform(spread[0], spread[1], (pathways, 1))
    label = rng.permutation(np.arange(units) % pathways)
    on = sets[label] ^ (rng.random((units, examples)) < noise)
    silent = rng.random(units) < dead
    h = np.where(on & ~silent[:, None], rng.uniform(0.1, 3.0, on.shape), -rng.random(on.shape))
    return h.T, label, silent, rng.lognormal(size=units)


def index(found, label):
    alive = ~found.dead
    return rand_index(label[alive], found.pathway[alive], np.ones(alive.sum()))


@settings(max_examples=4, deadline=None)
@given(st.integers(3, 8), st.floats(0.0, 0.12), st.integers(0, 2**20))
def test_planted_pathways_are_found(pathways, noise, seed):
    h, label, silent, strengths = planted(pathways, 90, 200, noise, seed)
    found = gating(h, strengths=strengths)
    np.testing.assert_array_equal(found.dead, silent)
    assert (found.pathway[silent] == -1).all()
    assert len(found) == pathways
    assert index(found, label) >= 0.95
    assert found.stable
    assert found.share.sum() == pytest.approx(1)
    assert (np.diff(found.share) <= 0).all()


@settings(max_examples=5, deadline=None)
@given(st.integers(3, 8), st.floats(0.42, 0.5), st.integers(0, 2**20))
def test_what_cannot_be_recovered_is_called_unstable(pathways, noise, seed):
    h, label, _, strengths = planted(pathways, 60, 80, noise, seed)
    found = gating(h, strengths=strengths)
    assert index(found, label) < 0.5
    assert not found.stable
    assert "unstable" in str(found)


def test_one_pathway_is_one():
    h, _, _, strengths = planted(1, 60, 100, 0.05, 3)
    found = gating(h, strengths=strengths)
    assert len(found) == 1
    assert found.stable
    assert not gating(*planted(1, 60, 100, 0.4, 3)[:1]).stable


@pytest.mark.parametrize("examples", [8, 12, 15, 40])
@pytest.mark.parametrize("rate", [0.3, 0.5])
def test_noise_is_never_stable(examples, rate):
    on = (np.random.default_rng(examples).random((examples, 40)) < rate) * 1.0
    assert not gating(on).stable
    assert not gating(on, pathways=1).stable


@pytest.mark.parametrize("rate", [0.05, 0.9, 0.95])
@pytest.mark.parametrize("examples", [12, 40])
def test_rare_and_dense_noise_is_compared_with_chance(examples, rate):
    """Most gates of most units agree by chance alone, because units are rarely or nearly always
    on.
    """
    for seed in range(3):
        on = (np.random.default_rng(seed).random((examples, 30)) < rate) * 1.0
        found = gating(on)
        assert not found.stable
        assert found.stability < 0.5


@pytest.mark.parametrize(
    ("examples", "units"),
    [(4, 3), *(pytest.param(*each, marks=pytest.mark.slow) for each in ((12, 3), (8, 5)))],
)
def test_noise_of_few_units_is_seldom_stable(examples, units):
    stable = []
    for seed in range(25):
        on = (np.random.default_rng(seed).random((examples, units)) < 0.5) * 1.0
        found = gating(on)
        stable.append(found.stable)
        assert not found.stability < -1
    assert sum(stable) <= 2  # without the test of `p_value`, up to 12 would be stable


def test_units_that_are_always_on_tell_nothing():
    found = gating(np.ones((20, 10)))
    assert found.p_value == 1
    assert not found.stable


@pytest.mark.parametrize("examples", [1, 2, 3])
def test_nothing_is_known_of_fewer_than_four_examples(examples):
    for on in (np.ones((examples, 10)), np.eye(examples)[:, np.arange(10) % examples]):
        found = gating(on)
        assert not found.stable
        assert np.isnan(found.stability)
        assert "fewer than four examples" in str(found)


def test_a_verdict_does_not_depend_on_the_split_nor_on_the_order_of_units():
    """Gates are nearly ambiguous and often tied, because there are few examples and few sets."""
    rng = np.random.default_rng(5)
    sets = rng.random((4, 14)) < 0.5
    on = (sets[rng.integers(4, size=20)] ^ (rng.random((20, 14)) < 0.08)).T * 1.0
    strengths = rng.choice([1.0, 2.0], 20)
    found = gating(on, strengths=strengths)
    assert gating(on, strengths=strengths, key=jax.random.key(2)).stable == found.stable
    order = np.random.default_rng(0).permutation(20)
    other = gating(on[:, order], strengths=strengths[order])
    np.testing.assert_array_equal(other.pathway, found.pathway[order])
    assert other.stability == pytest.approx(found.stability, abs=1e-9)


@pytest.mark.parametrize("examples", [6, 12])
def test_few_examples_are_enough_for_clear_pathways(examples):
    which = np.arange(examples) % 3
    found = gating(np.repeat((which[:, None] == np.arange(3)) * 1.0, 10, axis=1))
    assert len(found) == 3
    assert found.stable


def test_order_of_units_and_examples_does_not_matter():
    h, _, _, strengths = planted(5, 70, 120, 0.05, 1)
    rng = np.random.default_rng(0)
    units, examples = rng.permutation(70), rng.permutation(120)
    one, other = (
        gating(h, strengths=strengths),
        gating(h[examples][:, units], strengths=strengths[units]),
    )
    np.testing.assert_array_equal(one.pathway[units], other.pathway)
    np.testing.assert_array_equal(one.sets[:, examples], other.sets)


@pytest.mark.slow
def test_many_units_and_examples_take_seconds():
    h, label, _, strengths = planted(6, 1000, 10_000, 0.1, 0)
    before = time.process_time()
    found = gating(h, strengths=strengths)
    assert time.process_time() - before < 30
    assert index(found, label) >= 0.95
    assert found.stable


@given(st.lists(st.tuples(st.integers(0, 3), st.integers(0, 3)), min_size=3, max_size=12))
def test_rand_index_counts_pairs(labels):
    one, other = (np.array(each) for each in zip(*labels, strict=True))
    i, j = np.triu_indices(len(one), 1)
    a, b = one[i] == one[j], other[i] == other[j]
    chance = a.sum() * b.sum() / len(i)
    most = (a.sum() + b.sum()) / 2
    expected = 1.0 if np.isclose(most, chance) else ((a & b).sum() - chance) / (most - chance)
    assert rand_index(one, other, np.ones(len(one))) == pytest.approx(expected)
    # A unit of weight two counts as two units, except for the pair of these two units.
    assert rand_index(one, one, np.arange(1.0, len(one) + 1)) == pytest.approx(1)


def test_seeds_make_pathways_together():
    parts = [planted(4, 40, 150, 0.05, 7, dead=0.0) for _ in range(2)]
    rng = np.random.default_rng(1)
    order = rng.permutation(40)
    h = np.stack((parts[0][0], parts[1][0][:, order]))
    found = gating(h)
    assert found.pathway.shape == (2, 40)
    assert found.agreement["seeds"].shape == (2,)
    np.testing.assert_array_equal(found.pathway[0][order], found.pathway[1])
    assert found.stable
    other = np.stack((parts[0][0], planted(4, 40, 150, 0.05, 8, dead=0.0)[0]))
    assert len(gating(other)) == 8  # the two networks have no pathway in common


def test_times_at_which_pathways_were_others_are_told():
    h, *_ = planted(4, 40, 150, 0.05, 7, dead=0.0)
    before, *_ = planted(4, 40, 150, 0.05, 9, dead=0.0)
    assert gating(h, earlier=[h]).stable
    changed = gating(h, earlier=[h, before])
    assert changed.agreement["times"][0] == pytest.approx(1)
    assert changed.agreement["times"][1] < 0.3
    assert not changed.stable


def test_xor_units_along_examples_are_four_pathways():
    data = xor()
    turn = np.repeat(data.x, 3, axis=0) * np.arange(1, 13)[:, None]
    found = gating(layer_from("relu", turn, np.ones((12, 1))), data.x)
    np.testing.assert_array_equal(np.sort(found.sets.sum(axis=1)), [1] * 4)
    np.testing.assert_allclose(found.strength, np.linalg.norm(turn, axis=1))
    # With four examples, units that are active for one random example look the same.
    assert found.chance > 0.99
    assert not found.stable
    assert "no more than by chance" in str(found)
    assert gating(layer_from("relu", turn, np.ones((12, 1))), np.repeat(data.x, 3, axis=0)).stable


def test_every_hidden_layer_has_its_gates():
    network = deep_network((7, 6, 5, 2), activations="relu", scale=1.0, key=seeds(3))
    first, second = (gating(network, TASK.x, layer=k, threshold=0.0) for k in (1, 2))
    gates = rectifier_gates(network, TASK.x)
    np.testing.assert_array_equal(first.active, gates[0] > 0)
    np.testing.assert_array_equal(second.active, gates[1] > 0)
    w1, w2, w3 = network.weights
    norm = np.linalg.norm
    np.testing.assert_allclose(second.strength, norm(w2, axis=-1) * norm(w3, axis=-2))
    np.testing.assert_allclose(first.strength, norm(w1, axis=-1) * norm(w2, axis=-2))


def test_gates_by_context_and_by_pathway():
    context = np.repeat(np.arange(3), 4)
    rows = np.isin(context, [[0, 1]]) * 1.0, np.isin(context, [[1, 2]]) * 1.0, np.zeros(12)
    h = np.stack((rows[0], rows[0], rows[1], rows[1], rows[2]), axis=1)
    h[0, 0] = 0.0  # one gate is off
    found = gating(h)
    np.testing.assert_array_equal(found.by(context), np.array([rows[i] for i in (0, 0, 1, 1, 2)]))
    joined = found.by_pathway()
    np.testing.assert_array_equal(joined[2:], np.array([rows[i] for i in (1, 1, 2)]))
    np.testing.assert_array_equal(joined[0], joined[1])
    with pytest.raises(ValueError, match=r"`labels` must be one for each of the 12 examples"):
        found.by(context[:-1])


def test_it_can_be_drawn():
    matplotlib.use("Agg")
    h, *_ = planted(4, 40, 60, 0.05, 7)
    found = gating(h)
    ax = found.draw(labels=np.arange(60) % 3)
    assert ax.get_ylabel()
    assert np.asarray(ax.images[0].get_array()).shape == (int((~found.dead).sum()), 60)
    with pytest.raises(ValueError, match="one for each of the 60 examples"):
        found.draw(labels=np.arange(59))


@pytest.mark.parametrize(
    ("given", "options", "message"),
    [
        (-np.ones((5, 3)), {}, "All 3 units are dead"),
        (np.ones((5, 3)), {"strengths": np.zeros(3)}, "All 3 units are dead"),
        (
            np.ones((5, 3)),
            {"strengths": np.ones(5)},
            r"one for each unit, \(3,\), got shape \(5,\)",
        ),
        (np.ones(5), {}, r"\(\*seed, example, unit\), got shape \(5,\)"),
        (np.full((5, 3), np.nan), {}, "must be finite"),
        (np.ones((5, 3)), {"x": np.eye(5)}, "`x` goes with a network"),
        (np.ones((5, 3)), {"earlier": [np.ones((4, 3))]}, "`earlier` must have the shape"),
        (np.ones((5, 3)), {"threshold": 1.0}, "`threshold` must be a fraction"),
        (np.ones((5, 3)), {"pathways": 0}, "`pathways` must be a whole number"),
        (fully_connected(2, 3, activation="relu", key=seeds(1)[0]), {}, "give `x` alone"),
        (
            fully_connected(2, 3, activation="relu", key=seeds(1)[0]),
            {"x": np.eye(2), "layer": 2},
            "`layer` must be a hidden layer from 1 to 1",
        ),
        (layer_from("relu", [[-1.0, -1.0]], [1.0]), {"x": np.eye(2)}, "All 1 units are dead"),
    ],
)
def test_what_has_no_gates_is_refused(given, options, message):
    with pytest.raises(ValueError, match=message):
        gating(given, **options)


# Gates along training


@pytest.mark.parametrize(
    "network",
    [
        pytest.param(
            fully_connected(7, 20, 28, activation="relu", scale=0.05, key=seeds(2)),
            marks=pytest.mark.slow,
        ),
        deep_network((7, 6, 6, 28), activations="relu", scale=0.3, key=seeds(2)),
    ],
)
def test_gates_that_are_read_again_are_the_network(network):
    how = {"batch_size": 12, "key": seeds(2)}
    run = gradient_descent(network, TASK, 0.2, 200, save_every=25, **how)
    course = gate_changes(run, TASK)
    assert course.output_gap.max() < 1e-12
    assert course.loss_gap.max() < 1e-12
    assert (course.from_last[:, -1] == 0).all()
    assert (course.from_first[:, 0] == 0).all()
    assert course.from_last.max() > 0.02
    last = run.final.lane(1)
    same = gated_equivalent(last, TASK.x)  # the gated network itself computes the same outputs
    np.testing.assert_allclose(same.predict(TASK.x), last.predict(TASK.x), atol=1e-12)


def test_when_and_how_often_gates_change():
    network = fully_connected(7, 20, 28, activation="relu", scale=0.05, key=seeds(1)[0])
    run = gradient_descent(network, TASK, 0.2, 60, batch_size=12, save_every=20, key=seeds(1)[0])
    course = gate_changes(run, TASK)
    gates = rectifier_gates(run.network, TASK.x)[0] > 0
    turned = gates[1:] != gates[:-1]
    np.testing.assert_array_equal(course.flips[0], turned.sum(axis=0))
    last = np.where(turned.any(axis=0), run.time[3 - np.argmax(turned[::-1], axis=0)], -np.inf)
    np.testing.assert_array_equal(course.last_change[0], last)


def test_a_course_needs_rectifiers():
    run = gradient_descent(
        fully_connected(7, 5, 28, activation="tanh", key=seeds(1)[0]), TASK, 0.1, 2
    )
    with pytest.raises(ValueError, match="linear or rectified"):
        gate_changes(run, TASK)
