"""Test the race reduction against the full flow, closed forms, XoR and domain translation."""

import itertools
from typing import Any

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st
from scipy.integrate import solve_ivp

import festina
from festina.networks import gated_from, with_decoupled_weights
from festina.tasks import domain_routing, from_arrays, nested_tree_features, xor
from festina.theory.gated import ReductionWarning, path_directions, path_statistics, race_reduction
from festina.theory.linear import learning_time
from plain_flow import flow


def apart(weights, others):
    return max(float(np.abs(a - b).max()) for a, b in zip(weights, others, strict=True))


def random_weights(rng, widths, chains, size=0.3):
    edges = dict.fromkeys(pair for c in chains for pair in itertools.pairwise(c.split("-")))
    return {f"{a}-{b}": size * rng.normal(size=(widths[b], widths[a])) for a, b in edges}


GRAPHS = {
    "two pathways": ["x-a-y", "x-b-y"],
    "a shared trunk and a way around it": ["x-a-c-y", "x-b-c-y", "x-b-y"],
    "a direct edge": ["x-y", "x-a-y", "x-b-c-y"],
    "two outputs": ["x-a-c-y", "x-b-c-z", "x-a-y"],
}


OPEN = ((1.0, 1.0, 0.0), (0.0, 1.0, 1.0))


def aligned(chains, seed, *, gates=OPEN):
    """Return a network of any graph, and data with white inputs and shared directions.

    Spectra may differ by a factor, and gates may be real or binary.
    """
    rng = np.random.default_rng(seed)
    n, m = 3, 4
    outputs = sorted({chain.split("-")[-1] for chain in chains})
    v = np.linalg.qr(rng.normal(size=(n, n)))[0]
    u = [np.linalg.qr(rng.normal(size=(m, n)))[0] for _ in outputs]
    label = np.repeat(np.arange(3), n)
    x = np.concatenate([rng.uniform(0.5, 1.5) * np.sqrt(n) * v.T] * 3)
    y = np.concatenate(
        [np.sqrt(n) * np.hstack([(q * rng.uniform(0.5, 2.0, n)).T for q in u]) for _ in range(3)]
    )
    data = from_arrays(np.column_stack((x, label)), y)
    table = np.array(gates)
    widths = {"x": n, "a": 5, "b": 6, "c": 4} | dict.fromkeys(outputs, m)
    network = gated_from(
        random_weights(rng, widths, chains),
        gates={"a": table[0][label], "b": table[1][label]},
        x=data.x,
        inputs={"x": range(n)},
    )
    strength = {edge: 0.1 * rng.uniform(0.5, 1.5, n) for edge in network.part_axes}
    key = festina.seeds(1)[0]
    return with_decoupled_weights(
        network, path_directions(network, data), initial_strength=strength, key=key
    ), data


# Exact if the assumptions hold


REAL = ((0.4, -1.0, 0.9),) * 2


@pytest.mark.parametrize(
    ("name", "gates"),
    [(name, OPEN) for name in GRAPHS] + [("a shared trunk and a way around it", REAL)],
)
def test_the_reduction_is_the_whole_flow_of_decoupled_weights(name, gates):
    network, data = aligned(GRAPHS[name], 7, gates=gates)
    found = race_reduction(network, data)
    assert found.data_residual < 1e-12
    assert found.weight_residual < 1e-12
    times = np.linspace(0, 12, 13)
    seen = found(times)
    assert apart(flow(network, data, times), seen.network.parts) < 1e-8
    assert apart(network.parts, [part[0] for part in seen.network.parts]) < 1e-14
    for k in (0, 7, 12):
        residual = data.y - outputs(seen.network, k, data)
        np.testing.assert_allclose(seen.loss[k], 0.5 * np.mean(np.sum(residual**2, 1)), atol=1e-10)


