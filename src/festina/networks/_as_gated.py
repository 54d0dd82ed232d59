"""ReLU networks on given examples, as gated linear networks."""

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
"""Of the units of every hidden layer, for every example."""


@float64
def rectifier_gates(network: AbstractNetwork, x: ArrayLike) -> Gates:
    r"""Return the slopes of a network's rectifiers on given examples, layer by layer.

    A rectifier is linear on either side of its kink, $\sigma(a) = g\,a$ with g = 1 or 0 (of a leaky
    one its slope, of a linear unit always 1).

    **Arguments:**

    - `network`: a layer or `DeepNetwork` of neurons, linear or rectified, without biases and
      skips; or a batch of such.
    - `x`: the inputs, `(example, input)`.

    **Returns:** for each hidden layer `(*batch, unit, example)`.
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
    r"""Return the gated network whose gates are the slopes of rectifiers on given examples.

    A rectifier is linear on either side of its kink, so that on these examples both say the same,
    and learn the same as long as no unit changes sides. Units of a layer that are on for the same
    examples make one node: pathways `h1_0`, `h1_1`, … of the first hidden layer, and so on. Units
    that are silent for all examples are left out.

    With `gates` the weights are those of the network and the gates are what you say: those of
    another time (`rectifier_gates(run.final, x)`), or those of contexts or pathways as
    `festina.diagnose.gating` finds them.

    **Arguments:**

    - `network`: a layer or `DeepNetwork` of neurons, linear or rectified, without biases and
      skips. Of a batch every network has all pathways that any has, where it has no such units with
      weights of zero.
    - `x`: the inputs, `(example, input)`.
    - `gates`: `(*batch, unit, example)` of one hidden layer, or a list of such of each; numbers or
      booleans.
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
                f"All units of layer {layer}{of} are silent for all examples: no pathway is left."
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
        whole = np.pad(weight, [(0, 0)] * len(batch) + [(0, 1), (0, 1)])  # −1 is a unit without any
        for (s, source), (t, target) in itertools.product(enumerate(sources), enumerate(targets)):
            rows = np.take_along_axis(whole, after[t][..., None], axis=-2)
            edges[f"{source}-{target}"] = np.take_along_axis(rows, before[s][..., None, :], axis=-1)
    table = {name: gate for name, gate in table.items() if (gate != 1).any()}
    return gated_from(edges, gates=table, x=x)._labelled_like(network)


def layers_of(network: AbstractNetwork) -> tuple[list[np.ndarray], list[NeuronUnit]]:
    """Return weights (*batch, out, in) from layer to layer, and the units of hidden ones."""
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
            "Gates are read from linear or rectified neurons, in a layer or a `DeepNetwork` "
            f"without biases and skips, got {network!r}. A bias is the weight of a column of ones."
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
            f"`gates` must be (*batch, unit, example) of each of the {layers} hidden layers, here "
            f"{', '.join(map(str, wanted))}, got {', '.join(map(str, found))}."
        )
    return tuple(finite_array("gates", each) for each in listed)


def _all(batch: tuple[int, ...], width: int) -> list[Int[np.ndarray, "*batch unit"]]:
    """Return one node with every unit."""
    return [np.broadcast_to(np.arange(width), (*batch, width))]


def _placed(which: Int[np.ndarray, "*batch unit"], nodes: int) -> list[np.ndarray]:
    """Return the units of each node, as many as in any network of a batch; −1 stands for none.

    A unit whose weights in and out are zero stays so: it changes nothing.
    """
    placed = []
    for node in range(nodes):
        mine = which == node
        order = np.argsort(~mine, axis=-1, kind="stable")
        first = order[..., : mine.sum(axis=-1).max()]
        placed.append(np.where(np.take_along_axis(mine, first, axis=-1), first, -1))
    return placed
