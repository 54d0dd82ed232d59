"""The staircase of a training run, predicted: its levels, when it falls, and what is active."""

import warnings
from collections.abc import Callable
from dataclasses import dataclass, replace
from typing import Any, Literal

import numpy as np
from jaxtyping import Float

from ..._objective import Convention, Data, Objective, loss_factor, objective
from ..._precision import float64
from ...networks import AbstractNetwork, DeepLinear, DiagonalLinear, Layer
from ...networks._given import check_alone
from ...tasks import AbstractTask
from ._loss_function import loss_function

_SMALL = 0.1  # of what there is to learn: how far the initial loss may be from the first level

Members = Literal["modes", "coordinates", "units"]


@dataclass(frozen=True, eq=False)
class Staircase:
    r"""The plateaus that training passes, from the first to the last, and when it leaves them.

    - `levels`: the loss of each plateau, that of the initial one first.
    - `times`: when the loss passes the middle between a level and the next; one fewer than levels.
    - `active`: what is learned on each plateau, as sorted indices of `members`.
    - `joined`: for each member the time of the jump at which it became active, for the last time if
      it left in between; infinity if it never does.
    - `members`: `"modes"` (of a linear network: eigenvectors of
      $\Sigma_{yz}\Sigma_{zz}^{-1}\Sigma_{zy}$, the largest eigenvalue first), `"coordinates"` (of a
      diagonal one), or `"units"`.
    - `convention`: of the loss, which sets the clock too.

    Members that become active at the same jump were learned together: their rates coincide, or are
    too close for a plateau in between at these initial weights.
    """

    levels: Float[np.ndarray, " stage"]
    times: Float[np.ndarray, " jump"]
    active: tuple[tuple[int, ...], ...]
    joined: Float[np.ndarray, " member"]
    members: Members
    convention: str = "half"

    def __str__(self) -> str:
        left = [f"{time:.6g}" for time in self.times] + [""]
        rows = [f"{'level':>12} {'left at':>12}   active {self.members}"]
        for level, time, active in zip(self.levels, left, self.active, strict=True):
            rows.append(f"{level:12.6g} {time:>12}   {', '.join(map(str, active)) or 'none'}")
        return "\n".join([f"{len(self.levels)} levels of the loss '{self.convention}'", *rows])

    def loss(self, times: Float[np.ndarray, " time"]) -> Float[np.ndarray, " time"]:
        """The staircase as a function of time: the level of the plateau at each of `times`."""
        return self.levels[np.searchsorted(self.times, times)]


def root(function: Callable[[float], float], low: float, high: float) -> float:
    """Where the function changes its sign between two points."""
    from scipy.optimize import root_scalar

    return float(root_scalar(function, bracket=(low, high), method="brentq").root)


def warn_unless_ended(solution: Any) -> None:
    """Warn where SciPy's integration of a jump ended by anything but its events."""
    if solution.status != 1:
        why = f"it had not come to rest by the time {solution.t[-1]:.3g} after its start"
        warnings.warn(
            f"A jump of the staircase is not known to its end: "
            f"{why if solution.status == 0 else solution.message}. What comes after it is a guess; "
            "train (`festina.gradient_flow`) to see.",
            stacklevel=4,
        )


def joining_times(
    active: list[tuple[int, ...]], times: list[float], members: int
) -> Float[np.ndarray, " member"]:
    """When each member became active, as `Staircase.joined` has it."""
    joined = np.full(members, np.inf)
    for before, after, time in zip(active[:-1], active[1:], times, strict=True):
        joined[list(set(after) - set(before))] = time
    return joined


@float64
def staircase(
    network: AbstractNetwork, task: AbstractTask, *, loss: Convention = "half"
) -> Staircase:
    r"""Predict levels, jumps and active sets of training from small initial weights.

    Nothing is trained: on each plateau the weights that are still small are followed in closed
    form, and only the jumps between plateaus are computed. The architecture decides how:

    - a fully-connected linear layer, or a `DeepLinear` of two layers: `linear_staircase`;
    - a `DiagonalLinear` network: `diagonal_staircase`;
    - a layer of units with fixed features and of order two or more in their weights (quadratic
      neurons, heads of linear attention): `unit_staircase`.

    **Arguments:**

    - `network`: the initial weights of one network.
    - `task`: what is learned; only its statistics enter.
    - `loss`: the convention of levels and times, as for `festina.gradient_flow`.

    **Returns:**

    A `Staircase`. Compare with the loss of `festina.gradient_flow(network, task, loss=loss)`. It
    warns where the initial weights are not small: where their loss is not that of zero weights.
    """
    from ._staircase_diagonal import diagonal_staircase
    from ._staircase_linear import linear_staircase
    from ._staircase_units import has_growing_units, unit_staircase

    problem = objective(network, task, "half")
    check_alone(network.batch_shape)
    layer = network
    if isinstance(network, DeepLinear) and network.depth == 2:
        layer = network.to_layer()
    if isinstance(network, DiagonalLinear):
        correlation, covariance = _moments(problem.data)
        found = diagonal_staircase(
            network.u, network.v, correlation[0], covariance, floor=problem.floor
        )
    elif isinstance(layer, Layer) and layer.unit.degree == 1 and not layer.unit.read_axes:
        correlation, covariance = _moments(problem.data)
        found = linear_staircase(layer.u, layer.v, correlation, covariance, floor=problem.floor)
    elif isinstance(layer, Layer) and has_growing_units(layer):
        found = unit_staircase(layer, task)
    else:
        raise ValueError(
            f"There is no staircase predictor for {network!r}. It takes fully-connected linear "
            "networks of two layers, diagonal linear ones, and layers of units of order two or "
            "more with fixed features, the same products of inputs whatever the weights: powers "
            f"of u·x and linear attention. {_advice(network)}"
        )
    factor = loss_factor(loss, task)
    _check_small(network, problem, found.levels[0], factor)
    return replace(
        found,
        levels=factor * found.levels,
        times=found.times / factor,
        joined=found.joined / factor,
        convention=loss,
    )


def _advice(network: AbstractNetwork) -> str:
    """What is known of others."""
    if network.kinked:
        return "When rectified units leave zero depends on which samples each of them sees: train."
    return (
        "An activation that starts as zᵖ leaves zero as `festina.networks.power(p)` does, and with "
        "p = 1 as a linear network."
    )


def _check_small(network: AbstractNetwork, problem: Objective, first: float, factor: float) -> None:
    """Warn where the loss is not that of a network which computes next to nothing."""
    weights = problem.structure.columns(*network.parts)[:, 0]
    initial = loss_function(problem.structure, problem.data)(weights)[0] + problem.floor
    if abs(initial - first) > _SMALL * (first - problem.floor):
        warnings.warn(
            f"A staircase begins near zero weights, at the loss {factor * first:.6g}; these "
            f"weights have {factor * initial:.6g}. Expect no plateaus there, and other times: "
            "start smaller."
        )


def _moments(
    data: Data,
) -> tuple[Float[np.ndarray, "output input"], Float[np.ndarray, "input input"]]:
    """⟨yxᵀ⟩ and ⟨xxᵀ⟩ of inputs that are seen as they are."""
    psi = np.asarray(data.psi)
    weighted = np.asarray(data.weight)[:, None] * psi
    return np.asarray(data.y).T @ weighted, psi.T @ weighted
