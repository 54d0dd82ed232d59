"""Progressive differentiation: a hierarchy of items is learned from the top."""

from collections.abc import Iterator
from functools import lru_cache
from typing import Literal

import jax
import numpy as np
from bokeh.plotting import figure

from ...diagnose import passage_time
from ...dynamics import gradient_flow
from ...networks import DeepLinear, decoupled, deep_linear
from ...tasks import Task, structured_task
from ...tasks.worlds import World, tree
from ...theory.linear import (
    Modes,
    coupled_mode_strengths,
    differentiation_times,
    initial_mode_overlaps,
    mode_strengths,
    modes,
)
from .._plots import COLOURS, curves, dots, heat, paths, plot, words
from .._scene import Numbers, Progress, SceneKnobs, choice, slider

COMPARED = "the learned fraction of each level"
_NETWORKS, _TIMES, _HIDDEN, _DEEPEST = 3, 121, 16, 4
_ITEMS = ("canary", "robin", "salmon", "sunfish", "daisy", "rose", "oak", "pine")
_LEVELS = ("all items", "animals or plants", "bird or fish, …", "canary or robin, …")


class Knobs(SceneKnobs):
    depth: int = slider("layers of weights D", 2, 1, _DEEPEST)
    strength: float = slider("initial strength a₀", 1e-3, 1e-4, 2e-2, log=True)
    flip: float = slider("probability of a change along a branch", 0.1, 0.05, 0.4, step=0.01)
    weights: Literal["decoupled", "random"] = choice("initial weights", "random")


WARM = [Knobs(depth=depth) for depth in range(_DEEPEST, 0, -1)]


def plots() -> list[figure]:
    """Return the plots: levels over time, similarity of items, items in a plane."""
    levels = plot("Levels of the tree", "time t/τ", "learned fraction a/s", time=True)
    for number in range(_NETWORKS):
        curves(levels, f"levels{number}", columns=_LEVELS, legend=() if number else _LEVELS)
    levels.legend.location = "bottom_right"
    similar = plot("Similarity of outputs (red: similar)", "above the diagonal: theory", "")
    heat(similar, "similarity", len(_ITEMS), seed="theory", half="upper")
    heat(similar, "similarity", len(_ITEMS), half="lower")
    for axis, up in ((similar.xaxis, True), (similar.yaxis, False)):
        axis.ticker = list(range(len(_ITEMS)))
        names = _ITEMS if up else _ITEMS[::-1]
        axis.major_label_overrides = dict(enumerate(names))
    similar.xaxis.major_label_orientation = "vertical"
    plane = plot("Items move apart", "plants ← → animals", "birds, flowers ← → fish, trees")
    for axis, room in ((plane.x_range, 0.3), (plane.y_range, 0.5)):
        axis.update(range_padding=room)
    paths(plane, "paths", len(_ITEMS), colour=COLOURS[5])
    paths(plane, "paths", len(_ITEMS), seed="theory")
    dots(plane, "items", colour=COLOURS[5], size=11)
    dots(plane, "items", seed="theory", size=8)
    words(plane, "items", _ITEMS)
    return [levels, similar, plane]


def theory(knobs: Knobs) -> Numbers:
    """Return predictions from the strengths of all modes, decoupled or coupled."""
    times, network = _times(knobs), _network(knobs)
    data = _modes(knobs.flip)
    u, v, s = (np.asarray(each) for each in (data.left, data.right, data.singular_values))
    if knobs.depth == 2 and knobs.weights == "random":
        first, second = network.weights
        overlaps = initial_mode_overlaps(first, second, u, v)
        strengths = coupled_mode_strengths(times, overlaps, s)
    else:
        initial = np.full((1, len(s)), knobs.strength)
        if knobs.depth == 1:
            initial = np.einsum("om,noi,im->nm", u, network.end_to_end(), v)
        chains = [mode_strengths(times, data, each, depth=knobs.depth) for each in initial]
        strengths = np.stack(chains)[..., None] * np.eye(len(s))
    maps = np.broadcast_to(u @ strengths @ v.T, (_NETWORKS, _TIMES, len(u), len(v)))
    return _numbers(knobs, times, maps, np.triu_indices(len(_ITEMS), 1))


