"""Which of the two mechanisms of saddle-to-saddle dynamics a unit has, and what it predicts."""

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

_STEP = 1e-3  # of weights at which the lowest order is read off
_SIGNIFICANT = 3.0  # standard deviations, of a single direction


@dataclass(frozen=True, repr=False)
class Mechanism(Result):
    r"""How small weights leave zero, by the lowest order $p$ of $\phi(z; u)$ at $u = 0$.

    - `order`: $p$; None where the response is no power of u near zero.
    - `separates`: `"directions"` for $p = 1$: all units grow at rates that depend on their
      direction alone and align with the fastest, within a time of order $\ln(1/\epsilon)$
      (Theorem 4 of Zhang, Saxe & Latham). `"units"` for $p \ge 2$: a unit grows the faster the
      larger it is, and one of them outruns the rest, within a time of order $\epsilon^{1-p}$
      (Proposition 5). None for $p = 0$ and where there is no order.
    - `kinds`: of the saddles that its algebra admits, simplest first.
    - `expected`: the kind that the mechanism leads to: (7) for linear units, (6) for homogeneous
      ones, (5) where units are separated; None where theory predicts none of them exactly.
    - `message`: all of it in a sentence.
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
        """Numbers of the admissible embeddings in Theorem 1."""
        return tuple(EQUATION[kind] for kind in self.kinds)


def mechanism_of_unit(unit: UnitLike) -> Mechanism:
    """Return the mechanism by which units of this kind learn from small weights.

    **Arguments:**

    - `unit`: a unit, the name of an activation, or a scalar JAX function of your own, whose algebra
      is measured.
    """
    unit = unit_of(unit)
    algebra = unit.algebra
    separates, expected, message = _leaving_zero(unit)
    return Mechanism(algebra.order, separates, admissible(algebra), expected, message)


def _leaving_zero(unit: AbstractUnit) -> tuple[Separates | None, Kind | None, str]:
    """Return what separates, the kind of saddle that it leads to, and both in a sentence."""
    algebra = unit.algebra
    order = algebra.order
    if order is None:
        return None, None, _without_order(unit)
    if order == 0:
        message = (
            "Units respond at u = 0 already: v moves at once with what that response explains of "
            "the targets, and zero is a saddle only if it explains nothing."
        )
        return None, None, message
    if order == 1:
        expected = "linear" if algebra.linear else "proportional" if algebra.homogeneous else None
        near_zero = "homogeneous" if algebra.kink == "zero" else "linear"
        leads = (
            f"to saddles of Eq. ({EQUATION[expected]})"
            if expected
            else "near one direction, to where no narrower network has a fixed point: φ is "
            f"{near_zero} for small weights only"
        )
        message = f"Order one: directions separate, in a time of order ln(1/ε), and lead {leads}."
        return "directions", expected, message
    power = "1/ε" if order == 2 else f"1/ε^{order - 1}"
    message = (
        f"Order {order}: units separate, in a time of order {power}; one at a time grows, and "
        "leads to saddles of Eq. (5) if few units have a minimum at finite weights."
    )
    return "units", "zero", message


@float64
def _without_order(unit: AbstractUnit) -> str:
    """Return why no whole number is the order of a unit."""
    if unit.algebra.linear and unit.algebra.even:  # φ(−u) is −φ(u) and φ(u)
        return "The response is zero whatever u is: nothing is learned."
    if isinstance(unit, NeuronUnit | ConvolutionUnit):
        small, large = (
            float(np.abs(unit.activation(np.array([-h, h]))).max()) for h in (_STEP, 2 * _STEP)
        )
        if small > 0:
            return (
                "Near u = 0 the response is no whole power of u, about |u|^"
                f"{math.log2(large / small):.2g}: neither mechanism applies as it stands."
            )
    return (
        "Near u = 0 units are silent (a threshold, or flatter than any power of u): small weights "
        "may never grow, and neither mechanism applies."
    )


@dataclass(frozen=True, repr=False)
class LowestOrderDrive(Result):
    r"""Result of `lowest_order_drive`: the statistic of the data that drives small weights.

    $\Sigma_{yz} = \langle y z^\top\rangle$ for linear units, $\Sigma_{yZ}$ for quadratic ones and
    attention, in general $u \mapsto \langle y\,\phi_p(z; u)\rangle$ with the lowest term φ_p of φ.

    - `order`: $p$.
    - `strength`: its largest value over random directions of u, as a correlation between 0 and 1.
    - `noise`: the correlation that a finite sample shows where there is none, $1/\sqrt P$; zero for
      a population.
    - `nonzero`: whether small weights are driven at this order. If not they stay until a higher
      order takes over, and the mechanism of order $p$ says nothing.
    - `significant`: whether it is more than an accident of the sample. An insignificant drive still
      drives, at a time that is specific to the data set.
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

    - `unit`: as in `mechanism_of_unit`.
    - `task`: the data.
    - `tolerance`: correlations below it are zero.
    - `draws`: how many random directions of u to look in.
    - `key`: randomness of these; `jax.random.key(0)` by default.

    **Returns:** a `LowestOrderDrive`.
    """
    if not isinstance(task, AbstractTask):
        raise ValueError(
            f"`task` must be a task, got {type(task).__name__}: festina.tasks.from_arrays(x, y)."
        )
    draws, unit = whole_number("draws", draws), unit_of(unit)
    order = unit.algebra.order
    if order is None:
        raise ValueError(
            f"{unit} is no power of u near zero, so that there is no statistic of lowest order."
        )
    statistics = task.statistics(unit)
    shape = unit.weight_shape(task.input_shape)
    rng = generator(key)
    u = rng.normal(size=(*shape, draws))
    u /= np.sqrt(np.sum(u**2, axis=tuple(range(len(shape)))))

    def term(step: float) -> np.ndarray:
        """φ(z; hu)/hᵖ, `(sample, read, draw)`."""
        found = np.asarray(respond(unit, statistics.psi, step * u)) / step**order
        return found.reshape(len(found), -1, draws)

    # The limit h → 0 of values at h, h/2 and h/4, whose errors of first and second order cancel.
    lowest = (8 * term(_STEP / 4) - 6 * term(_STEP / 2) + term(_STEP)) / 3
    statistic = np.einsum("s,so,srd->ord", statistics.weight, statistics.y, lowest)
    size = np.sqrt(statistics.power * np.einsum("s,srd->d", statistics.weight, lowest**2))
    correlation = np.sqrt(np.sum(statistic**2, axis=(0, 1))) / np.where(size > 0, size, np.inf)
    strength = float(correlation.max())
    noise = 0.0 if task.samples is None else 1.0 / math.sqrt(task.samples)
    # The largest of n accidents is larger than one of them: a Gaussian tail is n times as likely.
    allowed = math.sqrt(_SIGNIFICANT**2 + 2 * math.log(draws))
    return LowestOrderDrive(
        order=order,
        strength=strength,
        noise=noise,
        nonzero=strength > tolerance,
        significant=strength > max(tolerance, allowed * noise),
    )
