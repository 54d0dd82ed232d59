"""The minima of a narrower network: the levels at which a wider one can rest (Theorem 1)."""

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
    """Result of `narrow_minima`: local minima, lowest loss first, each counted once.

    `loss` are their levels, `network` the weights, one network for each, `share` the fraction of
    starts that ended there; what is missing to one ended nowhere.
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
    r"""Minimise the loss of a network with `width` units from many random starts.

    By Theorem 1 of Zhang, Saxe & Latham every fixed point of a narrow network is a fixed point of
    each wider one, with the same loss; the plateaus of saddle-to-saddle dynamics are such levels.
    The optimiser (BFGS) has nothing in common with the flow whose plateaus are compared with it.

    **Arguments:**

    - `unit`, `task`, `width`, `loss`: the network, the data and the loss convention. The unit may
      be the name of an activation, or a scalar function.
    - `starts`: random starts, with weights of order one; the lowest minimum found is the global one
      only if one of them leads there.
    - `key`: randomness of the starts; `jax.random.key(0)` by default.
    - `tolerance`: in units of the loss at zero weights above the floor. Levels closer than this
      count as one, and an end point counts as a minimum where gradient times weights is below it;
      on a kink, where rectifiers often have theirs, the smallest subgradient.
    """
    width, starts = whole_number("width", width), whole_number("starts", starts)
    unit = unit_of(unit)
    # Random starts at the scale where the loss is comparable with that of no network at all.
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
    """Minimise the loss from each network of a batch, of any kind and depth: see `narrow_minima`.

    Corollary 2 of Zhang, Saxe & Latham makes of the minima of a deep network that is narrow in
    every layer fixed points of each wider one.
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

    # A start that has run off to infinity has found no minimum.
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
            f"None of {columns.shape[1]} starts led to a minimum: nowhere did the gradient vanish "
            f"to within `tolerance` {tolerance:g}. The loss may have no minimum at finite weights."
        )
    return NarrowMinima(
        loss=np.array(levels) + problem.floor,
        network=networks.with_parts(*structure.arrays(np.stack(chosen, axis=1))),
        share=np.array(counts) / columns.shape[1],
    )
