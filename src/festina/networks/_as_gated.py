"""Gated linear networks that equal a ReLU network on given examples."""

import itertools
from collections.abc import Sequence
from typing import Any

import numpy as np
from jaxtyping import Float, Int

from .._checks import finite_array, finite_matrix
from .._precision import float64
from .._types import ArrayLike
from ._deep_network import DeepNetwork
from ._gated import Gated, gated_from
from ._layer import Layer
from ._network import AbstractNetwork
from ._units import NeuronUnit

Gates = tuple[Float[np.ndarray, "*batch unit example"], ...]
"""Gates of the units of each hidden layer for each example."""


@float64
def rectifier_gates(network: AbstractNetwork, x: ArrayLike) -> Gates:
    r"""Return the slope g of every hidden unit's activation, $\sigma(a) = g\,a$, on given examples.

    A ReLU has the slope g = 1 for positive a and g = 0 otherwise. A leaky ReLU has its leak instead
    of 0. A linear unit always has g = 1.

    **Arguments:**

    - `network`: `Layer` or `DeepNetwork` of linear, ReLU or leaky ReLU neurons without biases and
      skips, or a batch of such networks.
    - `x`: inputs, `(example, input)`.

    **Returns:**

    A tuple with the gates of each hidden layer, `(*batch, unit, example)`.

    **Example:**

    >>> from festina.networks import layer_from, leaky_relu, rectifier_gates
    >>> network = layer_from(leaky_relu(0.1), [[1.0, 0.0], [0.0, -1.0]], [1.0, 1.0])
    >>> (gates,) = rectifier_gates(network, [[1.0, 1.0], [-1.0, -1.0]])
    >>> gates
    array([[1. , 0.1],
           [0.1, 1. ]])
    """
    weights, units = layers_of(network)
    h, gates = finite_matrix("x", x, "example", "input", weights[0].shape[-1]).T, []
    for weight, unit in zip(weights[:-1], units, strict=True):
        a = weight @ h
        above, below = (
            side * float(unit.response(np.ones((1, 1)), side * np.ones((1, 1)))[0, 0])
            for side in (1, -1)
        )
        gates.append(np.where(a > 0, above, below))
        h = gates[-1] * a
    return tuple(gates)


@float64
def gated_equivalent(
    network: AbstractNetwork, x: ArrayLike, *, gates: ArrayLike | Sequence[ArrayLike] | None = None
) -> Gated:
    r"""Return the gated linear network that computes the same as a ReLU network on given examples.

    The gates of the new network are the slopes of the ReLUs (`rectifier_gates`). Both networks have
    equal outputs on `x`, and they learn alike as long as no unit switches on or off for an example.
    Units of a layer that are active for the same examples form one node; `h1_0`, `h1_1`, … are the
    nodes of the first hidden layer. Units that are inactive for all examples are left out.

    **Arguments:**

    - `network`: `Layer` or `DeepNetwork` of linear, ReLU or leaky ReLU neurons without biases and
      skips, or a batch of such networks. All networks of a batch get the same nodes. If a network
      of the batch has no unit for a node, its weights at the node are zero.
    - `x`: inputs, `(example, input)`.
    - `gates`: gates to use instead of the network's own slopes: an array `(*batch, unit, example)`
      for one hidden layer, or a list with one array for each. For example, give the gates after
      training, `rectifier_gates(run.final, x)`, or gates that `festina.diagnose.gating` found.

    **Example:**

    >>> from festina.networks import gated_equivalent, layer_from
    >>> x = [[1.0, 1.0], [-1.0, -1.0]]
    >>> relu = layer_from("relu", [[1.0, 0.0], [0.0, -1.0]], [1.0, 1.0])
    >>> gated_equivalent(relu, x)
    Gated(x 2, h1_0 1, h1_1 1, y 1; x-h1_0, x-h1_1, h1_0-y, h1_1-y, gates of h1_0, h1_1)
    >>> gated_equivalent(relu, x).predict(x).ravel(), relu.predict(x).ravel()
    (array([1., 1.]), array([1., 1.]))
    """
    weights, _ = layers_of(network)
    x = finite_matrix("x", x, "example", "input", weights[0].shape[-1])
    chosen = (
        rectifier_gates(network, x) if gates is None else _given(gates, network, len(x), weights)
    )
    batch = network.batch_shape
    names, slots, table = [["x"]], [_all(batch, x.shape[-1])], {}
    for layer, rows in enumerate(chosen, 1):
        patterns, which = np.unique(rows.reshape(-1, len(x)), axis=0, return_inverse=True)
        opens = patterns.any(axis=1)
        which = np.where(opens, np.cumsum(opens) - 1, -1)[which.ravel()].reshape(rows.shape[:-1])
        if (silent := (which < 0).all(axis=-1)).any():
            of = f" of network {tuple(map(int, np.argwhere(silent)[0]))}" if batch else ""
            raise ValueError(
                f"All units of layer {layer}{of} are silent for all examples, so the gated network "
                "would have no pathway. Use other weights or examples."
            )
        names.append([f"h{layer}_{k}" for k in range(int(opens.sum()))])
        slots.append(_placed(which, len(names[-1])))
        table |= dict(zip(names[-1], patterns[opens], strict=True))
    names.append(["y"])
    slots.append(_all(batch, network.outputs))
    edges = {}
    for weight, before, after, sources, targets in zip(
        weights, slots[:-1], slots[1:], names[:-1], names[1:], strict=True
    ):
        # Index −1 selects a unit with zero weights.
        whole = np.pad(weight, [(0, 0)] * len(batch) + [(0, 1), (0, 1)])
        for (s, source), (t, target) in itertools.product(enumerate(sources), enumerate(targets)):
            rows = np.take_along_axis(whole, after[t][..., None], axis=-2)
            edges[f"{source}-{target}"] = np.take_along_axis(rows, before[s][..., None, :], axis=-1)
    table = {name: gate for name, gate in table.items() if (gate != 1).any()}
    return gated_from(edges, gates=table, x=x)._labelled_like(network)


