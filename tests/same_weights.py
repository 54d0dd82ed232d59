"""Initial weights of an independent implementation, to compare its numbers exactly.

The implementation is plain gradient descent in NumPy and float64. Its weights are standard normal
numbers of `default_rng(seed)` times the scale, drawn array by array. The order is v, u in networks
of two layers, v, k, q in heads, and from the first layer on in deep networks, with heads as k, q,
v. From the same weights all printed digits agree, except levels of weak plateaus. From other seeds
numbers agree only on average.
"""

from collections.abc import Iterable

import numpy as np

import festina
from festina.diagnose import Plateaus, plateaus
from festina.networks import AbstractUnit, Layer, layer_from
from festina.tasks import Task, from_arrays


def drawn(seeds: Iterable[int], *shapes: tuple[int, ...], scale: float) -> list[np.ndarray]:
    """Return one array `(seed, *shape)` per shape, drawn in the order of `shapes`."""
    streams = [np.random.default_rng(seed) for seed in seeds]
    return [
        scale * np.stack([stream.standard_normal(shape) for stream in streams]) for shape in shapes
    ]


def two_layers(seeds: Iterable[int], like: Layer, scale: float) -> Layer:
    """Return a network with the unit and shapes of `like`, with v drawn before u."""
    v, u = drawn(seeds, like.v.shape[1:], like.u.shape[1:], scale=scale)
    return layer_from(like.unit, u, v)


def heads(seeds: Iterable[int], unit: AbstractUnit, count: int, size: int, scale: float) -> Layer:
    """Return heads of rank one for embeddings of `size`, with v, k, q drawn in this order."""
    v, k, q = drawn(seeds, *((count, size),) * 3, scale=scale)
    return layer_from(unit, np.stack([k, q], axis=2)[:, :, :, None], v[:, :, None])


def seen(run: festina.dynamics.Trajectory) -> list[Plateaus]:
    """Return the plateaus of each seed."""
    lanes = [run.lane(seed) for seed in range(len(run.loss))]
    return [plateaus(lane.time, lane.loss, lane.squared_gradient) for lane in lanes]


def sequences() -> Task:
    """Return the data of Figures 4A and 5E: 32 labelled tokens, and a query without its label."""
    shapes = (8192, 32, 2), (8192, 2), (8192, 2)
    tokens, query, w = (part[0] for part in drawn([7], *shapes, scale=1.0))
    labels = np.einsum("pnd,pd->pn", tokens, w)
    context = np.concatenate([tokens, labels[..., None]], axis=2)
    x = np.concatenate([context, np.pad(query, ((0, 0), (0, 1)))[:, None]], axis=1)
    return from_arrays(x.transpose(0, 2, 1), np.sum(query * w, axis=1)[:, None])
