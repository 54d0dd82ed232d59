"""Test tasks of the neural race: spectra that each pathway sees, by NumPy from the data."""

import jax
import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from festina.networks import fully_connected, gated, seeds
from festina.tasks import (
    cyclic_domain_pairs,
    distillation,
    domain_routing,
    features_of_related_domains,
    nested_tree_features,
    objects_in_contexts,
    structured_features,
    structured_task,
    xor,
)
from festina.tasks.worlds import ring, tree
from helpers import untyped

EXACT = 1e-12


def seen(task, gate, inputs=slice(None), outputs=slice(None)):
    """Return singular values of ⟨g y xᵀ⟩ and eigenvalues of ⟨g x xᵀ⟩, largest first."""
    x, y = task.x[:, inputs], task.y[:, outputs]
    share = (task.weight * gate)[:, None]
    s = np.linalg.svd((share * y).T @ x, compute_uv=False)
    return s, np.linalg.eigvalsh((share * x).T @ x)[::-1]


def close(found, expected):
    found = found[: len(expected)]
    np.testing.assert_allclose(found, np.sort(expected)[::-1], rtol=EXACT, atol=EXACT)


# Trees


@pytest.mark.parametrize("levels", [0, 1, 2, 3, 5])
def test_values_of_a_tree_are_those_of_its_splits(levels):
    values = np.linspace(3.0, 1.0, levels + 1)
    y = nested_tree_features(levels, values=values)
    assert y.shape == (2 ** (levels + 1) - 1, 2**levels)
    below = [
        sum(values[k] ** 2 * 2 ** (levels - k) for k in range(m, levels + 1))
        for m in range(levels + 1)
    ]
    times = [1, *(2 ** (m - 1) for m in range(1, levels + 1))]
    close(np.linalg.svd(y, compute_uv=False), np.sqrt(np.repeat(below, times)))


def test_a_tree_of_eight_objects():
    s, d = seen(structured_task(nested_tree_features(3)), 1.0)
    close(s, np.sqrt([15, 7, 3, 3, 1, 1, 1, 1]) / 8)
    close(d, np.full(8, 1 / 8))


# XoR


def test_one_gate_for_each_example_of_xor():
    task = xor()
    assert task.x.shape == (4, 2)
    np.testing.assert_array_equal(task.y[:, 0], -task.x[:, 0] * task.x[:, 1])
    for example in range(4):
        s, d = seen(task, task.labels["example"] == example)
        close(s, [np.sqrt(2) / 4])
        close(d, [0.5])


@given(st.floats(0.0, 5.0))
@settings(max_examples=30, deadline=None)
def test_rates_of_xor_with_a_margin(delta):
    """Rates are Δ/2 for a ReLU along the third input, √(2 + Δ²)/4 per example, Δ without gates."""
    task = xor(delta)
    assert task.x.shape == (4, 3)
    close(seen(task, task.y[:, 0] > 0)[0], [delta / 2])
    close(seen(task, task.labels["example"] == 2)[0], [np.sqrt(2 + delta**2) / 4])
    close(seen(task, 1.0)[0], [delta])


def test_the_margin_at_which_rates_cross():
    task = xor(np.sqrt(2 / 3))
    close(seen(task, task.y[:, 0] > 0)[0], seen(task, task.labels["example"] == 0)[0])


# Contexts


@pytest.mark.parametrize(("objects", "contexts"), [(8, 3), (8, 4), (8, 5), (4, 3), (16, 2)])
def test_what_pathways_see_of_contexts(objects, contexts):
    task = objects_in_contexts(objects, contexts)
    n, c = objects, contexts
    sigma = np.linalg.svd(nested_tree_features(n.bit_length() - 1), compute_uv=False)
    assert task.y.shape == (n * c, (c + 1) * (2 * n - 1))
    np.testing.assert_array_equal(task.labels["context"], np.repeat(np.arange(c), n))
    s, _ = seen(task, 1.0)
    mean = sigma[0] * np.sqrt((1 + 1 / c) * (1 / n + 1 / c) / n)
    close(s, [mean, *sigma[1:] * np.sqrt(1 + 1 / c) / n, *[sigma[0] / (c * np.sqrt(n))] * (c - 1)])
    by_object = slice(n)
    for k in range(1, c + 1):  # pathways open in k contexts that do not see the context
        s, d = seen(task, task.labels["context"] < k, by_object)
        close(s, sigma * np.sqrt(k**2 + k) / (n * c))
        close(d, np.full(n, k / (n * c)))