def layers_of(network: AbstractNetwork) -> tuple[list[np.ndarray], list[NeuronUnit]]:
    """Return the weights (*batch, out, in) of all layers, and the unit of each hidden layer."""
    if isinstance(network, Layer):
        weights = [network.u, network.v.swapaxes(-1, -2)]
        units, skips = [network.unit], ()
    elif isinstance(network, DeepNetwork):
        weights = list(network.weights)
        units = [network.unit, *map(NeuronUnit, network.activations)]
        skips = network.skips
    else:
        weights, units, skips = [], [], ()
    plain = [unit for unit in units if type(unit) is NeuronUnit and not unit.bias]
    if not units or skips or not all(each.algebra.homogeneous for each in plain) or plain != units:
        raise ValueError(
            "`network` must have linear or rectified neurons in a layer or a `DeepNetwork`, "
            f"without biases and skips, got {network!r}. Instead of biases use a column of ones "
            "in `x`."
        )
    return [np.asarray(weight, float) for weight in weights], plain


def _given(
    gates: ArrayLike | Sequence[ArrayLike],
    network: AbstractNetwork,
    examples: int,
    weights: list[np.ndarray],
) -> Gates:
    layers = len(weights) - 1
    alone = layers == 1 and not isinstance(gates, tuple | list)
    listed: Any = [gates] if alone else gates
    wanted = [(*network.batch_shape, weight.shape[-2], examples) for weight in weights[:-1]]
    if (found := [np.shape(each) for each in listed]) != wanted:
        raise ValueError(
            f"`gates` must be (*batch, unit, example) for each of the {layers} hidden layers, here "
            f"{', '.join(map(str, wanted))}, got {', '.join(map(str, found))}."
        )
    return tuple(finite_array("gates", each) for each in listed)


def _all(batch: tuple[int, ...], width: int) -> list[Int[np.ndarray, "*batch unit"]]:
    """Return a layer as a list of one node that has all units of the layer."""
    return [np.broadcast_to(np.arange(width), (*batch, width))]


def _placed(which: Int[np.ndarray, "*batch unit"], nodes: int) -> list[np.ndarray]:
    """Return the indices of each node's units, padded with −1 for networks with fewer units.

    Index −1 gives a unit with zero weights in and out, whose gradient is zero.
    """
    placed = []
    for node in range(nodes):
        mine = which == node
        order = np.argsort(~mine, axis=-1, kind="stable")
        first = order[..., : mine.sum(axis=-1).max()]
        placed.append(np.where(np.take_along_axis(mine, first, axis=-1), first, -1))
    return placed
