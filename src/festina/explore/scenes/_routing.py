"""Routing: a trunk shared by all pairs of domains races against one pathway per pair."""

import itertools
from collections.abc import Iterator
from functools import lru_cache
from typing import Literal

import numpy as np
from bokeh.plotting import figure
from scipy.integrate import cumulative_simpson
from scipy.interpolate import CubicHermiteSpline
from scipy.optimize import root_scalar

from ...dynamics import gradient_flow
from ...networks import Gated, gated_from, with_decoupled_weights
from ...tasks import Task, cyclic_domain_pairs, domain_routing, from_arrays, nested_tree_features
from .._plots import cells, curves, dots, plot
from .._scene import Numbers, Progress, SceneKnobs, choice, slider

COMPARED = "the loss on trained and on untrained pairs"
_SEEDS, _TIMES, _MOST, _WIDTH, _ITEMS = 3, 101, 4, 6, 2
_WAYS = ("shared trunk", "dedicated pathways")
_UNKNOWN = 1e-30  # weight of untrained pairs in the loss; with 0 the compiled program would change


class Knobs(SceneKnobs):
    domains: int = slider("number M of input and of output domains", 4, 2, _MOST)
    trained: int = slider("outputs K trained with each input (at most M)", 2, 1, _MOST)
    strength: float = slider("initial strength b of the trunk's layers", 0.1, 0.02, 0.3, log=True)
    head: float = slider("initial strength of dedicated pathways / b", 1.0, 0.0, 2.0, step=0.1)
    weights: Literal["decoupled", "random"] = choice("initial weights", "decoupled")


WARM = [Knobs()]


def plots() -> list[figure]:
    """Return the plots: losses, the race of the pathways, the learned fraction of each pair."""
    how = {"y_axis_type": "log", "y_range": _LOSSES}
    loss = plot("Loss", "time t/τ", "loss / loss of zero output", time=True, **how)
    curves(loss, "loss", seeds=_SEEDS, columns=("trained", "untrained"), legend=_PAIRS)
    loss.legend.location = "bottom_left"
    ways = plot("Race of the pathways", "time t/τ", "learned fraction of trained pairs", time=True)
    curves(ways, "ways", seeds=_SEEDS, columns=("shared", "own"), legend=_WAYS)
    ways.legend.location = "center_right"
    pairs = plot("Learned fraction by pair (○: trained)", "output domain", "input domain")
    cells(pairs, "pairs")
    dots(pairs, "marks", seed="theory", size=14)
    return [loss, ways, pairs]


_PAIRS, _LOSSES = ("trained pairs", "untrained pairs"), (1e-3, 8.0)


def theory(knobs: Knobs) -> Numbers:
    """Return the closed form of the race between the trunk and dedicated pathways."""
    times, shared, own = _race(knobs)
    s = _singular_values()
    loss = lambda learned: np.sum((s - learned) ** 2, axis=1) / np.sum(s**2)
    part = lambda learned: learned @ s / np.sum(s**2)
    trained = loss(shared + own)
    untrained = trained if _all_trained(knobs) else loss(shared)
    target, source = np.nonzero(_pairs(knobs).T)
    return Numbers(
        np.concatenate((trained, untrained)),
        {
            "loss": {"x": times, "trained": trained, "untrained": untrained},
            "ways": {"x": times, "shared": part(shared), "own": part(own)},
            "marks": {"x": target + 1.0, "y": source + 1.0},
        },
    )