@pytest.mark.parametrize("contexts", [3, 4, 5])
def test_what_remains_when_the_common_pathway_has_learned(contexts):
    task = objects_in_contexts(8, contexts)
    residual = task.y - task.x @ np.linalg.lstsq(task.x, task.y)[0]
    floor = {3: 17 / 24, 4: 51 / 64, 5: 0.85}[contexts]
    np.testing.assert_allclose(0.5 * np.mean(np.sum(residual**2, axis=1)), floor, rtol=EXACT)
    np.testing.assert_allclose(0.5 * np.mean(np.sum(task.y**2, axis=1)), 4.0, rtol=EXACT)
    sigma = np.sqrt([7, 3, 3, 1, 1, 1, 1])
    for k in range(1, contexts):
        gate = (task.labels["context"] < k) / len(task.x)
        s = np.linalg.svd((gate[:, None] * residual).T @ task.x[:, :8], compute_uv=False)
        close(s, sigma * np.sqrt(k * (contexts - k) / contexts) / (8 * contexts))


def test_contexts_may_be_louder_and_objects_of_any_kind():
    y = np.arange(6.0).reshape(2, 3)
    task = objects_in_contexts(y, 2, context_input=1.1)
    np.testing.assert_array_equal(task.x[4], [0, 1, 0, 0, 1.1])
    np.testing.assert_array_equal(task.y[4], [1, 4, 0, 0, 1, 4])
    assert task.labels["object"].tolist() == [0, 1, 2, 0, 1, 2]


def test_the_published_structures_of_eight_objects():
    ring, crossed = structured_features("ring"), structured_features("crossed")
    assert ring.shape == crossed.shape == (15, 8)
    np.testing.assert_array_equal(ring[0], np.ones(8))
    np.testing.assert_array_equal(ring[1], [0, 0.33, 0.66, 1, 1, 0.66, 0.33, 0])
    np.testing.assert_array_equal(ring[2], np.roll(ring[1], 1))
    np.testing.assert_array_equal(ring[9:], ring[1:7])  # a full turn of the ring
    np.testing.assert_array_equal(
        np.delete(crossed, [3, 4, 5, 6], 0), np.delete(nested_tree_features(), [3, 4, 5, 6], 0)
    )
    pairs = [np.flatnonzero(row).tolist() for row in crossed[3:7]]
    assert pairs == [[0, 2], [1, 3], [4, 6], [5, 7]]


def test_contexts_of_different_structures():
    task = objects_in_contexts(structures=("tree", "ring", "crossed"), preset="jarvis-2025")
    assert task.y.shape == (24, 60)
    for c, structure in enumerate(("tree", "ring", "crossed")):
        here = task.labels["context"] == c
        np.testing.assert_array_equal(task.y[here][:, :15], nested_tree_features().T)
        own = task.y[:, 15 * (c + 1) : 15 * (c + 2)]
        np.testing.assert_array_equal(own[here], structured_features(structure).T)
        assert not own[~here].any()
    own = objects_in_contexts(np.eye(3), 2, structures=[np.ones((2, 3)), np.full((1, 3), 2.0)])
    np.testing.assert_array_equal(own.y[4], [0, 1, 0, 0, 0, 2])
    same = objects_in_contexts(4, 2, structures=["tree", "tree"])
    np.testing.assert_array_equal(same.y, objects_in_contexts(4, 2).y)


@pytest.mark.parametrize(("contexts", "loud"), [(3, 1.0), (4, 1.1), (5, 1.35)])
def test_published_contexts_are_louder_where_there_are_more(contexts, loud):
    task = objects_in_contexts(contexts=contexts, preset="jarvis-2025")
    assert task.x.shape == (8 * contexts, 8 + contexts)
    assert np.unique(task.x[:, 8:]).tolist() == [0.0, loud]


