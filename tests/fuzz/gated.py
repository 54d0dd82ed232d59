"""Rows of theory.gated: paths, gradients, races and views, checked by NumPy and SciPy."""

import numpy as np
from scipy.integrate import quad

from festina import networks, tasks

from .objects import samples
from .routes import finite, flow, holds, moderate, near
from .rows import Made, rows

GRAPHS = (
    {"x-a": (2, 2), "a-y": (1, 2)},
    {"x-a": (3, 2), "x-b": (2, 2), "a-y": (1, 3), "b-y": (1, 2)},
    {"x-a": (2, 2), "a-b": (3, 2), "x-b": (3, 2), "b-y": (1, 3), "a-z": (2, 2)},
)


def graph(rng):
    """Return a gated network of random weights, and a task whose inputs have known gates."""
    edges = GRAPHS[rng.integers(len(GRAPHS))]
    outputs = sum(
        {edge[-1]: shape[0] for edge, shape in edges.items() if edge[-1] in "yz"}.values()
    )
    x = rng.standard_normal((5, 2))
    weights = {edge: rng.standard_normal(shape) for edge, shape in edges.items()}
    gates = {"a": np.where(rng.random(5) < 0.6, 1.0, 0.0)}
    gates |= {"x-a": rng.standard_normal(5)} if rng.integers(2) else {}
    gates["a"][0] = 1.0
    network = Made(networks.gated_from, {"weights": weights, "gates": gates, "x": x})
    return {
        "network": network,
        "task": Made(tasks.from_arrays, {"x": x, "y": rng.standard_normal((5, outputs))}),
    }


row = rows("theory.gated", task=samples)


def gates_of(network, x):
    """Return the gate of every node and edge for every sample, 1 where there is none."""
    gating = network.gating
    tabled = gating.names[: len(gating.names) - len(gating.rules)]

    def gate(name):
        if name in tabled:
            at = [np.flatnonzero((gating.examples == one).all(1))[0] for one in x]
            return gating.table[at, tabled.index(name)][:, None]
        if name in gating.names:
            rule = gating.rules[gating.names.index(name) - len(tabled)]
            return np.array([rule(one) for one in x], float)[:, None]
        return np.ones((len(x), 1))

    return gate


def forward(network, weights, x):
    """Return the outputs of the graph for each sample, concatenated; weights may be complex."""
    gate = gates_of(network, x)
    h = {node: gate(node) * x[:, list(read)] for node, read in network.plan.inputs}
    for node, _ in network.plan.nodes:
        into = [e for e in network.plan.edges if e[1] == node]
        h[node] = gate(node) * sum(gate(f"{a}-{b}") * (h[a] @ weights[a, b].T) for a, b in into)
    return np.concatenate([h[node] for node in network.plan.outputs], axis=1)


def open_targets(network, task):
    """Return targets that are zero while the gate of their output is closed."""
    gate, y = gates_of(network, task.x), np.asarray(task.y)
    widths = [network.plan.widths[node] for node in network.plan.outputs]
    parts = np.split(y, np.cumsum(widths)[:-1], axis=1)
    return np.concatenate(
        [
            np.where(gate(n) != 0, each, 0)
            for n, each in zip(network.plan.outputs, parts, strict=True)
        ],
        1,
    )


def edges(network):
    return dict(zip(network.plan.edges, map(np.asarray, network.weights), strict=True))


def half_loss(network, task, weights=None):
    error = forward(network, edges(network) if weights is None else weights, task.x)
    return np.sum(task.weight[:, None] * (open_targets(network, task) - error) ** 2) / 2


def walks(network):
    """Return the number of paths from inputs to outputs, by (1 − A)⁻¹ for the adjacency A."""
    names = [*dict(network.plan.inputs), *dict(network.plan.nodes)]
    adjacent = np.zeros((len(names), len(names)))
    for a, b in network.plan.edges:
        adjacent[names.index(a), names.index(b)] = 1
    ways = np.rint(np.linalg.inv(np.eye(len(names)) - adjacent))
    ends = [names.index(name) for name in network.plan.outputs]
    return int(ways[: len(network.plan.inputs)][:, ends].sum())


@row("count_paths", graph)
def _(found, g):
    return near(found, walks(g["network"]), 0)


