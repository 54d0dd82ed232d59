"""Minima of a narrow network, and thus plateau levels of wider networks (Theorem 1)."""

import functools
from dataclasses import dataclass
from typing import Generic

import numpy as np
from jaxtyping import Float

from ..._checks import whole_number
from ..._numerics._bfgs import bfgs
from ..._objective import LossConvention, objective
from ..._precision import float64
from ..._result import Result
from ..._types import Keys
from ...networks import Layer
from ...networks._generator import generator
from ...networks._network import Network
from ...networks._units import UnitLike, unit_of
from ...tasks import AbstractTask
from ._loss_function import loss_function, relative_slope
from ._subgradient import slope_at_rest


@dataclass(frozen=True, eq=False, repr=False)
class NarrowMinima(Result, Generic[Network]):
    """Result of `narrow_minima`: the distinct local minima, lowest loss first.

    - `loss`: the loss of each minimum.
    - `network`: the weights, as a batch with one network for each minimum.
    - `share`: the fraction of starts that ended at each minimum. The fractions add up to less than
      one if some starts ended at no minimum.

    **Example:**

    >>> from festina.tasks import two_orthogonal_points
    >>> from festina.theory.saddles import narrow_minima
    >>> minima = narrow_minima("relu", two_orthogonal_points(), width=1)
    >>> minima.loss.round(4), minima.network.batch_shape
    (array([0.25, 0.5 ]), (2,))
    >>> print(minima)
    2 minima, loss (share of starts): 0.25 (67%), 0.5 (33%)
    """

    loss: Float[np.ndarray, " minimum"]
    network: Network
    share: Float[np.ndarray, " minimum"]

    def __str__(self) -> str:
        each = ", ".join(
            f"{loss:.6g} ({share:.0%})" for loss, share in zip(self.loss, self.share, strict=True)
        )
        minima = "1 minimum" if len(self.loss) == 1 else f"{len(self.loss)} minima"
        return f"{minima}, loss (share of starts): {each}"


@float64
def narrow_minima(
    unit: UnitLike,
    task: AbstractTask,
    *,
    width: int = 1,
    loss: LossConvention = "half",
    starts: int = 24,
    key: Keys | None = None,
    tolerance: float = 1e-7,
) -> NarrowMinima[Layer]:
    """Minimise the loss of a network with `width` units from many random starts.

    By Theorem 1 of Zhang, Saxe & Latham every fixed point of a narrow network is a fixed point of
    each wider network, with the same loss. The losses of these fixed points are the levels of
    plateaus in saddle-to-saddle dynamics. The minimisation (BFGS) does not use gradient flow, so
    these losses are an independent test of plateaus in training.

    **Arguments:**

    - `unit`, `task`, `width`, `loss`: the units of the network, the data, the number of units and
      the loss convention. The unit may be the name of an activation, or a scalar function.
    - `starts`: number of random starts, with weights of order one. The lowest minimum found is the
      global minimum only if one of the starts leads there.
    - `key`: random key of the starts; `jax.random.key(0)` by default.
    - `tolerance`: fraction of the difference between the loss at zero weights and the least-squares
      loss. Levels closer than `tolerance` count as equal. An end point counts as a minimum if
      |gradient| · |weights| is below `tolerance`. On a kink, where rectified units often have their
      minima, the smallest subgradient replaces the gradient.

    **Example:** Levels of a linear network on a task with two modes of strength 2 and 1.

    >>> import numpy as np
    >>> from festina.tasks import linear_teacher
    >>> from festina.theory.saddles import narrow_minima
    >>> minima = narrow_minima("linear", linear_teacher(np.diag([2.0, 1.0])), width=1, starts=8)
    >>> minima.loss, minima.share
    (array([0.5]), array([1.]))
    """
    width, starts = whole_number("width", width), whole_number("starts", starts)
    unit = unit_of(unit)
    # At this scale of random starts the loss is comparable with the loss at zero weights.
    rng = generator(key)
    u, v = (
        rng.normal(scale=0.7, size=(starts, width, *shape))
        for shape in (
            unit.weight_shape(task.input_shape),
            (task.outputs, *unit.read_shape(task.input_shape)),
        )
    )
    return minima_near_network(Layer(u, v, unit), task, loss=loss, tolerance=tolerance)


@float64
def minima_near_network(
    networks: Network,
    task: AbstractTask,
    *,
    loss: LossConvention = "half",
    tolerance: float = 1e-7,
) -> NarrowMinima[Network]:
    """Minimise the loss from each network of a batch, of any kind and depth.

    By Corollary 2 of Zhang, Saxe & Latham, the minima of a deep network that is narrow in every
    layer are fixed points of each wider network. The results and `tolerance` are as for
    `narrow_minima`; the networks of the batch replace the random starts.

    **Example:**

    >>> import numpy as np
    >>> from festina.networks import fully_connected, seeds
    >>> from festina.tasks import linear_teacher
    >>> from festina.theory.saddles import minima_near_network
    >>> networks = fully_connected(2, 1, 2, scale=0.5, key=seeds(4))
    >>> minima_near_network(networks, linear_teacher(np.diag([2.0, 1.0]))).loss
    array([0.5])
    """
    problem = objective(networks, task, loss)
    structure = problem.structure
    function = loss_function(structure, problem.data)
    columns = structure.columns(*networks.parts)
    at_zero = function(np.zeros(len(columns)))[0]
    allowed = tolerance * (at_zero or 1.0)
    ends = [
        bfgs(
            function,
            column,
            lambda weights, _, gradient: relative_slope(weights, gradient) <= 1e-3 * allowed,
            max_steps=200 * len(column),
        )
        for column in columns.T
    ]

    # Starts may diverge instead of finding a minimum, so only ends with a small slope count.
    slope = functools.partial(slope_at_rest, function, enough=allowed, kinked=networks.kinked)
    minima = [(weights, value) for weights, value, g in ends if slope(weights, g) <= allowed]
    levels: list[float] = []
    chosen: list[np.ndarray] = []
    counts: list[int] = []
    for weights, value in sorted(minima, key=lambda end: end[1]):
        if levels and value - levels[-1] <= allowed:
            counts[-1] += 1
        else:
            levels.append(value)
            chosen.append(weights)
            counts.append(1)
    if not levels:
        raise ValueError(
            f"None of {columns.shape[1]} starts led to a minimum: the gradient did not vanish to "
            f"within `tolerance` {tolerance:g}. The loss may have no minimum at finite weights; "
            "otherwise try more starts."
        )
    return NarrowMinima(
        loss=np.array(levels) + problem.floor,
        network=networks.with_parts(*structure.arrays(np.stack(chosen, axis=1))),
        share=np.array(counts) / columns.shape[1],
    )
