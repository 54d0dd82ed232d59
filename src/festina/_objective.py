"""The loss as a function of one flat vector of weights, in the chosen loss convention."""

from typing import Literal, NamedTuple

import jax
import jax.numpy as jnp
from jaxtyping import Float

from ._types import Array, Column, Number
from .networks import AbstractNetwork
from .networks._structure import AbstractStructure
from .tasks import AbstractTask
from .tasks._task import Statistics

LossConvention = Literal["half", "mean-square", "mean-over-outputs", "half-sum", "sum-square"]

"""Name of a loss convention: the prefactor of the squared error and how samples are combined.

**Example:**

>>> from typing import get_args
>>> from festina.dynamics import LossConvention
>>> get_args(LossConvention)
('half', 'mean-square', 'mean-over-outputs', 'half-sum', 'sum-square')
"""

_FORMULAS: dict[str, str] = {
    "half": "½⟨‖y − f‖²⟩",
    "mean-square": "⟨‖y − f‖²⟩",
    "mean-over-outputs": "⟨‖y − f‖²⟩ / outputs",
    "half-sum": "½ Σ_samples ‖y − f‖²",
    "sum-square": "Σ_samples ‖y − f‖²",
}


def loss_formula(convention: str) -> str:
    """Return the formula of a loss convention as text.

    Here $y$ is the target, $f$ the output of the network, and ⟨·⟩ the mean over samples.

    **Example:**

    >>> from festina.dynamics import loss_formula
    >>> loss_formula("half")
    '½⟨‖y − f‖²⟩'
    """
    return _FORMULAS[convention]


def loss_factor(convention: str, task: AbstractTask) -> float:
    r"""Return $c$, the ratio of the loss in a convention to $\frac12\langle\|y-f\|^2\rangle$.

    The factor rescales time: $n$ steps of gradient descent with learning rate η on the loss $cL$
    correspond to gradient flow on $L$ for the time $c\eta n$.

    **Arguments:**

    - `convention`: name of the loss convention, one of `festina.dynamics.LossConvention`.
    - `task`: task that gives the number of outputs and, for conventions with a sum, of samples.

    **Returns:**

    The factor $c$. Raises `ValueError` for an unknown convention, and for a sum over the samples of
    a task that is defined by its population average.

    **Example:**

    >>> import numpy as np
    >>> from festina.dynamics import loss_factor
    >>> from festina.tasks import from_arrays
    >>> task = from_arrays(np.eye(3), np.ones((3, 2)))
    >>> [loss_factor(name, task) for name in ("half", "mean-square", "half-sum")]
    [1.0, 2.0, 3.0]
    """
    if convention not in _FORMULAS:
        raise ValueError(
            f"Unknown loss '{convention}'. Choose one of: "
            + ", ".join(f"'{name}' = {formula}" for name, formula in _FORMULAS.items())
            + ". festina trains with squared losses only. Other losses, such as the cross-entropy, "
            "have other fixed points and learning times."
        )
    if convention in ("half-sum", "sum-square"):
        if task.samples is None:
            raise ValueError(
                f"The loss '{convention}' sums over samples, but this task is a population average "
                "without a number of samples. Use 'half', 'mean-square' or 'mean-over-outputs'."
            )
        return task.samples * (1.0 if convention == "half-sum" else 2.0)
    return {"half": 1.0, "mean-square": 2.0, "mean-over-outputs": 2.0 / task.outputs}[convention]


class Data(NamedTuple):
    """Inputs, targets and weights of the samples, as arrays for a compiled program."""

    psi: Float[Array, "sample ..."]
    y: Float[Array, "sample output"]
    weight: Float[Array, " sample"]


def excess_loss(structure: AbstractStructure, weights: Column, data: Data) -> Number:
    """Return the loss minus its floor, the least-squares loss that no training can go below."""
    return _excess(structure, data, *structure.split(weights))


def descent(structure: AbstractStructure, weights: Column, data: Data) -> tuple[Number, Column]:
    """Return the loss minus its floor, and the negative gradient −∂L/∂θ, for every lane."""
    # Without the barriers XLA recomputes the weights for each of their uses.
    parts = structure.split(jax.lax.optimization_barrier(weights))
    losses, pull = jax.vjp(lambda *parts: _excess(structure, data, *parts), *parts)
    # Lanes are independent, so the gradient of the summed loss is the gradient of every lane.
    # Differentiating by the weight matrices avoids columns padded with zeros.
    slopes = pull(-jnp.ones_like(losses))
    column = jnp.concatenate([slope.reshape(-1, *losses.shape) for slope in slopes])
    return losses, jax.lax.optimization_barrier(column)


def _excess(structure: AbstractStructure, data: Data, *parts: Array) -> Number:
    outputs = structure.outputs(data.psi, *parts)
    lanes = (1,) * (outputs.ndim - 2)
    error = data.y.reshape(*data.y.shape, *lanes) - outputs
    return 0.5 * jnp.sum(data.weight.reshape(-1, 1, *lanes) * error**2, axis=(0, 1))


class Objective(NamedTuple):
    """Structure of a network, its training data, and the floor of its loss.

    The floor is the least-squares loss that no training can go below.
    """

    structure: AbstractStructure
    data: Data
    floor: float


def check_kinds(network: AbstractNetwork, task: AbstractTask) -> None:
    """Raise `ValueError` unless `network` is a network and `task` is a task."""
    if not isinstance(network, AbstractNetwork) or not isinstance(task, AbstractTask):
        raise ValueError(
            "Expected a network of `festina.networks` and a task of `festina.tasks`, got "
            f"{type(network).__name__} and {type(task).__name__}. Your own weights become a "
            "network by `festina.networks.layer_from(unit, u, v)`, and your own data become a task "
            "by `festina.tasks.from_arrays(x, y)`."
        )


def statistics_for(network: AbstractNetwork, task: AbstractTask) -> Statistics:
    """Return the task's data as the network sees them; raise if shapes or weights do not fit."""
    network.check_fit(task.input_shape, task.outputs)
    network.check_finite()
    return task.statistics(network.view)


def objective(network: AbstractNetwork, task: AbstractTask, convention: str) -> Objective:
    """Return the loss of a network on a task; raise `ValueError` if the two do not fit."""
    check_kinds(network, task)
    factor = loss_factor(convention, task)
    statistics = statistics_for(network, task)
    data = Data(statistics.psi, statistics.y, factor * statistics.weight)
    return Objective(network.structure, data, factor * statistics.floor)
