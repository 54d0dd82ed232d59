"""A layer and its data from what was given: objects of this library, or plain arrays."""

import numpy as np
from numpy.typing import ArrayLike

from ..networks import AbstractNetwork, AbstractUnit, Activation, Layer, layer
from ..networks._activations import Scalar
from ..networks._given import check_alone
from ..networks._units import unit_of
from ..tasks import AbstractTask, task


def layer_of(
    network: Layer | ArrayLike,
    v: ArrayLike | None,
    activation: str | Activation | Scalar | AbstractUnit | None,
) -> Layer:
    """One layer with finite weights."""
    if isinstance(network, AbstractNetwork):
        if v is not None or activation is not None:
            raise ValueError("`v` and `activation` go with plain arrays; a network has its own.")
        if not isinstance(network, Layer):
            raise ValueError(
                f"`network` must be a layer, Σ φ(x; u_i) v_i, got {type(network).__name__}. Of a "
                "deeper network give one hidden layer as arrays: what comes in, u, and goes out, v."
            )
        check_alone(network.batch_shape)
        return layer(network.unit, network.u, network.v)
    if v is None or activation is None:
        raise ValueError("Plain arrays need both layers and φ: u, x, v=v, activation='relu'.")
    one = _layer_or_turned(unit_of(activation), network, v)
    if one.batch_shape:
        raise ValueError(f"One network at a time, got `u` of shape {np.shape(network)}.")
    return one


def task_of(network: Layer, data: AbstractTask | ArrayLike, y: ArrayLike | None) -> AbstractTask:
    """What the network learns, or has nothing to learn of: without any targets they are zero."""
    if isinstance(data, AbstractTask):
        if y is not None:
            raise ValueError("`y` goes with plain inputs; a task has its own targets.")
        found = data
    else:
        x = np.asarray(data, dtype=float)
        found = task(x, np.zeros((len(x), network.outputs)) if y is None else y)
    network.check_fit(found.input_shape, found.outputs)
    return found


def _layer_or_turned(unit: AbstractUnit, u: ArrayLike, v: ArrayLike) -> Layer:
    try:
        return layer(unit, u, v)
    except ValueError as error:
        shape, units = np.shape(u), np.shape(v)[:1]
        turned = len(unit.weight_axes) == 1 and shape[1:] == units and shape[:1] != units
        if turned and "Give v.T?" not in str(error):
            raise ValueError(f"{error} Give u.T?") from None
        raise