def train(knobs: Knobs, progress: Progress) -> Iterator[Numbers]:
    """Train networks that have both kinds of paths, and measure the map of each path."""
    m, times = knobs.domains, _race(knobs)[0]
    task = _task_of(m, min(knobs.trained, m))
    run = gradient_flow(_network(knobs), task, times, rtol=1e-6, progress=progress)
    weights = dict(zip(run.network.part_axes, map(np.asarray, run.network.parts), strict=True))
    encoders = weights["x-s1"].reshape(_SEEDS, _TIMES, _WIDTH, _MOST, _ITEMS)[..., :m, :]
    decoders = np.stack([weights[f"s2-y{j}"] for j in range(m)], axis=-3)
    trunk = weights["s1-s2"]
    shared = np.einsum("ltjfb,ltba,ltaik->ltijfk", decoders, trunk, encoders, optimize=True)
    pairs, own = _pairs(knobs), np.zeros(shared.shape)
    for i, j in np.argwhere(pairs):
        p = _MOST * i + j
        inner = weights[f"a{p}-b{p}"] @ weights[f"x-a{p}"][..., _ITEMS * i : _ITEMS * (i + 1)]
        own[:, :, i, j] = weights[f"b{p}-y{j}"] @ inner
    target = nested_tree_features(1)
    power = np.sum(target**2)
    part = lambda maps: np.sum(maps * target, axis=(-2, -1)) / power
    left = np.sum((target - shared - own) ** 2, axis=(-2, -1)) / power
    trained = left[:, :, pairs].mean(axis=-1)
    untrained = trained if pairs.all() else left[:, :, ~pairs].mean(axis=-1)
    learned = part(shared + own)
    for seed in range(_SEEDS):
        ways = [part(each[seed, :, pairs]).mean(axis=0) for each in (shared, own)]
        yield Numbers(
            np.concatenate((trained[seed], untrained[seed])),
            {
                "loss": {"x": times, "trained": trained[seed], "untrained": untrained[seed]},
                "ways": {"x": times, "shared": ways[0], "own": ways[1]},
            },
            {} if seed else {"pairs": _squares(learned[seed])},
            None if seed else times,
        )


def allowed(knobs: Knobs) -> float | None:
    return 2e-5 if knobs.weights == "decoupled" else None


def notice(knobs: Knobs, theory: Numbers) -> str:
    m, k = knobs.domains, min(knobs.trained, knobs.domains)
    if knobs.weights == "random":
        return _notice_random(m, k)
    shared = float(theory.columns["ways"]["shared"][-1])
    speed = f"All pairs train the trunk, so it grows K·M^(1/3) = {k * m ** (1 / 3):.2g} times as"
    if not knobs.head:
        others = f", and solves the other {m * (m - k)} as quickly" if k < m else ""
        return (
            f"Without dedicated pathways the trunk learns all {m * k} trained pairs{others}. All "
            "pairs share its weights. Give dedicated pathways some strength to see a race."
        )
    start = "" if knobs.head == 1 else f", which start at {knobs.head:.2g} times its strength"
    amount = "over 99" if shared > 0.99 else f"{100 * shared:.0f}"
    wins = "wins" if shared > 0.9 else "leads" if shared > 0.5 else "loses"
    result = f"{speed} fast as dedicated pathways{start}. It {wins} and learns {amount} % of the "
    result += "targets."
    if k == m:
        return f"{result} All pairs are trained, so none is left to generalise to: choose K < M."
    left = float(theory.columns["loss"]["untrained"][-1])
    rest = f"ends at {left:.2g}" if left > 0.005 else "nearly vanishes"
    return f"{result} Untrained pairs depend on the trunk alone; their loss {rest}."


def _notice_random(m: int, k: int) -> str:
    if k == m:
        return (
            "All pairs are trained, so none is left to generalise to: choose K < M. Random "
            "weights must find the common code of all domains, which decoupled weights (dashed) "
            "have from the start."
        )
    if k == 1:
        end = (
            "One output per input (K = 1) does not determine this code: most networks give wrong "
            "outputs for untrained pairs (blue cells), some with a larger loss than zero output."
        )
    else:
        end = (
            f"K = {k} of {m} outputs {'may not' if k == 2 < m - 1 else 'usually'} determine this "
            "code. Large weights and strong dedicated pathways leave less to the trunk, and raise "
            "the loss on untrained pairs."
        )
    return (
        "Random weights must find the common code of all domains, which decoupled weights (dashed) "
        f"have from the start. {end}"
    )


