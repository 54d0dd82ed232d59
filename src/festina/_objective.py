"""The loss as a function of one flat vector of weights, in the convention that was asked for."""

from dataclasses import dataclass
from typing import Any, Literal, NamedTuple

import jax
import jax.numpy as jnp
import numpy as np
from jaxtyping import Float

from ._types import Array
from .networks import Layer
from .tasks import AbstractTask

Convention = Literal["half", "mean-square", "mean-over-outputs", "half-sum", "sum-square"]

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
            + "."
        )
    if convention in ("half-sum", "sum-square"):
        if task.samples is None:
            raise ValueError(f"The loss '{convention}' sums over samples; a population has none.")
        return task.samples * (1.0 if convention == "half-sum" else 2.0)
    return {"half": 1.0, "mean-square": 2.0, "mean-over-outputs": 2.0 / task.outputs}[convention]


@dataclass(frozen=True)
class Structure:
    """How a flat vector of weights is a network. Hashable: what compiled programs depend on."""

    treedef: Any  # of the network, with all that is static in it
    shapes: tuple[tuple[int, ...], ...]

    @classmethod
    def of(cls, network: Layer) -> "Structure":
        leaves, treedef = jax.tree_util.tree_flatten(network)
        axes = len(network.batch_shape)
        return cls(treedef, tuple(leaf.shape[axes:] for leaf in leaves))

    def flatten(self, network: Layer) -> Float[np.ndarray, "lane weight"]:
        lanes = int(np.prod(network.batch_shape))
        leaves = jax.tree_util.tree_leaves(network)
        return np.concatenate(
            [np.asarray(leaf, float).reshape(lanes, -1) for leaf in leaves], axis=1
        )

    def unflatten(self, weights: Float[Array, "*batch weight"]) -> Layer:
        batch = weights.shape[:-1]
        leaves, start = [], 0
        for shape in self.shapes:
            size = int(np.prod(shape))
            leaves.append(weights[..., start : start + size].reshape(*batch, *shape))
            start += size
        return jax.tree_util.tree_unflatten(self.treedef, leaves)


class Data(NamedTuple):
    """What the loss is taken over, as arrays that a compiled program receives."""

    psi: Float[Array, "sample ..."]
    y: Float[Array, "sample output"]
    weight: Float[Array, " sample"]


def excess_loss(
    structure: Structure, weights: Float[Array, " weight"], data: Data
) -> Float[Array, ""]:
    """L − floor of one network: the part of the loss that learning can change."""
    outputs = jax.vmap(structure.unflatten(weights).respond)(data.psi)
    return 0.5 * jnp.sum(data.weight[:, None] * (data.y - outputs) ** 2)


class Objective(NamedTuple):
    """A network's structure, the data it is trained on, and the loss that no training can reach."""

    structure: Structure
    data: Data
    floor: float


def objective(network: Layer, task: AbstractTask, convention: str) -> Objective:
    """Set up the loss; raises where network and task do not fit."""
    if not isinstance(network, Layer) or not isinstance(task, AbstractTask):
        raise ValueError(
            "Training takes a network (of `festina.networks`) and a task (of `festina.tasks`; your "
            f"own arrays: `festina.tasks.task(x, y)`), got {type(network).__name__} and "
            f"{type(task).__name__}."
        )
    factor = loss_factor(convention, task)
    axes = len(network.batch_shape)
    unit = network.unit
    expected_u = unit.weight_shape(task.input_shape)
    expected_v = (task.outputs, *unit.read_shape(task.input_shape))
    found_u, found_v = network.u.shape[axes + 1 :], network.v.shape[axes + 1 :]
    if found_u != expected_u or found_v != expected_v:
        raise ValueError(
            f"Network and task do not fit: inputs of shape {task.input_shape} and {task.outputs} "
            f"outputs need unit weights u {expected_u} and v {expected_v}, the network has "
            f"{found_u} and {found_v}."
        )
    for name, array in (("u", network.u), ("v", network.v)):
        if not np.isfinite(array).all():
            raise ValueError(f"The initial weights `{name}` are not all finite.")
    statistics = task.statistics(unit)
    data = Data(statistics.psi, statistics.y, factor * statistics.weight)
    return Objective(Structure.of(network), data, factor * statistics.floor)