def train(knobs: Knobs, progress: Progress) -> Iterator[Numbers]:
    """Train three networks on one-hot items and their features."""
    times, network = _times(knobs), _network(knobs)
    flow = gradient_flow(
        network, _task(knobs.flip), times, loss="half-sum", rtol=1e-7, progress=progress
    )
    maps = np.asarray(flow.network.end_to_end())
    yield _numbers(knobs, times, maps, np.tril_indices(len(_ITEMS)))


def allowed(knobs: Knobs) -> float | None:
    if knobs.weights == "decoupled" or knobs.depth == 1:
        return 2e-5
    # The theory of coupled modes neglects second orders of the initial weights, which are ∝ a₀.
    return 5 * knobs.strength if knobs.depth == 2 else None


def notice(knobs: Knobs, theory: Numbers) -> str:
    levels = theory.compared.mean(axis=0)[1:]
    broad, middle, fine = (float(passage_time(_times(knobs), -each, -0.5)) for each in levels)
    told = f"animals from plants at t/τ = {broad:.2g}, birds from fish at {middle:.2g}"
    if knobs.depth == 1:
        return (
            "A shallow network learns all distinctions at once: animals from plants, birds from "
            f"fish and canary from robin are half learned at t/τ = {fine:.2g}. Add a layer to see "
            "one level after the other."
        )
    if allowed(knobs) is None:
        return (
            f"Dashed curves are for decoupled modes of initial strength a₀: they tell {told}, "
            f"canary from robin at {fine:.2g}. Random weights of {knobs.depth} layers have no "
            "closed form: their modes start at other strengths and share hidden units."
        )
    if fine < 1.2 * broad:
        return (
            f"Features change along {100 * knobs.flip:.2g} % of the branches, so there is hardly "
            f"a hierarchy: animals and plants are told apart at t/τ = {broad:.2g}, canary and "
            f"robin at {fine:.2g}. Lower this probability for a stronger hierarchy."
        )
    return (
        f"Broad distinctions first: the network tells {told}, canary from robin at {fine:.2g}. A "
        "broad distinction explains more of the features, so its mode has the larger singular "
        "value and grows faster."
    )


def python(knobs: Knobs) -> str:
    depth, random = knobs.depth, knobs.weights == "random"
    initial = (
        f"""\
scale = (strength / {_HIDDEN} ** ((depth - 1) / 2)) ** (1 / depth)
keys = jax.random.split(jax.random.key(0), {_NETWORKS})
networks = festina.networks.deep_linear((8, *hidden, 8), scale=scale, key=keys)"""
        if random
        else f"""\
initial = np.full(({_NETWORKS}, 8), strength)
networks = festina.networks.decoupled(u, v, hidden, initial_strength=initial)"""
    )
    chains = """\
exact = np.stack([linear.mode_strengths(times, data, a, depth=depth).T for a in initial])"""
    exact = chains
    if random and depth == 1:
        exact = f'initial = np.einsum("om,noi,im->nm", u, networks.end_to_end(), v)\n{chains}'
    elif random and depth == 2:
        exact = """\
overlaps = linear.initial_mode_overlaps(*networks.weights, u, v)
coupled = linear.coupled_mode_strengths(times, overlaps, s)
exact = np.einsum("ntmm->nmt", coupled)"""
    elif random:
        exact = f"initial = np.full(({_NETWORKS}, 8), strength)  # decoupled modes\n{chains}"
    return f"""\
import jax
import numpy as np
import festina
from festina.theory import linear

depth, strength, hidden = {depth}, {knobs.strength}, {(_HIDDEN,) * (depth - 1)}
world = festina.tasks.worlds.tree((2, 2, 2), {knobs.flip})
task = festina.tasks.structured_task(world.exact_features(8))
data = linear.modes(task, loss="half-sum")
u, s, v = data.left, data.singular_values, data.right
{initial}

times = {_end(knobs)} * np.linspace(0, 1, {_TIMES})
{exact}
run = festina.gradient_flow(networks, task, times, loss="half-sum", rtol=1e-7)
trained = np.einsum("om,ntoi,im->nmt", u, run.network.end_to_end(), v)
levels = [world.kind == level for level in range(4)]
predicted, measured = (
    np.stack([(a / s[:, None])[:, level].mean(axis=1) for level in levels], axis=1)
    for a in (exact, trained)
)
"""


