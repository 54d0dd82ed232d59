"""Test gated networks: outputs, weights, gates and errors."""

import itertools

import jax
import jax.numpy as jnp
import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st
from matplotlib.figure import Figure

import festina
from festina import gradient_descent, gradient_flow, seeds
from festina.diagnose import plateaus, representational_similarity, tangent_kernel_alignment
from festina.networks import (
    deep_linear,
    deep_network,
    final_networks,
    fully_connected,
    gated,
    gated_equivalent,
    gated_from,
    layer_from,
    leaky_relu,
    rectifier_gates,
    with_decoupled_weights,
)
from festina.tasks import domain_routing, from_arrays, objects_in_contexts, xor

KEY = jax.random.key(0)
XOR = xor()
EACH = {f"h{k}": XOR.labels["example"] == k for k in range(4)}


@pytest.fixture
def rng():
    """Return a fresh generator, so that weights do not depend on the order of the tests."""
    return np.random.default_rng(0)


def pathways(**kwargs):
    """Return a network for XoR with a pathway for each example."""
    nodes = {"x": 2, **dict.fromkeys(EACH, 5), "y": 1}
    options = {"scale": 0.1, "key": KEY, "gates": EACH, "x": XOR.x, **kwargs}
    return gated(nodes, [f"x-{name}-y" for name in EACH], **options)


def translator(domains=3, trained=2, width=6, **kwargs):
    """Return a network of encoders, one trunk and decoders, with its task."""
    data = domain_routing(domains, trained, key=KEY)
    n, features = 4, 7
    gates = {f"y{j}": data.labels["output_domain"] == j for j in range(domains)}
    nodes = {f"x{i}": n for i in range(domains)} | {"in": width, "out": width}
    network = gated(
        nodes | dict.fromkeys(gates, features),
        [f"x{i}-in" for i in range(domains)] + ["in-out"] + [f"out-y{j}" for j in range(domains)],
        gates=gates,
        x=data.x,
        inputs={f"x{i}": range(n * i, n * (i + 1)) for i in range(domains)},
        **{"scale": 0.1, "key": KEY, **kwargs},
    )
    return network, data


@pytest.fixture
def ax():
    return Figure().subplots()


# Outputs


@settings(max_examples=4, deadline=None)
@given(st.integers(0, 1000))
def test_every_node_is_what_arrives_there_times_its_gate(seed):
    rng = np.random.default_rng(seed)
    x = rng.normal(size=(6, 5))
    gates = {name: rng.normal(size=6) for name in ("a", "x-b", "z", "y")}
    network = gated(
        {"x": 3, "z": 2, "a": 4, "b": 3, "y": 2},
        ["x-a-y", "x-b-y", "z-b", "a-b"],
        gates=gates,
        x=x,
        scale=1.0,
        key=jax.random.key(seed),
    )
    w = dict(zip(network.part_axes, network.parts, strict=True))
    g = {name: gate[:, None] for name, gate in gates.items()}
    first, second = x[:, :3], g["z"] * x[:, 3:]
    a = g["a"] * (first @ w["x-a"].T)
    b = g["x-b"] * (first @ w["x-b"].T) + second @ w["z-b"].T + a @ w["a-b"].T
    y = g["y"] * (a @ w["a-y"].T + b @ w["b-y"].T)
    np.testing.assert_allclose(network.predict(x), y, atol=1e-12)


def test_a_network_from_its_weights_is_the_same():
    network = pathways()
    weights = dict(zip(network.part_axes, network.parts, strict=True))
    again = gated_from(weights, gates=EACH, x=XOR.x)
    assert again.structure == network.structure
    np.testing.assert_array_equal(again.predict(XOR.x), network.predict(XOR.x))


def test_a_gate_may_be_a_rule():
    rule = {name: lambda x, k=k: jnp.all(x == XOR.x[k]) for k, name in enumerate(EACH)}
    by_table, by_rule = pathways(), pathways(gates=rule, x=None)
    np.testing.assert_array_equal(by_table.predict(XOR.x), by_rule.predict(XOR.x))
    assert np.isfinite(by_rule.predict(XOR.x + 0.1)).all()


