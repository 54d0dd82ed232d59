"""Compare gated networks with a plain masked network (a million paths) and PyTorch (routing).

The plain network has the same layers and samples, and multiplies every layer by a mask. The PyTorch
code is the double loop over pairs of domains of the published routing experiment, at its size
(M = 7 domains, K = 4 trained outputs each, 64 hidden units) and in float32.
"""

import functools
import itertools
import time

import jax
import jax.numpy as jnp
import numpy as np
import torch

import festina
from festina.networks import Gated, gated
from festina.tasks import Task, domain_routing, from_arrays

from .timing import best, table

DEPTH, WIDTH, STEPS = 20, 16, 500
UPDATES = 200


def measure() -> dict:
    paths, routing = _paths(), _routing()
    table(
        ["", "festina ms a step", "masked, PyTorch ms a step", "ratio"],
        [
            [name, f"{1e3 * ours:.3f}", f"{1e3 * other:.3f}", f"{ours / other:.3g}"]
            for name, (ours, other) in (("a million paths", paths), ("routing", routing))
        ],
    )
    return {
        "paths_against_masked": paths[0] / paths[1],
        "torch_against_routing": routing[1] / routing[0],
    }


def million() -> tuple[Gated, Task]:
    """Return a network of twenty layers of two nodes, each open in about half of eight contexts."""
    rng = np.random.default_rng(0)
    layers = [[f"a{k}", f"b{k}"] for k in range(DEPTH)]
    context = np.arange(800) % 8
    x = np.column_stack((rng.normal(size=(800, WIDTH)), context))
    opens = {}
    for one, other in layers:  # at least one node of each layer is open
        opens[one], some = rng.permutation(8) < 4, rng.permutation(8) < 2
        opens[other] = ~opens[one] | some
    edges = [f"{a}-{b}" for one, other in itertools.pairwise(layers) for a in one for b in other]
    ends = [*(f"x-{name}" for name in layers[0]), *(f"{name}-y" for name in layers[-1])]
    network = gated(
        {"x": WIDTH, **dict.fromkeys(opens, WIDTH // 2), "y": 4},
        [*edges, *ends],
        gates={name: each[context] for name, each in opens.items()},
        x=x,
        inputs={"x": range(WIDTH)},
        scale=0.25,
        key=jax.random.key(0),
    )
    return network, from_arrays(x, rng.normal(size=(800, 4)))


def _paths() -> tuple[float, float]:
    network, data = million()
    rate = 1e-3
    ours = lambda: festina.gradient_descent(
        network, data, rate, STEPS, converged=1e-300, resolution=None
    )
    with jax.enable_x64(True):
        seen = data.statistics(network.view)
        gates = seen.psi[:, WIDTH:]
        masks = [np.repeat(gates[:, 2 * k : 2 * k + 2], WIDTH // 2, axis=1) for k in range(DEPTH)]
        shapes = [(WIDTH, WIDTH)] * DEPTH + [(4, WIDTH)]
        keys = jax.random.split(jax.random.key(0), len(shapes))
        weights = [0.25 * jax.random.normal(k, s) for k, s in zip(keys, shapes, strict=True)]
        arrays = jax.tree.map(jnp.asarray, (seen.psi[:, :WIDTH], masks, seen.y, seen.weight))
        plain = lambda: jax.block_until_ready(_masked(weights, *arrays, rate=rate))
        seconds = best(ours, plain, repeats=5)
    return seconds[0] / STEPS, seconds[1] / STEPS


@functools.partial(jax.jit, static_argnames="rate")
def _masked(weights, x, masks, y, weight, *, rate):
    def loss(weights):
        h = x
        for w, mask in zip(weights, masks, strict=False):
            h = mask * (h @ w.T)
        return 0.5 * jnp.sum(weight * jnp.sum((y - h @ weights[-1].T) ** 2, axis=1))

    def step(weights, _):
        value, slope = jax.value_and_grad(loss)(weights)
        return jax.tree.map(lambda w, g: w - rate * g, weights, slope), value

    return jax.lax.scan(step, weights, length=STEPS)


def translator(data: Task, domains: int, hidden: int = 64) -> Gated:
    """Return encoders into one trunk, and decoders that are gated by the output domain."""
    n, features = (data.x.shape[1] - domains) // domains, data.outputs // domains
    inputs = {f"x{i}": range(n * i, n * (i + 1)) for i in range(domains)}
    gates = {f"y{j}": data.labels["output_domain"] == j for j in range(domains)}
    return gated(
        {
            **{name: n for name in inputs},
            "in": hidden,
            "out": hidden,
            **{name: features for name in gates},
        },
        [*(f"{name}-in" for name in inputs), "in-out", *(f"out-{name}" for name in gates)],
        gates=gates,
        x=data.x,
        inputs=inputs,
        scale=0.05,
        key=jax.random.key(0),
    )


def _routing() -> tuple[float, float]:
    data = domain_routing(preset="saxe-2022")
    network = translator(data, 7)
    ours = lambda: festina.gradient_descent(network, data, 1e-3, UPDATES, converged=1e-300)
    labels = [data.labels[name] for name in ("input_domain", "output_domain")]
    pairs = sorted(set(zip(*(label.tolist() for label in labels), strict=True)))
    seconds = best(ours, repeats=5)[0]
    return seconds / UPDATES, min(_loop(data, pairs) for _ in range(3)) / UPDATES


def _loop(data: Task, pairs: list[tuple[int, int]]) -> float:
    linear = lambda n, m: torch.nn.Linear(n, m, bias=False)
    encoders = torch.nn.ModuleList([linear(4, 64) for _ in range(7)])
    decoders = torch.nn.ModuleList([linear(64, 7) for _ in range(7)])
    trunk = linear(64, 64)
    optimiser = torch.optim.SGD(
        [*encoders.parameters(), *trunk.parameters(), *decoders.parameters()], lr=1e-3
    )
    x, y = torch.eye(4), {}
    for i, j in pairs:
        here = (data.labels["input_domain"] == i) & (data.labels["output_domain"] == j)
        y[i, j] = torch.tensor(data.y[here, 7 * j : 7 * j + 7], dtype=torch.float32)
    started = time.perf_counter()
    for _ in range(UPDATES):
        optimiser.zero_grad()
        loss = torch.zeros(())
        for i, j in pairs:
            loss = loss + torch.mean((decoders[j](trunk(encoders[i](x))) - y[i, j]) ** 2)
        loss.backward()
        optimiser.step()
    return time.perf_counter() - started