def python(knobs: Knobs) -> str:
    end = float(_race(knobs)[0][-1])
    draw = f"{_LARGER} * (w**2).mean() ** 0.5 * rng.standard_normal(({_SEEDS}, *w.shape))"
    draw = draw if knobs.weights == "random" else f"np.stack({_SEEDS} * [w])"
    return f"""\
import numpy as np
import festina

M, K, b, head = {knobs.domains}, {min(knobs.trained, knobs.domains)}, {knobs.strength}, {knobs.head}
times = np.linspace(0, {end}, {_TIMES})
items = festina.tasks.nested_tree_features(1)
u, s, v = np.linalg.svd(items, full_matrices=False)

# Theory: two paths with the speeds of trunk and dedicated pathways, in the modes of the items.
ways = {{"trunk": (b, M ** (-2 / 3)), "own": (head * b, 1 / (M * K))}}
gates = {{f"{{way}}1": np.full(2, speed**1.5) for way, (_, speed) in ways.items()}}
start = {{edge: strength / speed**0.5 * np.eye(2) for way, (strength, speed) in ways.items()
         for edge in (f"x-{{way}}1", f"{{way}}1-{{way}}2", f"{{way}}2-y")}}
small = festina.networks.gated_from(start, gates=gates, x=np.eye(2))
modes = festina.tasks.from_arrays(np.eye(2), np.diag(s))
found = festina.theory.gated.race_reduction(small, modes)(times).strengths
trunk, own = (found[f"x-{{way}}1-{{way}}2-y"] * gates[f"{{way}}1"] for way in ways)
loss = lambda learned: ((s - learned) ** 2).sum(axis=1) / (s**2).sum()
predicted = np.concatenate((loss(trunk + own), loss(trunk if K < M else trunk + own)))

# Training: {_MOST} domains, of which M are used. Gates open one pathway a-b for each pair.
data = festina.tasks.domain_routing({_MOST}, items=items)
i, j = data.labels["input_domain"], data.labels["output_domain"]
known = ((j - i) % M < K) & (i < M) & (j < M)
task = festina.tasks.from_arrays(data.x, data.y, weight=np.where(known, 1.0, {_UNKNOWN}))
a, c = ([f"{{letter}}{{pair}}" for pair in range({_MOST**2})] for letter in "ab")
y = [f"y{{domain}}" for domain in range({_MOST})]
layers = ([["x"], ["s1"], ["s2"], y], [["x"], a, c, y])
width = {{"x": {_MOST * _ITEMS}, "s": {_WIDTH}, "a": {_ITEMS}, "b": {_ITEMS}, "y": len(items)}}
edges = {{f"{{p}}-{{q}}": np.zeros((width[q[0]], width[p[0]])) for chain in layers
         for before, after in zip(chain, chain[1:]) for p in before for q in after}}
gates = {{node: j == domain for domain, node in enumerate(y)}}
gates |= {{node: {_MOST} * i + j == pair for nodes in (a, c) for pair, node in enumerate(nodes)}}
network = festina.networks.gated_from(
    edges, gates=gates, x=data.x, inputs={{"x": range({_MOST * _ITEMS})}})
size = {{"xs": {_MOST}**0.5 * b * M ** (-1 / 6), "ss": b * M ** (1 / 3), "sy": b * M ** (-1 / 6),
        "xa": {_MOST}**0.5 * head * b, "ab": head * b, "by": head * b}}
network = festina.networks.with_decoupled_weights(
    network, {{"x": np.tile(v.T, ({_MOST}, 1)) / {_MOST}**0.5, **dict.fromkeys(y, u)}},
    initial_strength={{edge: size[edge[0] + edge.split("-")[1][0]] for edge in edges}})
rng = np.random.default_rng(0)
network = network.with_parts(*(
    {draw} for w in network.parts))
run = festina.gradient_flow(network, task, times, rtol=1e-6)

# Outputs of the first network on every pair, without the dedicated pathways of untrained pairs.
w = {{edge: part[0] for edge, part in zip(run.network.part_axes, run.network.parts)}}
loss = np.zeros((M, M, len(times)))
for i, j in np.ndindex(M, M):
    x = range({_ITEMS} * i, {_ITEMS} * (i + 1))
    p = f"{{{_MOST} * i + j}}"
    seen = w[f"s2-y{{j}}"] @ w["s1-s2"] @ w["x-s1"][..., x]
    if (j - i) % M < K:
        seen = seen + w[f"b{{p}}-y{{j}}"] @ w[f"a{{p}}-b{{p}}"] @ w[f"x-a{{p}}"][..., x]
    loss[i, j] = ((items - seen) ** 2).sum(axis=(1, 2)) / (items**2).sum()
known = (np.arange(M) - np.arange(M)[:, None]) % M < K
measured = np.concatenate((loss[known].mean(axis=0), loss[~known if K < M else known].mean(axis=0)))
"""