@pytest.mark.slow
def test_what_a_teacher_says_is_learned_through_outputs_or_features():
    data = objects_in_contexts(4, 2)
    teacher = fully_connected(6, 5, 21, activation="relu", scale=1.0, key=jax.random.key(0))
    h = np.maximum(data.x @ np.asarray(teacher.u).T, 0)
    outputs, features = distillation(teacher, data), distillation(teacher, data, through="features")
    same = np.testing.assert_allclose
    same(outputs.y, h @ np.asarray(teacher.v))
    same(features.y, h)
    same(distillation(teacher, data, through="both").y, np.hstack((outputs.y, features.y)))
    np.testing.assert_array_equal(outputs.x, data.x)
    assert outputs.labels.keys() == data.labels.keys()
    gates = {"a": data.labels["context"] == 0}
    nodes = {"x": 6, "a": 2, "b": 3, "y": 21}
    gated_teacher = gated(
        nodes, ["x-a-y", "x-b-y"], gates=gates, x=data.x, scale=1.0, key=jax.random.key(1)
    )
    seen = distillation(gated_teacher, data, through="features").y
    assert seen.shape == (8, 5)
    assert not seen[4:, :2].any()


# Routing


@given(st.integers(1, 5), st.integers(1, 5), st.integers(0, 3), st.integers(0, 1000))
@settings(max_examples=8, deadline=None)
def test_every_pair_sees_the_same_values(domains, outputs, levels, seed):
    outputs, n = min(outputs, domains), 2**levels
    task = domain_routing(domains, outputs, items=n, key=jax.random.key(seed))
    pairs = cyclic_domain_pairs(domains, outputs)
    assert len(task.x) == domains * outputs * n
    features = 2 * n - 1
    sigma = np.linalg.svd(nested_tree_features(levels), compute_uv=False)
    for i in range(domains):
        for j in range(domains):
            here = (task.labels["input_domain"] == i) & (task.labels["output_domain"] == j)
            assert here.any() == pairs[i, j]
            s, d = seen(
                task, here, slice(i * n, (i + 1) * n), slice(j * features, (j + 1) * features)
            )
            close(s, pairs[i, j] * sigma / (n * domains * outputs))
            close(d, pairs[i, j] * np.full(n, 1 / (n * domains * outputs)))


def test_values_of_four_items():
    s, d = seen(domain_routing(1, key=jax.random.key(3)), 1.0, slice(4))
    np.testing.assert_allclose(s, [0.66144, 0.43301, 0.25, 0.25], atol=5e-6)
    close(d, np.full(4, 0.25))


def test_pairs_do_not_change_the_domains():
    """Trained, untrained and all pairs have the same items with the same features."""
    key, pairs = jax.random.key(0), cyclic_domain_pairs(5, 2)
    trained, others, every = (
        domain_routing(5, 2, key=key),
        domain_routing(5, ~pairs, key=key),
        domain_routing(5, key=key),
    )
    rows = lambda task: {(*x, *y) for x, y in zip(task.x.tolist(), task.y.tolist(), strict=True)}
    assert rows(trained) | rows(others) == rows(every)
    assert not rows(trained) & rows(others)
    assert rows(trained) != rows(domain_routing(5, 2, key=jax.random.key(1)))


def test_each_domain_has_inputs_and_outputs_of_its_own():
    task = domain_routing(3, 2, key=jax.random.key(0))
    for label, blocks in (
        ("input_domain", task.x[:, :12].reshape(-1, 3, 4)),
        ("output_domain", task.y.reshape(-1, 3, 7)),
        ("output_domain", task.x[:, 12:].reshape(-1, 3, 1)),
    ):
        used = np.any(blocks != 0, axis=2)
        np.testing.assert_array_equal(used, np.eye(3, dtype=bool)[task.labels[label]])
    # Inputs differ, so gates are functions of the inputs
    assert len(np.unique(task.x, axis=0)) == len(task.x)


def test_the_published_routing_task():
    task = domain_routing(preset="saxe-2022")
    assert len(task.x) == 7 * 4 * 4
    i, j = task.labels["input_domain"], task.labels["output_domain"]
    assert set(((j - i + 1) % 7).tolist()) == {0, 1, 2, 3}
    np.testing.assert_array_equal(task.x[i == 2][:, 8:12], np.tile(np.eye(4), (4, 1)))
    here = (i == 3) & (j == 4)
    block = task.y[here][:, 28:35].T
    assert set(np.unique(block)) == {0.0, 3.0, 4.0, 6.0}
    close(np.linalg.svd(block, compute_uv=False), np.sqrt([185, 41, 9, 9]))
    assert len(domain_routing(trained=np.full((7, 7), True), preset="saxe-2022").x) == 7 * 7 * 4