def outputs(network, k, data):
    """Return the outputs of the network at one saved time, path by path."""
    now = network.with_parts(*(part[k] for part in network.parts))
    seen = path_statistics(now, data)
    assert len(seen.gates) == len(data.x)  # nothing is compressed
    weights = dict(zip(now.part_axes, now.parts, strict=True))
    said = {node: 0.0 for node in now.plan.outputs}
    columns = dict(now.plan.inputs)
    for p, path in enumerate(seen.paths):
        h = data.x[:, list(columns[path.nodes[0]])]
        for edge in path.edges:
            h = h @ weights[edge].T
        said[path.nodes[-1]] = said[path.nodes[-1]] + seen.gates[:, [p]] * h
    return np.hstack(list(said.values()))


def test_the_error_falls_with_the_tolerance():
    network, data = aligned(GRAPHS["two pathways"], 3)
    found, times = race_reduction(network, data), np.linspace(0, 6, 3)
    exact = flow(network, data, times)
    errors = [apart(exact, found(times, rtol=rtol).network.parts) for rtol in (1e-5, 1e-10)]
    assert errors[1] < 1e-4 * errors[0]


def test_time_scales_and_times_are_answered_in_any_order():
    found = race_reduction(*aligned(GRAPHS["two pathways"], 3))
    times = np.array([4.0, 0.0, 9.0, 4.0])
    loss = found(times).loss
    np.testing.assert_allclose(loss, found(2 * times, tau=2.0).loss, rtol=1e-9)
    np.testing.assert_allclose(loss[0], found(times[0]).loss[0], rtol=1e-8)
    assert loss[0] == loss[3]


def test_modes_that_are_alike_take_the_directions_of_the_weights():
    """For equal singular values, the directions of the decoupled weights are used."""
    rng = np.random.default_rng(0)
    x, u = np.eye(3), np.linalg.qr(rng.normal(size=(4, 3)))[0]
    data = from_arrays(x, 2.0 * u.T)
    turned = np.linalg.qr(rng.normal(size=(3, 3)))[0]
    weights = {
        "x-a": np.diag([0.1, 0.2, 0.3]) @ turned.T,
        "a-y": u @ turned @ np.diag([0.2, 0.1, 0.1]),
    }
    network = gated_from(weights)
    found = race_reduction(network, data)
    assert max(found.data_residual, found.weight_residual) < 1e-12
    np.testing.assert_allclose(np.sort(np.abs(found.initial["x-a"])), [0.1, 0.2, 0.3])
    times = np.linspace(0, 8, 5)
    assert apart(flow(network, data, times), found(times).network.parts) < 1e-8


def test_a_path_that_is_never_open_stays_as_it_is():
    network, data = aligned(GRAPHS["two pathways"], 0, gates=((1.0, 1.0, 1.0), (0.0, 0.0, 0.0)))
    rng = np.random.default_rng(0)
    parts = dict(zip(network.part_axes, network.parts, strict=True))
    parts["x-b"], parts["b-y"] = rng.normal(size=(6, 3)), rng.normal(size=(4, 6))
    network = network.with_parts(*parts.values())
    seen = race_reduction(network, data)([0.0, 5.0])
    moved = dict(zip(network.part_axes, seen.network.parts, strict=True))
    np.testing.assert_array_equal(moved["x-b"][1], parts["x-b"])
    assert np.abs(moved["x-a"][1] - parts["x-a"]).max() > 0.1


# Approximate if the assumptions do not hold


