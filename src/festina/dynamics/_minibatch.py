"""Mini-batch gradient descent with shuffled epochs; samples hold the loss of the full data."""

import copy
import functools
import math
from typing import Any

import jax
import jax.numpy as jnp
import numpy as np
from jaxtyping import Float, Int, Key, UInt32

from .._checks import whole_number
from .._lanes import over_keys, over_lanes, places
from .._objective import Data, descent, loss_factor, objective
from .._types import Array, Keys
from ..networks._network import Network
from ..networks._structure import AbstractStructure
from ..tasks import AbstractTask, Task
from ._logbook import Pieces
from ._observe import Observation, Observe
from ._program import start
from ._trajectory import Ending, Samples, Trajectory
from ._width import as_it_is
from ._worker import Progress


def minibatch_descent(
    network: Network,
    task: AbstractTask,
    learning_rate: Float[np.ndarray, "*batch"],
    steps: int | None,
    *,
    loss: str,
    momentum: Float[np.ndarray, "*batch"] | None,
    batch_size: int,
    key: Keys | None,
    save_every: int | None,
    observe: Observe | None,
    progress: Progress | None,
) -> Trajectory[Network]:
    """Train by mini-batch gradient descent, with a sample every `save_every` steps.

    `festina.dynamics.gradient_descent` describes the arguments.
    """
    if not isinstance(task, Task) or task.samples is None:
        raise ValueError(
            "Mini-batches need a task with a finite number of samples: create the task with "
            "`samples=…, key=…`."
        )
    if steps is None:
        raise ValueError("Mini-batch training needs `steps`, the number of steps to take.")
    shuffling = _seeds(key, network.batch_shape)
    batch_size = whole_number("batch_size", batch_size)
    if batch_size > task.samples:
        raise ValueError(
            f"`batch_size` must be at most the number of samples, {task.samples}, got {batch_size}."
        )
    every = max(1, steps // 500) if save_every is None else whole_number("save_every", save_every)
    if not np.allclose(task.weight, 1.0 / task.samples):
        raise ValueError(
            "Mini-batches are drawn uniformly, so samples of unequal weight are not supported. Use "
            "full-batch training without `batch_size`."
        )

    whole = objective(network, task, loss)
    observation = None if observe is None else Observation(observe, network)
    # Mini-batches need the samples themselves, not the moments that replace them elsewhere.
    psi = jax.vmap(network.features)(jnp.asarray(task.x))
    skipped = jax.vmap(lambda x: jnp.broadcast_to(network.skip(x), (network.outputs,)))(task.x)
    y = jnp.asarray(task.y) - skipped
    # Each of the `batch_size` samples has the weight 1/batch_size, times the loss convention's c.
    weight = loss_factor(loss, task) / batch_size

    rates, mu = learning_rate.reshape(-1), None if momentum is None else momentum.reshape(-1)

    def train(
        steps: int,
        weights: Float[np.ndarray, "weight lane"],
        velocity: Float[np.ndarray, "weight lane"] | None,
        last: Float[np.ndarray, "weight lane"],  # last finite weights
        epochs: list[Epochs],
        samples: Pieces,
        saves: Int[np.ndarray, " lane"],
        times: list[int],
    ) -> Trajectory[Network]:
        """Train up to `steps` from any state, and append to the samples so far."""
        finite = saves == len(times)
        while not times or (times[-1] < steps and finite.any()):
            step = min(times[-1] + every, steps) if times else 0
            if times:
                indices = np.stack([epoch.take(step - times[-1]) for epoch in epochs])
                weights, velocity = take_steps(
                    whole.structure, weights, indices, rates, psi, y, weight, velocity, mu
                )
            losses, _, rate, *_ = start(weights, whole.data, structure=whole.structure)
            finite = finite & np.isfinite(losses) & np.isfinite(rate)
            last = np.where(finite, weights, last)
            noted = last.T
            if observation is not None:
                noted = observation.rows(network.with_parts(*whole.structure.arrays(last)))
            lanes = np.flatnonzero(finite | (step == 0))  # always keep a sample of the start
            numbers = np.stack((np.full(len(rates), float(step)), losses, rate))
            samples.add(lanes, np.ones_like(lanes), numbers[:, lanes], noted[lanes])
            times.append(step)
            saves += finite
            if progress is not None and finite.any():
                progress(f"step {step}, loss {np.nanmean(losses) + whole.floor:.3g}", step / steps)

        _, losses, rate = samples.numbers
        over = (*network.batch_shape, losses.shape[1])
        observed = {} if observation is None else observation.of(samples, network.batch_shape)
        known = samples if observation is None else None

        def resume(stops: Float[np.ndarray, " stop"], _: object) -> Trajectory[Network]:
            taken = copy.deepcopy(epochs), samples.copied(), saves.copy(), [*times]
            return train(int(stops[-1]), weights, velocity, last, *taken)

        return Trajectory(
            time=np.broadcast_to(np.array(times[: over[-1]], float), over).copy(),
            loss=losses.reshape(over) + whole.floor,
            squared_gradient=rate.reshape(over),
            weights=Samples(network, whole.structure, as_it_is, known, last.T[:, None]),
            saves=saves.reshape(network.batch_shape),
            endings=tuple(
                _ending(times, *lane) for lane in zip(saves.tolist(), rates.tolist(), strict=True)
            ),
            floor=whole.floor,
            evaluations=np.full(network.batch_shape, times[-1]),
            convention=loss,
            method="mini-batch gradient descent" + " with momentum" * (momentum is not None),
            learning_rate=rates.reshape(network.batch_shape),
            shared_times=True,
            settings={"steps": steps, "batch_size": batch_size, "save_every": every},
            observed=observed,
            losses_alone=observe == {},
            labels=network.labels,
            momentum=momentum,
            resume=resume,
        )

    weights, none = whole.structure.columns(*network.parts), np.zeros(len(rates), int)
    velocity = None if mu is None else np.zeros_like(weights)
    epochs = [Epochs(np.random.default_rng(seed), task.samples, batch_size) for seed in shuffling]
    return train(steps, weights, velocity, weights, epochs, Pieces(none), none.copy(), [])


def _ending(times: list[int], saves: int, rate: float) -> Ending:
    if saves == len(times):
        return Ending("finished", f"Training ran to step {times[-1]} as requested.")
    return Ending(
        "diverged",
        f"The loss is not finite after step {times[max(saves - 1, 0)]}. Use a learning rate "
        f"smaller than {rate:g}.",
    )


def take_steps(
    structure: AbstractStructure,
    weights: Float[np.ndarray, "weight lane"],
    indices: Int[np.ndarray, "lane step batch"],
    learning_rate: Float[np.ndarray, " lane"],
    psi: Float[Array, "sample ..."],
    y: Float[Array, "sample output"],
    weight: float,
    velocity: Float[np.ndarray, "weight lane"] | None = None,
    momentum: Float[np.ndarray, " lane"] | None = None,
) -> tuple[Float[np.ndarray, "weight lane"], Float[np.ndarray, "weight lane"] | None]:
    """Take steps in every lane, on each lane's own mini-batches; return weights and velocities.

    Without momentum the velocity is None.
    """
    program = lambda lanes: _take_steps(structure, *lanes, psi, y, weight)
    speeds = None if velocity is None else velocity.T
    weights, speeds = over_lanes(program, (weights.T, speeds, indices, learning_rate, momentum))
    return weights.T, None if speeds is None else speeds.T


@functools.partial(jax.jit, static_argnums=0)
def _take_steps(
    structure: AbstractStructure,
    weights: Float[Array, "lane weight"],
    velocity: Float[Array, "lane weight"] | None,
    indices: Int[Array, "lane step batch"],
    learning_rate: Float[Array, " lane"],
    momentum: Float[Array, " lane"] | None,
    psi: Float[Array, "sample ..."],
    y: Float[Array, "sample output"],
    weight: Float[Array, ""] | float,
) -> tuple[Float[Array, "lane weight"], Float[Array, "lane weight"] | None]:
    def walk(ball: tuple[Array, Array | None], indices: Array, rate: Array, mu: Array | None):
        def step(ball: tuple[Array, Array | None], chosen: Array):
            weights, velocity = ball
            batch = Data(psi[chosen], y[chosen], jnp.full(chosen.shape, weight))
            force = descent(structure, weights, batch)[1]
            if velocity is None or mu is None:
                return (weights + rate * force, None), None
            velocity = mu * velocity + force
            return (weights + rate * velocity, velocity), None

        return jax.lax.scan(step, ball, indices)[0]

    return jax.vmap(walk)((weights, velocity), indices, learning_rate, momentum)


class Epochs:
    """Draw mini-batches without replacement; drop an incomplete batch at the end of each epoch."""

    def __init__(self, shuffler: np.random.Generator, samples: int, batch_size: int):
        self._shuffler, self._samples, self._size = shuffler, samples, batch_size
        self._left = np.empty((0, batch_size), int)

    def take(self, count: int) -> Int[np.ndarray, "step batch"]:
        """Return the sample indices of the next `count` mini-batches."""
        while len(self._left) < count:
            order = self._shuffler.permutation(self._samples)
            full = order[: self._samples // self._size * self._size].reshape(-1, self._size)
            self._left = np.concatenate((self._left, full))
        taken, self._left = self._left[:count], self._left[count:]
        return taken


def _seeds(key: Any, batch: tuple[int, ...]) -> UInt32[np.ndarray, " lane"]:
    """Return a seed for each lane, from one key for each lane or from a single key that is split.

    The key of a single network is not split, so that it learns as it would in a batch.
    """
    lanes = math.prod(batch)
    typed = hasattr(key, "dtype") and jnp.issubdtype(key.dtype, jax.dtypes.prng_key)
    words = jax.random.key_data(jax.random.key(0)).shape
    if getattr(key, "dtype", None) == np.uint32 and key.shape[-1:] == words:  # old-style `PRNGKey`
        key, typed = jax.random.wrap_key_data(key), True
    if typed and key.shape == batch:
        return over_keys(_bits, key)
    if typed and key.shape == ():
        return over_keys(_bits, jax.random.split(key, places(lanes)))[:lanes]
    found = f"{key.shape} keys" if typed else repr(key)
    several = f", or one key for each of the {batch} networks" if batch else ""
    raise ValueError(
        "Mini-batch training needs a random `key` for shuffling, for example jax.random.key(0)"
        f"{several}, got {found}."
    )


@jax.jit
def _bits(keys: Key[Array, " lane"]) -> UInt32[Array, " lane"]:
    return jax.vmap(lambda key: jax.random.bits(key, dtype=jnp.uint32))(keys)
