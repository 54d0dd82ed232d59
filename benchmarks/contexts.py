"""Objects in three contexts at the published size, beside a loop that takes one step at a time.

Eight objects, seven pathways of 100 units (common, one context, two contexts), or a ReLU network of
700; 8,001 steps of 0.001 on the sum over samples, from weights of 0.005/700. The loop calls one
compiled step after the other, in float32, and each step also takes singular values: of every
pathway, or of what the ReLU network makes of the inputs. festina follows the gradient flow to the
same time in float64, with singular values at 200 times; how far the two losses are apart, relative
to the initial one, is in the last column.
"""

import itertools
import time

import jax
import jax.numpy as jnp
import numpy as np

import festina
from festina.networks import Gated, Layer, fully_connected, gated
from festina.tasks import Task, contextual

from .timing import best, table

STEPS, RATE, UNITS, SAMPLES = 8001, 1e-3, 100, 200


def measure() -> dict:
    data = contextual(8, 3)
    made = {"gated, 7 pathways": _gated(data), "ReLU": _relu(data)}
    found = {name: _measure(network, data) for name, network in made.items()}
    table(
        ["", "loop s", "festina s", "loop ÷ festina", "losses apart"],
        [
            [name, f"{loop:.2f}", f"{ours:.2f}", f"{loop / ours:.1f}", f"{apart:.1e}"]
            for name, (loop, ours, apart) in found.items()
        ],
    )
    return {name: loop / ours for name, (loop, ours, _) in found.items()}


def _open(data: Task) -> np.ndarray:
    """Gates of all sets of contexts, `(pathway, sample)`."""
    sets = [c for k in (3, 1, 2) for c in itertools.combinations(range(3), k)]
    return np.stack([np.isin(data.labels["context"], chosen) * 1.0 for chosen in sets])


def _gated(data: Task) -> Gated:
    gates = {f"h{k}": gate for k, gate in enumerate(_open(data))}
    return gated(
        {"x": 11, **dict.fromkeys(gates, UNITS), "y": data.outputs},
        [f"x-{name}-y" for name in gates],
        gates=gates,
        examples=data.x,
        scale=0.005 / 700,
        key=jax.random.key(0),
    )


def _relu(data: Task) -> Layer:
    return fully_connected(
        11, 700, data.outputs, activation="relu", scale=0.005 / 700, key=jax.random.key(0)
    )


def _measure(network: Gated | Layer, data: Task) -> tuple[float, float, float]:
    clock = RATE * len(data.x)
    times = np.linspace(0.0, clock * STEPS, SAMPLES)
    look = {"singular": lambda one: np.linalg.svd(_maps(one), compute_uv=False)}
    ours = lambda: festina.gradient_flow(network, data, times, rtol=1e-5, observe=look)
    (seconds,) = best(ours, repeats=3)
    losses, loop = _loop(network, data)
    between = np.interp(times, clock * np.arange(STEPS), losses / len(data.x))
    return loop, seconds, float(np.abs(ours().loss - between).max() / between[0])


def _maps(network: Gated | Layer) -> np.ndarray:
    """What every pathway makes of the inputs, or the whole layer."""
    if isinstance(network, Layer):
        return np.asarray(network.v).T @ np.asarray(network.u)
    edges = dict(zip(network.part_axes, map(np.asarray, network.parts), strict=True))
    return np.stack([edges[f"h{k}-y"] @ edges[f"x-h{k}"] for k in range(7)])


def _loop(network: Gated | Layer, data: Task) -> tuple[np.ndarray, float]:
    """Losses of every step, and seconds: a compiled step, called from Python."""
    x, y = (jnp.asarray(each, jnp.float32) for each in (data.x, data.y))
    if isinstance(network, Layer):
        first, second, gates = network.u[None], network.v.T[None], None
    else:
        edges = dict(zip(network.part_axes, map(np.asarray, network.parts), strict=True))
        first = np.stack([edges[f"x-h{k}"] for k in range(7)])
        second = np.stack([edges[f"h{k}-y"] for k in range(7)])
        gates = jnp.asarray(_open(data), jnp.float32)
    weights = tuple(jnp.asarray(each, jnp.float32) for each in (first, second))

    def loss(weights):
        h = jnp.einsum("pi,khi->kph", x, weights[0])
        h = jax.nn.relu(h) if gates is None else gates[:, :, None] * h
        return 0.5 * jnp.sum((y - jnp.einsum("kph,koh->po", h, weights[1])) ** 2)

    @jax.jit
    def step(weights):
        value, slope = jax.value_and_grad(loss)(weights)
        singular = jnp.linalg.svd(weights[1] @ weights[0], compute_uv=False)
        return tuple(w - RATE * g for w, g in zip(weights, slope, strict=True)), value, singular

    jax.block_until_ready(step(weights))
    started, losses, modes = time.perf_counter(), [], []
    for _ in range(STEPS):
        weights, value, singular = step(weights)
        losses.append(float(value))
        modes.append(np.asarray(singular))
    return np.array(losses), time.perf_counter() - started
