"""The minima of a narrower network: the levels at which a wider one can rest (Theorem 1)."""

from dataclasses import dataclass

import jax
import numpy as np
from jaxtyping import Float

from ..._objective import Convention, excess_loss, objective
from ..._precision import float64
from ...networks import AbstractUnit, Layer, gaussian
from ...tasks import AbstractTask


@dataclass(frozen=True)
class NarrowMinima:
    """Local minima of a narrow network, lowest loss first, each counted once.

    `loss` are their levels, `network` the weights, one network for each, `share` the fraction of
    starts that ended there.
    """

    loss: Float[np.ndarray, " minimum"]
    network: Layer
    share: Float[np.ndarray, " minimum"]


@float64
def narrow_minima(
    unit: AbstractUnit,
    task: AbstractTask,
    *,
    width: int = 1,
    loss: Convention = "half",
    starts: int = 24,
    seed: int = 0,
    tolerance: float = 1e-7,
) -> NarrowMinima:
    r"""Minimise the loss of a network with `width` units from many random starts.

    By Theorem 1 of Zhang, Saxe & Latham every fixed point of a narrow network is a fixed point of
    each wider one, with the same loss; the plateaus of saddle-to-saddle dynamics are such levels.
    The optimiser (BFGS) has nothing in common with the flow whose plateaus are compared with it.

    **Arguments:**

    - `unit`, `task`, `width`, `loss`: the network, the data and the loss convention.
    - `starts`: random starts, with weights of order one; the lowest minimum found is the global one
      only if one of them leads there.
    - `seed`: of the random starts.
    - `tolerance`: levels closer than this fraction of the loss at zero weights count as one.
    """
    from scipy.optimize import minimize

    if width < 1 or starts < 1:
        raise ValueError(f"`width` and `starts` must be at least 1, got {width} and {starts}.")
    keys = jax.random.split(jax.random.key(seed), starts)
    networks = gaussian(unit, task.input_shape, width, task.outputs, scale=0.7, key=keys)
    problem = objective(networks, task, loss)
    value_and_gradient = jax.jit(
        lambda weights: jax.value_and_grad(excess_loss, argnums=1)(
            problem.structure, weights, problem.data
        )
    )

    def flat(weights: np.ndarray) -> tuple[float, np.ndarray]:
        value, gradient = value_and_gradient(weights)
        return float(value), np.asarray(gradient)

    at_zero = flat(np.zeros_like(problem.structure.flatten(networks)[0]))[0]
    ends = [
        # Random starts at the scale where the loss is comparable with that of no network at all.
        minimize(flat, start, jac=True, method="BFGS", options={"gtol": 1e-10})
        for start in problem.structure.flatten(networks)
    ]
    ends.sort(key=lambda end: end.fun)
    levels: list[float] = []
    chosen: list[np.ndarray] = []
    counts: list[int] = []
    for end in ends:
        if not np.isfinite(end.fun):
            continue
        if levels and end.fun - levels[-1] <= tolerance * at_zero:
            counts[-1] += 1
        else:
            levels.append(float(end.fun))
            chosen.append(end.x)
            counts.append(1)
    if not levels:
        raise ValueError(f"None of {starts} starts led to a finite loss.")
    return NarrowMinima(
        loss=np.array(levels) + problem.floor,
        network=problem.structure.unflatten(np.array(chosen)),
        share=np.array(counts) / starts,
    )
