"""Test gated networks: paths, gradients in three forms, and conserved quantities."""

import itertools

import jax
import jax.numpy as jnp
import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from festina.networks import deep_linear_from, gated_from
from festina.tasks import from_arrays, xor
from festina.theory.gated import (
    conserved_quantities,
    count_paths,
    gated_gradient,
    path_statistics,
    paths,
)
from festina.theory.gated._samples import samples
from helpers import untyped

SEEDS = st.integers(0, 2**32 - 1)
# The same seeds in all tests, because each shape of an array is compiled once
few_graphs = pytest.mark.parametrize(
    "seed", [0, *(pytest.param(seed, marks=pytest.mark.slow) for seed in (1, 2))]
)


def graph(seed, samples=24):
    """Return a network on a random graph and a task, with several inputs, outputs and any gates."""
    rng = np.random.default_rng(seed)
    inputs = [f"x{k}" for k in range(rng.integers(1, 3))]
    hidden = [f"h{k}" for k in range(rng.integers(1, 5))]
    outputs = [f"y{k}" for k in range(rng.integers(1, 3))]
    ordered = (*inputs, *hidden, *outputs)
    edges = set()
    for k, node in enumerate(hidden):
        edges.add((str(rng.choice([*inputs, *hidden[:k]])), node))
        edges.add((node, str(rng.choice([*hidden[k + 1 :], *outputs]))))
    edges |= {(node, str(rng.choice([*hidden, *outputs]))) for node in inputs}
    edges |= {(str(rng.choice([*inputs, *hidden])), node) for node in outputs}
    for _ in range(rng.integers(0, 5)):
        i, j = sorted(rng.choice(len(ordered), 2, replace=False))
        if ordered[i] not in outputs and ordered[j] not in inputs:
            edges.add((ordered[i], ordered[j]))
    nodes = {name: int(rng.integers(1, 4)) for name in ordered}
    pattern = rng.normal(size=(4, len(ordered) + len(edges)))
    pattern = pattern if rng.random() < 0.5 else (pattern > -0.5) * 1.0
    pattern[0] = 1.0  # every output must be reached
    label = np.arange(samples) % 4
    names = [*ordered, *(f"{a}-{b}" for a, b in sorted(edges))]
    chosen = [k for k in range(len(names)) if rng.random() < 0.5]
    x = rng.normal(size=(samples, sum(nodes[name] for name in inputs)))
    # Weights are drawn by NumPy, because `gated` compiles a program for every list of shapes.
    ordered_edges = sorted(edges, key=lambda edge: [ordered.index(node) for node in edge])
    network = gated_from(
        {f"{a}-{b}": rng.normal(size=(nodes[b], nodes[a])) for a, b in ordered_edges},
        gates={names[k]: pattern[label, k] for k in chosen},
        x=x,
    )
    y = rng.normal(size=(samples, sum(nodes[name] for name in outputs)))
    return network, from_arrays(x, y)


def said(network, data, weights):
    """Return outputs for all samples, without compilation, because graphs share only operations."""
    psi = jax.vmap(network.features)(jnp.asarray(data.x))
    structure = network.structure
    return structure.outputs(psi, *structure.inside(*weights))


def check_gradients(network, data):
    y = np.hstack(list(samples(network, data, compressed=False).targets.values()))
    with jax.enable_x64(True):
        loss = lambda weights: (
            0.5 * jnp.mean(jnp.sum((y - said(network, data, weights)) ** 2, axis=1))
        )
        expected = jax.grad(loss)(list(map(jnp.asarray, network.parts)))
    size = max(1.0, *(float(np.abs(slope).max()) for slope in expected))
    for form in ("data", "patterns", "paths"):
        found = gated_gradient(network, data, form=form)
        assert found.form == form
        for slope, exact in zip(found.network.parts, expected, strict=True):
            np.testing.assert_allclose(slope, exact, rtol=0, atol=1e-12 * size)


@few_graphs
def test_three_forms_of_the_gradient_are_that_of_autodiff(seed):
    check_gradients(*graph(seed))


@pytest.mark.slow
@settings(max_examples=100, deadline=None)
@given(SEEDS)
def test_three_forms_of_the_gradient_on_a_hundred_graphs(seed):
    check_gradients(*graph(seed))


