"""Functional linearity: what would change if a layer did not bend at all."""

from dataclasses import dataclass, replace

import jax
import numpy as np
from jaxtyping import Float

from .._checks import check_alone, check_type
from .._precision import float64
from .._result import Result
from ..networks import AbstractNetwork, DeepNetwork, Layer, NeuronUnit, activation
from ..tasks import Task


@dataclass(frozen=True, eq=False, repr=False)
class LayerNonlinearity(Result):
    """Result of `layer_nonlinearity`: how nonlinear each hidden layer is.

    - `kept`: of the power of what goes into each layer's activation, what comes out.
    - `on`: share of units and examples with activity above zero.
    - `loss`: ½⟨‖y − f‖²⟩ of the network with that layer made linear.
    - `network_loss`: of the network as it is.
    """

    kept: Float[np.ndarray, " layer"]
    on: Float[np.ndarray, " layer"]
    loss: Float[np.ndarray, " layer"]
    network_loss: float


@float64
def layer_nonlinearity(network: AbstractNetwork, task: Task) -> LayerNonlinearity:
    r"""Return how nonlinear each layer is: what its activation removes, and the loss without it.

    A rectifier of which all units are off for some examples may still be linear in what it does, if
    what it cuts is small: $\sum h^2/\sum a^2$ near 1, for the activity $h = \sigma(a)$, and a loss
    that hardly rises when σ is left out.

    **Arguments:**

    - `network`: a layer or `DeepNetwork` of neurons, without skips.
    - `task`: the examples.
    """
    check_type("task", task, Task)
    ways = _without_each(network)
    check_alone(network.batch_shape)
    network.check_fit(task.input_shape, task.outputs)
    x, y = np.asarray(task.x, float), np.asarray(task.y, float)
    loss = lambda net: 0.5 * float(task.weight @ np.sum((y - net.predict(x)) ** 2, axis=1))
    hidden = jax.vmap(network.hidden)(x)
    kept, on = np.empty((2, len(ways)))
    for k, way in enumerate(ways):
        a, h = np.asarray(jax.vmap(way.hidden)(x)[k]), np.asarray(hidden[k])
        power = np.sum(task.weight @ a**2)
        kept[k] = np.sum(task.weight @ h**2) / power if power > 0 else 1.0
        on[k] = np.mean(task.weight @ (h > 0))
    return LayerNonlinearity(kept, on, np.array([loss(way) for way in ways]), loss(network))


def _without_each(network: AbstractNetwork) -> list[AbstractNetwork]:
    """Return the network with each of its layers in turn made linear."""
    unit = network.unit if isinstance(network, Layer | DeepNetwork) else None
    if type(unit) is not NeuronUnit or getattr(network, "skips", ()):
        raise ValueError(
            f"`network` must be a layer or `DeepNetwork` of neurons without skips, got {network!r}."
        )
    straight = NeuronUnit(bias=unit.bias)
    if isinstance(network, Layer):
        return [replace(network, unit=straight)]
    assert isinstance(network, DeepNetwork)
    chosen, line = network.activations, activation("linear")
    others = [(*chosen[:k], line, *chosen[k + 1 :]) for k in range(len(chosen))]
    return [
        replace(network, unit=straight),
        *(replace(network, activations=each) for each in others),
    ]
