"""The hidden layers of a network, each as the weights into and out of its units."""

from typing import Any, NamedTuple, cast

import numpy as np
from jaxtyping import Float

from ..._types import Array
from ...networks import AbstractNetwork, AbstractUnit, DeepLinear, DeepNetwork, Layer, NeuronUnit
from ...networks._network import Network


class HiddenLayer(NamedTuple):
    """Units of one hidden layer, `(*batch, unit, …)`: what they compute, receive and send."""

    unit: AbstractUnit
    incoming: Float[Array, "..."]
    outgoing: Float[Array, "..."]


def hidden_layers(network: AbstractNetwork) -> tuple[HiddenLayer, ...]:
    """Return each hidden layer of a network as Eq. (1) of Zhang, Saxe & Latham sees it."""
    if isinstance(network, Layer):
        return (HiddenLayer(network.unit, network.u, network.v),)
    if isinstance(network, DeepLinear):
        units: tuple[AbstractUnit, ...] = (network.first_unit,) * (network.depth - 1)
    elif isinstance(network, DeepNetwork):
        behind = (NeuronUnit(each, bias=network.unit.bias) for each in network.activations)
        units = (network.unit, *behind)
    else:
        raise ValueError(f"No hidden layers are known of a {type(network).__name__}.")
    axis, weights = len(network.batch_shape), network.parts
    return tuple(
        # Behind the weights that a layer sends to the next stand the biases of that.
        HiddenLayer(
            unit, before, np.moveaxis(np.asarray(after)[..., : before.shape[axis]], -1, axis)
        )
        for unit, before, after in zip(units, weights[:-1], weights[1:], strict=True)
    )


def only_layer(network: Layer) -> Layer:
    """Return the network; raises unless it is a single layer with no other weights."""
    if not isinstance(network, Layer):
        raise ValueError(
            f"`network` must be one layer, Σ φ(x; u_i) v_i, got {type(network).__name__}. Of a "
            "deeper network give one hidden layer: festina.networks.layer_from(unit, u, v) of what "
            "comes in and what goes out."
        )
    return network


def with_hidden_layer(
    network: Network,
    layer: int,
    incoming: Float[np.ndarray, "..."],
    outgoing: Float[np.ndarray, "..."],
) -> Network:
    """Return the network with other weights, and possibly more units, in one hidden layer."""
    if isinstance(network, DeepNetwork) and any(layer + 1 in skip for skip in network.skips):
        raise ValueError(
            f"Hidden layer {layer + 1} is an end of a skip of {network.skips}: what its units "
            "compute is not Σ φ(z; u_i) v_i alone, and it keeps its width."
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
