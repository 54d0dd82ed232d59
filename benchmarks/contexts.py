"""Compare festina with a loop of descent steps on objects in three contexts, at published size.

The task has eight objects. Networks are seven gated pathways of 100 units (common, one context, two
contexts), or a ReLU network of 700 units. Training takes 8,001 steps of 0.001 on the sum over
samples. The loop calls one compiled step after the other in float32, and each step also computes
the modes by a singular value decomposition. In float64 and with modes at 200 times or more, festina
integrates the gradient flow of the gated network to the same time, or takes the same steps of the
ReLU network. The last column is the largest difference of both losses, relative to the initial one.
"""

import itertools
import time

import jax
import jax.numpy as jnp
import numpy as np

import festina
from festina.networks import Gated, fully_connected, gated
from festina.tasks import Task, objects_in_contexts

from .timing import best, table

STEPS, RATE, UNITS, SAMPLES = 8001, 1e-3, 700, 200
SCALE = 0.005 / UNITS


def measure() -> dict:
    data = objects_in_contexts(contexts=3, preset="jarvis-2025")
    found = {"gated, 7 pathways": _pathways(data), "ReLU": _relu(data)}
    table(
        ["", "loop s", "festina s", "loop ÷ festina", "losses apart"],
        [
            [name, f"{loop:.2f}", f"{ours:.2f}", f"{loop / ours:.1f}", f"{apart:.1e}"]
            for name, (loop, ours, apart) in found.items()
        ],
    )
    return {name: loop / ours for name, (loop, ours, _) in found.items()}


def _pathways(data: Task) -> tuple[float, float, float]:
    sets = [c for k in (3, 1, 2) for c in itertools.combinations(range(3), k)]
    opens = {f"h{k}": np.isin(data.labels["context"], c) * 1.0 for k, c in enumerate(sets)}
    sizes = {"x": data.x.shape[1], **dict.fromkeys(opens, UNITS // 7), "y": data.outputs}
    edges = [f"x-{name}-y" for name in opens]
    network = gated(sizes, edges, gates=opens, x=data.x, scale=SCALE, key=jax.random.key(0))
    steps = np.linspace(0, STEPS - 1, SAMPLES)
    times = RATE * len(data.x) * steps

    def modes(one: Gated) -> np.ndarray:
        first, second = _stacked(one, opens)
        return np.linalg.svd(second @ first).S

    ours = lambda: festina.gradient_flow(network, data, times, rtol=1e-4, observe={"modes": modes})
    (seconds,) = best(ours, repeats=3)
    losses, loop = _loop(data, *_stacked(network, opens), np.stack([*opens.values()]))
    between = np.interp(steps, np.arange(STEPS), losses / len(data.x))
    return loop, seconds, float(np.abs(ours().loss - between).max() / between[0])


def _stacked(network: Gated, opens: dict[str, np.ndarray]) -> tuple[np.ndarray, np.ndarray]:
    edges = dict(zip(network.part_axes, map(np.asarray, network.parts), strict=True))
    return tuple(
        np.stack([edges[name] for name in names])
        for names in zip(*((f"x-{name}", f"{name}-y") for name in opens), strict=True)
    )


def _relu(data: Task) -> tuple[float, float, float]:
    network = fully_connected(
        data.x.shape[1],
        UNITS,
        data.outputs,
        activation="relu",
        scale=SCALE,
        key=jax.random.key(0),
    )
    look = lambda one: np.linalg.svd(np.asarray(one.v).T @ np.asarray(one.u)).S
    ours = lambda: festina.gradient_descent(
        network, data, RATE, STEPS - 1, loss="half-sum", observe={"modes": look}
    )
    (seconds,) = best(ours, repeats=3)
    losses, loop = _loop(data, network.u[None], network.v.T[None], None)
    run = ours()
    between = np.interp(run.time, np.arange(STEPS), losses)
    return loop, seconds, float(np.abs(run.loss - between).max() / between[0])


def _loop(data: Task, first, second, gates) -> tuple[np.ndarray, float]:
    """Call a compiled step in a Python loop, and return the loss of every step and the seconds."""
    x, y = (jnp.asarray(each, jnp.float32) for each in (data.x, data.y))
    opens = None if gates is None else jnp.asarray(gates, jnp.float32)[:, :, None]
    weights = tuple(jnp.asarray(each, jnp.float32) for each in (first, second))

    def loss(weights):
        h = jnp.einsum("pi,khi->kph", x, weights[0])
        h = jax.nn.relu(h) if opens is None else opens * h
        return 0.5 * jnp.sum((y - jnp.einsum("kph,koh->po", h, weights[1])) ** 2)

    @jax.jit
    def step(weights):
        value, slope = jax.value_and_grad(loss)(weights)
        modes = jnp.linalg.svd(weights[1] @ weights[0])
        return tuple(w - RATE * g for w, g in zip(weights, slope, strict=True)), value, modes

    jax.block_until_ready(step(weights))
    started, losses, course = time.perf_counter(), [], []
    for _ in range(STEPS):
        weights, value, modes = step(weights)
        losses.append(float(value))
        course.append(np.asarray(modes[1]))
    return np.array(losses), time.perf_counter() - started
