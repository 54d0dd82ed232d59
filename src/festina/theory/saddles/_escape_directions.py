"""Escape from a saddle: the number of directions of negative curvature, and the rates."""

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

_DENSE = 2400  # number of weights; a Hessian of this size is diagonalised in two seconds
_AT_ONCE = 8  # eigenvalues that one run of Lanczos computes
_PRECISION = 1e-11  # error of an eigenvalue, relative to the largest eigenvalue


@dataclass(frozen=True, eq=False, repr=False)
class EscapeDirections(Result, Generic[Network]):
    r"""Result of `escape_directions`: the directions of negative curvature at a fixed point.

    - `index`: the number of directions of negative curvature; zero at a minimum and at a saddle of
      higher order. None if the search stopped at the requested number `most`.
    - `rates`: escape rates, largest first: $-\lambda$ for each eigenvalue $\lambda < 0$ of the
      Hessian. A displacement along the direction grows as $e^{\text{rate}\,t}$ under gradient flow.
    - `directions`: the unit eigenvectors, as a batch of networks of the same kind.
    - `sharpness`: the largest absolute curvature.
    - `blind`: the number of silent units that the Hessian does not describe fully, because φ has a
      kink at u = 0 or is of higher order there. Silent units of these kinds may escape although no
      curvature is negative, or faster than `rates` predicts. To test whether silent units escape,
      give them small weights and train.

    **Example:**

    >>> from festina.networks import layer_from
    >>> from festina.tasks import linear_teacher
    >>> from festina.theory.saddles import escape_directions
    >>> zero = layer_from("linear", [[0.0, 0.0]], [0.0])
    >>> ways = escape_directions(zero, linear_teacher([[2.0, 0.0]]))
    >>> ways.index, ways.rates, ways.sharpness
    (1, array([2.]), 2.0)
    >>> abs(ways.directions.u), abs(ways.directions.v)  # u and v grow together
    (array([[[0.707, 0.   ]]]), array([[[0.707]]]))
    """

    index: int | None
    rates: Float[np.ndarray, " direction"]
    directions: Network
    sharpness: float
    blind: int

    def __str__(self) -> str:
        count = len(self.rates) if self.index is None else self.index
        directions = "1 direction" if count == 1 else f"{count} directions"
        found = f"{directions} of negative curvature"
        if self.index is None:
            found = f"at least {found}"
        if len(self.rates) == 1:
            found += f", escape rate {self.rates[0]:.4g}"
        elif len(self.rates):
            found += f", escape rates from {self.rates[0]:.4g} to {self.rates[-1]:.4g}"
        if count > len(self.rates):
            found += f" (the {len(self.rates)} fastest)"
        if not self.blind:
            return found
        units = "1 silent unit" if self.blind == 1 else f"{self.blind} silent units"
        return (
            f"{found}; the Hessian does not describe {units}, which may escape because of a "
            "kink or by terms of higher order: give these units small weights and train"
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
    """Return index, escape rates and directions of a fixed point, from the Hessian of the loss.

    Up to 2400 weights, the Hessian is formed and diagonalised. Above 2400 weights, Lanczos
    iterations compute a few eigenvectors at a time from products with the Hessian. Each run of
    Lanczos searches the complement of the eigenvectors that are already known, because a single run
    finds only one vector of a repeated eigenvalue, and embedded saddles have many repeated
    eigenvalues. Finding hundreds of directions takes long: limit their number with `most`.

    **Arguments:**

    - `network`: one network at a fixed point.
    - `task`, `loss`: the data and the loss convention, which sets the unit of the rates.
    - `tolerance`: curvatures above −`tolerance` times the largest absolute curvature count as zero.
      A fixed point lies in a continuum of fixed points (any γ in Theorem 1 of Zhang, Saxe &
      Latham), and rounding makes the curvature along that continuum slightly negative.
    - `stationary`: largest relative gradient (see `stationarity`) at which the network counts as
      being at a fixed point.
    - `most`: return at most this many directions, those with the largest rates; all directions by
      default.

    **Returns:**

    `EscapeDirections`.

    **Example:** A linear network at zero weights. Each of its three units can learn each of two
    modes.

    >>> import numpy as np
    >>> from festina.networks import layer_from
    >>> from festina.tasks import linear_teacher
    >>> from festina.theory.saddles import escape_directions
    >>> task = linear_teacher(np.diag([2.0, 1.0]))
    >>> zero = layer_from("linear", np.zeros((3, 2)), np.zeros((3, 2)))
    >>> escape_directions(zero, task).rates
    array([2., 2., 2., 1., 1., 1.])
    >>> print(escape_directions(zero, task, most=2))
    6 directions of negative curvature, escape rates from 2 to 2 (the 2 fastest)

    !!! note "What the Hessian does not describe"

        If φ is of order two or higher in u, a silent unit (u = 0) escapes more slowly than
        exponentially, and the Hessian vanishes along its weights.

        If φ has a kink at u·x = 0, the Hessian does not exist for a silent unit or for a unit that
        is orthogonal to a sample. The function then uses JAX's derivative of φ at 0. For `relu`
        this derivative is zero, as if the sample did not exist. For `leaky_relu(s)` this derivative
        is the leak s: a silent unit gets the rates of a linear unit times s, although a unit with
        positive preactivations grows 1/s times as fast.

        `blind` counts the silent units for which φ is of higher order or has a kink at zero. A
        kink elsewhere does not affect silent units.
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
    """Count silent units with a kink at zero, or with a lowest term v·φ_p(u) beyond order 2."""
    if isinstance(network, DiagonalLinear):
        return 0
    count = 0
    for unit, incoming, outgoing in hidden_layers(network):
        order, kinked = unit.algebra.order, unit.algebra.kink == "zero"
        u, v = (np.abs(part).reshape(len(part), -1).max(axis=1) for part in (incoming, outgoing))
        # With a kink, the direction of u decides which samples are active, even if u is short.
        silent, unread = (size <= (0.0 if kinked else tolerance * size.max()) for size in (u, v))
        if kinked or order is None:
            count += int(np.sum(silent))
        elif order > 0:
            count += int(np.sum(silent & (order + unread > 2)))
    return count


def _negative(
    product: Callable[[np.ndarray], np.ndarray], size: int, tolerance: float, most: int | None
) -> tuple[Float[np.ndarray, " n"], Float[np.ndarray, "weight n"], float]:
    """Return eigenvalues below −tolerance·sharpness with their vectors, and the sharpness.

    The function returns all eigenvalues below this bound, or at least the `most` smallest.
    """
    rng = np.random.default_rng(0)
    values, vectors = np.zeros(0), np.zeros((size, 0))
    ends = lanczos(product, rng.normal(size=size), which="absolute", rtol=_PRECISION)[0]
    sharpness = float(np.abs(ends[0]))
    if not sharpness:  # the Hessian vanishes: a saddle of higher order
        return values, vectors, 0.0
    bound = -tolerance * sharpness  # the search returns eigenvalues below this bound
    while True:
        known = vectors

        def rest(x: np.ndarray, known: np.ndarray = known) -> np.ndarray:
            """Return (sharpness − Hessian) x; known eigenvectors are mapped to zero."""
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
            # Lanczos may find a slower direction before all copies of a faster one.
            bound = np.sort(values)[most - 1] - 10 * _PRECISION * sharpness
