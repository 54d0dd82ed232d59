"""How a saddle is left: in how many directions, and how fast."""

from collections.abc import Callable
from dataclasses import dataclass
from typing import Generic

import jax
import numpy as np
from jaxtyping import Float

from ..._checks import check_alone, whole_number
from ..._numerics._hessian import hessian, hessian_product
from ..._numerics._lanczos import lanczos
from ..._objective import LossConvention, objective
from ..._precision import float64
from ..._result import Result
from ...networks import AbstractNetwork, DiagonalLinear
from ...networks._network import Network
from ...tasks import AbstractTask
from ._fixed_points import check_stationary
from ._hidden import hidden_layers

_DENSE = 2400  # weights, whose Hessian is diagonalised in two seconds
_AT_ONCE = 8  # eigenvalues that a run of Lanczos looks for
_PRECISION = 1e-11  # of an eigenvalue, relative to the largest


@dataclass(frozen=True, eq=False, repr=False)
class EscapeDirections(Result, Generic[Network]):
    r"""Result of `escape_directions`: the directions of negative curvature at a fixed point.

    - `index`: how many there are; zero at a minimum, and at a saddle of higher order. None where
      the search ended with the `most` that were asked for.
    - `rates`: how fast each is left, largest first: $-\lambda$ for the eigenvalues $\lambda < 0$ of
      the Hessian. A displacement grows as $e^{\text{rate}\,t}$ under gradient flow.
    - `directions`: the unit eigenvectors as a batch of networks of the same kind.
    - `sharpness`: the largest absolute curvature.
    - `blind`: number of silent units of which the Hessian does not tell all, because φ has a kink
      at u = 0 or is of higher order there. They may leave although no curvature is negative, and
      faster than by `rates`: to find out, give them small weights and train.
    """

    index: int | None
    rates: Float[np.ndarray, " direction"]
    directions: Network
    sharpness: float
    blind: int

    def __str__(self) -> str:
        count = len(self.rates) if self.index is None else self.index
        directions = "1 direction" if count == 1 else f"{count} directions"
        found = f"left in {directions} of negative curvature"
        if self.index is None:
            found += " or more"
        if len(self.rates) == 1:
            found += f", at the rate {self.rates[0]:.4g}"
        elif len(self.rates):
            found += f", at rates from {self.rates[0]:.4g} to {self.rates[-1]:.4g}"
        if count > len(self.rates):
            found += f" (the {len(self.rates)} fastest)"
        if not self.blind:
            return found
        units = "1 silent unit" if self.blind == 1 else f"{self.blind} silent units"
        return (
            f"{found}; the Hessian does not see {units}, which may leave by a kink or by higher "
            "order: give them small weights and train"
        )