@pytest.mark.parametrize("disturbed", ["weights", "data"])
def test_what_is_not_diagonal_deviates_at_first_order(disturbed):
    network, data = aligned(GRAPHS["two pathways"], 3)
    rng = np.random.default_rng(0)
    noise = [rng.normal(size=part.shape) for part in network.parts]
    targets = rng.normal(size=data.y.shape)
    times = np.linspace(0, 4, 3)
    errors, residuals = [], []
    for size in (1e-4, 2e-4, 4e-4):
        if disturbed == "weights":
            parts = (w + size * n for w, n in zip(network.parts, noise, strict=True))
            moved, seen = network.with_parts(*parts), data
        else:
            moved, seen = network, from_arrays(data.x, data.y + size * targets)
        with pytest.warns(ReductionWarning, match="gradient_flow"):
            found = race_reduction(moved, seen)
        residuals.append((found.weight_residual, found.data_residual)[disturbed == "data"])
        errors.append(apart(flow(moved, seen, times, 1e-8), found(times).network.parts))
    np.testing.assert_allclose(np.diff(np.log2(residuals)), 1, atol=0.02)
    np.testing.assert_allclose(np.diff(np.log2(errors)), 1, atol=0.05)


def test_data_that_are_not_diagonal_together_are_said_to_be():
    rng = np.random.default_rng(1)
    x, label = rng.normal(size=(30, 3)), rng.integers(0, 2, 30)
    data = from_arrays(x, rng.normal(size=(30, 2)))
    weights = random_weights(rng, {"x": 3, "a": 3, "b": 3, "y": 2}, ["x-a-y", "x-b-y"])
    network = gated_from(weights, gates={"a": label == 0}, x=x)
    with pytest.warns(ReductionWarning, match=r"data statistics deviate by [01]\b"):
        assert race_reduction(network, data).data_residual > 0.05


def test_hidden_units_that_are_too_few_for_the_modes_are_said_to_be():
    rng = np.random.default_rng(1)
    network = gated_from({"x-a": rng.normal(size=(1, 2)), "a-y": rng.normal(size=(2, 1))})
    with pytest.warns(ReductionWarning, match="weights by"):
        assert (
            race_reduction(network, from_arrays(np.eye(2), np.diag([2.0, 1.0]))).weight_residual
            > 0.5
        )


# Closed forms


@pytest.mark.slow
@settings(max_examples=4, deadline=None)
@given(st.integers(0, 2**32 - 1))
def test_a_path_by_itself_has_a_closed_form(seed):
    """Paths of one edge, two unequal edges and three balanced edges have separate data."""
    rng = np.random.default_rng(seed)
    n = 2
    x = np.zeros((6, 6))
    for k in range(3):
        x[2 * k : 2 * k + 2, 2 * k : 2 * k + 2] = np.diag(rng.uniform(0.5, 2.0, n))
    y = np.zeros((6, 6))
    for k in range(3):
        y[2 * k : 2 * k + 2, 2 * k : 2 * k + 2] = np.diag(rng.uniform(1.0, 3.0, n))
    ways = {"x": "y", "v": "a-z", "u": "b-c-w"}
    chains = [f"{start}-{rest}" for start, rest in ways.items()]
    diagonal = lambda: np.diag(rng.uniform(0.2, 1.0, n))
    same = diagonal()
    weights = {"x-y": diagonal(), "v-a": diagonal(), "a-z": diagonal()}
    weights |= {"u-b": same, "b-c": same, "c-w": same}
    found = race_reduction(gated_from(weights), from_arrays(x, y))
    assert sorted(map(str, (p for g in found.groups for p in g.paths))) == sorted(chains)
    times = np.linspace(0, 10, 11)
    exact, seen = found.alone(times, tau=1.7), found(times, tau=1.7, rtol=1e-12).strengths
    for name, curve in exact.items():
        np.testing.assert_allclose(seen[name], curve, rtol=0, atol=1e-9)


def test_three_unequal_edges_have_none():
    weights = {"x-a": [[0.1]], "a-b": [[0.2]], "b-y": [[0.1]]}
    found = race_reduction(gated_from(weights), from_arrays([[1.0]], [[1.0]]))
    with pytest.raises(ValueError, match=r"x-a-b-y differ[^$]*integrate"):
        found.alone([1.0])