def test_targets_of_a_closed_output_do_not_count(rng):
    """Targets of closed outputs count as zero in the loss and in training.

    Samples that differ only in targets of closed outputs are merged.
    """
    network, data = translator()
    assert len(data.statistics(network.view).psi) == 3 * 4 < len(data.x)
    loud = from_arrays(data.x, np.where(data.y == 0, rng.normal(size=data.y.shape), data.y))
    masked = np.repeat(np.eye(3)[data.labels["output_domain"]], 7, axis=1)
    quiet = from_arrays(data.x, loud.y * masked)
    one, other = (gradient_descent(network, each, 0.1, 20) for each in (loud, quiet))
    np.testing.assert_allclose(one.loss, other.loss, rtol=1e-12)
    off = masked * (network.predict(data.x) - loud.y)
    np.testing.assert_allclose(one.loss[0], 0.5 * np.mean(np.sum(off**2, axis=1)), rtol=1e-12)
    assert np.sum((loud.y - quiet.y) ** 2) > 1


def test_samples_with_the_same_gates_stand_together(rng):
    x = np.concatenate((rng.normal(size=(200, 2)), rng.integers(0, 2, (200, 1))), axis=1)
    network = gated(
        {"x": 2, "a": 3, "b": 3, "y": 1},
        ["x-a-y", "x-b-y"],
        gates={"a": x[:, 2] == 0, "b": x[:, 2] == 1},
        x=x,
        inputs={"x": range(2)},
        scale=0.5,
        key=KEY,
    )
    data = from_arrays(x, rng.normal(size=200))
    assert len(data.statistics(network.view).psi) == 4
    run = gradient_descent(network, data, 0.1, 5)
    exact = 0.5 * np.mean((run.final.predict(x) - data.y) ** 2)
    np.testing.assert_allclose(run.loss[-1], exact, rtol=1e-12)


# Decoupled weights


def diagonal(network, u, v):
    """Return the off-diagonal part of the map of each path, relative to its size."""
    w = dict(zip(network.part_axes, network.parts, strict=True))
    worst = 0.0
    for i, j in itertools.product(v, u):
        inside = u[j].T @ w[f"out-{j}"] @ w["in-out"] @ w[f"{i}-in"] @ v[i]
        off = inside - np.diag(np.diag(inside))
        worst = max(worst, np.abs(off).max() / np.abs(inside).max())
    return worst


@pytest.mark.parametrize("key", [None, jax.random.key(3)])
def test_decoupled_weights_stay_so_and_generalise_at_once(key):
    """Training on some pairs of domains reduces the error on every pair by the shared trunk."""
    network, data = translator(domains=3, trained=2)
    every = domain_routing(3, key=KEY)
    maps = {
        (i, j): every.y[here, 7 * j : 7 * j + 7].T @ every.x[here, 4 * i : 4 * i + 4]
        for i, j in itertools.product(range(3), repeat=2)
        for here in [(every.labels["input_domain"] == i) & (every.labels["output_domain"] == j)]
    }
    left, s, right = np.linalg.svd(maps[0, 0], full_matrices=False)
    u = {f"y{j}": maps[0, j] @ right.T / s for j in range(3)}
    v = {f"x{i}": maps[i, 0].T @ left / s for i in range(3)}
    network = with_decoupled_weights(network, u | v, initial_strength=0.1, key=key)
    for part in network.parts:
        np.testing.assert_allclose(np.linalg.svd(part, compute_uv=False)[:4], 0.1, rtol=1e-12)
    final = gradient_flow(network, data, np.array([200.0]), rtol=1e-9).final
    assert diagonal(final, u, v) < 1e-6
    w = dict(zip(final.part_axes, final.parts, strict=True))
    for (i, j), target in maps.items():
        found = w[f"out-y{j}"] @ w["in-out"] @ w[f"x{i}-in"]
        np.testing.assert_allclose(found, target, atol=1e-4)


