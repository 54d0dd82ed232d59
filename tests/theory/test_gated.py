"""Gated networks: gradients in three forms, what is conserved, and the race reduction."""

import itertools
import warnings

import jax
import jax.numpy as jnp
import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

import festina
from festina.networks import Gated, gated
from festina.networks._gated import _plan
from festina.networks._gating import gating
from festina.tasks import task
from festina.theory.gated import (
    ReductionWarning,
    conserved,
    count_paths,
    gradient,
    path_statistics,
    paths,
    race,
    reduction,
)

SEEDS = st.integers(0, 2**32 - 1)


def graph(seed, samples=24):
    """A network on any graph with a task: shared edges, several inputs and outputs, any gates."""
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
    label = rng.integers(0, 4, samples)
    names = [*ordered, *(f"{a}-{b}" for a, b in sorted(edges))]
    chosen = [k for k in range(len(names)) if rng.random() < 0.5]
    x = rng.normal(size=(samples, sum(nodes[name] for name in inputs)))
    # Drawn by NumPy: `gated` compiles a program for every list of shapes.
    plan = _plan(nodes, [f"{a}-{b}" for a, b in sorted(edges)], None)
    weights = tuple(rng.normal(size=shape) for shape in plan.shapes)
    network = Gated(weights, plan, gating({names[k]: pattern[label, k] for k in chosen}, x))
    y = rng.normal(size=(samples, sum(nodes[name] for name in outputs)))
    return network, task(x, y)


def check_gradients(network, data):
    with jax.enable_x64(True):
        x = jnp.asarray(data.x)
        psi = jax.vmap(network.features)(x)
        y = network.view.wanted(np.asarray(psi), data.y)
        turned = network.structure.units_first

        def loss(weights):
            parts = (w.T if turn else w for w, turn in zip(weights, turned, strict=True))
            outputs = network.structure.outputs(psi, *parts)
            return 0.5 * jnp.mean(jnp.sum((y - outputs) ** 2, axis=1))

        expected = jax.grad(loss)(list(map(jnp.asarray, network.parts)))
    size = max(1.0, *(float(np.abs(slope).max()) for slope in expected))
    for form in ("data", "patterns", "paths"):
        found = gradient(network, data, form=form)
        assert found.form == form
        for slope, exact in zip(found.network.parts, expected, strict=True):
            np.testing.assert_allclose(slope, exact, rtol=0, atol=1e-12 * size)


@settings(max_examples=8, deadline=None)
@given(SEEDS)
def test_three_forms_of_the_gradient_are_that_of_autodiff(seed):
    check_gradients(*graph(seed))


@pytest.mark.slow
@settings(max_examples=100, deadline=None)
@given(SEEDS)
def test_three_forms_of_the_gradient_on_a_hundred_graphs(seed):
    check_gradients(*graph(seed))


@settings(max_examples=8, deadline=None)
@given(SEEDS)
def test_what_a_node_takes_and_gives_is_conserved(seed):
    """To first order in a step, which along the gradient is to second in the weights."""
    network, data = graph(seed)
    slopes = gradient(network, data).network.parts
    h = 1e-6
    moved = network.with_parts(*(w - h * g for w, g in zip(network.parts, slopes, strict=True)))
    back = network.with_parts(*(w + h * g for w, g in zip(network.parts, slopes, strict=True)))
    size = max(1.0, *(float(np.abs(g).max()) for g in slopes)) * max(
        1.0, *(float(np.abs(w).max()) for w in network.parts)
    )
    for there, here in zip(conserved(moved).values(), conserved(back).values(), strict=True):
        np.testing.assert_allclose((there - here) / (2 * h), 0, atol=1e-8 * size)


@settings(max_examples=8, deadline=None)
@given(SEEDS)
def test_paths_are_as_many_as_counted_and_say_what_the_network_says(seed):
    network, data = graph(seed)
    found = paths(network)
    assert len(found) == count_paths(network)
    seen = path_statistics(network, data)
    weights = dict(zip(network.part_axes, map(np.asarray, network.parts), strict=True))
    columns = dict(network.plan.inputs)
    outputs = {name: 0.0 for name in network.plan.outputs}
    for k, path in enumerate(found):
        h = data.x[:, list(columns[path.nodes[0]])]
        for edge in path.edges:
            h = h @ weights[edge].T
        outputs[path.nodes[-1]] = outputs[path.nodes[-1]] + seen.gates[:, [k]] * h
    np.testing.assert_allclose(
        np.concatenate(list(outputs.values()), axis=1), network.predict(data.x), atol=1e-10
    )