def test_what_a_path_does_alone_is_not_what_it_does_in_company():
    found = race_reduction(*aligned(GRAPHS["two pathways"], 3))
    times = np.array([0.0, 12.0])
    alone, together = found.alone(times), found(times).strengths
    np.testing.assert_allclose(alone["x-a-y"][0], together["x-a-y"][0], rtol=1e-12)
    assert (alone["x-a-y"][1] > 1.05 * np.abs(together["x-a-y"][1])).any()


# XoR


def test_one_gate_for_each_example_of_xor():
    """S = √2/4, D = 1/2 and L = ½(1 − √2 π)²; half is learned at 12.535 from b₀ = 10⁻²."""
    data = xor()
    weights = {}
    for k in range(4):
        weights |= {f"x-h{k}": np.ones((1, 2)), f"h{k}-y": np.ones((1, 1))}
    gates = {f"h{k}": data.labels["example"] == k for k in range(4)}
    network = gated_from(weights, gates=gates, x=data.x)
    network = with_decoupled_weights(network, path_directions(network, data), initial_strength=1e-2)
    found = race_reduction(network, data)
    assert len(found.groups) == 4
    for group in found.groups:
        np.testing.assert_allclose(group.s, [[np.sqrt(2) / 4]], rtol=0, atol=1e-6)
        np.testing.assert_allclose(group.d, [[[0.5]]], rtol=0, atol=1e-6)
    times = np.linspace(0, 30, 61)
    pi = found.alone(times)["x-h0-y"][:, 0]
    seen = found(times)
    np.testing.assert_allclose(seen.loss, 0.5 * (1 - np.sqrt(2) * pi) ** 2, atol=1e-9)
    half = learning_time(np.sqrt(2) / 4, 1e-4, depth=2, fraction=0.5, input_variance=0.5)
    np.testing.assert_allclose(half, 12.535, rtol=0, atol=1e-3)
    np.testing.assert_allclose(found(half).loss, 1 / 8, rtol=1e-6)


# Translation between domains


def translation(m, k, ways, *, strength, key=None):
    """Return networks for M domains with K trained pairs each, and data.

    Pathways are a shared trunk, half shared, or dedicated.
    """
    data, every = domain_routing(m, k, key=key), domain_routing(m, key=key)
    source, target = every.labels["input_domain"], every.labels["output_domain"]
    trained = sorted(
        {(int(i), int(j)) for i, j in zip(*list(data.labels.values())[:2], strict=True)}
    )
    chains = {
        "shared": [f"x{i}-a-t-y{j}" for i in range(m) for j in range(m)],
        "half": [f"x{i}-h{i}-k{i}-y{j}" for i in range(m) for j in range(m)],
        "dedicated": [f"x{i}-d{i}_{j}-e{i}_{j}-y{j}" for i, j in trained],
    }
    chosen = [chain for way in ways for chain in chains[way]]
    names = dict.fromkeys(name for chain in chosen for name in chain.split("-"))
    widths = {name: {"x": 4, "y": 7}.get(name[0], 4) for name in names}
    gates = {f"x{i}": source == i for i in range(m)} | {f"y{j}": target == j for j in range(m)}
    if "dedicated" in ways:
        gates |= {f"e{i}_{j}": (source == i) & (target == j) for i, j in trained}
    network = gated_from(
        random_weights(np.random.default_rng(0), widths, chosen),
        gates=gates,
        x=every.x,
        inputs={f"x{i}": range(4 * i, 4 * i + 4) for i in range(m)},
    )
    if not np.isscalar(strength):
        strength = {edge: strength[edge == "a-t"] for edge in network.part_axes}
    return (
        with_decoupled_weights(network, path_directions(network, data), initial_strength=strength),
        data,
        every,
    )


def half_time(network, data, about):
    """Return the time at which the first mode of the first pair is half learned."""
    found = race_reduction(network, data)
    group = next(group for group in found.groups if "x0" in group.frames)
    which = np.argmax(group.s.max(axis=0))
    end = float(group.s[0, which] / group.d[0, 0, which])
    seen = found(about * np.linspace(0.98, 1.02, 41))
    return float(np.interp(end / 2, seen.strengths[str(group.paths[0])][:, which], seen.time))