def test_pathways_may_have_directions_of_their_own():
    """Each example of XoR is its own direction of the input; strengths vary by edge and network."""
    v = XOR.x / np.sqrt(2)
    directions = {f"x-h{k}": v[k][:, None] for k in range(4)}
    b = {f"x-h{k}": np.full((3, 1), 0.1 * (k + 1)) for k in range(4)} | {
        f"h{k}-y": 0.5 for k in range(4)
    }
    network = with_decoupled_weights(
        pathways(), {**directions, "y": [[1.0]]}, initial_strength=b, key=seeds(3)
    )
    assert network.batch_shape == (3,)
    np.testing.assert_array_equal(network.labels["seed"], [0, 1, 2])
    expected = 0.5 * 0.1 * (np.arange(4) + 1) * np.sqrt(2)
    np.testing.assert_allclose(network.predict(XOR.x)[..., 0], np.tile(expected, (3, 1)))


@pytest.mark.parametrize(
    ("directions", "strength", "message"),
    [
        ({"x": np.eye(2)}, 0.1, "must have 'y' or 'h0-y'"),
        ({"x": np.eye(2), "y": [[1.0]]}, 0.1, r"same number of columns[^$]*\[1, 2\]"),
        ({"x": np.ones((2, 2)), "y": [[1.0, 0.0]]}, 0.1, "`directions\\['x'\\]` must be orthon"),
        ({"x": np.eye(6), "y": np.eye(6)}, 0.1, "every hidden node at least as many units"),
        ({"x": np.eye(3), "y": np.eye(1, 3)}, 0.1, r"\(2, mode\), got \(3, 3\)"),
        ({"x": np.eye(2), "y": np.eye(1, 2)}, np.nan, "finite"),
        ({"x": np.eye(2), "y": np.eye(1, 2)}, [1.0, 2.0, 3.0], "2 modes"),
    ],
)
def test_directions_that_do_not_fit(directions, strength, message):
    with pytest.raises(ValueError, match=message):
        with_decoupled_weights(pathways(), directions, initial_strength=strength)


# ReLU units as gates


RECTIFIED = {
    "one layer": lambda: fully_connected(3, 12, 2, activation="relu", scale=0.5, key=KEY),
    "leaky": lambda: fully_connected(3, 10, 2, activation=leaky_relu(0.2), scale=0.5, key=KEY),
    "stack": lambda: deep_network(
        (3, 5, 4, 5, 2), activations=("relu", "linear", "relu"), scale=0.7, key=KEY
    ),
}


@pytest.mark.parametrize(
    "name",
    [
        "stack",
        *(pytest.param(name, marks=pytest.mark.slow) for name in RECTIFIED if name != "stack"),
    ],
)
def test_gates_of_rectifiers_say_the_same_and_take_the_same_step(name, rng):
    network = RECTIFIED[name]()
    x = rng.normal(size=(7, 3))
    data = from_arrays(x, rng.normal(size=(7, 2)))
    same = gated_equivalent(network, x)
    np.testing.assert_allclose(same.predict(x), network.predict(x), atol=1e-12)
    one, other = (gradient_descent(each, data, 1e-4, 1) for each in (network, same))
    np.testing.assert_allclose(one.loss, other.loss, rtol=1e-12)
    np.testing.assert_allclose(one.final.predict(x), other.final.predict(x), atol=1e-12)


def test_units_that_are_on_together_are_one_node():
    u = np.array([[1.0, 1.0], [2.0, 2.0], [1.0, -1.0], [-1.0, -1.0]])
    network = layer_from("relu", u, np.ones((4, 1)))
    same = gated_equivalent(network, [[1.0, 0.0], [1.0, 2.0]])  # the last unit is never active
    assert sorted(dict(same.plan.nodes).values()) == [1, 1, 2]
    assert same.gating.names == ("h1_0",)  # two units are always active
    assert gated_equivalent(fully_connected(3, 9, scale=1.0, key=KEY), np.eye(3)).gating.names == ()


@pytest.mark.parametrize(
    ("network", "message"),
    [
        (lambda: fully_connected(2, 3, activation="tanh", key=KEY), "linear or rectified"),
        (lambda: fully_connected(2, 3, activation="relu", bias=True, key=KEY), "column of ones"),
        (lambda: deep_network((2, 3, 3, 1), skips=((1, 2),), scale=1.0, key=KEY), "skips"),
        (lambda: deep_linear((2, 3, 1), scale=1.0, key=KEY), "in a layer or a `DeepNetwork`"),
        (lambda: layer_from("relu", [[-1.0, -1.0]], [1.0]), "silent for all"),
        (
            lambda: layer_from("relu", [[[1.0, 1.0]], [[-1.0, 0.0]]], [[1.0], [1.0]]),
            r"of network \(1,\)",
        ),
    ],
)
def test_networks_whose_gates_cannot_be_read(network, message):
    with pytest.raises(ValueError, match=message):
        gated_equivalent(network(), np.eye(2))


