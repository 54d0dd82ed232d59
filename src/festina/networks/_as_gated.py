"""What a network of rectifiers does to given examples, as a gated network."""

import itertools

import jax
import numpy as np

from .._precision import float64
from .._types import ArrayLike
from ._gated import Gated, gated_from
from ._given import finite_array
from ._layer import Layer
from ._network import AbstractNetwork
from ._stack import Stack
from ._units import Neuron


@float64
def as_gated(network: AbstractNetwork, examples: ArrayLike) -> Gated:
    r"""The gated network whose gates are the slopes of a network's rectifiers on given examples.

    A rectifier is linear on either side of its kink, $\\sigma(a) = g\\,a$ with g = 1 or 0 (of a
    leaky one its slope), so that on these examples both say the same, and learn the same as long as
    no unit changes sides. Units of a layer that are on for the same examples make one node:
    pathways `h1_0`, `h1_1`, … of the first hidden layer, and so on. Units that are silent for all
    examples are left out.

    **Arguments:**

    - `network`: one layer of neurons or a stack of them, linear or rectified, without biases and
      skips.
    - `examples`: the inputs, `(example, input)`.
    """
    if isinstance(network, Layer):
        weights = [network.u, network.v.swapaxes(-1, -2)]
        units, skips = [network.unit], ()
    elif isinstance(network, Stack):
        weights, units = list(network.weights), [network.unit, *map(Neuron, network.activations)]
        skips = network.skips
    else:
        weights, units, skips = [], [], ()
    bent = [unit.algebra for unit in units]
    plain = all(type(unit) is Neuron and not unit.bias for unit in units)
    if not (units and plain) or skips or not all(each.homogeneous for each in bent):
        raise ValueError(
            "Gates are read from linear or rectified neurons, in a layer or a stack without biases "
            f"and skips, got {network!r}. A bias is the weight of a column of ones."
        )
    x = finite_array("examples", examples)
    network._check_single()
    inputs = np.ones((1, x.shape[-1]), bool)  # which units are in which node, layer by layer
    names, groups, gates = [["x"]], [inputs], {}
    for layer, (unit, h) in enumerate(zip(units, jax.vmap(network.hidden)(x), strict=True), 1):
        below = -float(unit.response(np.ones((1, 1)), -np.ones((1, 1)))[0, 0])
        rows = np.where(np.asarray(h) > 0, 1.0, below).T
        patterns, which = np.unique(rows, axis=0, return_inverse=True)
        open_ = [k for k, pattern in enumerate(patterns) if pattern.any()]
        if not open_:
            raise ValueError(f"All units of layer {layer} are silent for all examples.")
        names.append([f"h{layer}_{k}" for k in range(len(open_))])
        groups.append(np.stack([which.ravel() == k for k in open_]))
        gates |= dict(zip(names[-1], patterns[open_], strict=True))
    names.append(["y"])
    groups.append(np.ones((1, network.outputs), bool))
    edges = {}
    for weight, before, after, sources, targets in zip(
        weights, groups[:-1], groups[1:], names[:-1], names[1:], strict=True
    ):
        for (s, source), (t, target) in itertools.product(enumerate(sources), enumerate(targets)):
            edges[f"{source}-{target}"] = np.asarray(weight)[np.ix_(after[t], before[s])]
    gates = {name: gate for name, gate in gates.items() if (gate != 1).any()}
    return gated_from(edges, gates=gates, examples=x)
