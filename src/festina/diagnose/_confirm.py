"""Is a plateau a fixed point of fewer units? Optimise the narrow network, and compare losses."""

import math
from dataclasses import dataclass

import numpy as np

from .._checks import whole_number
from .._numerics._bfgs import bfgs
from .._objective import LossConvention, loss_formula, objective
from .._precision import float64
from .._types import ArrayLike
from ..networks import Layer
from ..networks._units import UnitLike
from ..tasks import AbstractTask
from ..theory.saddles._loss_function import loss_function, natural_size, relative_slope
from ..theory.saddles._subgradient import slope_at_rest
from ._fitted import FittedWidth
from ._given import layer_of, task_of
from ._motion import motion_of
from ._width import EffectiveWidth, check_tolerance

_SADDLE = 1e-3  # a slope so small before a long descent: the narrow network was at a saddle

_ROUNDING = 1e-12


@dataclass(frozen=True)
class Confirmation:
    """Losses of a wide network, of its narrow one, and of the minimum next to that.

    - `loss`: of the network itself.
    - `reduced_loss`: of the narrow network as it was built.
    - `optimised_loss`: where descent from there ends.
    - `slope`: gradient times weights at the end, as a fraction of the loss at zero outputs above
      that of least squares: how well it has converged, and large where the narrow network has no
      minimum at finite weights. NaN or infinite where the descent left what numbers can hold.
    - `stationary`: whether the descent has arrived: the slope is small.
    - `on_kink`: whether it has arrived on a kink of φ, where the slope is that of the smallest
      subgradient.
    - `agrees`: whether it has, `loss` and `optimised_loss` are the same within the tolerance, and
      the wide network is at rest as well.
    - `start_slope`, `wide_slope`: the slope of the narrow network as it was built, and of the wide
      one. The first is small, though descent goes on, at a saddle of the narrow network. On kinks
      that of the wide one is its smallest subgradient within a thousandth of its units' weights,
      across which descent with finite steps goes to and fro; where units have many weights, and
      there are many, no such gradients are taken, and the slope may be too large.
    - `rest_slope`: the largest `wide_slope` at rest: 10^(−½) of what is left of the loss, in the
      same units.
    - `within`: the tolerance, in units of the loss.
    - `formula`: of the loss, which is a squared one in any convention.
    - `network`: the optimised narrow network; None where it has no units.
    """

    loss: float
    reduced_loss: float
    optimised_loss: float
    slope: float
    stationary: bool
    on_kink: bool
    agrees: bool
    start_slope: float
    wide_slope: float
    rest_slope: float
    within: float
    formula: str
    network: Layer | None

    def __repr__(self) -> str:
        rests = f"rests at {self.optimised_loss:.6g}{' on a kink' * self.on_kink}"
        if self.agrees:
            units = 0 if self.network is None else self.network.width
            return (
                f"a fixed point of {units} unit{'s' * (units != 1)}: the narrow network {rests}, "
                f"{self._here}"
            )
        if not self.stationary:
            return f"not confirmed: {self._restless}"
        if self.wide_slope > self.rest_slope:
            return (
                f"not confirmed: the wide network moves, at {self.loss:.6g} its slope is "
                f"{self.wide_slope:.2g}, where at rest it is {self.rest_slope:.2g} at most. (The "
                f"narrow one {rests}.) If this is to be a plateau, train on"
            )
        if self.optimised_loss > self.loss:
            return (
                f"not confirmed: the narrow network {rests}, above, {self._here}. What it lacks "
                "is less than the tolerance of its width: ask for a smaller one"
            )
        saddle = (
            f". It starts from a slope of {self.start_slope:.2g}, as from a saddle of its own: ask "
            "`festina.theory.saddles.escape_directions`"
        )
        return (
            f"not confirmed: the narrow network goes on to {self.optimised_loss:.6g}, {self._here}"
            f"{saddle * (self.start_slope < _SADDLE)}"
        )

    @property
    def _restless(self) -> str:
        if not math.isfinite(self.slope):
            return (
                f"the slope of the narrow network is {self.slope} at the loss "
                f"{self.optimised_loss:.6g}, {self._here}. Numbers overflow there, or φ has no "
                "derivative: scale the data, or see to φ"
            )
        return (
            f"the narrow network comes to no rest, at {self.optimised_loss:.6g} the slope is still "
            f"{self.slope:.2g}, {self._here}. Its minimum may lie at infinite weights or where "
            "many kinks meet, or `max_steps` is too few"
        )

    @property
    def _here(self) -> str:
        slope = f"{self.wide_slope:.2g}" if self.wide_slope > _ROUNDING else "0"
        return f"the wide one is at {self.loss:.6g} with a slope of {slope} ({self.formula})"