@pytest.mark.parametrize("name", RECTIFIED)
def test_a_batch_has_the_pathways_of_all_and_computes_what_each_does(name, rng):
    networks = [RECTIFIED[name](), RECTIFIED[name]()]
    first, second = networks
    both = first.with_parts(
        *(np.stack((a, 0.3 - b)) for a, b in zip(first.parts, second.parts, strict=True))
    )
    x = rng.normal(size=(7, 3))
    same = gated_equivalent(both, x)
    np.testing.assert_allclose(same.predict(x), both.predict(x), atol=1e-12)


def test_gates_of_another_network_open_its_units_here(rng):
    x = rng.normal(size=(6, 3))
    one, other = (fully_connected(3, 8, 2, activation="relu", scale=1.0, key=k) for k in seeds(2))
    (gates,) = rectifier_gates(other, x)
    expected = np.einsum("uo,ux,ux->xo", one.v, gates, one.u @ x.T)
    for each in (gates, gates > 0, [gates]):
        np.testing.assert_allclose(
            gated_equivalent(one, x, gates=each).predict(x), expected, atol=1e-12
        )
    deep = deep_network((3, 4, 5, 2), activations="relu", scale=1.0, key=KEY)
    opened = gated_equivalent(deep, x, gates=[np.ones((4, 6)), np.ones((5, 6))])
    np.testing.assert_allclose(
        opened.predict(x), x @ (deep.weights[2] @ deep.weights[1] @ deep.weights[0]).T, atol=1e-12
    )
    for wrong in (gates.T, gates[:, :5], [gates, gates]):
        with pytest.raises(ValueError, match=r"`gates` must be .* here \(8, 6\), got"):
            gated_equivalent(one, x, gates=wrong)
    with pytest.raises(ValueError, match="All units of layer 1 are silent for all examples"):
        gated_equivalent(one, x, gates=np.zeros((8, 6)))
    with pytest.raises(ValueError, match="`gates` must be finite"):
        gated_equivalent(one, x, gates=np.full((8, 6), np.nan))


# Saving and drawing


def test_gates_by_table_come_back_and_functions_are_asked_for(tmp_path):
    rule = lambda x: jnp.where(x[0] > 0, 1.0, 0.0)
    network = pathways(gates={**EACH, "x-h0": rule})
    run = gradient_descent(network, XOR, 0.1, 5)
    saved = festina.save(run, tmp_path / "run")
    with pytest.raises(ValueError, match=r"functions, of 'x-h0'[^$]*`gates`"):
        final_networks(saved)
    again = final_networks(saved, gates={"x-h0": rule})
    np.testing.assert_array_equal(again.predict(XOR.x), run.final.predict(XOR.x))
    with pytest.raises(ValueError, match="gate of 'h0' is not known for sample 0"):
        again.predict(XOR.x + 0.5)


def test_diagnosis_of_gated_networks():
    network = pathways(scale=0.01)
    run = gradient_flow(network, XOR)
    assert len(plateaus(run).level) == 2
    assert 0 < tangent_kernel_alignment(run.final, XOR) <= 1
    np.testing.assert_allclose(
        representational_similarity(run.final, XOR.x)[1],
        np.diag(np.sum(np.square(run.final.parts[2] @ XOR.x.T), axis=0) * [0, 1, 0, 0]),
        atol=1e-12,
    )


def shown(ax):
    """Return the texts of nodes and edges of a figure, and its title."""
    return {text.get_text() for text in ax.texts}, ax.get_title()


def test_a_figure_says_for_what_gates_are_open(ax):
    network = pathways()
    assert network.draw(ax, task=XOR, label="example") is ax
    texts, title = shown(ax)
    assert texts == {
        "x (2)",
        "h0 (5)\n●○○○",
        "h1 (5)\n○●○○",
        "h2 (5)\n○○●○",
        "h3 (5)\n○○○●",
        "y (1)",
    }
    assert title == "gates for example 0, 1, 2, 3: ● open, ◐ partly open, ○ closed"
    assert len(ax.lines) == 8


