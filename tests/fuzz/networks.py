"""Rows of networks: outputs by NumPy, and the distribution of initial weights."""

import functools
import itertools

import jax
import numpy as np
from scipy.special import erf

import festina
from festina import networks

from .gated import GRAPHS, forward
from .objects import PHI, layer, outputs, responses, trajectory
from .routes import holds, near, normal
from .rows import Made, rows

KEYS = (jax.random.key(3), festina.seeds(2))
X = normal(3, 2)

row = rows(
    "networks",
    key=KEYS,
    scale=(0.3, 1.0),
    inputs=(2, 3),
    width=(3, 40),
    outputs=(1, 2),
    activation=PHI,
    x=X,
    kernel=(2,),
    stride=(1, 2),
)

SCALARS = {
    "linear": lambda a: a,
    "relu": lambda a: np.maximum(a, 0),
    "quadratic": np.square,
    "tanh": np.tanh,
    "sigmoid": lambda a: 1 / (1 + np.exp(-a)),
    "erf": lambda a: erf(a / np.sqrt(2)),
    "sine": np.sin,
}
PROBES = np.linspace(-3, 3, 7)


@row("activation", choice=tuple(SCALARS))
def _(found, g):
    known = SCALARS.get(g["choice"] if isinstance(g["choice"], str) else "")
    if known is None:
        return holds("it is a function of numbers", np.shape(found(PROBES)) == PROBES.shape)
    return near(found(PROBES), known(PROBES), 1e-6, 1.0)


# --------------------------------------------------------------------------------- random weights


def gaussian(parts, scale, key):
    """Check that weights have standard deviation `scale`, to six standard errors."""
    batch = np.broadcast_shapes(np.shape(scale), np.shape(key))
    holds(
        "there is a network for each key and scale", [p.shape[: len(batch)] == batch for p in parts]
    )
    whole = np.concatenate([np.reshape(p, (*batch, -1)) for p in parts], axis=-1)
    each = np.asarray(scale, float)[..., None]
    size = np.sqrt(np.mean((whole / np.where(each > 0, each, 1)) ** 2))
    if (each > 0).all():
        holds("weights have the size asked for", abs(size - 1) < 6 / np.sqrt(2 * whole.size))
    return "kept"


def shapes(network, *expected):
    batch = len(network.batch_shape)
    return (
        near([p.shape[batch:] for p in network.parts], list(expected), 0)
        if len({len(e) for e in expected}) == 1
        else holds(
            "parts have these shapes", [p.shape[batch:] for p in network.parts] == list(expected)
        )
    )


def whole(value):
    return int(np.asarray(value))


@row("fully_connected", bias=(False, True))
def _(found, g):
    n = whole(g["inputs"]) + bool(g["bias"])
    shapes(found, (whole(g["width"]), n), (whole(g["width"]), whole(g["outputs"])))
    return gaussian(found.parts, g["scale"], g["key"])


@row("diagonal_linear")
def _(found, g):
    shapes(found, (whole(g["inputs"]),), (whole(g["inputs"]),))
    return gaussian(found.parts, g["scale"], g["key"])


@row("convolutional_1d", inputs=(4, 5), bias=(False,))
def _(found, g):
    n, k, s = (whole(g[name]) for name in ("inputs", "kernel", "stride"))
    positions = len(range(0, n - k + 1, s))
    width, count = whole(g["width"]), whole(g["outputs"])
    holds("u is a kernel for each unit", found.u.shape[-2:] == (width, k + bool(g["bias"])))
    holds("v reads every position", found.v.shape[-3:] == (width, count, positions))
    return gaussian(found.parts, g["scale"], g["key"])


@row("attention", dimension=(2,), heads=(3,), rank=(1, 2), softmax=(False, True))
def _(found, g):
    d, heads, rank = (whole(g[name]) for name in ("dimension", "heads", "rank"))
    holds("keys and queries", found.u.shape[-4:] == (heads, 2, rank, d + 1))
    return gaussian(found.parts, g["scale"], g["key"])


@row("deep_linear", widths=([2, 3, 2], [3, 20, 20, 1]))
@row(
    "deep_network",
    widths=([2, 3, 2], [3, 20, 20, 1]),
    activations=("relu", "linear"),
    bias=(False,),
)
def _(found, g):
    widths = [whole(each) for each in g["widths"]]
    extra = [bool(g.get("bias"))] * (len(widths) - 2) + [0]  # the output has no bias
    pairs = zip(extra, itertools.pairwise(widths), strict=True)
    shapes(found, *((b, a + one) for one, (a, b) in pairs))
    return gaussian(found.parts, g["scale"], g["key"])


UNITS = (networks.NeuronUnit("relu"), networks.NeuronUnit("tanh"))