@float64
def confirm(
    network: Layer | ArrayLike,
    data: AbstractTask | ArrayLike,
    found: EffectiveWidth | FittedWidth,
    *,
    v: ArrayLike | None = None,
    activation: UnitLike | None = None,
    y: ArrayLike | None = None,
    output_bias: ArrayLike | None = None,
    loss: LossConvention = "half",
    tolerance: float = 0.02,
    stationary: float = 1e-6,
    max_steps: int = 500,
) -> Confirmation:
    """Optimise the narrow network from the reduced weights, and compare its loss.

    A plateau is an embedded fixed point (Theorem 1 of Zhang, Saxe & Latham) if the narrow network
    rests where the wide one does. That they compute nearly the same does not say so: the narrow
    network may be on its way to somewhere else. Whether the fixed point is a saddle or, as at the
    end of training, a minimum, its curvature says: `festina.theory.saddles.escape_directions`. It
    legitimately fails where a plateau is none of these fixed points: units
    that have one direction but are not proportional (tanh, sine), or a narrow network whose
    infimum lies at infinite weights (x tanh x). The weights of rectifiers often rest on a kink,
    where a sample is just not seen; that counts as rest. A bias of the output layer is held where
    it is: the plateau may still be one on which the bias moves. Fixed points are those of a squared
    loss, and say nothing of training with another, such as a cross-entropy.

    **Arguments:**

    - `network`, `data`: the wide network and its task, or plain arrays u and x.
    - `found`: its `effective_width`; or its `fitted_width`, whose units, where they are fewer than
      those that merge, no equation of Theorem 1 embeds: then it only says where they rest.
    - `v`, `activation`, `y`, `output_bias`: with plain arrays, as in `effective_width`.
    - `loss`: convention.
    - `tolerance`: largest difference of the losses, as a fraction of what is left of the loss above
      that of least squares; of as little as `tolerance` times the loss at zero outputs, if less is.
    - `stationary`: largest slope at which the optimised network passes for one at rest.
    - `max_steps`: of a quasi-Newton descent, whose memory grows with the number of weights squared.
    """
    if not isinstance(found, EffectiveWidth | FittedWidth):
        raise ValueError(
            "`found` must be the answer of `effective_width` or of `fitted_width`, got "
            f"{type(found).__name__}."
        )
    check_tolerance(tolerance)
    one = layer_of(network, v, activation)
    task = task_of(one, data, y, output_bias)
    if y is None and task is not data:
        raise ValueError("Plain arrays need targets as well: give `y`.")
    _check_same(one, (found.merged if isinstance(found, FittedWidth) else found).network)
    wide = motion_of(one, task, loss, resolution=tolerance)
    here, empty, floor, scale = wide.loss, wide.empty, wide.floor, wide.empty or 1.0
    if found.reduced is None:
        reduced = optimised = empty
        slope, on_kink, end = 0.0, False, None
        start_slope = slope
    else:
        narrow = objective(found.reduced, task, loss)
        function = loss_function(narrow.structure, narrow.data)
        start = narrow.structure.columns(*found.reduced.parts)[:, 0]
        reduced, slope_there = function(start)
        at_zero = np.linalg.norm(function(np.zeros_like(start))[1])
        least = natural_size(scale, float(at_zero))
        start_slope = relative_slope(start, slope_there, least) / scale
        weights, optimised, gradient = bfgs(
            function,
            start,
            lambda weights, _, gradient: relative_slope(weights, gradient, least) <= 1e-9 * empty,
            max_steps=whole_number("max_steps", max_steps),
        )
        enough, end_slope = stationary * scale, relative_slope(weights, gradient, least)
        if found.reduced.kinked:
            end_slope = slope_at_rest(function, weights, gradient, enough=enough, kinked=True)
        on_kink = end_slope <= enough < relative_slope(weights, gradient)
        slope = end_slope / scale
        end = found.reduced.with_parts(*narrow.structure.arrays(weights))
    arrived, within = slope <= stationary, tolerance * max(here, tolerance * empty)
    return Confirmation(
        loss=here + floor,
        reduced_loss=reduced + floor,
        optimised_loss=optimised + floor,
        slope=slope,
        stationary=arrived,
        on_kink=on_kink,
        agrees=arrived and wide.rests and abs(here - optimised) <= within,
        start_slope=start_slope,
        wide_slope=wide.slope,
        rest_slope=wide.limit,
        within=within,
        formula=loss_formula(loss),
        network=end,
    )


def _check_same(network: Layer, asked: Layer) -> None:
    """A width is that of one network; functions of one's own are told by their names."""
    same = repr(network.unit) == repr(asked.unit) and all(
        a.shape == b.shape and np.allclose(a, b, rtol=1e-6, atol=0.0)
        for a, b in zip(network.parts, asked.parts, strict=True)
    )
    if not same:
        raise ValueError(
            f"`found` is the width of another network, {asked.width} units {asked.unit} with other "
            f"weights or another φ than these {network.width} units {network.unit}. Give "
            "`effective_width` of the network that is to be confirmed."
        )