def test_edges_of_a_figure_are_as_thick_as_they_are_strong(ax):
    weights = {"x-a": [[1.0]], "a-y": [[3.0]], "x-y": [[0.0]]}
    data = from_arrays([[1.0], [2.0]], [1.0, 2.0], labels={"one": [0, 0]})
    network = gated_from(weights, gates={"x-a": [1.0, 0.0], "a": lambda x: 0.5 * x[0]}, x=data.x)
    network.draw(ax)
    widths = [line.get_linewidth() for line in ax.lines]
    assert widths[2] < widths[0] < widths[1]
    assert shown(ax)[0] == {"x (1)", "a (1)\nfunction of x", "y (1)", "○●"}
    ax.clear()
    network.draw(ax, task=data, label="one")
    assert shown(ax)[0] == {"x (1)", "a (1)\n◐", "y (1)", "◐"}
    with pytest.raises(ValueError, match="'two'; there are one"):
        network.draw(ax, task=data, label="two")
    with pytest.raises(ValueError, match="got 'one'; there are none"):
        network.draw(ax, label="one")


def test_many_patterns_are_counted(ax):
    x = np.arange(20.0)[:, None]
    gates = {"a": np.arange(20) < 3, "h": np.arange(20)}
    nodes = {"x": 1, "a": 2, "h": 2, "y": 1}
    gated(nodes, ["x-a-y", "x-h-y"], gates=gates, x=x, scale=1.0, key=KEY).draw(ax)
    assert "a (2)\nopen for 3 of 20" in shown(ax)[0]


# Errors


def make(nodes=None, paths=("x-h-y",), **kwargs):
    nodes = {"x": 2, "h": 3, "y": 1} if nodes is None else nodes
    return gated(nodes, list(paths), **{"scale": 0.1, "key": KEY, **kwargs})


BAD = {
    "circle": (lambda: make(paths=["x-h-y", "y-x"]), "has the cycle "),
    "unknown node": (lambda: make(paths=["x-k-y"]), "through 'k', which `nodes` does not have"),
    "node beside": (lambda: make({"x": 2, "h": 3, "z": 2, "y": 1}), "'z', which no path"),
    "no edge": (lambda: make(paths=["x"]), "has no edge"),
    "dash": (lambda: make({"x": 2, "a-b": 3, "y": 1}), "cannot be called 'a-b'"),
    "space": (lambda: make({"x": 2, "h ": 3, "y": 1}), "names must not be empty"),
    "no name": (lambda: make({"x": 2, "": 3, "y": 1}), "cannot be called ''"),
    "one path": (
        lambda: gated({"x": 2, "y": 1}, "x-y", scale=0.1, key=KEY),
        "a list of chains",
    ),
    "columns that are not there": (
        lambda: make(gates={"h": [1, 0]}, x=np.eye(2), inputs={"x": [0, 7]}),
        "x` has 2 columns, but node 'x' reads the columns 0, 7",
    ),
    "columns that nobody reads": (lambda: gradient_flow(make(), xor(0.5)), "takes vectors of 2"),
    "width": (lambda: make({"x": 2, "h": 0, "y": 1}), r"`nodes\['h'\]` must be a whole number"),
    "unknown gate": (lambda: make(gates={"k": np.ones(4)}, x=XOR.x), "neither a node nor an edge"),
    "short gate": (
        lambda: make(gates={"h": np.ones(3)}, x=XOR.x),
        r"each of the 4 examples, got shape \(3,\)",
    ),
    "NaN gate": (
        lambda: make(gates={"h": [1, np.nan, 0, 0]}, x=XOR.x),
        r"`gates\['h'\]` must be finite, but 1 of its 4",
    ),
    "no examples": (lambda: make(gates={"h": np.ones(4)}), "`x=task.x`"),
    "examples": (lambda: make(gates={"h": np.ones(4)}, x=np.ones(4)), "must be .example"),
    "NaN example": (
        lambda: make(gates={"h": np.ones(1)}, x=[[np.nan, 1.0]]),
        "`x` must be finite",
    ),
    "differ": (
        lambda: make(gates={"h": [0.0, 1.0]}, x=np.ones((2, 2))),
        "differ between examples with the same input",
    ),
    "closed output": (
        lambda: make(gates={"y": np.zeros(4)}, x=XOR.x),
        "No path reaches the output 'y'",
    ),
    "closed ways": (
        lambda: make(gates={"x-h": XOR.x[:, 0] > 0, "h": XOR.x[:, 0] < 0}, x=XOR.x),
        "every path to it has a closed gate",
    ),
    "columns": (lambda: make(inputs={"x": [1, 1]}), "2 different columns"),
    "column names": (lambda: make(inputs={"z": [0, 1]}), "must name the columns of x"),
    "columns left": (lambda: make(inputs={"x": [0]}), "2 different columns"),
    "one batch": (
        lambda: gated_from({"x-h": np.ones((2, 3, 2)), "h-y": np.ones((1, 3))}),
        "same batch axes",
    ),
    "widths": (
        lambda: gated_from({"x-h": np.ones((3, 2)), "h-y": np.ones((1, 4))}),
        r"`weights\['h-y'\]` has width 4 at 'h', other weights have width 3",
    ),
    "no edge name": (lambda: gated_from({"w1": np.ones((3, 2))}), 'named like "x-h"'),
    "outputs": (
        lambda: gradient_flow(make(), objects_in_contexts(4, 2)),
        "numbers, got shape|do not fit",
    ),
    "inputs": (
        lambda: gradient_flow(pathways(), xor(0.5)),
        r"takes vectors of 2 numbers, as `x` of its gates, got inputs of shape \(3,\)",
    ),
}