def written_out_half_time(m, k, way, strength):
    """Return the half-time by SciPy, from three equations for the layer strengths of a path."""
    rates = {
        "shared": (1 / m, 1.0, 1 / m),  # K cancels
        "half": (1 / m, 1 / m, 1 / (m * k)),
        "dedicated": (1 / (m * k),) * 3,
    }[way]
    items = 4
    s = np.linalg.svd(nested_tree_features(2), compute_uv=False)[0] / items

    def velocity(_, b):
        whole = b.prod()
        return np.array(rates) * whole / b * (s - whole / items)

    half: Any = lambda _, b: b.prod() - 0.5 * s * items
    half.terminal = True
    start = np.full(3, strength)
    flow = solve_ivp(velocity, (0.0, 1e5), start, events=half, rtol=1e-10, atol=1e-12)
    return float(flow.t_events[0][0])


@pytest.mark.parametrize(
    ("m", "k"),
    [(4, 2), *(pytest.param(*c, marks=pytest.mark.slow) for c in ((2, 1), (4, 4), (8, 2), (8, 8)))],
)
def test_shared_pathways_are_learned_sooner(m, k):
    ways = ("shared", "half", "dedicated")
    expected = [written_out_half_time(m, k, way, 0.05) for way in ways]
    assert expected[0] < expected[1] <= expected[2]
    found = [
        half_time(*translation(m, k, [way], strength=0.05)[:2], about)
        for way, about in zip(ways, expected, strict=True)
    ]
    np.testing.assert_allclose(found, expected, rtol=1e-5)


def test_half_times_are_those_of_the_published_table():
    """The published times for four domains with two outputs each lie on a grid."""
    expected = [written_out_half_time(4, 2, way, 0.05) for way in ("shared", "half", "dedicated")]
    np.testing.assert_allclose(expected, (71.2, 146.4, 235.2), rtol=0.01)


@pytest.mark.parametrize(("m", "k"), [(2, 1), (3, 2), (4, 3)])
def test_a_shared_path_is_faster_by_the_cube_root_of_domains(m, k):
    """The factor is K M^(1/3), for a trunk √M times as strong, at equal strength of paths."""
    rates = []
    b = 0.05
    for way, strength in (("shared", (b, np.sqrt(m) * b)), ("dedicated", m ** (1 / 6) * b)):
        network, data, _ = translation(m, k, [way], strength=strength)
        found = race_reduction(network, data)
        group = next(g for g in found.groups if "y0" in str(g.paths[0]))
        start = np.concatenate([found.initial[edge] for edge in group.edges])
        moved = dict(
            zip(group.edges, group.velocity(start).reshape(len(group.edges), -1), strict=True)
        )
        edges = group.paths[0].edges
        whole = np.prod([found.initial[edge] for edge in edges], axis=0)
        growth = whole * sum(moved[edge] / found.initial[edge] for edge in edges)
        rates.append(growth.max() / np.abs(whole).max())
    np.testing.assert_allclose(rates[0] / rates[1], k * m ** (1 / 3), rtol=1e-9)


@pytest.mark.parametrize(
    ("b0", "m", "k", "share", "within"),
    [
        (0.05, 1, 1, 0.5, 1e-6),
        (0.05, 4, 2, 0.9999, 1e-4),
        pytest.param(0.3, 4, 2, 0.977, 0.005, marks=pytest.mark.slow),
        (1.0, 4, 2, 0.579, 0.005),
    ],
)
def test_the_shared_path_wins_from_small_weights_and_not_from_large(b0, m, k, share, within):
    network, data, _ = translation(m, k, ["shared", "dedicated"], strength=b0)
    strengths = race_reduction(network, data)().strengths
    shared, dedicated = (strengths[f"x0-{way}-y0"][-1] for way in ("a-t", "d0_0-e0_0"))
    first = np.argmax(shared + dedicated)
    found = shared[first] / (shared[first] + dedicated[first])
    np.testing.assert_allclose(found, share, rtol=0, atol=within)