@float64
def escape_directions(
    network: Network,
    task: AbstractTask,
    *,
    loss: LossConvention = "half",
    tolerance: float = 1e-8,
    stationary: float = 1e-6,
    most: int | None = None,
) -> EscapeDirections[Network]:
    r"""Return index, escape rates and directions of a fixed point, from the Hessian of the loss.

    Up to 2400 weights the Hessian is formed and diagonalised. Above, it is only multiplied with: by
    Lanczos, a few eigenvectors at a time, each time on the complement of those found, because
    Lanczos sees an eigenvalue once and embedded saddles have the same one many times. Where there
    are hundreds of directions, that takes long: ask for the `most` that you need.

    **Arguments:**

    - `network`: one network at a fixed point.
    - `task`, `loss`: the data and the loss convention, which sets the unit of the rates.
    - `tolerance`: curvatures above −`tolerance` times the largest absolute one are zero: a fixed
      point lies in a continuum of others (any γ in Theorem 1), along which rounding would count.
    - `stationary`: largest relative gradient (see `stationarity`) that passes for a fixed point.
    - `most`: look for no more directions than this, those that are left fastest; all by default.

    **Returns:**

    `EscapeDirections`.

    !!! note "What the Hessian does not see"

        Where φ is of order two or higher in u a silent unit is left more slowly than exponentially,
        and the Hessian vanishes there. A kink at u·x = 0 has none: for a silent unit, or one
        orthogonal to a sample, φ is continued by the slope that JAX's derivative has at 0. For
        `relu` that is the silent side, as if the sample did not exist; for `leaky_relu(s)` it is
        the leak, and a silent unit has the rates of a linear one times s, although one whose
        preactivations are positive grows 1/s times as fast. Silent units of either kind, φ of
        higher order or with a kink at zero, are counted in `blind`; kinks elsewhere do not matter
        to them.
    """
    problem = objective(network, task, loss)
    check_alone(network.batch_shape)
    most = None if most is None else whole_number("most", most)
    check_stationary(network, task, stationary, loss)
    structure, data = problem.structure, jax.device_put(problem.data)
    weights = structure.columns(*network.parts)[:, 0]
    if structure.size <= _DENSE:
        values, vectors = np.linalg.eigh(np.asarray(hessian(structure, weights, data)))
        sharpness = float(np.abs(values).max())
        index = int(np.sum(values < -tolerance * sharpness))
        values, vectors = values[:index], vectors[:, :index]
    else:

        def product(direction: np.ndarray) -> np.ndarray:
            return np.asarray(hessian_product(structure, weights, direction, data))

        values, vectors, sharpness = _negative(product, structure.size, tolerance, most)
        index = len(values) if most is None or len(values) < most else None
    rates, vectors = -values[:most], vectors[:, :most]
    return EscapeDirections(
        index=index,
        rates=rates,
        directions=network.with_parts(*structure.arrays(vectors)),
        sharpness=sharpness,
        blind=_blind(network, tolerance),
    )


def _blind(network: AbstractNetwork, tolerance: float) -> int:
    """Silent units whose lowest term v·φ_p(u) has a kink or is of more than second order."""
    if isinstance(network, DiagonalLinear):
        return 0
    count = 0
    for unit, incoming, outgoing in hidden_layers(network):
        order, kinked = unit.algebra.order, unit.algebra.kink == "zero"
        u, v = (np.abs(part).reshape(len(part), -1).max(axis=1) for part in (incoming, outgoing))
        # However short, a unit with a kink has a direction, on which side of which all samples lie.
        silent, unread = (size <= (0.0 if kinked else tolerance * size.max()) for size in (u, v))
        if kinked or order is None:
            count += int(np.sum(silent))
        elif order > 0:
            count += int(np.sum(silent & (order + unread > 2)))
    return count


def _negative(
    product: Callable[[np.ndarray], np.ndarray], size: int, tolerance: float, most: int | None
) -> tuple[Float[np.ndarray, " n"], Float[np.ndarray, "weight n"], float]:
    """All eigenvalues below −tolerance·sharpness, at least the `most` smallest, with vectors."""
    rng = np.random.default_rng(0)
    values, vectors = np.zeros(0), np.zeros((size, 0))
    ends = lanczos(product, rng.normal(size=size), which="absolute", rtol=_PRECISION)[0]
    sharpness = float(np.abs(ends[0]))
    if not sharpness:  # a saddle of higher order
        return values, vectors, 0.0
    bound = -tolerance * sharpness  # below which eigenvalues are looked for
    while True:
        known = vectors

        def rest(x: np.ndarray, known: np.ndarray = known) -> np.ndarray:
            """Sharpness minus Hessian, to the digits of the sharpness; zero on what is known."""
            x = x - known @ (known.T @ x)
            y = sharpness * x - product(x)
            return y - known @ (known.T @ y)

        start = rng.normal(size=size)
        found, columns = lanczos(rest, start, count=_AT_ONCE, rtol=_PRECISION)
        wanted = sharpness - found < bound
        if not wanted.any():
            order = np.argsort(values)
            return values[order], vectors[:, order], sharpness
        values = np.concatenate((values, sharpness - found[wanted]))
        vectors = np.linalg.qr(np.concatenate((vectors, columns[:, wanted]), axis=1))[0]
        if most is not None and len(values) >= most:
            # Slower ones may have been found before all copies of a faster one.
            bound = np.sort(values)[most - 1] - 10 * _PRECISION * sharpness
