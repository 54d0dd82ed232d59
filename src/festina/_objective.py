"""The loss as a function of one flat vector of weights, in the convention that was asked for."""

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

_FORMULAS: dict[str, str] = {
    "half": "½⟨‖y − f‖²⟩",
    "mean-square": "⟨‖y − f‖²⟩",
    "mean-over-outputs": "⟨‖y − f‖²⟩ / outputs",
    "half-sum": "½ Σ_samples ‖y − f‖²",
    "sum-square": "Σ_samples ‖y − f‖²",
}


def loss_formula(convention: str) -> str:
    """A loss convention in symbols."""
    return _FORMULAS[convention]


def loss_factor(convention: str, task: AbstractTask) -> float:
    """c in c·½⟨‖y − f‖²⟩.

    A factor in the loss is a factor in time: n steps of size η on c·L are flow time cηn of L.
    """
    if convention not in _FORMULAS:
        raise ValueError(
            f"Unknown loss '{convention}'. There are: "
            + ", ".join(f"'{name}' = {formula}" for name, formula in _FORMULAS.items())
            + ". All are squared: training with another, such as a cross-entropy, has other fixed "
            "points and times."
        )
    if convention in ("half-sum", "sum-square"):
        if task.samples is None:
            raise ValueError(f"The loss '{convention}' sums over samples; a population has none.")
        return task.samples * (1.0 if convention == "half-sum" else 2.0)
    return {"half": 1.0, "mean-square": 2.0, "mean-over-outputs": 2.0 / task.outputs}[convention]


class Data(NamedTuple):
    """What the loss is taken over, as arrays that a compiled program receives."""

    psi: Float[Array, "sample ..."]
    y: Float[Array, "sample output"]
    weight: Float[Array, " sample"]


def excess_loss(structure: AbstractStructure, weights: Column, data: Data) -> Number:
    """L − floor: the part of the loss that learning can change."""
    return _excess(structure, data, *structure.split(weights))


def descent(structure: AbstractStructure, weights: Column, data: Data) -> tuple[Number, Column]:
    """L − floor and −∂L/∂θ of every lane."""
    # Without the barriers the compiler computes the weights again for each use of them.
    parts = structure.split(jax.lax.optimization_barrier(weights))
    losses, pull = jax.vjp(lambda *parts: _excess(structure, data, *parts), *parts)
    # Lanes do not see each other, so that the gradient of their sum is that of each. It is taken
    # by the parts, because that by the column would be made of columns padded with zeros.
    slopes = pull(-jnp.ones_like(losses))
    column = jnp.concatenate([slope.reshape(-1, *losses.shape) for slope in slopes])
    return losses, jax.lax.optimization_barrier(column)


def _excess(structure: AbstractStructure, data: Data, *parts: Array) -> Number:
    outputs = structure.outputs(data.psi, *parts)
    lanes = (1,) * (outputs.ndim - 2)
    error = data.y.reshape(*data.y.shape, *lanes) - outputs
    return 0.5 * jnp.sum(data.weight.reshape(-1, 1, *lanes) * error**2, axis=(0, 1))


class Objective(NamedTuple):
    """A network's structure, the data it is trained on, and the loss that no training can reach."""

    structure: AbstractStructure
    data: Data
    floor: float


def check_kinds(network: AbstractNetwork, task: AbstractTask) -> None:
    """Raise unless the one is a network and the other a task."""
    if not isinstance(network, AbstractNetwork) or not isinstance(task, AbstractTask):
        raise ValueError(
            "Expected a network (of `festina.networks`; your own weights: "
            "`festina.networks.layer_from(unit, u, v)`) and a task (of `festina.tasks`; your own "
            f"data: `festina.tasks.from_arrays(x, y)`), got {type(network).__name__} and "
            f"{type(task).__name__}."
        )


def statistics_for(network: AbstractNetwork, task: AbstractTask) -> Statistics:
    """What the network sees of the task; raises unless they fit and its weights are finite."""
    network.check_fit(task.input_shape, task.outputs)
    network.check_finite()
    return task.statistics(network.view)


def objective(network: AbstractNetwork, task: AbstractTask, convention: str) -> Objective:
    """Set up the loss; raises where network and task do not fit."""
    check_kinds(network, task)
    factor = loss_factor(convention, task)
    statistics = statistics_for(network, task)
    data = Data(statistics.psi, statistics.y, factor * statistics.weight)
    return Objective(network.structure, data, factor * statistics.floor)
