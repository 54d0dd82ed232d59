"""Networks and tasks that can be corrupted, and outputs of a layer by NumPy alone."""

import functools

import jax
import numpy as np

import festina
from festina import networks, tasks

from .rows import Made

ACTIVATIONS = {
    "linear": (lambda a: a, np.ones_like),
    "relu": (lambda a: np.maximum(a, 0), lambda a: (a > 0).astype(float)),
    "tanh": (np.tanh, lambda a: 1 - np.tanh(a) ** 2),
    "quadratic": (np.square, lambda a: 2 * a),
}
PHI = tuple(ACTIVATIONS)


def layer(rng, inputs=2, width=3, outputs=1, kinds=PHI):
    u, v = rng.standard_normal((width, inputs)), rng.standard_normal((width, outputs))
    if rng.integers(2):  # units that can be merged
        u[-1], v[-1] = u[0], v[0] / 2
    return Made(networks.layer_from, {"unit": str(rng.choice(kinds)), "u": u, "v": v})


def samples(rng, inputs=2, outputs=1, count=6):
    x, y = rng.standard_normal((count, inputs)), rng.standard_normal((count, outputs))
    return Made(tasks.from_arrays, {"x": x, "y": y})


def white_samples(rng, outputs=2, targets=None):
    """Return a task with ⟨xxᵀ⟩ = I."""
    x = np.linalg.qr(rng.standard_normal((6, 2)))[0] * np.sqrt(6)
    y = rng.standard_normal((6, outputs)) if targets is None else targets(x)
    return Made(tasks.from_arrays, {"x": x, "y": y})


def moments(rng, correlation):
    """Return a task of white inputs, given by its moments."""
    covariance = (None, np.eye(correlation.shape[1]))[rng.integers(2)]
    return Made(tasks.from_moments, {"correlation": correlation, "covariance": covariance})


def both(rng, **how):
    return {"network": layer(rng, **how), "task": samples(rng)}


def responses(network, x):
    """Return φ and its derivative, of every unit for every sample."""
    phi, slope = ACTIVATIONS[network.unit.activation.name]
    return phi(x @ np.asarray(network.u).T), slope(x @ np.asarray(network.u).T)


def outputs(network, x):
    return 0.0 if network is None else responses(network, x)[0] @ np.asarray(network.v)


def mean_square(z, task):
    return np.sum(task.weight[:, None] * z**2)


def half_loss(network, task):
    return mean_square(task.y - outputs(network, task.x), task) / 2


@functools.cache
def trajectory(seed):
    """Return a short flow of one or two narrow networks, and its task."""
    task = tasks.linear_teacher([[1.0, 0.2], [0.1, 0.4]])
    key = festina.seeds(2) if seed % 2 else jax.random.key(seed)
    network = networks.fully_connected(2, 3, 2, activation="linear", scale=1e-3, key=key)
    return festina.gradient_flow(network, task), task
