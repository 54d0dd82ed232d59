"""Networks that learn to tell two digits apart, in mini-batches, and what is noted on the way.

A wide network's weights are too many to keep at every moment. What is kept of each is its loss and
the leading singular values of its first layer; the weights themselves only until it is known where
the plateau was.
"""

from collections.abc import Callable, Iterator
from typing import NamedTuple

import jax
import jax.numpy as jnp
import numpy as np
from jaxtyping import Float, Int, PRNGKeyArray

from ...._objective import Data, excess_loss
from ...._types import Array
from ....dynamics._minibatch import Epochs, take_steps
from ....networks import Layer
from ....tasks import Task

_OFTEN = 75  # notes before they become rare
_LEADING = 3
_SWEEPS = 6  # of the subspace iteration: what leads does so by orders of magnitude
_SPARE = 5  # further directions, which make it converge


class Lesson(NamedTuple):
    """One network's training.

    - `step`: when the samples below were taken.
    - `loss`: ⟨‖y − f‖²⟩ over the images that training is judged by.
    - `singular_value`: the leading ones of U.
    - `networks`: the network itself at the same steps, in single precision.
    """

    step: Int[np.ndarray, " save"]
    loss: Float[np.ndarray, " save"]
    singular_value: Float[np.ndarray, "save rank"]
    networks: list[Layer]


def moments_to_note(steps: int, every: int) -> Int[np.ndarray, " save"]:
    """Often while the loss falls step by step, ten times more rarely later."""
    dense = np.arange(0, min(steps, _OFTEN * every), every)
    sparse = np.arange(len(dense) * every, steps, 10 * every)
    return np.concatenate((dense, sparse, [steps]))


def teach(
    network: Layer,
    task: Task,
    judged: Task,
    *,
    learning_rate: float,
    batch_size: int,
    steps: int,
    every: int,
    key: PRNGKeyArray,
    progress: Callable[[float], None],
) -> Lesson:
    """Train one network on ⟨‖y − f‖²⟩ over mini-batches of shuffled epochs.

    **Arguments:**

    - `judged`: the samples that the loss is taken over; all of them would take most of the time.
    - `every`: steps between two notes at first; see `moments_to_note`.
    - `key`: of the shuffling.
    """
    moments = moments_to_note(steps, every)
    losses, values, networks = [], [], []
    basis = np.random.default_rng(0).normal(size=(task.input_shape[0], _LEADING + _SPARE))
    walk = _walk(network, task, learning_rate, batch_size, moments, key)
    structure = network.structure
    data = Data(jnp.asarray(judged.x), jnp.asarray(judged.y), 2.0 * judged.weight)
    for step, weights in zip(moments, walk, strict=True):
        losses.append(float(_loss(structure, weights, data)[0]))
        taught = network.with_parts(*(part[0] for part in structure.arrays(np.asarray(weights))))
        found, basis = _leading(np.asarray(taught.u), basis)
        values.append(found)
        networks.append(taught.with_parts(*(np.asarray(part, np.float32) for part in taught.parts)))
        progress(step / steps)
    return Lesson(moments, np.array(losses), np.array(values), networks)


def _walk(
    network: Layer,
    task: Task,
    learning_rate: float,
    batch_size: int,
    moments: Int[np.ndarray, " save"],
    key: PRNGKeyArray,
) -> Iterator[Float[Array, "weight 1"]]:
    """The weights, as a column, at each of the moments."""
    structure = network.structure
    weights = structure.columns(*network.parts)
    psi, y = jnp.asarray(task.x), jnp.asarray(task.y)
    seed = int(jax.random.bits(key, dtype=jnp.uint32))
    epochs = Epochs(np.random.default_rng(seed), len(task.x), batch_size)
    rates = np.array([learning_rate])
    at_once = int(np.diff(moments).min())
    yield weights
    for count in np.diff(moments):
        for start in range(0, count, at_once):  # always as many, so that it is compiled once
            indices = epochs.take(min(at_once, count - start))[None]
            weights, _ = take_steps(structure, weights, indices, rates, psi, y, 2.0 / batch_size)
        yield weights


_loss = jax.jit(excess_loss, static_argnums=0)


def _leading(
    u: Float[np.ndarray, "unit input"], basis: Float[np.ndarray, "input trial"]
) -> tuple[Float[np.ndarray, " rank"], Float[np.ndarray, "input trial"]]:
    """The largest singular values, and the directions to start from next time."""
    for _ in range(_SWEEPS):
        basis, _ = np.linalg.qr(u.T @ (u @ basis))
    return np.linalg.svd(u @ basis, compute_uv=False)[:_LEADING], basis