@row("paths", graph)
def _(found, g):
    network = g["network"]
    known = {f"{a}-{b}" for a, b in network.plan.edges}
    holds("paths go along edges", [set(path.edges) <= known for path in found])
    holds("no path is repeated", len(set(found)) == len(found))
    return near(len(found), walks(network), 0)


@row("path_statistics", graph)
def _(found, g):
    network, task = g["network"], g["task"]
    gate, y = gates_of(network, task.x), open_targets(network, task)
    near(found.power, task.weight @ np.sum(y**2, axis=1), 1e-9)
    first = dict(
        zip(
            network.plan.outputs,
            np.cumsum([0, *(network.plan.widths[n] for n in network.plan.outputs)]),
            strict=False,
        )
    )
    for path, correlation in zip(found.paths, found.correlation, strict=True):
        g_p = np.prod([gate(name) for name in (*path.nodes, *path.edges)], axis=0)
        end = path.nodes[-1]
        own = y[:, first[end] : first[end] + network.plan.widths[end]]
        x = task.x[:, list(dict(network.plan.inputs)[path.nodes[0]])]
        right = (task.weight[:, None] * g_p * own).T @ x
        near(
            correlation,
            right,
            1e-8,
            np.abs(task.weight[:, None] * g_p * own).sum() * np.abs(x).max(),
        )
    return "right"


@row("gated_gradient", graph, form=("cheapest", "data", "patterns", "paths"), cost=2)
def _(found, g):
    """Check gradients by complex steps, which are exact for polynomials."""
    network, task = g["network"], g["task"]
    weights, tiny = edges(network), 1e-30
    scale = max(np.abs(np.asarray(part)).max() for part in found.network.weights)
    for edge, slope in edges(found.network).items():
        right = np.zeros(slope.shape)
        for at in np.ndindex(*slope.shape):
            moved = weights[edge].astype(complex)
            moved[at] += 1j * tiny
            right[at] = half_loss(network, task, weights | {edge: moved}).imag / tiny
        near(slope, right, 1e-7, max(scale, np.abs(right).max()))
    return "right"


@row("conserved_quantities", graph)
def _(found, g):
    """Check each entry: products of incoming weights minus products of outgoing weights."""
    weights = edges(g["network"])
    for node, matrix in found.items():
        right = np.zeros(matrix.shape)
        for (a, b), w in weights.items():
            for i, j in np.ndindex(*matrix.shape):
                right[i, j] += (
                    w[i] @ w[j] if b == node else -w[:, i] @ w[:, j] if a == node else 0.0
                )
        near(matrix, right, 1e-9, max(np.abs(w).max() ** 2 for w in weights.values()))
    return "right"


def decoupled_graph(rng):
    """Return two pathways, open for different examples, with weights along modes of the data."""
    x, y = np.eye(2)[[0, 1, 0, 1]] * rng.uniform(0.5, 2, 2), rng.standard_normal((4, 2))
    x = np.column_stack([x, [0.0, 0.0, 1.0, 1.0]])
    y = np.array([[1.0, 0.0], [0.0, 2.0], [0.5, 0.0], [0.0, -1.0]]) * rng.uniform(0.5, 2)
    b = rng.uniform(0.05, 0.5, (2, 2))
    weights = {f"x-{n}": np.diag(each) for n, each in zip("ab", b, strict=True)}
    weights |= {f"{n}-y": np.diag(each) for n, each in zip("ab", b, strict=True)}
    gates = {"a": np.array([1.0, 1.0, 0.0, 0.0]), "b": np.array([0.0, 0.0, 1.0, 1.0])}
    how = {"weights": weights, "gates": gates, "x": x, "inputs": {"x": (0, 1)}}
    return {
        "network": Made(networks.gated_from, how),
        "task": Made(tasks.from_arrays, {"x": x, "y": y}),
    }