def shell(knobs: Knobs) -> str:
    flags = f"--flip {knobs.flip} --initial-strength {knobs.strength}"
    return f"festina run linear/differentiation {flags}"


def _numbers(
    knobs: Knobs, times: np.ndarray, maps: np.ndarray, cells: tuple[np.ndarray, np.ndarray]
) -> Numbers:
    """Return levels of every network, and similarity and positions of items in the first one."""
    learned, first = _levels(knobs, maps), maps[0]
    data = _modes(knobs.flip)
    similarity = first.swapaxes(1, 2) @ first / len(data.left)
    x, y = np.moveaxis(_plane(_world(knobs.flip)).T @ data.right @ data.left.T @ first, 1, 0)
    columns = {
        f"levels{number}": {"x": times} | dict(zip(_LEVELS, each, strict=True))
        for number, each in enumerate(learned)
    }
    way = {
        f"{axis}{k}": each[:, k] for axis, each in (("x", x), ("y", y)) for k in range(len(x[0]))
    }
    frames = {"similarity": {"value": similarity[:, cells[0], cells[1]]}, "items": {"x": x, "y": y}}
    return Numbers(learned, columns | {"paths": way}, frames, times)


def _levels(knobs: Knobs, maps: np.ndarray) -> np.ndarray:
    """Return the learned fraction a/s of each level, `(network, level, time)`."""
    data, level = _modes(knobs.flip), _world(knobs.flip).kind
    parts = np.einsum("om,ntoi,im->nmt", data.left, maps, data.right, optimize=True)
    parts /= np.asarray(data.singular_values)[:, None]
    return np.stack([parts[:, level == k].mean(axis=1) for k in range(len(_LEVELS))], axis=1)


def _plane(world: World) -> np.ndarray:
    """Return a position in the plane for each item: levels 1 and 3 along x, level 2 along y."""
    one, two, three = 1.0 - 2 * (world.groups[1:] % 2)
    return np.stack([2 * one + three, two], axis=1)


@lru_cache(8)
def _world(flip: float) -> World:
    return tree((2, 2, 2), flip)


def _task(flip: float) -> Task:
    return structured_task(_world(flip).exact_features(len(_ITEMS)))


@lru_cache(8)
def _modes(flip: float) -> Modes:
    return modes(_task(flip), loss="half-sum")


def _network(knobs: Knobs) -> DeepLinear:
    items, depth = len(_ITEMS), knobs.depth
    hidden = (_HIDDEN,) * (depth - 1)
    if knobs.weights == "random":
        # The initial map has entries with standard deviation a₀.
        scale = (knobs.strength / _HIDDEN ** ((depth - 1) / 2)) ** (1 / depth)
        keys = jax.random.split(jax.random.key(0), _NETWORKS)
        return deep_linear((items, *hidden, items), scale=scale, key=keys)
    data, initial = _modes(knobs.flip), np.full((_NETWORKS, items), knobs.strength)
    return decoupled(data.left, data.right, hidden, initial_strength=initial)


def _end(knobs: Knobs) -> float:
    """Return a time at which the finest level is learned, to two digits."""
    last = differentiation_times(
        _world(knobs.flip),
        features=len(_ITEMS),
        initial_strength=knobs.strength,
        depth=knobs.depth,
    )[-1]
    later = 1.5 if allowed(knobs) is not None else 2.0  # random weights learn at various times
    return float(f"{later * last + 1:.2g}")


def _times(knobs: Knobs) -> np.ndarray:
    return _end(knobs) * np.linspace(0, 1, _TIMES)
