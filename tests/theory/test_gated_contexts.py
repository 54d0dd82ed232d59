"""Test objects in contexts: spectra of pathways, the floor of linear networks, and losses."""

import itertools
import re

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from festina.networks import gated_from
from festina.tasks import linear_teacher, nested_tree_features, objects_in_contexts, xor
from festina.theory.gated import (
    best_linear_loss,
    context_spectrum,
    linear_residual_task,
    race_of_gatings,
)
from plain_flow import flow


def features(seed, objects, kind):
    """Return features of a tree, or random ones; "balanced" makes their mean a mode of its own."""
    h = np.random.default_rng(seed).normal(size=(objects + 2, objects))
    if kind == "tree":
        return nested_tree_features(2 if objects < 6 else 3)
    if kind == "balanced":
        h[0], h[1:] = 2.0, h[1:] - h[1:].mean(axis=1, keepdims=True)
    return h


def statistics(data, chosen, *, context=True):
    """Return ⟨g y xᵀ⟩ and ⟨g x xᵀ⟩ of a pathway that is open in the chosen contexts."""
    inputs = len(np.unique(data.labels["object"]))
    gate = np.isin(data.labels["context"], chosen) / len(data.x)
    x = data.x if context else data.x[:, :inputs]
    return (gate[:, None] * data.y).T @ x, (gate[:, None] * x).T @ x


@pytest.mark.parametrize("of", ["raw", "residual", "common"])
@settings(max_examples=25)
@given(
    seed=st.integers(0, 1000),
    objects=st.integers(2, 8),
    kind=st.sampled_from(["tree", "balanced", "any"]),
    sizes=st.integers(1, 5).flatmap(lambda c: st.tuples(st.just(c), st.integers(1, c))),
    scale=st.sampled_from([1.0, 1.35, -0.4, 0.0]),
)
def test_spectra_are_those_of_the_gated_data(of, seed, objects, kind, sizes, scale):
    count, k = sizes
    if of == "residual" and k == count:
        return
    h = features(seed, objects, kind)
    found = context_spectrum(h, count, k, of=of, context_input=scale)
    data = objects_in_contexts(h, count, context_input=scale)
    data = linear_residual_task(data) if of == "residual" else data
    chosen = np.random.default_rng(seed).permutation(count)[:k]
    for context in {of == "common", of != "raw"}:  # a residual is the same with context inputs
        cross, second = statistics(data, chosen, context=context)
        _, s, v = np.linalg.svd(cross)
        np.testing.assert_allclose(s[: len(found.kinds)], found.singular_values, atol=1e-13)
        np.testing.assert_allclose(s[len(found.kinds) :], 0, atol=1e-13)
        seen = v[: len(found.kinds)] @ second @ v[: len(found.kinds)].T
        if not context or "mixed" not in found.kinds:  # modes of equal s may have any order
            ours = np.diag(found.input_variance)
            np.testing.assert_allclose(
                np.linalg.eigvalsh(seen), np.linalg.eigvalsh(ours), atol=1e-13
            )
    np.testing.assert_allclose(found.start, 0.5 * np.mean(np.sum(data.y**2, axis=1)))
    one = objects_in_contexts(h, count, context_input=scale or 1.0)
    apart = h - h.mean(axis=1, keepdims=True)
    floor = 0.5 * (1 - 1 / count) * np.sum(apart**2) / h.shape[1]
    np.testing.assert_allclose(best_linear_loss(one), floor, atol=1e-12)


