"""Initial weights of an independent implementation, so that its numbers can be asked for exactly.

It is plain gradient descent in NumPy and float64. Weights are standard normal numbers of
`default_rng(seed)` times the scale, an array at a time: readouts v before u, heads as v, k, q, deep
networks from the first layer on, where heads are k, q, v. From the same weights numbers agree to
the digits that it prints, but for levels of plateaus that are hardly ones; from other seeds only on
average.
"""

from collections.abc import Iterable

import numpy as np

import festina
from festina.diagnose import Plateaus, plateaus
from festina.networks import AbstractUnit, Layer, layer_from
from festina.tasks import Task, from_arrays


def drawn(seeds: Iterable[int], *shapes: tuple[int, ...], scale: float) -> list[np.ndarray]:
    """One array `(seed, *shape)` for each shape, drawn in this order."""
    streams = [np.random.default_rng(seed) for seed in seeds]
    return [
        scale * np.stack([stream.standard_normal(shape) for stream in streams]) for shape in shapes
    ]


def two_layers(seeds: Iterable[int], like: Layer, scale: float) -> Layer:
    """A network of the same unit and shapes, with v drawn before u."""
    v, u = drawn(seeds, like.v.shape[1:], like.u.shape[1:], scale=scale)
    return layer_from(like.unit, u, v)


def heads(seeds: Iterable[int], unit: AbstractUnit, count: int, size: int, scale: float) -> Layer:
    """Heads of rank one, of embeddings of `size`, with v, k, q drawn one after the other."""
    v, k, q = drawn(seeds, *((count, size),) * 3, scale=scale)
    return layer_from(unit, np.stack([k, q], axis=2)[:, :, :, None], v[:, :, None])


def seen(run: festina.dynamics.Trajectory) -> list[Plateaus]:
    """The plateaus of each seed."""
    lanes = [run.lane(seed) for seed in range(len(run.loss))]
    return [plateaus(lane.time, lane.loss, lane.squared_gradient) for lane in lanes]


def sequences() -> Task:
    """The data set of Figures 4A and 5E: 32 labelled tokens, and a query without its label."""
    shapes = (8192, 32, 2), (8192, 2), (8192, 2)
    tokens, query, w = (part[0] for part in drawn([7], *shapes, scale=1.0))
    labels = np.einsum("pnd,pd->pn", tokens, w)
    context = np.concatenate([tokens, labels[..., None]], axis=2)
    x = np.concatenate([context, np.pad(query, ((0, 0), (0, 1)))[:, None]], axis=1)
    return from_arrays(x.transpose(0, 2, 1), np.sum(query * w, axis=1)[:, None])
