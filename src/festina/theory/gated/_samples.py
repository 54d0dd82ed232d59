"""Inputs, gates and targets of a gated network for the samples of a task, by name."""

from typing import NamedTuple

import jax
import numpy as np
from jaxtyping import Float

from ..._checks import check_type
from ..._objective import statistics_for
from ..._precision import float64
from ...networks import Gated
from ...tasks import Task


class Samples(NamedTuple):
    """Inputs and targets by node, and gates by node and edge, for each sample."""

    inputs: dict[str, Float[np.ndarray, "sample _"]]
    gates: dict[str, Float[np.ndarray, "sample 1"]]
    targets: dict[str, Float[np.ndarray, "sample _"]]
    weight: Float[np.ndarray, " sample"]
    floor: float
    """Part of ½⟨‖y‖²⟩ that these samples do not contain."""


def check_gated(network: object) -> None:
    check_type("network", network, Gated, " Use `festina.networks.gated`.")


@float64
def samples(network: Gated, task: Task, *, compressed: bool = True) -> Samples:
    """Return the samples of a task; if `compressed`, fewer samples with the same moments.

    The target of an output with a closed gate is 0, as in training.
    """
    check_gated(network)
    check_type("task", task, Task, " Use `festina.tasks.from_arrays`.")
    network._check_single()
    psi, y, weight, floor, _ = statistics_for(network, task)
    if not compressed:
        psi = np.asarray(jax.jit(jax.vmap(network.features))(np.asarray(task.x, float)))
        y, weight, floor = network.view.wanted(psi, task.y), task.weight, 0.0
    plan, names = network.plan, network.gating.names
    open_ = np.ones((len(psi), 1))
    gates = {name: open_ for name in (*plan.widths, *network.part_axes)}
    gates |= {name: psi[:, [k - len(names)]] for k, name in enumerate(names)}
    apart = lambda columns, nodes: dict(
        zip(
            nodes,
            np.split(columns, np.cumsum([plan.widths[n] for n in nodes])[:-1], 1),
            strict=True,
        )
    )
    inputs = apart(psi[:, : psi.shape[1] - len(names)], dict(plan.inputs))
    return Samples(inputs, gates, apart(y, plan.outputs), weight, floor)
