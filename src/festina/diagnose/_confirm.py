"""Is a plateau a fixed point of fewer units? Optimise the narrow network, and compare losses."""

import math
from dataclasses import dataclass

import numpy as np
from numpy.typing import ArrayLike

from .._objective import Convention, objective
from .._precision import float64
from ..networks import AbstractUnit, Activation, Layer
from ..networks._activations import Scalar
from ..tasks import AbstractTask
from ..theory.saddles._bfgs import bfgs
from ..theory.saddles._loss_function import loss_function, natural_size, relative_slope
from ..theory.saddles._subgradient import slope_at_rest
from ._fitted import FittedWidth
from ._given import layer_of, task_of
from ._width import EffectiveWidth

_SADDLE = 1e-3  # a slope so small before a long descent: the narrow network was at a saddle


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
    - `agrees`: whether it has, and `loss` and `optimised_loss` are the same within the tolerance.
      Where less than that is left of the loss, the wide network must be at rest as well.
    - `start_slope`, `wide_slope`: the slope of the narrow network as it was built, and of the wide
      one. The first is small, though descent goes on, at a saddle of the narrow network.
    - `within`: the tolerance, in units of the loss.
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
    within: float
    network: Layer | None

    def __repr__(self) -> str:
        if self.agrees:
            units = 0 if self.network is None else self.network.width
            return (
                f"a fixed point of {units} unit{'s' * (units != 1)}: the narrow network rests at "
                f"{self.optimised_loss:.6g}{' on a kink' * self.on_kink}, {self._here}"
            )
        if self.stationary and abs(self.loss - self.optimised_loss) <= self.within:
            return (
                f"not confirmed: so little of the loss is left, {self.loss:.3g}, that it tells "
                f"nothing, and the slope of the wide network is {self.wide_slope:.2g}: train on"
            )
        if self.stationary:
            saddle = (
                f". It starts from a slope of {self.start_slope:.2g}, as from a saddle of its own: "
                "ask `festina.theory.saddles.escape`"
            )
            return (
                f"not confirmed: the narrow network goes on to {self.optimised_loss:.6g}, "
                f"{self._here}{saddle * (self.start_slope < _SADDLE)}"
            )
        if not math.isfinite(self.slope):
            return (
                f"not confirmed: the slope of the narrow network is {self.slope} at the loss "
                f"{self.optimised_loss:.6g}, {self._here}. Numbers overflow there, or φ has no "
                "derivative: scale the data, or see to φ"
            )
        return (
            f"not confirmed: the narrow network comes to no rest, at {self.optimised_loss:.6g} the "
            f"slope is still {self.slope:.2g}, {self._here}. Its minimum may lie at infinite "
            "weights or where many kinks meet, or `max_steps` is too few"
        )

    @property
    def _here(self) -> str:
        return f"the wide one is at {self.loss:.6g}"


@float64
def confirm(
    network: Layer | ArrayLike,
    data: AbstractTask | ArrayLike,
    found: EffectiveWidth | FittedWidth,
    *,
    v: ArrayLike | None = None,
    activation: str | Activation | Scalar | AbstractUnit | None = None,
    y: ArrayLike | None = None,
    loss: Convention = "half",
    tolerance: float = 0.02,
    stationary: float = 1e-6,
    max_steps: int = 500,
) -> Confirmation:
    """Optimise the narrow network from the reduced weights, and compare its loss.

    A plateau is an embedded fixed point (Theorem 1 of Zhang, Saxe & Latham) if the narrow network
    rests where the wide one does. That they compute nearly the same does not say so: the narrow
    network may be on its way to somewhere else. Whether the fixed point is a saddle or, as at the
    end of training, a minimum, its curvature says: `festina.theory.saddles.escape`. It legitimately
    fails where a plateau is none of these fixed points: units
    that have one direction but are not proportional (tanh, sine), or a narrow network whose
    infimum lies at infinite weights (x tanh x). The weights of rectifiers often rest on a kink,
    where a sample is just not seen; that counts as rest. A bias of the output layer, subtracted
    from y, is held where it is: the plateau may still be one on which the bias moves.

    **Arguments:**

    - `network`, `data`: the wide network and its task, or plain arrays u and x.
    - `found`: its `effective_width`; or its `fitted_width`, whose units, where they are fewer than
      those that merge, no equation of Theorem 1 embeds: then it only says where they rest.
    - `v`, `activation`, `y`: with plain arrays, as in `effective_width`.
    - `loss`: convention.
    - `tolerance`: largest difference of the losses, as a fraction of the loss at zero outputs.
    - `stationary`: largest slope at which the optimised network passes for one at rest.
    - `max_steps`: of a quasi-Newton descent, whose memory grows with the number of weights squared.
    """
    one = layer_of(network, v, activation)
    task = task_of(one, data, y)
    if y is None and task is not data:
        raise ValueError("Plain arrays need targets as well: give `y`.")
    _check_same(one, (found.merged if isinstance(found, FittedWidth) else found).network)
    wide = objective(one, task, loss)
    weights = wide.structure.columns(*one.parts)[:, 0]
    here, slope_here = loss_function(wide.structure, wide.data)(weights)
    empty = 0.5 * float(wide.data.weight @ np.sum(np.asarray(wide.data.y) ** 2, axis=1))
    scale = empty or 1.0
    wide_slope = relative_slope(weights, slope_here) / scale
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
            max_steps=max_steps,
        )
        enough, end_slope = stationary * scale, relative_slope(weights, gradient, least)
        if found.reduced.kinked:
            end_slope = slope_at_rest(function, weights, gradient, enough=enough, kinked=True)
        on_kink = end_slope <= enough < relative_slope(weights, gradient)
        slope = end_slope / scale
        end = found.reduced.with_parts(*narrow.structure.arrays(weights))
    arrived, within = slope <= stationary, tolerance * (empty + wide.floor)
    moves = here <= within and wide_slope > tolerance and not one.kinked
    return Confirmation(
        loss=here + wide.floor,
        reduced_loss=reduced + wide.floor,
        optimised_loss=optimised + wide.floor,
        slope=slope,
        stationary=arrived,
        on_kink=on_kink,
        agrees=arrived and not moves and abs(here - optimised) <= within,
        start_slope=start_slope,
        wide_slope=wide_slope,
        within=within,
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