@few_graphs
def test_what_a_node_takes_and_gives_is_conserved(seed):
    """Along the gradient, the conserved quantity changes only at second order in the step."""
    network, data = graph(seed)
    slopes = gated_gradient(network, data).network.parts
    h = 1e-6
    moved = network.with_parts(*(w - h * g for w, g in zip(network.parts, slopes, strict=True)))
    back = network.with_parts(*(w + h * g for w, g in zip(network.parts, slopes, strict=True)))
    size = max(1.0, *(float(np.abs(g).max()) for g in slopes)) * max(
        1.0, *(float(np.abs(w).max()) for w in network.parts)
    )
    for there, here in zip(
        conserved_quantities(moved).values(), conserved_quantities(back).values(), strict=True
    ):
        np.testing.assert_allclose((there - here) / (2 * h), 0, atol=1e-8 * size)


@few_graphs
def test_paths_are_as_many_as_counted_and_say_what_the_network_says(seed):
    network, data = graph(seed)
    found, seen = paths(network), samples(network, data, compressed=False)
    assert len(found) == len(set(found)) == count_paths(network)
    weights = dict(zip(network.part_axes, map(np.asarray, network.parts), strict=True))
    outputs = {name: np.zeros_like(y) for name, y in seen.targets.items()}
    for path in found:
        h = seen.inputs[path.nodes[0]]
        for edge in path.edges:
            h = h @ weights[edge].T
        gates = [seen.gates[name] for name in (*path.nodes, *path.edges)]
        outputs[path.nodes[-1]] += np.prod(gates, axis=0) * h
    size = max(1.0, *(float(np.abs(each).max()) for each in outputs.values()))
    with jax.enable_x64(True):
        expected = said(network, data, list(map(jnp.asarray, network.parts)))
    np.testing.assert_allclose(np.hstack(list(outputs.values())), expected, atol=1e-12 * size)


def test_paths_beyond_memory_are_counted_and_not_enumerated():
    layers = [["x"], *([f"h{layer}", f"k{layer}"] for layer in range(20)), ["y"]]
    rng = np.random.default_rng(0)
    pairs = [(a, b) for one, other in itertools.pairwise(layers) for a in one for b in other]
    width = {"x": 2}
    network = gated_from(
        {f"{a}-{b}": rng.normal(size=(1, width.get(a, 1))) for a, b in pairs},
    )
    assert count_paths(network) == 2**20
    data = from_arrays(rng.normal(size=(30, 2)), rng.normal(size=(30, 1)))
    for enumerate_ in (lambda: paths(network), lambda: gated_gradient(network, data, form="paths")):
        with pytest.raises(ValueError, match=r"1,048,576 paths[^$]*patterns"):
            enumerate_()
    found = gated_gradient(network, data)
    assert found.form == "patterns"
    assert found.cost["paths"] == np.inf


def test_few_paths_are_the_cheapest_form_for_many_samples_of_few_kinds():
    """Four gate patterns with two inputs each are equivalent to eight samples."""
    rng = np.random.default_rng(0)
    label = rng.integers(0, 4, 400)
    data = from_arrays(rng.normal(size=(400, 2)), rng.normal(size=400))
    weights = {"x-a": np.ones((3, 2)), "a-y": np.ones((1, 3))}
    network = gated_from(weights, gates={"a": label}, x=data.x)
    cost = gated_gradient(network, data).cost
    assert cost["data"] / cost["patterns"] == 50
    assert gated_gradient(network, data).form == min(cost, key=lambda form: cost[form])


@pytest.mark.parametrize(
    ("call", "message"),
    [
        (
            lambda n, t: gated_gradient(n, t, form=untyped("fast")),
            "'cheapest', 'paths', 'patterns', 'data'",
        ),
        (lambda n, t: gated_gradient(n, from_arrays(t.x, np.ones((4, 2)))), "do not fit"),
        (lambda n, t: gated_gradient(n, from_arrays(t.x[:, :1], t.y)), "takes vectors of 2"),
        (lambda n, t: path_statistics(t, n), "`network` must be a `Gated`"),
        (lambda n, t: path_statistics(untyped(linear()), t), "`network` must be a `Gated`"),
        (
            lambda n, t: gated_gradient(n.with_parts(np.ones((3, 1, 2)), np.ones((3, 1, 1))), t),
            "lane",
        ),
        (
            lambda n, t: gated_gradient(n.with_parts(np.full((1, 2), np.nan), n.parts[1]), t),
            "finite",
        ),
        (lambda n, t: gated_gradient(n, from_arrays(2 * t.x, t.y)), "not known"),
    ],
)
def test_what_does_not_fit_is_refused(as_a_user, call, message):
    data = xor()
    network = gated_from(
        {"x-a": np.ones((1, 2)), "a-y": np.ones((1, 1))},
        gates={"a": data.labels["example"] == 0},
        x=data.x,
    )
    with pytest.raises(ValueError, match=message):
        call(network, data)


def linear():
    return deep_linear_from([np.ones((1, 2)), np.ones((1, 1))])