def shell(knobs: Knobs) -> str:
    m, k = knobs.domains, min(knobs.trained, knobs.domains)
    if knobs.weights == "random" and m > 2:
        counts = " ".join(str(each) for each in range(1, m))
        return f"festina run race/generalisation --domains {m} --trained {counts}"
    return f"festina run race/abstraction --contest {m} {k} --starts {knobs.strength:.3g} 1"


@lru_cache(maxsize=1)
def _modes() -> tuple[np.ndarray, np.ndarray, np.ndarray]:
    """Return the singular vectors and values of the items' features, with modes as columns."""
    u, s, v = np.linalg.svd(nested_tree_features(1), full_matrices=False)
    return u, s, v.T


def _singular_values() -> np.ndarray:
    return _modes()[1]


def _pairs(knobs: Knobs) -> np.ndarray:
    """Return a mask of the trained pairs, `(input domain, output domain)`."""
    return cyclic_domain_pairs(knobs.domains, min(knobs.trained, knobs.domains))


def _all_trained(knobs: Knobs) -> bool:
    return knobs.trained >= knobs.domains


def _race(knobs: Knobs) -> tuple[np.ndarray, np.ndarray, np.ndarray]:
    r"""Return times, and the strengths of trunk and dedicated pathways, `(time, mode)`.

    From balanced weights of strength c = π^(1/3), every path obeys ċ = r c² E, with the rate r of
    its kind and the common error E = (s − Σπ)/n of the mode. With the clock dθ = E dt, the paths
    decouple: 1/c = 1/c₀ − rθ. The time is the integral of dθ/E.
    """
    m, k = knobs.domains, min(knobs.trained, knobs.domains)
    start = knobs.strength * np.array([1.0, knobs.head])
    rate = np.array([m ** (-2 / 3), 1 / (m * k)])[start > 0]
    start = start[start > 0]
    strength = lambda theta: (1 / start - rate * np.asarray(theta)[..., None]) ** -3.0
    found = []
    for s in _singular_values():
        most = float(np.min(1 / (start * rate)))
        left = lambda theta, s=s: strength(theta).sum() - s
        end = float(root_scalar(left, bracket=(0.0, most * (1 - 1e-12)), xtol=1e-14).root)
        # θ = end·(1 − e^(−z)): the error decays as e^(−z) after learning.
        slope = float(3 * np.sum(rate * strength(end) ** (4 / 3)))
        z = np.linspace(0.0, np.log(slope * end / (_LEARNED * s)), _FINE)
        pi = strength(end * -np.expm1(-z))
        pace = _ITEMS * end * np.exp(-z) / (s - pi.sum(axis=1))
        found.append((z, cumulative_simpson(pace, x=z, initial=0.0), pace, pi, end))
    z, clock, _, pi, _ = found[-1]
    nearly = np.interp(0.95 * _singular_values()[-1], pi.sum(axis=1), clock)
    times = np.linspace(0.0, _LENGTH * nearly, _TIMES)
    learned = np.zeros((2, _TIMES, len(found)))
    for mode, (z, clock, pace, _, end) in enumerate(found):
        at = CubicHermiteSpline(clock, z, 1 / pace)(np.minimum(times, clock[-1]))
        pi = strength(end * -np.expm1(-at))
        learned[: len(start), :, mode] = pi.T
    return times, learned[0], learned[1]