@row("race_reduction", decoupled_graph, tolerance=(1e-6,), cost=4)
def _(found, g):
    """Check that weights along the race follow gradient flow, integrated by SciPy."""
    network, task = g["network"], g["task"]
    if not moderate(
        *(w[w != 0] for w in edges(network).values()),
        task.x[task.x != 0],
        task.y[task.y != 0],
        network.gating.table[network.gating.table != 0],
        size=20,
    ):
        return finite(found.data_residual, found.weight_residual)
    weights = edges(network)
    shapes = {edge: w.shape for edge, w in weights.items()}
    split = lambda column: {
        edge: part.reshape(shape)
        for (edge, shape), part in zip(
            shapes.items(),
            np.split(column, np.cumsum([np.prod(s) for s in shapes.values()])[:-1]),
            strict=True,
        )
    }

    def slope(column):
        moved, tiny = split(column), 1e-30
        right = []
        for edge, w in moved.items():
            for at in np.ndindex(*w.shape):
                other = w.astype(complex)
                other[at] += 1j * tiny
                right.append(-half_loss(network, task, moved | {edge: other}).imag / tiny)
        return np.array(right)

    times = np.array([0.0, 0.5, 2.0])
    right = flow(slope, np.concatenate([w.ravel() for w in weights.values()]), times, 1e-8)
    losses = [half_loss(network, task, split(column)) for column in right]
    return near(found(times).loss, losses, 1e-5, losses[0])


@row("path_directions", graph)
def _(found, g):
    for node, frame in found.items():
        gram = frame.T @ frame
        holds("columns are directions, or nothing", np.isin(np.rint(np.diag(gram)), (0, 1)))
        near(gram - np.diag(np.diag(gram)), np.zeros(gram.shape), 1e-8, 1.0)
        if node in g["network"].plan.widths:
            near(len(frame), g["network"].plan.widths[node], 0)
    return "kept"


# ---------------------------------------------------------------------------------- residuals


@row("best_linear_loss")
@row("linear_residual_task")
def _(found, g):
    """Check that residuals are the projection on the complement of the span of the inputs."""
    task, root = g["task"], np.sqrt(g["task"].weight)[:, None]
    x = root * task.x
    left = root * task.y - x @ np.linalg.pinv(x, rcond=1e-13) @ (root * task.y)
    scale = np.abs(task.y).max()
    if np.ndim(found) == 0 and not hasattr(found, "y"):
        return near(found, np.sum(left**2) / 2, 1e-6, np.sum((root * task.y) ** 2))
    return near(root * found.y, left, 1e-6, scale)


def contextual_options(rng):
    contexts = int(rng.integers(2, 5))
    objects = 4 if rng.integers(2) else rng.standard_normal((5, 3))
    return {"objects": objects, "contexts": contexts, "on": int(rng.integers(1, contexts + 1))}


@row(
    "context_spectrum",
    contextual_options,
    of=("raw", "residual", "common"),
    context_input=(1.0, 0.6),
    cost=2,
)
def _(found, g):
    """Check singular values of the correlation over examples whose context opens the pathway."""
    given = g["objects"] if np.ndim(g["objects"]) else int(g["objects"])
    size = 1.0 if found.of == "residual" and g.context_input else g.context_input
    task = tasks.objects_in_contexts(given, found.contexts, context_input=size)
    open_ = np.asarray(task.labels["context"]) < found.on
    x = task.x if found.of == "common" else task.x[:, : found.objects]
    y = task.y
    if found.of == "residual":
        y = y - task.x @ np.linalg.pinv(task.x) @ y
    s = np.linalg.svd((task.weight * open_ * y.T) @ x, compute_uv=False)
    s = s[s > 1e-10 * np.linalg.norm(y)]
    near(np.sort(found.singular_values)[::-1][: len(s)], s, 1e-7, s[0] if len(s) else 1.0)
    return near(found.start, np.sum(task.weight[:, None] * y**2) / 2, 1e-8)


# ------------------------------------------------------------------------------------------ views


def views(rng):
    count = int(rng.integers(1, 4))
    return {
        "amplitudes": rng.uniform(0.4, 2.0, count),
        "initial_strength": rng.uniform(0.01, 0.1, count) if rng.integers(2) else 0.02,
    }


def view_times(rng):
    return None if rng.integers(4) == 0 else np.sort(rng.uniform(0, 12, 3))


def rested(found, velocity, size):
    """Check that the velocity vanishes at the final strengths."""
    return near(velocity(found), np.zeros(found.shape), 1e-7, size)