def test_published_sizes():
    for count, floor in ((3, 17 / 24), (4, 0.796875), (5, 0.85)):
        np.testing.assert_allclose(
            best_linear_loss(objects_in_contexts(8, count)), floor, rtol=1e-12
        )
        raw = [context_spectrum(8, count, k).singular_values[0] for k in (1, count - 1)]
        np.testing.assert_allclose(raw[1] / raw[0], np.sqrt(count * (count - 1) / 2))
        common = context_spectrum(8, count, of="common")
        assert common.kinds.count("contexts") == count - 1
        first = np.sqrt(15 / 8 * (1 + 1 / count) * (1 / 8 + 1 / count))
        np.testing.assert_allclose(common.singular_values[0], first)
        np.testing.assert_allclose(common.input_variance[0], 1 / 8 + 1 / count)
        left = [context_spectrum(8, count, k, of="residual") for k in (1, count - 1)]
        for name in ("singular_values", "effective_variance", "final"):
            np.testing.assert_array_equal(*(getattr(each, name) for each in left))
        np.testing.assert_allclose(left[0].final[0], np.sqrt(7 * (count - 1) / count))


@pytest.mark.parametrize(("count", "k"), [(3, 1), (3, 2), (4, 2), (5, 3), (5, 4)])
def test_pathways_of_a_kind_share_the_residual(count, k):
    """Enumerate D_eff = Σ_j D(j, p) u_j·u_p over all sets of k contexts."""
    data = linear_residual_task(objects_in_contexts(4, count))
    sets = list(itertools.combinations(range(count), k))
    first = [np.linalg.svd(statistics(data, each, context=False)[0]) for each in sets]
    v = first[0][2][0]
    u = [np.sign(right[0] @ v) * left[:, 0] for left, _, right in first]
    both = [
        np.isin(data.labels["context"], s) & np.isin(data.labels["context"], sets[0]) for s in sets
    ]
    seen = sum(b.mean() / 4 * each @ u[0] for b, each in zip(both, u, strict=True))
    ours = context_spectrum(4, count, k, of="residual")
    np.testing.assert_allclose(ours.effective_variance, seen)
    np.testing.assert_allclose(ours.loss(1e5, 1e-3), 0, atol=1e-9)
    assert ours.pathways == len(sets)


def trained(data, sets, times, *, context=False, rtol=1e-10, strength=1e-3):
    """Return the loss of a gated network whose pathways start along the modes of their data."""
    edges, gates, inputs = {}, {}, data.x.shape[1]
    for k, chosen in enumerate(sets):
        u, s, v = np.linalg.svd(statistics(data, chosen, context=context)[0], full_matrices=False)
        edges[f"x-h{k}"] = np.sqrt(strength) * v[s > 1e-9]
        edges[f"h{k}-y"] = np.sqrt(strength) * u[:, s > 1e-9]
        gates[f"h{k}"], inputs = np.isin(data.labels["context"], chosen) * 1.0, v.shape[1]
    seen = {"x": range(inputs)}
    network = gated_from(edges, gates=gates, x=data.x, inputs=seen)
    weights = flow(network, data, times, rtol)
    said = sum(
        gate[:, None] * (data.x[:, :inputs] @ first.mT @ second.mT)
        for gate, first, second in zip(gates.values(), weights[::2], weights[1::2], strict=True)
    )
    return 0.5 * np.mean(np.sum((data.y - said) ** 2, axis=-1), axis=-1)


@pytest.mark.parametrize(
    ("count", "k", "of"),
    [(3, 3, "common"), (3, 1, "raw"), (4, 1, "common"), (4, 2, "residual"), (3, 2, "residual")],
)
def test_closed_losses_are_those_of_trained_networks(count, k, of):
    times = np.linspace(0, 60, 31)
    h = features(3, 4, "balanced")
    data = objects_in_contexts(h, count)
    data = linear_residual_task(data) if of == "residual" else data
    sets = list(itertools.combinations(range(count), k))
    exact = context_spectrum(h, count, k, of=of).loss(times, 1e-3)
    assert exact[-1] < 0.5 * exact[0]

    def error(rtol):
        seen = trained(data, sets, times, context=of == "common", rtol=rtol)
        return np.abs(seen - exact).max()

    coarse, fine = error(1e-5), error(1e-11)
    assert fine < 1e-9
    assert fine < 1e-2 * coarse