_LENGTH = 1.5  # length of the time axis, in times until 95 % of the last mode are learned
_LARGER = 2.3  # norm of random weights over decoupled ones, so that they learn about as early
_LEARNED, _FINE = 1e-7, 1001  # unlearned fraction at the end of a curve, and points of a curve


@lru_cache(maxsize=1)
def _everything() -> Task:
    return domain_routing(_MOST, items=nested_tree_features(1))


@lru_cache(maxsize=_MOST**2)
def _task_of(domains: int, trained: int) -> Task:
    """Return the task with `_MOST` domains, in which untrained pairs have nearly no weight."""
    data, known = _everything(), np.zeros((_MOST, _MOST), bool)
    known[:domains, :domains] = cyclic_domain_pairs(domains, trained)
    known = known[data.labels["input_domain"], data.labels["output_domain"]]
    return from_arrays(data.x, data.y, weight=np.where(known, 1.0, _UNKNOWN))


@lru_cache(maxsize=1)
def _graph() -> Gated:
    """Return a network with zero weights: the trunk s1-s2, and a pathway a-b for each pair.

    All dedicated pathways are connected with each other, so that the compiled program has a few
    large matrices. Gates open one pathway per example: surplus connections have no effect.
    """
    data = _everything()
    source, target = data.labels["input_domain"], data.labels["output_domain"]
    own = [[f"{letter}{pair}" for pair in range(_MOST**2)] for letter in "ab"]
    ends = [f"y{domain}" for domain in range(_MOST)]
    chains = [["x"], ["s1"], ["s2"], ends], [["x"], *own, ends]
    width = {"x": _MOST * _ITEMS, "s": _WIDTH, "a": _ITEMS, "b": _ITEMS, "y": len(_modes()[0])}
    edges = {
        f"{p}-{q}": np.zeros((width[q[0]], width[p[0]]))
        for chain in chains
        for before, after in itertools.pairwise(chain)
        for p in before
        for q in after
    }
    gates = {node: target == domain for domain, node in enumerate(ends)}
    for nodes in own:
        gates |= {node: _MOST * source + target == pair for pair, node in enumerate(nodes)}
    return gated_from(edges, gates=gates, x=data.x, inputs={"x": range(width["x"])})


def _network(knobs: Knobs) -> Gated:
    """Return networks with balanced decoupled weights, or with random weights."""
    (u, _, v), b, m = _modes(), knobs.strength, knobs.domains
    own, root = b * knobs.head, _MOST**0.5
    ends = b * m ** (-1 / 6)
    size = {"xs": root * ends, "ss": b * m ** (1 / 3), "sy": ends}
    size |= {"xa": root * own, "ab": own, "by": own}
    graph = _graph()
    frames = {"x": np.tile(v, (_MOST, 1)) / root, **{f"y{j}": u for j in range(_MOST)}}
    strength = {e: size[e[0] + e.split("-")[1][0]] for e in graph.part_axes}
    network = with_decoupled_weights(graph, frames, initial_strength=strength)
    if knobs.weights == "decoupled":
        return network.with_parts(*(np.stack(_SEEDS * [w]) for w in network.parts))
    rng = np.random.default_rng(0)
    size = lambda w: _LARGER * (w**2).mean() ** 0.5
    draws = (size(w) * rng.standard_normal((_SEEDS, *w.shape)) for w in network.parts)
    return network.with_parts(*draws)


def _squares(values: np.ndarray) -> dict[str, np.ndarray]:
    """Return the cells of matrices `(time, row, column)`, numbered from 1."""
    row, column = (each.ravel() + 1.0 for each in np.indices(values.shape[1:]))
    flat = values.reshape(len(values), -1)
    return {"x": column + 0 * flat, "y": row + 0 * flat, "value": flat}
