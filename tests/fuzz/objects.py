"""Networks and tasks that can be corrupted, and what a layer computes by NumPy alone."""

import functools

import jax
import numpy as np

import festina
from festina import networks, tasks

from .rows import Made

ACTIVATIONS = {
    "linear": (lambda a: a, lambda a: np.ones_like(a)),
    "relu": (lambda a: np.maximum(a, 0), lambda a: (a > 0).astype(float)),
    "tanh": (np.tanh, lambda a: 1 - np.tanh(a) ** 2),
    "quadratic": (np.square, lambda a: 2 * a),
}


def layer(rng, inputs=2, width=3, outputs=1, kinds=("linear", "relu", "tanh", "quadratic")):
    u, v = rng.standard_normal((width, inputs)), rng.standard_normal((width, outputs))
    if rng.integers(2):  # units that could be merged
        u[-1], v[-1] = u[0], v[0] / 2
    return Made(networks.layer, {"unit": str(rng.choice(kinds)), "u": u, "v": v})


def samples(rng, inputs=2, outputs=1, count=6):
    x, y = rng.standard_normal((count, inputs)), rng.standard_normal((count, outputs))
    return Made(tasks.task, {"x": x, "y": y})


def both(rng, **how):
    return {"network": layer(rng, **how), "task": samples(rng)}


def responses(network, x):
    """φ of every unit for every sample, and its slope."""
    phi, slope = ACTIVATIONS[network.unit.activation.name]
    return phi(x @ np.asarray(network.u).T), slope(x @ np.asarray(network.u).T)


def outputs(network, x):
    return responses(network, x)[0] @ np.asarray(network.v)


def half_loss(network, task):
    f = 0 if network is None else outputs(network, task.x)
    return np.sum(task.weight[:, None] * (task.y - f) ** 2) / 2


@functools.cache
def trajectory(seed):
    """A short flow of a narrow network, or of two."""
    task = tasks.linear_teacher([[1.0, 0.2], [0.1, 0.4]])
    key = festina.seeds(2) if seed % 2 else jax.random.key(seed)
    network = networks.fully_connected(2, 3, 2, activation="linear", scale=1e-3, key=key)
    return festina.gradient_flow(network, task), task