def test_single_contexts_and_all_but_one_learn_the_residual_alike():
    times, data = np.linspace(0, 80, 17), linear_residual_task(objects_in_contexts(2, 4))
    one, most = (trained(data, list(itertools.combinations(range(4), k)), times) for k in (1, 3))
    np.testing.assert_allclose(one, most, rtol=0, atol=1e-10)
    half = trained(data, list(itertools.combinations(range(4), 2)), times)
    assert (half[2:] < one[2:]).all()  # pathways for half of the contexts are faster there


def test_the_race_of_single_contexts_is_the_modular_network():
    data, start = objects_in_contexts(4, 3), 1e-4
    gatings = {str(c): (data.labels["context"] == c) * 1.0 for c in range(3)}
    found = race_of_gatings(data, gatings, initial_strength=start, only_self_consistent=False)
    exact = context_spectrum(4, 3, 1, of="common").loss(found.time, start)
    np.testing.assert_allclose(found.loss, exact, rtol=0, atol=1e-6)


def test_it_says_what_it_is():
    said = str(context_spectrum(8, 3, of="common"))
    assert "pathways: 1, open in 3 of 3 contexts, common" in said
    assert "×4" in said
    alone = context_spectrum(8, 3, 2, of="residual")
    assert alone.strength(0.0, 1e-3).shape == (7,)
    np.testing.assert_allclose(alone.strength(0.0, np.arange(1, 8) / 1e3), np.arange(1, 8) / 1e3)
    slow = alone.loss([0.0, 5.0], 1e-3, tau=10.0)
    np.testing.assert_allclose(slow, alone.loss([0.0, 0.5], 1e-3))


@pytest.mark.parametrize(
    ("make", "words"),
    [
        (lambda: context_spectrum(8, 3, 0), "on"),
        (lambda: context_spectrum(8, 3, 4), "at most the number of contexts, 3, got 4"),
        (lambda: context_spectrum(8, 1, of="residual"), "cannot learn this residual"),
        (lambda: context_spectrum(8, 3, 3, of="residual"), "cannot learn this residual"),
        (lambda: context_spectrum(np.ones((3, 4)), 3, 1, of="residual"), "leaves no residual"),
        (lambda: context_spectrum(np.zeros((3, 4)), 3), "All features of `objects` are zero"),
        (lambda: context_spectrum(np.ones((2, 3, 4)), 3), "(feature, object)"),
        (lambda: context_spectrum(6, 3), "power of two"),
        (lambda: context_spectrum(8, 0), "contexts"),
        (
            lambda: context_spectrum(8, 3, 2).loss(1.0, 1e-3),
            "pathways rotate each other's directions",
        ),
        (
            lambda: context_spectrum(features(0, 4, "any"), 3, of="common").loss(1.0, 1e-3),
            "is not a mode of these features",
        ),
        (lambda: context_spectrum(8, 3, 1).loss(1.0, -1.0), "`initial_strength` must be positive"),
        (lambda: context_spectrum(8, 3, 1).loss(1.0, [1.0, 2.0]), "one for each of 8 modes"),
        (lambda: context_spectrum(8, 3, 1).loss(-1.0, 1.0), "must not be negative"),
        (
            lambda: best_linear_loss(linear_teacher([[1.0]])),
            "`task` must have a finite number of examples",
        ),
    ],
)
def test_what_cannot_be_is_said(make, words):
    with pytest.raises(ValueError, match=re.escape(words)):
        make()


def test_one_context_and_any_task():
    assert context_spectrum(8, 1).singular_values[0] == pytest.approx(np.sqrt(2 * 15) / 8)
    np.testing.assert_allclose(best_linear_loss(objects_in_contexts(8, 1)), 0, atol=1e-12)
    np.testing.assert_allclose(best_linear_loss(xor()), 0.5)
