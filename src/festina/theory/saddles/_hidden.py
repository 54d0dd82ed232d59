"""Hidden layers of a network, each as the weights into and out of its units."""

from typing import Any, NamedTuple, cast

import numpy as np
from jaxtyping import Float

from ..._types import Array
from ...networks import AbstractNetwork, AbstractUnit, DeepLinear, DeepNetwork, Layer, NeuronUnit
from ...networks._network import Network


class HiddenLayer(NamedTuple):
    """Units of one hidden layer: the unit, its input weights and its output weights.

    Both arrays of weights have shape `(*batch, unit, …)`.
    """

    unit: AbstractUnit
    incoming: Float[Array, "..."]
    outgoing: Float[Array, "..."]


def hidden_layers(network: AbstractNetwork) -> tuple[HiddenLayer, ...]:
    """Return each hidden layer of a network as a sum Σ φ(z; u_i) v_i over units."""
    if isinstance(network, Layer):
        return (HiddenLayer(network.unit, network.u, network.v),)
    if isinstance(network, DeepLinear):
        units: tuple[AbstractUnit, ...] = (network.first_unit,) * (network.depth - 1)
    elif isinstance(network, DeepNetwork):
        behind = (NeuronUnit(each, bias=network.unit.bias) for each in network.activations)
        units = (network.unit, *behind)
    else:
        raise ValueError(
            "`network` must be a `Layer`, `DeepLinear` or `DeepNetwork`, got "
            f"{type(network).__name__}, which has no hidden layers of units with weights u and v."
        )
    axis, weights = len(network.batch_shape), network.parts
    return tuple(
        # The last columns of the outgoing weights are the biases of the next layer.
        HiddenLayer(
            unit, before, np.moveaxis(np.asarray(after)[..., : before.shape[axis]], -1, axis)
        )
        for unit, before, after in zip(units, weights[:-1], weights[1:], strict=True)
    )


def only_layer(network: Layer) -> Layer:
    """Return the network, or raise `ValueError` unless it is a single `Layer`."""
    if not isinstance(network, Layer):
        raise ValueError(
            f"`network` must be one layer, Σ φ(x; u_i) v_i, got {type(network).__name__}. From a "
            "deeper network take one hidden layer, with its input weights u and output weights v: "
            "festina.networks.layer_from(unit, u, v)."
        )
    return network


def with_hidden_layer(
    network: Network,
    layer: int,
    incoming: Float[np.ndarray, "..."],
    outgoing: Float[np.ndarray, "..."],
) -> Network:
    """Return the network with new weights, and possibly more units, in one hidden layer."""
    if isinstance(network, DeepNetwork) and any(layer + 1 in skip for skip in network.skips):
        raise ValueError(
            f"The width of hidden layer {layer + 1} cannot change, because a skip connection of "
            f"{network.skips} starts or ends there. Give the present width of this layer."
        )
    axis, parts = len(network.batch_shape), list[Any](network.parts)
    if not isinstance(network, Layer):
        after = np.asarray(parts[layer + 1])
        biases = after[..., parts[layer].shape[axis] :]
        outgoing = np.concatenate((np.moveaxis(outgoing, axis, -1), biases), axis=-1)
    parts[layer : layer + 2] = incoming, outgoing
    return cast(Network, network.with_parts(*parts))


def combine(
    matrix: Float[np.ndarray, "new unit"], weights: Float[np.ndarray, "..."], axis: int
) -> Float[np.ndarray, "..."]:
    """Return Σ_i M_ni w_i for weights whose units lie along `axis`."""
    return np.moveaxis(np.tensordot(matrix, weights, (1, axis)), 0, axis)