def test_paths_beyond_memory_are_counted_and_not_enumerated():
    layers = [[f"h{layer}", f"k{layer}"] for layer in range(20)]
    nodes = {"x": 2, **{name: 1 for layer in layers for name in layer}, "y": 1}
    edges = ["x-h0", "x-k0", "h19-y", "k19-y"]
    for one, other in itertools.pairwise(layers):
        edges += [f"{a}-{b}" for a in one for b in other]
    network = gated(nodes, edges, scale=0.1, key=festina.seeds(1)[0])
    assert count_paths(network) == 2**20
    with pytest.raises(ValueError, match=r"1,048,576 paths[^$]*patterns"):
        paths(network)
    rng = np.random.default_rng(0)
    found = gradient(network, task(rng.normal(size=(30, 2)), rng.normal(size=(30, 1))))
    assert found.form == "patterns"
    assert found.cost["paths"] == np.inf


# The reduction


def overlapping(seed, gates=((1.0, 1.0, 0.0), (0.0, 1.0, 1.0))):
    """Two paths through a shared trunk and one beside it, on data that they share directions of."""
    rng = np.random.default_rng(seed)
    n = 3
    v, u = (np.linalg.qr(rng.normal(size=(k, k)))[0] for k in (n, 4))
    # In every pattern of gates the inputs are white, up to a factor, and targets share directions.
    x, y, label = [], [], []
    for pattern in range(3):
        s = rng.uniform(0.5, 2.0, n)
        x.append(np.sqrt(n) * v.T)
        y.append((np.sqrt(n) * (u[:, :n] * s) @ v.T @ v).T)
        label += [pattern] * n
    x, y, label = np.concatenate(x), np.concatenate(y), np.array(label)
    x = np.concatenate((x, label[:, None]), axis=1)
    data = task(x, y, labels={"pattern": label})
    table = np.array(gates)
    network = gated(
        {"x": n, "a": 5, "b": 6, "c": 7, "y": 4},
        ["x-a-c-y", "x-b-c-y", "x-b-y"],
        gates={"a": table[0][label], "b": table[1][label]},
        examples=x,
        inputs={"x": range(n)},
        scale=0.3,
        key=festina.seeds(1, first=seed)[0],
    )
    return network, data


def decoupled(network, data, seed, strength=0.1):
    rng = np.random.default_rng(seed)
    with warnings.catch_warnings():
        warnings.simplefilter("ignore", ReductionWarning)
        found = reduction(network, data)
    assert found.data_residual < 1e-12
    frames = {node: np.linalg.qr(rng.normal(size=r.shape))[0] for node, r in found.frames.items()}
    for node in found.frames:
        found.frames[node][:] = frames[node]
    b = {edge: strength * rng.uniform(0.5, 1.5, each.shape) for edge, each in found.initial.items()}
    weights = found.weights(b)
    return network.with_parts(*(weights[edge] for edge in network.part_axes)), b


@pytest.mark.parametrize("seed", [0, 7])
def test_the_reduction_is_the_whole_flow_of_decoupled_weights(seed):
    network, data = overlapping(seed)
    network, b = decoupled(network, data, seed)
    found = reduction(network, data)
    assert found.weight_residual < 1e-12
    for edge, each in b.items():
        np.testing.assert_allclose(np.sort(np.abs(found.initial[edge])), np.sort(each), rtol=1e-10)
    times = np.linspace(0, 12, 13)
    full = festina.gradient_flow(network, data, times, rtol=1e-10)
    np.testing.assert_allclose(found.loss(times), full.loss, rtol=0, atol=1e-8)
    strengths = found.flow(times)
    for k, edge in enumerate(network.part_axes):
        for i in range(len(times)):
            exact = found.weights({name: row[i] for name, row in strengths.items()})[edge]
            np.testing.assert_allclose(full.network.parts[k][i], exact, rtol=0, atol=1e-8)