def test_related_domains_share_structure():
    """Domains share more features if they have more common ancestors."""
    h = features_of_related_domains([2, 3], tree([2, 2], 0.2), 5, key=jax.random.key(0))
    assert h.shape == (6, 15, 4)
    shared = np.all(h[:, None] == h[None], axis=3).reshape(6, 6, 3, 5).all(axis=3)
    family = np.arange(6) // 3
    np.testing.assert_array_equal(shared[:, :, 0], True)
    np.testing.assert_array_equal(shared[:, :, 1], family[:, None] == family)
    np.testing.assert_array_equal(shared[:, :, 2], np.eye(6, dtype=bool))
    task = domain_routing(6, 2, items=h, key=jax.random.key(1))
    y = task.y[(task.labels["input_domain"] == 1) & (task.labels["output_domain"] == 2), 30:45]
    np.testing.assert_allclose(y @ y.T, h[2].T @ h[2], atol=1e-12)


@pytest.mark.parametrize(
    ("call", "message"),
    [
        (lambda: xor(np.nan), "`delta` must be a finite number"),
        (lambda: objects_in_contexts(6), "power of two"),
        (lambda: objects_in_contexts(True), "`objects` must be a whole number from 1 up, got True"),
        (
            lambda: domain_routing(3, items=True),
            "`items` must be a whole number from 1 up, got True",
        ),
        (lambda: objects_in_contexts(np.ones(3)), r"\(feature, item\), got shape \(3,\)"),
        (lambda: objects_in_contexts(np.ones((2, 2, 2))), r"\(feature, object\)"),
        (lambda: objects_in_contexts(8, 0), "`contexts` must be a whole number from 1"),
        (lambda: objects_in_contexts([[np.inf]]), "finite"),
        (
            lambda: objects_in_contexts(8, 3, structures=["tree"]),
            "for each of 3 contexts",
        ),
        (lambda: objects_in_contexts(8, 4, structures="tree"), "for each of 4 contexts"),
        (lambda: objects_in_contexts(8, 1, structures=["star"]), "A structure is"),
        (lambda: objects_in_contexts(8, 1, structures=[np.ones((2, 3))]), "of 8 objects each"),
        (lambda: structured_features("ring", 6), "power of two from 4 up"),
        (lambda: objects_in_contexts(contexts=2, preset="jarvis-2025"), "has 3, 4 or 5 `contexts`"),
        (lambda: objects_in_contexts(preset=untyped("saxe")), '`preset` must be "jarvis-2025"'),
        (lambda: distillation(untyped(np.ones(3)), xor()), "`teacher` must be a `Network`"),
        (
            lambda: distillation(fully_connected(2, 2, key=seeds(2)), xor()),
            "Expected a single teacher",
        ),
        (
            lambda: distillation(
                fully_connected(2, 2, key=jax.random.key(0)), xor(), through=untyped("x")
            ),
            "`through` must be",
        ),
        (lambda: domain_routing(0), "`domains`"),
        (lambda: domain_routing(3, 4), "from 1 to the number of domains, 3, got 4"),
        (lambda: domain_routing(3, 1.5), "`trained` must be a whole number"),
        (lambda: domain_routing(3, np.zeros((3, 3), bool)), "at least one pair"),
        (lambda: domain_routing(3, np.ones((3, 3))), "float64 of shape"),
        (lambda: domain_routing(3, np.ones((2, 2), bool)), r"\(3, 3\)"),
        (lambda: domain_routing(3, items=np.ones((2, 4, 4))), "of 2 domains, but there are 3"),
        (lambda: nested_tree_features(2, values=[1.0, 2.0]), "each of 3 levels"),
        (
            lambda: features_of_related_domains([0], ring(4), 3, key=jax.random.key(0)),
            "`branching`",
        ),
    ],
)
def test_bad_input(call, message, as_a_user):
    with pytest.raises(ValueError, match=message):
        call()