@pytest.mark.parametrize("name", BAD)
def test_what_is_no_network_is_refused(name):
    call, message = BAD[name]
    with pytest.raises(ValueError, match=message):
        call()


@pytest.mark.parametrize("batch", [KEY, seeds(3)])
def test_inputs_whose_gates_are_unknown_are_named(batch):
    network = pathways(key=batch)
    other = np.array([[1.0, 1.0], [0.5, 1.0]])
    with pytest.raises(ValueError, match="gate of 'h0' is not known for sample 1"):
        network.predict(other)
    with pytest.raises(ValueError, match="gate of 'h0' is not known for sample 1"):
        gradient_flow(network, from_arrays(other, np.ones(2)))


def test_a_rule_that_gives_no_number_is_named():
    network = pathways(gates={"h2": lambda x: jnp.log(x[0])}, x=None)
    with pytest.raises(ValueError, match="gate of 'h2' is not known for sample 0"):
        gradient_flow(network, XOR)


@pytest.mark.parametrize(
    "columns", [[0.9, 1.9], [0, True], "01", [0, None], [0, np.nan], [0, -1], 2]
)
def test_columns_must_be_whole_numbers(columns, as_a_user):
    with pytest.raises(ValueError, match=r"`inputs\['x'\]"):
        gated({"x": 2, "y": 1}, ["x-y"], inputs={"x": columns}, scale=0.1, key=jax.random.key(0))


def test_a_program_does_not_grow_with_the_number_of_edges():
    """Dense connections of ten nodes need at most twice as many matrix products as a chain."""

    rng = np.random.default_rng(0)
    order = ["x", *(f"h{k}" for k in range(9)), "y"]
    widths = {name: 2 + k % 3 for k, name in enumerate(order)}
    x = rng.normal(size=(12, widths["x"]))

    def products(edges: list[tuple[str, str]]) -> int:
        weights = {f"{a}-{b}": rng.normal(size=(widths[b], widths[a])) for a, b in edges}
        network = gated_from(weights, gates={"h0": np.arange(len(x)) % 2}, x=x)
        psi = np.ones((len(x), widths["x"] + 1))
        program = jax.make_jaxpr(lambda *parts: network.structure.outputs(psi, *parts))
        return str(program(*network.structure.inside(*network.parts))).count("dot_general")

    every = list(itertools.combinations(order, 2))
    assert len(every) == 55
    assert products(every) <= 2 * products(list(itertools.pairwise(order)))
