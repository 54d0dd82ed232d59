"""The mechanism of saddle-to-saddle dynamics of a unit: do directions or units separate?"""

import math
from dataclasses import dataclass
from typing import Literal

import numpy as np

from ..._checks import whole_number
from ..._precision import float64
from ..._result import Result
from ..._types import Keys
from ...networks import AbstractUnit, ConvolutionUnit, NeuronUnit
from ...networks._generator import generator
from ...networks._units import UnitLike, unit_of
from ...tasks import AbstractTask
from ._kinds import EQUATION, Kind, admissible
from ._responses import respond

Separates = Literal["directions", "units"]

_STEP = 1e-3  # size of the weights at which the lowest order is measured
_SIGNIFICANT = 3.0  # standard deviations above chance, for one direction


@dataclass(frozen=True, repr=False)
class Mechanism(Result):
    r"""Result of `mechanism_of_unit`: how small weights of a unit grow away from zero.

    The mechanism follows from the lowest order $p$ of the response $\phi(z; u)$ in the input
    weights $u$ at $u = 0$.

    - `order`: $p$; None if the response is not a power of u near zero.
    - `separates`: `"directions"` for $p = 1$: the growth rate of a unit depends only on the
      direction of its weights. Units that are linear near zero all align with the fastest direction
      within a time of order $\ln(1/\epsilon)$ for an initial scale $\epsilon$ (Theorem 4 of Zhang,
      Saxe & Latham). Units with a kink at zero, such as ReLU, can align with several directions,
      because different samples activate different units.
      `"units"` for $p \ge 2$: a larger unit grows faster, and one unit outgrows all other units
      within a time of order $\epsilon^{1-p}$ (Proposition 5). None if `order` is 0 or None.
    - `kinds`: the kinds of saddles that the unit's algebra admits, simplest first.
    - `expected`: the kind of saddle to which the mechanism leads: `"linear"` (Eq. 7) for linear
      units, `"proportional"` (Eq. 6) for homogeneous units, `"zero"` (Eq. 5) if units separate.
      None if the theory predicts no exact kind.
    - `message`: a sentence with the order, the mechanism and the expected kind of saddle.

    **Example:**

    >>> from festina.theory.saddles import mechanism_of_unit
    >>> quadratic = mechanism_of_unit("quadratic")
    >>> quadratic.order, quadratic.separates, quadratic.expected
    (2, 'units', 'zero')
    >>> quadratic.kinds, quadratic.equations
    (('zero', 'equal'), (5, 4))
    """

    order: int | None
    separates: Separates | None
    kinds: tuple[Kind, ...]
    expected: Kind | None
    message: str

    def __str__(self) -> str:
        return self.message

    @property
    def equations(self) -> tuple[int, ...]:
        """Equation numbers of the admissible embeddings in Theorem 1 of Zhang, Saxe & Latham."""
        return tuple(EQUATION[kind] for kind in self.kinds)


def mechanism_of_unit(unit: UnitLike) -> Mechanism:
    """Return the mechanism by which units of this kind learn from small weights.

    **Arguments:**

    - `unit`: a unit, the name of an activation, or your own scalar JAX function. The algebra of a
      scalar function is measured numerically.

    **Example:**

    >>> from festina.theory.saddles import mechanism_of_unit
    >>> mechanism_of_unit("relu").separates, mechanism_of_unit("quadratic").separates
    ('directions', 'units')
    >>> print(mechanism_of_unit("relu"))
    Order one, with a kink at zero: units align with one or several directions in a time of order
    ln(1/ε), for an initial scale ε. Training then reaches saddles of kind 'proportional', Eq. (6).
    """
    unit = unit_of(unit)
    algebra = unit.algebra
    separates, expected, message = _leaving_zero(unit)
    return Mechanism(algebra.order, separates, admissible(algebra), expected, message)


def _leaving_zero(unit: AbstractUnit) -> tuple[Separates | None, Kind | None, str]:
    """Return what separates near zero weights, the expected kind of saddle, and a sentence."""
    algebra = unit.algebra
    order = algebra.order
    if order is None:
        return None, None, _without_order(unit)
    if order == 0:
        message = (
            "Order zero: units respond at u = 0, so the output weights v learn at once. Zero "
            "weights are a saddle only if this response explains none of the targets."
        )
        return None, None, message
    if order == 1:
        expected = "linear" if algebra.linear else "proportional" if algebra.homogeneous else None
        near_zero = "homogeneous" if algebra.kink == "zero" else "linear"
        leads = (
            f"Training then reaches saddles of kind '{expected}', Eq. ({EQUATION[expected]})."
            if expected
            else "Such weights are not a fixed point of any narrower network, because φ is "
            f"{near_zero} for small weights only."
        )
        align = (
            "Order one, with a kink at zero: units align with one or several directions"
            if algebra.kink == "zero"
            else "Order one: all units align with the fastest direction"
        )
        message = f"{align} in a time of order ln(1/ε), for an initial scale ε. {leads}"
        return "directions", expected, message
    power = "1/ε" if order == 2 else f"1/ε^{order - 1}"
    message = (
        f"Order {order}: one unit outgrows all other units in a time of order {power}, for an "
        "initial scale ε. Units become active one at a time, and training reaches saddles of kind "
        "'zero', Eq. (5), if networks of few units have a minimum at finite weights."
    )
    return "units", "zero", message


