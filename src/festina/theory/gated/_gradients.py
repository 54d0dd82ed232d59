"""Gradient of a gated network, in three equal forms of different cost."""

import functools
import math
from typing import Literal, NamedTuple

import numpy as np
from jaxtyping import Float

from ...networks import Gated
from ...tasks import Task
from ._paths import MOST_PATHS, PathStatistics, count_paths, path_statistics
from ._samples import Samples, samples

Form = Literal["data", "patterns", "paths"]

Weights = dict[str, Float[np.ndarray, "_ _"]]


class GatedGradient(NamedTuple):
    """Result of `gated_gradient`: the gradient, the form in which it was computed, and all costs.

    `network` holds ∂L/∂W of each edge in place of the weights.

    **Example:**

    >>> from festina.networks import gated_from
    >>> from festina.tasks import xor
    >>> from festina.theory.gated import gated_gradient
    >>> found = gated_gradient(gated_from({"x-h": [[1.0, 0.0]], "h-y": [[2.0]]}), xor())
    >>> found.form, found.network.parts[1]
    ('patterns', array([[2.]]))
    """

    network: Gated
    form: Form
    cost: dict[Form, float]
    """Approximate number of multiplications of each form; infinite for too many paths."""


def gated_gradient(
    network: Gated, task: Task, *, form: Form | Literal["cheapest"] = "cheapest"
) -> GatedGradient:
    r"""Return the gradient of the loss of a gated network, in the cheapest of three equal forms.

    The loss is $L = \frac12\langle\lVert y - f\rVert^2\rangle$, and the forms of ∂L/∂W are

    - `data`: back-propagation through every sample.
    - `patterns`: back-propagation through fewer samples, which represent all samples with the same
      gates. Among samples with the same gates the network is linear, so rank⟨xxᵀ⟩ samples can have
      the moments of all.
    - `paths`: $-\sum_{p \ni e} W_{\bar t(p,e)}^\top E(p) W_{\bar s(p,e)}^\top$ for edge e, with the
      error $E(p) = \Sigma^{yx}(p) - \sum_j W_j \Sigma^x(j, p)$ of each path p through e. The sum
      over j has all paths with the same output as p; $\bar s$ is the part of p before e and
      $\bar t$ the part after e (Saxe, Sodhani & Lewallen 2022).

    `festina.gradient_flow` uses `data` or `patterns`, whichever is cheaper.

    **Arguments:**

    - `form`: name of a form; by default the form with the fewest multiplications, without the cost
      of the moments. The result contains the name of the form that was used.

    **Example:**

    >>> from festina.networks import gated_from
    >>> from festina.tasks import xor
    >>> from festina.theory.gated import gated_gradient
    >>> network = gated_from({"x-h": [[1.0, 0.0]], "h-y": [[2.0]]}, gates={"h": lambda x: x[0] > 0})
    >>> gated_gradient(network, xor(), form="paths").network.parts
    (array([[2., 1.]]), array([[1.]]))
    """
    compressed = samples(network, task)
    cost = _costs(network, len(compressed.weight), len(task.x))
    chosen = min(cost, key=cost.__getitem__) if form == "cheapest" else form
    if chosen not in cost:
        raise ValueError(f"`form` must be 'cheapest', {', '.join(map(repr, cost))}, got {form!r}.")
    weights = dict(zip(network.part_axes, map(np.asarray, network.parts), strict=True))
    if chosen == "paths":
        slopes = _by_paths(weights, path_statistics(network, task))
    elif chosen == "patterns":
        slopes = by_samples(network, weights, compressed)
    else:
        slopes = by_samples(network, weights, samples(network, task, compressed=False))
    return GatedGradient(network.with_parts(*slopes.values()), chosen, cost)


def _costs(network: Gated, patterns: int, samples: int) -> dict[Form, float]:
    weights = 3.0 * sum(map(math.prod, network.plan.shapes))
    count, widest = count_paths(network), max(network.plan.widths.values())
    pairs = float(count * (count + len(network.plan.nodes)) * widest**3)
    return {
        "paths": math.inf if count > MOST_PATHS else pairs,
        "patterns": patterns * weights,
        "data": samples * weights,
    }


def by_samples(network: Gated, weights: Weights, seen: Samples) -> Weights:
    """Return the gradient by back-propagation through the given samples."""
    ends = {f"{source}-{target}": (source, target) for source, target in network.plan.edges}
    gate, h = seen.gates, {name: seen.gates[name] * x for name, x in seen.inputs.items()}
    for node, width in network.plan.nodes:
        arriving = np.zeros((len(seen.weight), width))
        for edge, (source, target) in ends.items():
            if target == node:
                arriving += gate[edge] * (h[source] @ weights[edge].T)
        h[node] = gate[node] * arriving
    back = {
        node: gate[node] * seen.weight[:, None] * (h[node] - y) for node, y in seen.targets.items()
    }
    slopes = {}
    for node, width in reversed(network.plan.nodes):
        if node not in back:
            back[node] = np.zeros((len(seen.weight), width))
            for edge, (source, target) in ends.items():
                if source == node:
                    back[node] += gate[edge] * (back[target] @ weights[edge])
            back[node] *= gate[node]
        for edge, (source, target) in ends.items():
            if target == node:
                slopes[edge] = (gate[edge] * back[node]).T @ h[source]
    return {edge: slopes[edge] for edge in weights}


def _by_paths(weights: Weights, seen: PathStatistics) -> Weights:
    product = lambda edges, start: functools.reduce(lambda w, e: weights[e] @ w, edges, start)
    whole = [product(p.edges[1:], weights[p.edges[0]]) for p in seen.paths]
    slopes = {edge: np.zeros_like(weight) for edge, weight in weights.items()}
    for p, path in enumerate(seen.paths):
        error = seen.correlation[p] - sum(
            whole[j] @ seen.covariance(j, p)
            for j, other in enumerate(seen.paths)
            if other.nodes[-1] == path.nodes[-1]
        )
        for k, edge in enumerate(path.edges):
            out, into = weights[edge].shape
            before = product(path.edges[:k], np.eye(error.shape[1] if k else into))
            after = product(path.edges[k + 1 :], np.eye(out))
            slopes[edge] -= after.T @ error @ before.T
    return slopes
