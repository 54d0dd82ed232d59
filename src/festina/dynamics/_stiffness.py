"""Which steps a flow should take: explicit ones, or implicit ones where plateaus are long."""

import math
from typing import Literal, TypeGuard

import numpy as np

from .._objective import Objective
from ..networks import AbstractNetwork, Layer
from ._program import Start

Solver = Literal["automatic", "explicit", "implicit"]

IMPLICIT_RTOL = 1e-6
"""Default tolerance of implicit steps."""

MOST_ROWS = 400
"""Of the matrix that an implicit step inverts, for it to pay at all."""

_BREAK_EVEN = 300.0  # slower at the start than later, for each explicit step an implicit costs
_IMPLICIT_STEPS = 500  # of a flow, two to five hundred as a rule


def learns_by_units(network: AbstractNetwork) -> TypeGuard[Layer]:
    """Whether this is a layer of units of order two and more, whose plateaus are long."""
    order = network.unit.algebra.order if isinstance(network, Layer) else None
    return order is not None and order >= 2


def prefers_implicit(network: Layer, problem: Objective, start: Start, rtol: float) -> bool:
    r"""Whether explicit steps of such a layer would cost more than implicit ones.

    Units of order p ≥ 2 learn one by one (Zhang, Saxe & Latham, Proposition 5): tiny weights θ grow
    at a rate ∝ |θ|^{p−1}, until one unit explains part of the loss, |θ|^{p+1} ∼ L, and holds
    explicit steps to its own, far shorter, time. The ratio of both times,

    $$\left(\frac{L}{|\theta|\,|\partial L/\partial\theta|}\right)^{(p-1)/(p+1)},$$

    has no units; on plateaus explicit steps are one to ten times as many, and two or three times as
    a rule. Implicit ones are two to five hundred whatever the ratio (more at tight tolerances, as
    rtol^{−1/4}), each of which costs some `_cost` of the others: they pay from a ratio of about
    three hundred times that cost on. This is where they take as long for the same error of the drop
    times, by the median over seeds of a quadratic and an attention layer; from there on they gain
    in proportion to the ratio.
    """
    p = network.unit.algebra.order
    assert p is not None, "`learns_by_units` has asked"
    drive = np.sqrt(network.structure.size) * np.asarray(start.size) * np.sqrt(start.rate)
    moving = (drive > 0) & np.isfinite(drive) & np.isfinite(start.loss)
    if not moving.any():
        return False
    ratio = (start.loss[moving] / drive[moving]) ** ((p - 1) / (p + 1))
    limit = _BREAK_EVEN * _cost(network, problem) * _tightness(rtol)
    return bool(2 * np.sum(ratio > limit) >= len(ratio))


def explicit_steps_for_implicit(network: Layer, problem: Objective, rtol: float) -> int:
    """As many explicit steps as cost what all the implicit ones of a flow do.

    Whoever tries explicit ones first, and gives up after so many, has lost no more than half of the
    time, whatever made them short: units of high order, or data whose modes differ much.
    """
    return math.ceil(_IMPLICIT_STEPS * _cost(network, problem) * _tightness(rtol))


def _tightness(rtol: float) -> float:
    """By how much a tolerance multiplies the number of implicit steps."""
    return max(1.0, (IMPLICIT_RTOL / rtol) ** 0.25)


def _cost(network: Layer, problem: Objective) -> float:
    """Of an implicit step in explicit ones, as measured: three to ten.

    It grows with the matrix to invert and with the derivatives that a unit takes, far less than in
    proportion, and hardly with the width, of which both are linear.
    """
    per_unit = network.structure.size // network.width
    return 2.0 + 0.25 * math.sqrt(rows_to_solve(network, problem) * per_unit)


def rows_to_solve(network: AbstractNetwork, problem: Objective) -> int:
    """Of the matrix that a step inverts: (pseudo-)samples times outputs, or all weights as one."""
    size, samples = network.structure.size, problem.data.y.size
    return min(samples, size) if isinstance(network, Layer) else size