@float64
def _without_order(unit: AbstractUnit) -> str:
    """Return a sentence on why the order of a unit is not a whole number."""
    if unit.algebra.linear and unit.algebra.even:  # φ(−u) = φ(u) and φ(−u) = −φ(u)
        return "The response is zero for all u: nothing is learned."
    if isinstance(unit, NeuronUnit | ConvolutionUnit):
        small, large = (
            float(np.abs(unit.activation(np.array([-h, h]))).max()) for h in (_STEP, 2 * _STEP)
        )
        if small > 0:
            return (
                "Near u = 0 the response is about |u|^"
                f"{math.log2(large / small):.2g}, which is not a whole power: neither directions "
                "nor units separate as in Theorem 4 or Proposition 5."
            )
    return (
        "Near u = 0 units are silent (φ has a threshold, or is flatter than any power of u): small "
        "weights may never grow, and the theory does not apply."
    )


@dataclass(frozen=True, repr=False)
class LowestOrderDrive(Result):
    r"""Result of `lowest_order_drive`: the statistic of the data that drives small weights.

    The statistic is $u \mapsto \langle y\,\phi_p(z; u)\rangle$ with the lowest-order term $\phi_p$
    of the response φ. For linear units the statistic is given by the matrix
    $\Sigma_{yz} = \langle y z^\top\rangle$. The response of quadratic units is $u^\top Zu$ with
    $Z = zz^\top$. In linear attention with $u = (K, Q)$ each component of the response is
    $u^\top Zu$, with a matrix Z of products of three inputs. Both give the statistic
    $\Sigma_{yZ} = \langle yZ\rangle$.

    - `order`: the lowest order $p$.
    - `strength`: the largest value of the statistic over random directions of u, as a correlation
      between 0 and 1.
    - `noise`: the correlation that a finite sample of size $P$ shows by chance, $1/\sqrt P$; zero
      for a population.
    - `nonzero`: whether the data drive small weights at this order. If False, small weights stay
      small until terms of higher order drive them, and the mechanism of order $p$ does not apply.
    - `significant`: whether the strength is larger than chance explains. A drive that is not
      significant still acts, but its escape time is specific to the data set.

    **Example:**

    >>> from festina.tasks import two_orthogonal_points
    >>> from festina.theory.saddles import lowest_order_drive
    >>> drive = lowest_order_drive("linear", two_orthogonal_points())
    >>> drive.order, drive.nonzero, drive.noise  # two samples
    (1, True, 0.7071)
    """

    order: int
    strength: float
    noise: float
    nonzero: bool
    significant: bool


@float64
def lowest_order_drive(
    unit: UnitLike,
    task: AbstractTask,
    *,
    tolerance: float = 1e-6,
    draws: int = 64,
    key: Keys | None = None,
) -> LowestOrderDrive:
    """Return how strongly the data drive units of this kind at their lowest order.

    **Arguments:**

    - `unit`: a unit, the name of an activation, or a scalar JAX function, as for
      `mechanism_of_unit`.
    - `task`: the data.
    - `tolerance`: correlations below `tolerance` count as zero.
    - `draws`: number of random directions of u that are examined.
    - `key`: random key of these directions; `jax.random.key(0)` by default.

    **Returns:** a `LowestOrderDrive`.

    **Example:** The exclusive or of two inputs drives quadratic units, but no linear unit.

    >>> from festina.tasks import xor
    >>> from festina.theory.saddles import lowest_order_drive
    >>> lowest_order_drive("linear", xor()).nonzero, lowest_order_drive("quadratic", xor()).nonzero
    (False, True)
    """
    if not isinstance(task, AbstractTask):
        raise ValueError(
            f"`task` must be a task, got {type(task).__name__}. Make one with "
            "festina.tasks.from_arrays(x, y)."
        )
    draws, unit = whole_number("draws", draws), unit_of(unit)
    order = unit.algebra.order
    if order is None:
        raise ValueError(
            f"The response of {unit} is not a power of u near zero, so no lowest-order statistic "
            "exists. Use a `unit` with an order (see `mechanism_of_unit`)."
        )
    statistics = task.statistics(unit)
    shape = unit.weight_shape(task.input_shape)
    rng = generator(key)
    u = rng.normal(size=(*shape, draws))
    u /= np.sqrt(np.sum(u**2, axis=tuple(range(len(shape)))))

    def term(step: float) -> np.ndarray:
        """Return φ(z; hu)/hᵖ, shape `(sample, read, draw)`."""
        found = np.asarray(respond(unit, statistics.psi, step * u)) / step**order
        return found.reshape(len(found), -1, draws)

    # Extrapolate values at h, h/2 and h/4 to h → 0: errors of first and second order cancel.
    lowest = (8 * term(_STEP / 4) - 6 * term(_STEP / 2) + term(_STEP)) / 3
    statistic = np.einsum("s,so,srd->ord", statistics.weight, statistics.y, lowest)
    size = np.sqrt(statistics.power * np.einsum("s,srd->d", statistics.weight, lowest**2))
    correlation = np.sqrt(np.sum(statistic**2, axis=(0, 1))) / np.where(size > 0, size, np.inf)
    strength = float(correlation.max())
    noise = 0.0 if task.samples is None else 1.0 / math.sqrt(task.samples)
    # A large chance correlation is n times as likely in n directions as in one, so the Gaussian
    # bound increases with n.
    allowed = math.sqrt(_SIGNIFICANT**2 + 2 * math.log(draws))
    return LowestOrderDrive(
        order=order,
        strength=strength,
        noise=noise,
        nonzero=strength > tolerance,
        significant=strength > max(tolerance, allowed * noise),
    )