def test_weights_that_are_not_decoupled_deviate_at_first_order():
    network, data = overlapping(3)
    network, _ = decoupled(network, data, 3, strength=0.4)
    rng = np.random.default_rng(0)
    noise = [rng.normal(size=part.shape) for part in network.parts]
    times = np.linspace(0, 6, 13)
    errors, residuals = [], []
    for size in (1e-2, 1e-3, 1e-4):
        moved = network.with_parts(
            *(w + size * n for w, n in zip(network.parts, noise, strict=True))
        )
        with pytest.warns(ReductionWarning, match="of the weights"):
            found = reduction(moved, data)
        residuals.append(found.weight_residual)
        full = festina.gradient_flow(moved, data, times, rtol=1e-10)
        errors.append(np.abs(found.loss(times) - full.loss).max())
    ratios = np.diff(np.log(residuals)) / np.log(10)
    np.testing.assert_allclose(ratios, -1, atol=0.05)
    assert (np.diff(np.log(errors)) / np.log(10) < -0.8).all()


def test_data_that_are_not_diagonal_together_are_said_to_be():
    rng = np.random.default_rng(1)
    x = rng.normal(size=(30, 3))
    label = rng.integers(0, 2, 30)
    data = task(x, rng.normal(size=(30, 2)))
    network = gated(
        {"x": 3, "a": 3, "b": 3, "y": 2},
        ["x-a-y", "x-b-y"],
        gates={"a": label == 0},
        examples=x,
        scale=0.1,
        key=festina.seeds(1)[0],
    )
    with pytest.warns(ReductionWarning, match="of the data"):
        assert reduction(network, data).data_residual > 0.05


# The race


def xor(delta):
    x = np.array([[a, b, -delta * a * b] for a in (-1, 1) for b in (-1, 1)], float)
    return task(x, -x[:, 0] * x[:, 1])


def candidates(data):
    y = data.y[:, 0]
    return {
        **{f"example {k}": np.eye(4)[k] for k in range(4)},
        "y > 0": y > 0,
        "y < 0": y < 0,
        "half": data.x[:, 0] > 0,
    }


@pytest.mark.parametrize("delta", [0.3, 0.8, 0.83, 1.2, 1.5])
def test_who_wins_changes_at_the_predicted_distance(delta):
    data = xor(delta)
    found = race(data, candidates(data), initial=1e-40)
    of = dict(zip(found.names, found.rate, strict=True))
    np.testing.assert_allclose(of["y > 0"], delta / 2, rtol=1e-12)
    np.testing.assert_allclose(of["example 0"], np.sqrt(2 + delta**2) / 4, rtol=1e-12)
    assert of["half"] > of["example 0"]  # the fastest of all
    consistent = dict(zip(found.names, found.consistent, strict=True))
    assert not consistent["half"]
    assert consistent["y > 0"]
    assert consistent["example 0"] == (delta < np.sqrt(2))
    assert ("example" in found.winner) == (delta < np.sqrt(2 / 3))
    np.testing.assert_allclose(found.loss[-1], 0, atol=1e-6)
    np.testing.assert_allclose(found.share.sum(), 1)


@pytest.mark.parametrize("delta", [0.6, 0.7, 1.2])
def test_the_loser_keeps_a_power_of_the_scale(delta):
    data = xor(delta)
    fast, slow = sorted([delta / 2, np.sqrt(2 + delta**2) / 4])[::-1]
    lost = "y" if "example" in race(data, candidates(data)).winner else "example"
    shares = []
    for scale in (1e-8, 1e-10):
        found = race(data, candidates(data), initial=scale**2)
        shares.append(sum(s for s, n in zip(found.share, found.names, strict=True) if lost in n))
    gamma = np.log(shares[0] / shares[1]) / np.log(100)
    np.testing.assert_allclose(gamma, 2 * (1 - slow / fast), atol=0.02)


def test_all_sets_of_a_label_race():
    rng = np.random.default_rng(0)
    label = np.repeat([3, 5, 9], 4)
    data = task(rng.normal(size=(12, 4)), rng.normal(size=(12, 2)), labels={"context": label})
    found = race(data, "context", everyone=True)
    assert len(found.names) == 7
    assert "context 3+9" in found.names
    assert "winner" not in repr(found)
    assert found.winner in repr(found)


@pytest.mark.parametrize(
    ("gatings", "message"),
    [
        ("view", "no label 'view'"),
        ({}, "nobody races"),
        ({"a": [1.0, 0.0]}, "for each of 4 examples"),
        ({"a": [1.0, np.nan, 0, 0]}, "finite"),
        ({"a": [0.0, 0.0, 0.0, 0.0]}, "nobody races"),
    ],
)
def test_gatings_that_cannot_race(gatings, message):
    with pytest.raises(ValueError, match=message):
        race(xor(0.5), gatings)
