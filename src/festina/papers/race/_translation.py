"""Networks that translate between domains, with one shared trunk or one pathway per pair."""

import itertools
from collections.abc import Sequence

import numpy as np
from jaxtyping import Float

from ..._numerics._integrate import integrate
from ..._types import Keys
from ...networks import Gated, gated_from
from ...networks._build import normals
from ...tasks import Task

Frames = dict[str, Float[np.ndarray, "_ mode"]]
Rates = tuple[float, float, float]


def pairs_of(task: Task) -> list[tuple[int, int]]:
    """Return the sorted pairs (input domain, output domain) of a task."""
    labels = task.labels["input_domain"], task.labels["output_domain"]
    return sorted({(int(i), int(j)) for i, j in zip(*labels, strict=True)})


def chain(way: str, i: int, j: int) -> str:
    """Return the path from domain i to domain j as a chain of node names.

    `way` is "shared" (one trunk for all pairs), "half" (encoder and trunk of input domain i) or
    "dedicated" (a pathway for this pair alone).
    """
    own = {"shared": "", "half": f"{i}", "dedicated": f"{i}.{j}"}[way]
    return f"x{i}-{way}_in{own}-{way}_out{own}-y{j}"


def translator(
    task: Task, everything: Task, ways: Sequence[str] = ("shared",), width: int | None = None
) -> Gated:
    """Return a network with zero weights that has the paths of every kind in `ways`.

    The gates of outputs cover all pairs of domains, also untrained ones.
    """
    pairs, domains = pairs_of(task), 1 + max(pairs_of(everything))[0]
    target = everything.labels["output_domain"]
    items = len(np.unique(everything.labels["item"]))
    features = everything.outputs // domains
    every = list(itertools.product(range(domains), repeat=2))
    chains = [chain(way, i, j) for way in ways for i, j in (every if way == "shared" else pairs)]
    size = lambda name: {"x": items, "y": features}.get(name[0], width or items)
    edges = dict.fromkeys(edge for path in chains for edge in itertools.pairwise(path.split("-")))
    last = lambda edge: int(edge[1][1:]) if edge[1][0] == "y" else -1  # outputs last, in order
    return gated_from(
        {f"{a}-{b}": np.zeros((size(b), size(a))) for a, b in sorted(edges, key=last)},
        gates={f"y{j}": target == j for j in range(domains)},
        x=everything.x,
        inputs={f"x{i}": range(items * i, items * (i + 1)) for i in range(domains)},
    )


def with_random_weights(network: Gated, scales: Sequence[float], keys: Keys) -> Gated:
    """Return networks with a shared trunk and weights from N(0, scale²), `(scale, seed)`."""
    edges, shapes = network.plan.edges, network.plan.shapes
    alike = {"x": "encoder", "y": "decoder"}
    kinds = [alike.get(a[0]) or alike.get(b[0], "trunk") for a, b in edges]
    # One draw for all encoders and one for all decoders, because each draw is compiled.
    names = sorted(set(kinds))
    drawn = normals(keys, tuple((kinds.count(k), *shapes[kinds.index(k)]) for k in names))
    draws = {k: iter(np.moveaxis(each, 1, 0)) for k, each in zip(names, drawn, strict=True)}
    return network.with_parts(*(np.multiply.outer(scales, next(draws[k])) for k in kinds))


def basis(everything: Task) -> tuple[Frames, Float[np.ndarray, " mode"]]:
    """Return the directions of every domain in a common basis, and the features' singular values.

    The common basis needs the data of all pairs. Data of trained pairs may not determine signs and
    rotations of the domains relative to each other.
    """
    source, target = everything.labels["input_domain"], everything.labels["output_domain"]
    domains, items = 1 + int(source.max()), 1 + int(everything.labels["item"].max())
    x = [everything.x[(source == i) & (target == 0)] for i in range(domains)]
    y = [everything.y[(source == 0) & (target == j)] for j in range(domains)]
    features = everything.outputs // domains
    x = [each[:, items * i : items * (i + 1)] for i, each in enumerate(x)]
    y = [each[:, features * j : features * (j + 1)] for j, each in enumerate(y)]
    _, s, modes = np.linalg.svd(y[0].T, full_matrices=False)
    frames = {f"x{i}": each.T @ modes.T for i, each in enumerate(x)}
    return frames | {f"y{j}": each.T @ modes.T / s for j, each in enumerate(y)}, s


def strengths(
    network: Gated, frames: Frames, paths: Sequence[str]
) -> Float[np.ndarray, "path *batch mode"]:
    """Return the strength of each mode along each path, computed from the weights of a network."""
    weights = dict(zip(network.part_axes, map(np.asarray, network.parts), strict=True))
    found = []
    for path in paths:
        first, *_, last = path.split("-")
        along = frames[first]
        for edge in itertools.pairwise(path.split("-")):
            along = weights["-".join(edge)] @ along
        found.append(np.sum(frames[last] * along, axis=-2))
    return np.stack(found)


def rates(way: str, domains: int, trained: int) -> Rates:
    """Return the fraction of trained pairs that use each edge of a path: encoder, trunk, decoder.

    The gradient of an edge is a sum over the pairs that use this edge.
    """
    m, p = 1 / domains, 1 / (domains * trained)
    return {"shared": (m, 1.0, m), "half": (m, m, p), "dedicated": (p, p, p)}[way]


def three_numbers(
    times: Float[np.ndarray, " time"],
    ways: Sequence[Rates],
    start: float,
    s: Float[np.ndarray, " mode"],
    d: float,
) -> Float[np.ndarray, "time way edge mode"]:
    r"""Solve for the strengths of encoder, trunk and decoder of every mode, for each kind of path.

    The equations are $\dot b_e = r_e\,(b_1b_2b_3/b_e)\,[S - D\sum_w b_1b_2b_3]$, with the rates
    $r_e$ of the edges and a sum over the kinds $w$ of paths. By symmetry all domains are alike, and
    so are all pathways of a kind (Saxe, Sodhani & Lewallen 2022).
    """
    r, shape = np.array(ways)[:, :, None], (len(ways), 3, len(s))

    def velocity(_: float, b: np.ndarray) -> np.ndarray:
        others = np.stack((b[:, 1] * b[:, 2], b[:, 0] * b[:, 2], b[:, 0] * b[:, 1]), axis=1)
        return r * others * (s - d * b.prod(axis=1).sum(axis=0))

    how = {"method": "RK45", "rtol": 1e-12, "atol": 1e-12 * start}
    return integrate(velocity, times, np.full(shape, start), **how)