@pytest.mark.parametrize(("m", "k"), [(3, 1), (5, 2)])
def test_decoupled_weights_translate_between_pairs_that_were_never_trained(m, k):
    key = None if k == 1 else festina.seeds(1)[0]
    network, data, every = translation(m, k, ["shared"], strength=0.3, key=key)
    if k == 1:
        # Pairs without a common domain do not determine which directions belong together.
        u, _, v = np.linalg.svd(every.y[:4, :7].T, full_matrices=False)
        given = {f"x{i}": v.T for i in range(m)} | {f"y{j}": u for j in range(m)}
        network = with_decoupled_weights(network, given, initial_strength=0.3)
    seen = race_reduction(network, data)()
    for moment in (len(seen.time) // 2, -1):
        now = network.with_parts(*(part[moment] for part in seen.network.parts))
        error = 0.5 * np.sum((every.y - now.predict(every.x)) ** 2, axis=1).reshape(m, m, -1)
        np.testing.assert_allclose(error, np.broadcast_to(error[0, 0], error.shape), atol=1e-9)
    assert seen.loss[-1] < 1e-6
    assert error.max() < 1e-6


def test_translation_is_reduced_exactly():
    """Compare M = 3, K = 2 with the flow of all weights; M b₁² − b₂² is conserved."""
    network, data, _ = translation(3, 2, ["shared"], strength=0.2, key=festina.seeds(1)[0])
    times = np.linspace(0, 60, 7)
    seen = race_reduction(network, data)(times)
    full = festina.gradient_flow(network, data, times, rtol=1e-10)
    assert apart(full.network.parts, seen.network.parts) < 1e-8
    np.testing.assert_allclose(full.loss, seen.loss, rtol=0, atol=1e-8)
    kept = 3 * seen.edges["x0-a"] ** 2 - seen.edges["a-t"] ** 2
    np.testing.assert_allclose(kept, np.broadcast_to(kept[0], kept.shape), atol=1e-8)


# Figures and text


def test_paths_that_are_alike_share_a_line():
    import matplotlib.pyplot as plt

    network, data, _ = translation(2, 2, ["shared", "dedicated"], strength=0.2)
    found = race_reduction(network, data)
    ax = found.draw()
    labels = ax.get_legend_handles_labels()[1]
    assert len(labels) == 2
    assert all(label.endswith("(+3 equal)") for label in labels)
    assert "8 in 1 groups" in str(found)
    plt.close("all")


@pytest.mark.filterwarnings("ignore::festina.theory.gated.ReductionWarning")
@given(st.integers(0, 10**6), st.sampled_from([1, 2, 4]))
@settings(max_examples=10)
def test_the_residual_of_data_that_are_nearly_diagonal_falls_with_what_is_not(seed, outputs):
    """Directions are as many as the outputs, orthonormal, and usable for weights.

    The data may be far from diagonal.
    """
    rng = np.random.default_rng(seed)
    white, noise = np.linalg.qr(rng.normal(size=(40, 4)))[0], rng.normal(size=(40, 4)) / 6
    matrix = rng.normal(size=(4, outputs))
    network = gated_from(random_weights(rng, {"x": 4, "h": 6, "y": outputs}, ["x-h-y"]))
    residuals = []
    for size in (1.0, 1e-3, 1e-6):
        x = np.sqrt(40) * (white + size * noise)
        data = from_arrays(x, x @ matrix)
        found = path_directions(network, data)
        assert found["y"].shape == (outputs, outputs)
        put = with_decoupled_weights(network, found, initial_strength=0.1)
        reduced = race_reduction(put, data)
        assert reduced.weight_residual < 1e-10
        residuals.append(reduced.data_residual)
    assert residuals[2] < 1e-4 * max(residuals[0], 0.01)
