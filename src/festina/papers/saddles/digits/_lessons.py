"""Train networks to distinguish two digits in mini-batches, and record their progress.

The weights of a wide network are too many to save at every step. Each network's loss and the
leading singular values of its first layer are saved. All weights are kept in memory until the
plateau is located.
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

_OFTEN = 75  # number of records before they become rarer
_LEADING = 3
_SWEEPS = 6  # of subspace iteration; leading singular values are well separated
_SPARE = 5  # additional directions for faster convergence


class Lesson(NamedTuple):
    """Record of one network's training.

    - `step`: steps at which all other fields are recorded.
    - `loss`: ⟨‖y − f‖²⟩ over the evaluation images.
    - `singular_value`: leading singular values of the first-layer weights U.
    - `networks`: the network at the same steps, in single precision.
    """

    step: Int[np.ndarray, " save"]
    loss: Float[np.ndarray, " save"]
    singular_value: Float[np.ndarray, "save rank"]
    networks: list[Layer]


def moments_to_note(steps: int, every: int) -> Int[np.ndarray, " save"]:
    """Return the steps to record: at first every `every` steps, later ten times more rarely."""
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

    - `judged`: images over which the loss is recorded, fewer than all images to save time.
    - `every`: number of steps between early records; see `moments_to_note`.
    - `key`: random key of the shuffling.
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
    """Yield the weights, as a column, at each recorded step."""
    structure = network.structure
    weights = structure.columns(*network.parts)
    psi, y = jnp.asarray(task.x), jnp.asarray(task.y)
    seed = int(jax.random.bits(key, dtype=jnp.uint32))
    epochs = Epochs(np.random.default_rng(seed), len(task.x), batch_size)
    rates = np.array([learning_rate])
    at_once = int(np.diff(moments).min())
    yield weights
    for count in np.diff(moments):
        for start in range(0, count, at_once):  # equal lengths, so that one program is compiled
            indices = epochs.take(min(at_once, count - start))[None]
            weights, _ = take_steps(structure, weights, indices, rates, psi, y, 2.0 / batch_size)
        yield weights


_loss = jax.jit(excess_loss, static_argnums=0)


def _leading(
    u: Float[np.ndarray, "unit input"], basis: Float[np.ndarray, "input trial"]
) -> tuple[Float[np.ndarray, " rank"], Float[np.ndarray, "input trial"]]:
    """Return the largest singular values, and the directions from which to start next time."""
    for _ in range(_SWEEPS):
        basis, _ = np.linalg.qr(u.T @ (u @ basis))
    return np.linalg.svd(u @ basis, compute_uv=False)[:_LEADING], basis