@row("gaussian_layer", unit=UNITS, input_shape=((3,),))
@row("low_rank_layer", unit=UNITS, input_shape=((3,),), rank=(1, 2), strength=(2.0,))
def _(found, g):
    shapes(found, (whole(g["width"]), 3), (whole(g["width"]), whole(g["outputs"])))
    if "rank" not in g:
        return gaussian(found.parts, g["scale"], g["key"])
    return holds("weights are finite", [np.isfinite(p).all() for p in found.parts])


@row("deep_gaussian", unit=UNITS, input_shape=((3,),), widths=([4, 2],))
@row("deep_convolutional", inputs=(4,), widths=([5, 3, 2],), activations=("relu",))
@row("linear_transformer", dimension=(2,), heads=(3,), widths=([4, 2],), activations=("relu",))
def _(found, g):
    near(found.outputs, whole(g["widths"][-1]), 0)
    return gaussian(found.parts, g["scale"], g["key"])


@row(
    "draw_from_prior",
    key=KEYS[:1],
    readout_variance=(1.0, 0.2),
    depth=(1, 2),
    activation=("linear", "relu", "erf"),
)
def _(found, g):
    holds("there are as many layers as its depth", len(found.weights) == whole(g["depth"]))
    gaussian(found.weights, np.ones(()), g["key"])
    return gaussian((found.readout,), np.sqrt(g.readout_variance or 1.0), g["key"])


@row("seeds", count=(1, 4), first=(0, 3))
def _(found, g):
    keys = np.asarray(jax.random.key_data(found))
    alone = jax.random.key_data(jax.random.key(whole(g["first"]) + whole(g["count"]) - 1))
    return near(keys[-1], np.asarray(alone), 0)


# ---------------------------------------------------------------------------------------- outputs


def predicts(found, x, right):
    return near(found.predict(x), right, 1e-8, np.abs(right).max(initial=0.0))


FIXED = np.random.default_rng(0).standard_normal((3, 2))


@row("layer_from", unit=PHI, u=normal(3, 2), v=normal(3, 2))
def _(found, g):
    if found.batch_shape or found.u.shape[-1] != 2:
        return holds("weights are finite", (found.u == g.u) & np.isfinite(found.u))
    return predicts(found, FIXED, outputs(found, FIXED))


@row("deep_linear_from", weights=lambda rng: [rng.standard_normal(s) for s in ((3, 2), (2, 3))])
def _(found, g):
    first, second = (np.asarray(w, float) for w in g["weights"])
    if found.batch_shape or found.weights[0].shape[-1] != 2:
        return near(found.end_to_end(), second @ first, 1e-8, np.abs(second @ first).max())
    return predicts(found, FIXED, FIXED @ (second @ first).T)


@row("diagonal_linear_from", u=normal(2), v=normal(2))
def _(found, g):
    if found.u.shape != (2,):
        return near(found.coefficients(), g.u * g.v)
    return predicts(found, FIXED, (FIXED @ (g.u * g.v))[:, None])


@row(
    "deep_network_from",
    unit=UNITS,
    weights=lambda rng: [rng.standard_normal(s) for s in ((4, 2), (3, 4), (2, 3))],
    activations=("relu", "tanh", "linear"),
)
def _(found, g):
    if found.batch_shape or found.shapes[0][-1] != 2:
        return holds("weights are finite", [np.isfinite(w).all() for w in found.weights])
    h = FIXED
    for weight, phi in zip(
        g["weights"], (g["unit"].activation.name, g["activations"], "linear"), strict=True
    ):
        h = SCALARS[phi](h @ np.asarray(weight, float).T)
    return predicts(found, FIXED, h)


def graph(rng):
    edges = GRAPHS[rng.integers(len(GRAPHS))]
    x = rng.standard_normal((4, 2))
    gates = {"a": np.array([1.0, 0.0, 1.0, 0.5])}
    return {
        "weights": {e: rng.standard_normal(s) for e, s in edges.items()},
        "gates": gates,
        "x": x,
    }


@row("gated_from", graph, inputs=(None,))
def _(found, g):
    if found.batch_shape or found.gating.rules:
        return holds("weights are finite", [np.isfinite(w).all() for w in found.weights])
    x = g.x
    weights = {tuple(e.split("-")): np.asarray(w, float) for e, w in g["weights"].items()}
    return predicts(found, x, forward(found, weights, x))


