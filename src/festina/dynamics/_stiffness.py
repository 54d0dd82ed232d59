"""Choose explicit steps for a flow, or implicit steps where plateaus are long."""

import math
from typing import Literal, TypeGuard

import numpy as np

from .._objective import Objective
from ..networks import AbstractNetwork, Layer
from ._program import Start

Solver = Literal["automatic", "explicit", "implicit"]

IMPLICIT_RTOL = 1e-6
"""Default `rtol` of implicit steps."""

MOST_ROWS = 400
"""Largest number of rows of the matrix that an implicit step inverts."""

_BREAK_EVEN = 300.0  # ratio of time scales above which implicit steps pay, per unit of their cost
_IMPLICIT_STEPS = 500  # steps of an implicit flow; two to five hundred are typical


def learns_by_units(network: AbstractNetwork) -> TypeGuard[Layer]:
    """Return whether a network is a layer of units of order at least two, with long plateaus."""
    order = network.unit.algebra.order if isinstance(network, Layer) else None
    return order is not None and order >= 2


def prefers_implicit(network: Layer, problem: Objective, start: Start, rtol: float) -> bool:
    r"""Return whether explicit steps would cost more than implicit steps for this layer.

    Units of order p ≥ 2 learn one after another (Zhang, Saxe & Latham, Proposition 5). Tiny weights
    θ grow at a rate ∝ |θ|^{p−1} until one unit explains part of the loss, |θ|^{p+1} ∼ L. From then
    on the far shorter time constant of the learned unit limits explicit steps. The ratio of the
    growth time to this time constant is

    $$\left(\frac{L}{|\theta|\,|\partial L/\partial\theta|}\right)^{(p-1)/(p+1)}.$$

    The number of explicit steps of a flow is one to ten times this ratio, typically two or three
    times. The number of implicit steps is 200 to 500 whatever the ratio, and grows at tight
    tolerances in proportion to rtol^{−1/4}. An implicit step costs as much as `_cost` explicit
    steps. Implicit steps pay if the ratio exceeds about 300 times this cost. The factor 300 was
    measured for a quadratic and an attention layer, from median run times over seeds at equal error
    of the drop times. Above this threshold, implicit steps are faster by a factor proportional to
    the ratio.
    """
    p = network.unit.algebra.order
    assert p is not None, "`learns_by_units` has checked this"
    drive = np.sqrt(network.structure.size) * np.asarray(start.size) * np.sqrt(start.rate)
    moving = (drive > 0) & np.isfinite(drive) & np.isfinite(start.loss)
    if not moving.any():
        return False
    ratio = (start.loss[moving] / drive[moving]) ** ((p - 1) / (p + 1))
    limit = _BREAK_EVEN * _cost(network, problem) * _tightness(rtol)
    return bool(2 * np.sum(ratio > limit) >= len(ratio))


def explicit_steps_for_implicit(network: Layer, problem: Objective, rtol: float) -> int:
    """Return the number of explicit steps that cost as much as all implicit steps of a flow.

    If explicit steps are tried first and abandoned after this number, at most half of the total
    time is lost, whatever limits the explicit steps: a high order, or modes of different strength.
    """
    return math.ceil(_IMPLICIT_STEPS * _cost(network, problem) * _tightness(rtol))


def _tightness(rtol: float) -> float:
    """Return the factor by which a tolerance multiplies the number of implicit steps."""
    return max(1.0, (IMPLICIT_RTOL / rtol) ** 0.25)


def _cost(network: Layer, problem: Objective) -> float:
    """Return the measured cost of an implicit step in explicit steps: three to ten.

    The cost grows less than linearly with the matrix to invert and with the number of weights of a
    unit, and hardly with the width.
    """
    per_unit = network.structure.size // network.width
    return 2.0 + 0.25 * math.sqrt(rows_to_solve(network, problem) * per_unit)


def rows_to_solve(network: AbstractNetwork, problem: Objective) -> int:
    """Return the rows of the matrix that a step inverts: (pseudo-)samples × outputs, or weights."""
    size, samples = network.structure.size, problem.data.y.size
    return min(samples, size) if isinstance(network, Layer) else size