@row("early_fusion_shares", amplitudes=lambda rng: rng.uniform(0.4, 2.0, 3))
def _(found, g):
    """Check against the shortest weights that explain y = 1."""
    return near(found, g.amplitudes * np.linalg.pinv(g.amplitudes[None], rcond=0)[:, 0], 1e-8, 1.0)


@row("late_fusion_strengths", views, times=view_times, classes=(1, 3), tau=(1.0, 2.0), cost=2)
@row(
    "capacity_limited_strengths",
    lambda rng: {("rates" if k == "amplitudes" else k): v for k, v in views(rng).items()},
    times=view_times,
    capacity=(1.0, 2.0),
    tau=(1.0, 2.0),
    cost=2,
)
@row(
    "view_contributions",
    views,
    times=view_times,
    overlap=(0.0, 0.5, 1.0),
    target=(1.0, 2.0),
    tau=(1.0, 2.0),
    cost=2,
)
def _(found, g):
    a = g.rates if "rates" in g else g.amplitudes
    start = np.broadcast_to(g.initial_strength, a.shape).astype(float)
    if "rates" in g:
        velocity = lambda s: a * s * (1 - np.sum(s**2, -1, keepdims=True) / g.capacity) / g.tau
    elif "overlap" in g:
        velocity = lambda c: (
            2
            * a
            * c
            * (g.target - (1 - g.overlap) * c - g.overlap * c.sum(-1, keepdims=True))
            / g.tau
        )
    else:
        velocity = lambda p: 2 * a * p / g.classes * (1 - (a * p).sum(-1, keepdims=True)) / g.tau
    size = np.abs(a).max() * max(1.0, np.abs(found).max(initial=0.0)) ** 3 * 1e2
    if g["times"] is None:
        return rested(found, velocity, size / np.min(g.tau))
    numbers = [g[name] for name in ("tau", "classes", "target", "capacity") if name in g]
    if not moderate(a, start, g.times, *numbers, size=100):
        return finite(found)
    return near(found, flow(velocity, start, g.times), 1e-5, np.abs(found).max())


@row(
    "latecomer_delay",
    amplitudes=lambda rng: rng.uniform(0.4, 2.0, 2),
    initial_strength=(1e-3, 1e-4),
    overlap=(0.9, 0.99),
    target=(1.0, 2.0),
)
def _(found, g):
    """Check by quadrature the slow drift along the solutions, after the race at κ = 1."""
    from festina.theory.gated import view_contributions

    end = view_contributions(None, g.amplitudes, g.initial_strength, overlap=1.0, target=g.target)
    slow, m = int(np.argmin(end)), float(g.target)
    if end[slow] >= m / 4:
        return holds("no view is learned late", np.isnan(found))
    a, b = g.amplitudes[1 - slow], g.amplitudes[slow]
    pace = lambda c: 2 * (1 - g.overlap) * a * b * c * (m - c) * (m - 2 * c) / (a * (m - c) + b * c)
    time = quad(lambda u: np.exp(u) / pace(np.exp(u)), np.log(end[slow]), np.log(m / 4), limit=200)[
        0
    ]
    return near(found, time, 1e-6)


def races(rng):
    x, y = rng.standard_normal((4, 2)), rng.standard_normal((4, 1))
    gatings = {"first": np.array([1.0, 1.0, 0.0, 0.0]), "all": np.ones(4)}
    return {"task": Made(tasks.from_arrays, {"x": x, "y": y}), "gatings": gatings}


@row(
    "race_of_gatings",
    races,
    initial_strength=(1e-3, 1e-2),
    only_self_consistent=(True, False),
    tau=(1.0,),
    rtol=(1e-6,),
    cost=10,
)
def _(found, g):
    task = g["task"]
    names = list(g["gatings"])
    for name, rate in zip(found.names, found.rate, strict=True):
        gate = np.asarray(g["gatings"][name], float) if name in names else None
        if gate is not None:
            seen = (task.weight * gate * task.y.T) @ task.x
            near(rate, np.linalg.norm(seen, 2), 1e-8, np.abs(seen).max())
    near(found.loss[0], task.weight @ np.sum(task.y**2, axis=1) / 2, 1e-1)
    holds("the loss falls", np.diff(found.loss) <= 1e-6 * found.loss[0])
    return holds("shares add up", abs(found.share.sum() - 1) < 1e-6)
