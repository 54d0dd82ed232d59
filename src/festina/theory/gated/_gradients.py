"""The gradient of a gated network in three forms that are equal and cost different amounts."""

import functools
import math
from typing import Literal, NamedTuple

import jax
import jax.numpy as jnp
import numpy as np
from jaxtyping import Float

from ..._objective import Data, descent, objective
from ..._precision import float64
from ...networks import Gated
from ...tasks import Task
from ._paths import MOST_PATHS, count_paths, path_statistics

Form = Literal["data", "patterns", "paths"]

_descent = jax.jit(descent, static_argnums=0)


class Gradient(NamedTuple):
    """∂L/∂W of every edge, as a network, and how it was computed."""

    network: Gated
    form: Form
    cost: dict[Form, float]
    """Multiplications that each form takes, of paths infinite where they are not enumerated."""


def gradient(network: Gated, task: Task, *, form: Form | None = None) -> Gradient:
    r"""∂L/∂W of ½⟨‖y − f‖²⟩, from samples, patterns of gates or paths.

    - `data`: back-propagation through every sample.
    - `patterns`: the same, through samples that stand for all with the same gates.
    - `paths`: $-\sum_{p \ni e} W_{\bar t(p,e)}^\top E(p) W_{\bar s(p,e)}^\top$, with
      $E(p) = \Sigma^{yx}(p) - \sum_j W_j \Sigma^x(j, p)$ over the paths j that end where p does.

    **Arguments:**

    - `form`: one of them; by default the one with the fewest multiplications, which the result
      names.
    """
    network._check_single()
    cost = _costs(network, task)
    chosen: Form = min(cost, key=cost.__getitem__) if form is None else form
    if chosen not in cost:
        raise ValueError(f"`form` must be one of {', '.join(cost)}, got {form!r}.")
    if chosen == "paths":
        parts = _by_paths(network, task)
    else:
        parts = _by_samples(network, task, compressed=chosen == "patterns")
    return Gradient(network.with_parts(*parts), chosen, cost)


def _costs(network: Gated, task: Task) -> dict[Form, float]:
    weights = sum(map(math.prod, network.plan.shapes))
    rows = len(task.statistics(network.view).psi)
    count = count_paths(network)
    widest = max(network.plan.widths.values())
    pairs = count * (count + len(network.plan.nodes)) * widest**3
    return {
        "paths": math.inf if count > MOST_PATHS else pairs,
        "patterns": 3.0 * rows * weights,
        "data": 3.0 * len(task.x) * weights,
    }


@float64
def _by_samples(network: Gated, task: Task, *, compressed: bool) -> tuple[np.ndarray, ...]:
    structure, data, _ = objective(network, task, "half")
    if not compressed:
        psi = np.asarray(jax.jit(jax.vmap(network.features))(np.asarray(task.x, float)))
        data = Data(psi, network.view.wanted(psi, task.y), task.weight)
    columns = jnp.asarray(structure.columns(*network.parts)[:, 0])
    return structure.arrays(-np.asarray(_descent(structure, columns, data)[1]))


def _by_paths(network: Gated, task: Task) -> list[Float[np.ndarray, "out in"]]:
    weights = dict(zip(network.part_axes, map(np.asarray, network.parts), strict=True))
    seen = path_statistics(network, task)
    product = lambda edges, start: functools.reduce(
        lambda before, edge: weights[edge] @ before, edges, start
    )
    widths = network.plan.widths
    whole = [product(path.edges, np.eye(widths[path.nodes[0]])) for path in seen.paths]
    slopes = {edge: np.zeros_like(weight) for edge, weight in weights.items()}
    for p, path in enumerate(seen.paths):
        error = seen.correlation[p] - sum(
            whole[j] @ seen.covariance(j, p)
            for j, other in enumerate(seen.paths)
            if other.nodes[-1] == path.nodes[-1]
        )
        for k, edge in enumerate(path.edges):
            before = product(path.edges[:k], np.eye(widths[path.nodes[0]]))
            after = product(path.edges[k + 1 :], np.eye(widths[path.nodes[k + 1]]))
            slopes[edge] -= after.T @ error @ before.T
    return list(slopes.values())
