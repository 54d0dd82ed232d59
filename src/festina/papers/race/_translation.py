"""Networks that translate between domains: one trunk for all pairs, or pathways of their own."""

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
    """Input and output domain of every pair that a task has."""
    labels = task.labels["input_domain"], task.labels["output_domain"]
    return sorted({(int(i), int(j)) for i, j in zip(*labels, strict=True)})


def chain(way: str, i: int, j: int) -> str:
    """The path from domain i to domain j: through a trunk that all share, half of it, or alone."""
    own = {"shared": "", "half": f"{i}", "dedicated": f"{i}.{j}"}[way]
    return f"x{i}-{way}_in{own}-{way}_out{own}-y{j}"


def translator(
    task: Task, everything: Task, ways: Sequence[str] = ("shared",), width: int | None = None
) -> Gated:
    """Such a network with weights of zero; gates of outputs are known for all pairs."""
    pairs, domains = pairs_of(task), 1 + max(pairs_of(everything))[0]
    target = everything.labels["output_domain"]
    items = len(np.unique(everything.labels["item"]))
    features = everything.outputs // domains
    every = list(itertools.product(range(domains), repeat=2))
    chains = [chain(way, i, j) for way in ways for i, j in (every if way == "shared" else pairs)]
    size = lambda name: {"x": items, "y": features}.get(name[0], width or items)
    edges = dict.fromkeys(edge for path in chains for edge in itertools.pairwise(path.split("-")))
    last = lambda edge: int(edge[1][1:]) if edge[1][0] == "y" else -1  # outputs in their order
    return gated_from(
        {f"{a}-{b}": np.zeros((size(b), size(a))) for a, b in sorted(edges, key=last)},
        gates={f"y{j}": target == j for j in range(domains)},
        x=everything.x,
        inputs={f"x{i}": range(items * i, items * (i + 1)) for i in range(domains)},
    )


def with_random_weights(network: Gated, scales: Sequence[float], keys: Keys) -> Gated:
    """A shared trunk with weights from N(0, scale²), `(scale, seed)`."""
    edges, shapes = network.plan.edges, network.plan.shapes
    alike = {"x": "encoder", "y": "decoder"}
    kinds = [alike.get(a[0]) or alike.get(b[0], "trunk") for a, b in edges]
    # All encoders by one draw, and all decoders: every other draw would be compiled.
    names = sorted(set(kinds))
    drawn = normals(keys, tuple((kinds.count(k), *shapes[kinds.index(k)]) for k in names))
    draws = {k: iter(np.moveaxis(each, 1, 0)) for k, each in zip(names, drawn, strict=True)}
    return network.with_parts(*(np.multiply.outer(scales, next(draws[k])) for k in kinds))


def basis(everything: Task) -> tuple[Frames, Float[np.ndarray, " mode"]]:
    """The directions of every domain in a basis common to all, and the singular values of H.

    That is what data of all pairs know: those of trained pairs may leave signs and rotations of
    domains against each other free.
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
    """How much of each mode the given paths say, read off the weights of a network."""
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
    """How often the edges of a path are used, as a share of all pairs.

    An edge that several pairs share is pulled by each of them: a trunk by all.
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
    r"""Encoder, trunk and decoder of every mode, as three numbers for each way to route it.

    $\dot b_e = r_e\,(b_1b_2b_3/b_e)\,[S - D\sum_w b_1b_2b_3]$ with the rates r of the edges: by
    symmetry domains are alike, and so are all pathways of a kind. (Saxe, Sodhani & Lewallen 2022.)
    """
    r, shape = np.array(ways)[:, :, None], (len(ways), 3, len(s))

    def velocity(_: float, b: np.ndarray) -> np.ndarray:
        others = np.stack((b[:, 1] * b[:, 2], b[:, 0] * b[:, 2], b[:, 0] * b[:, 1]), axis=1)
        return r * others * (s - d * b.prod(axis=1).sum(axis=0))

    how = {"method": "RK45", "rtol": 1e-12, "atol": 1e-12 * start}
    return integrate(velocity, times, np.full(shape, start), **how)
