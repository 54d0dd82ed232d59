"""Measure how nonlinear each layer of a network is."""

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

    - `kept`: power after the activation of each layer, as a fraction of the power before it.
    - `on`: fraction of units and examples with positive activity.
    - `loss`: ½⟨‖y − f‖²⟩ of the network after that layer alone has been made linear.
    - `network_loss`: ½⟨‖y − f‖²⟩ of the unchanged network.

    **Example:**

    >>> from festina.diagnose import layer_nonlinearity
    >>> from festina.networks import layer_from
    >>> from festina.tasks import from_arrays
    >>> network = layer_from("relu", [[1, 0], [0, 1]], [1, 2])
    >>> found = layer_nonlinearity(network, from_arrays([[1, 0], [0, 1], [-1, 0]], [1, 2, 0]))
    >>> found.kept, found.loss, found.network_loss
    (array([0.66666667]), array([0.16666667]), 0.0)
    """

    kept: Float[np.ndarray, " layer"]
    on: Float[np.ndarray, " layer"]
    loss: Float[np.ndarray, " layer"]
    network_loss: float


@float64
def layer_nonlinearity(network: AbstractNetwork, task: Task) -> LayerNonlinearity:
    r"""Return how nonlinear each hidden layer of a network is on the examples of a task.

    The first measure is the fraction $\sum h^2/\sum a^2$ of the power that the activation
    $h = \sigma(a)$ keeps. The second measure is the loss after σ has been left out of one layer. If
    a ReLU layer acts almost linearly, although its units are inactive for some examples, the
    fraction is near 1 and the loss hardly rises.

    **Arguments:**

    - `network`: a layer or `DeepNetwork` of neurons, without skip connections.
    - `task`: the examples; their number must be finite.

    **Returns:** a `LayerNonlinearity`.

    **Example:**

    >>> from festina.diagnose import layer_nonlinearity
    >>> from festina.networks import layer_from
    >>> from festina.tasks import from_arrays
    >>> network = layer_from("relu", [[1, 0], [0, 1]], [1, 2])
    >>> task = from_arrays([[1, 0], [0, 1], [-1, 0]], [1, 2, 0])
    >>> layer_nonlinearity(network, task).on.round(3)
    array([0.333])
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
    """Return one network for each hidden layer, with only that layer made linear."""
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
