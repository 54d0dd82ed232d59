"""A two-layer linear network and its task, in the form that closed-form solutions use."""

from typing import NamedTuple

import numpy as np
from jaxtyping import Float

from ..._objective import check_kinds, statistics_for
from ...networks import AbstractNetwork, DeepLinear, Layer
from ...tasks import AbstractTask


class LinearLayer(NamedTuple):
    """Weights u and v of every unit, and the averages Σ_yz and Σ_zz of the data."""

    u: Float[np.ndarray, "*batch unit input"]
    v: Float[np.ndarray, "*batch unit output"]
    correlation: Float[np.ndarray, "output input"]
    covariance: Float[np.ndarray, "input input"]


def as_layer(network: AbstractNetwork) -> AbstractNetwork:
    """Return a two-layer `DeepLinear` as the equivalent `Layer`, and other networks unchanged."""
    if isinstance(network, DeepLinear) and network.depth == 2:
        return network.to_layer()
    return network


def is_linear(layer: Layer) -> bool:
    """Return whether the units of a layer are linear and fully connected."""
    return layer.unit.degree == 1 and not layer.unit.read_axes


def linear_layer(network: AbstractNetwork, task: AbstractTask) -> LinearLayer:
    """Return a linear layer and the averages of its task; raise `ValueError` for other networks."""
    check_kinds(network, task)
    layer = as_layer(network)
    if not isinstance(layer, Layer) or not is_linear(layer):
        raise ValueError(
            "`network` must be linear and fully connected, of two layers: a layer of linear units "
            f"or a `DeepLinear` of depth two. Got {network!r}. For other networks "
            "use `festina.theory.saddles.staircase`, or train (`festina.gradient_flow`)."
        )
    seen = statistics_for(layer, task)
    u, v = (np.asarray(part, float) for part in layer.parts)
    return LinearLayer(u, v, seen.correlation, seen.covariance)