@row("gated", nodes=({"x": 2, "h": 30, "y": 2},), paths=(["x-h-y"],), inputs=(None, {"x": [0, 1]}))
def _(found, g):
    nodes = {name: whole(width) for name, width in g["nodes"].items()}
    shapes(found, (nodes["h"], nodes["x"]), (nodes["y"], nodes["h"]))
    columns = range(nodes["x"]) if g["inputs"] is None else g["inputs"]["x"]
    holds("columns are those asked for", [*found.plan.inputs[0][1]] == [*columns])
    return gaussian(found.parts, g["scale"], g["key"])


RECTIFIED = functools.partial(layer, kinds=("relu", "linear"))


@row("rectifier_gates", network=RECTIFIED)
@row("gated_equivalent", network=RECTIFIED)
def _(found, g):
    network, x = g["network"], g.x
    if isinstance(found, tuple):
        return near(found[0], responses(network, x)[1].T, 0)
    return predicts(found, x, outputs(network, x))


@row("final_networks", run=lambda rng: trajectory(int(rng.integers(2)))[0].to_dataset())
def _(found, g):
    names = [name for name in ("u", "v") if name in g["run"]]
    holds("it has the shape of what was trained", found.u.shape[-2:] == g["run"]["u"].shape[-2:])
    return holds("all weights are there", len(names) == len(found.parts))


# ------------------------------------------------------------------------- structured by algebra


def balanced_options(rng):
    return [
        {"scale": 0.5},
        {"singular_values": rng.uniform(0.1, 2, 2)},
        {"product": rng.standard_normal((2, 2)), "key": None},
    ][rng.integers(3)]


@row(
    "lambda_balanced",
    balanced_options,
    widths=([2, 2, 2],),
    balance=(0.0, 1.0, -0.5),
    scale=(None,),
)
def _(found, g):
    first, second = (np.asarray(w) for w in found.weights)
    off = second.swapaxes(-1, -2) @ second - first @ first.swapaxes(-1, -2)
    size = max(1e-300, np.abs(first).max() ** 2, np.abs(second).max() ** 2)
    if g.get("product") is not None:
        near(second @ first, np.broadcast_to(g.product, (second @ first).shape), 1e-7, size)
    near(
        off,
        np.asarray(g.balance)[..., None, None] * np.broadcast_to(np.eye(2), off.shape),
        1e-7,
        size,
    )
    return "right"


@row("orthogonal", widths=([3, 3, 2], [2, 4, 2]), gain=(1.0, 0.5))
def _(found, g):
    for w in map(np.asarray, found.weights):
        w = w if w.shape[-2] >= w.shape[-1] else w.swapaxes(-1, -2)
        gram = w.swapaxes(-1, -2) @ w
        squared = np.asarray(g.gain)[..., None, None] ** 2
        near(
            gram, squared * np.broadcast_to(np.eye(gram.shape[-1]), gram.shape), 1e-9, squared.max()
        )
    return "right"


def frames(rng):
    return {
        "output_modes": np.linalg.qr(rng.standard_normal((3, 2)))[0],
        "input_modes": np.linalg.qr(rng.standard_normal((2, 2)))[0],
    }


@row("decoupled", frames, hidden=([2], [3, 2], []), initial_strength=(0.1, 1.0), key=(None, *KEYS))
def _(found, g):
    product = g.output_modes @ (np.asarray(g.initial_strength)[..., None] * g.input_modes.T)
    end = found.end_to_end()
    return near(end, np.broadcast_to(product, end.shape), 1e-8, np.abs(product).max())


@row(
    "greedy_pretrained_linear",
    widths=([3, 3, 2], [3, 2, 2]),
    fraction=(0.99, 0.5),
    module_depth=(2, 3),
)
def _(found, g):
    first = np.asarray(found.weights[0])
    gram = first @ first.swapaxes(-1, -2)
    size = float(g.fraction) ** (2 / float(g.module_depth))
    return near(gram, size * np.broadcast_to(np.eye(gram.shape[-1]), gram.shape), 1e-8, size)


def one_pathway(rng):
    x, q = rng.standard_normal((3, 2)), np.linalg.qr(rng.standard_normal((2, 2)))[0]
    weights = {"x-a": rng.standard_normal((3, 2)), "a-y": rng.standard_normal((2, 3))}
    network = Made(networks.gated_from, {"weights": weights, "gates": {"a": np.ones(3)}, "x": x})
    return {"network": network, "directions": {"x": q, "y": np.eye(2)}}


@row("with_decoupled_weights", one_pathway, initial_strength=(0.1, 1.0), key=(None, *KEYS))
def _(found, g):
    first, second = (np.asarray(w) for w in found.weights)
    right = (
        g["directions"]["y"]
        * np.asarray(g.initial_strength)[..., None] ** 2
        @ np.asarray(g["directions"]["x"]).T
    )
    return near(
        second @ first, np.broadcast_to(right, (second @ first).shape), 1e-8, np.abs(right).max()
    )
