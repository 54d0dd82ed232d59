"""Effective width: how many units compute what a network computes, and which kind of saddle."""

import functools
import math
from collections.abc import Mapping
from dataclasses import dataclass

from .._checks import real_number
from .._types import ArrayLike
from ..networks import Layer
from ..networks._units import UnitLike
from ..tasks import AbstractTask
from ..theory.saddles._kinds import EQUATION, Kind
from ..theory.saddles._mechanism import Mechanism, mechanism
from ..theory.saddles._merged_units import Narrowing, narrowings
from ._given import layer_of, task_of, warn_of_other_outputs
from ._motion import Motion, motion_of


@dataclass(frozen=True, eq=False)
class EffectiveWidth:
    """How narrow a network of each kind is, to within a tolerance in function space.

    - `width`: the smallest over all kinds.
    - `kind`: the simplest kind that reaches it; None where none saves a single unit.
    - `ties`: every kind that reaches it, simplest first. Rank one in a linear network, say, is
      both one line of proportional units and one direction.
    - `widths`: of every kind that the unit's algebra admits; None where merging units costs more
      than the tolerance whatever the width.
    - `reduced`: the narrow network, which `festina.diagnose.confirm` optimises further; the network
      itself where no kind comes within the tolerance, None where no unit is needed at all.
    - `error`: root mean square of the difference between the two, as a fraction of `scale`.
    - `scale`: root mean square of the targets, or of the outputs where there are no targets, or
      none but zeros.
    - `network`: the one that was asked about.
    - `narrowings`: the error of every kind at every width, for other tolerances.
    - `task`: on which it is judged; None where no targets were given.
    """

    width: int
    kind: Kind | None
    ties: tuple[Kind, ...]
    widths: Mapping[Kind, int | None]
    reduced: Layer | None
    error: float
    scale: float
    tolerance: float
    network: Layer
    narrowings: tuple[Narrowing, ...]
    task: AbstractTask | None

    @functools.cached_property
    def motion(self) -> Motion | None:
        """How steep the loss is, and how steep it may be at a saddle; None without targets."""
        if self.task is None:
            return None
        return motion_of(self.network, self.task, resolution=min(self.tolerance, 0.1) ** 2)

    @property
    def equation(self) -> int | None:
        """Number of the embedding's equation in Theorem 1, (4) to (7)."""
        return None if self.kind is None else EQUATION[self.kind]

    @property
    def mechanism(self) -> Mechanism:
        """How such units leave zero, and to which kind of saddle that leads."""
        return mechanism(self.network.unit)

    def at(self, tolerance: float) -> "EffectiveWidth":
        """The answer for another tolerance."""
        check_tolerance(tolerance)
        return _judge(self.network, self.narrowings, tolerance, self.task)

    def __str__(self) -> str:
        each = ", ".join(
            f"({EQUATION[kind]}) {kind} {'—' if width is None else width}"
            for kind, width in self.widths.items()
        )
        if self.kind is None:
            return f"width {self.width}, no narrower to within {self.tolerance:g} ({each})"
        ties = " and ".join(f"({EQUATION[kind]})" for kind in self.ties)
        found, motion = f"effective width {self.width}", self.motion
        if motion is None or motion.rests:
            known = "" if motion else "; without `y` nothing says whether it is at rest"
            return f"{found} of type {ties}, error {self.error:.2g}; widths by type: {each}{known}"
        return (
            f"{found}, but at no saddle: the slope is {motion.slope:.2g}, at rest it is "
            f"{motion.limit:.2g} at most. Error {self.error:.2g}; widths by type: {each}"
        )


def effective_width(
    network: Layer | ArrayLike,
    data: AbstractTask | ArrayLike,
    *,
    v: ArrayLike | None = None,
    activation: UnitLike | None = None,
    y: ArrayLike | None = None,
    output_bias: ArrayLike | None = None,
    tolerance: float = 0.1,
    angle: float = 0.2,
) -> EffectiveWidth:
    r"""How few units compute the same, for every kind of embedded fixed point.

    On a plateau of saddle-to-saddle dynamics a wide network computes what a narrow one does
    (Theorems 1 and 3 of Zhang, Saxe & Latham). For each of Eqs. (4) to (7) that φ admits, the
    network of width h is built (F.3), and the effective width is the smallest h with

    $$\mathrm{rms}(f - f_h) \le \mathrm{tolerance} \cdot \mathrm{rms}(y).$$

    The smallest width over all kinds wins; of several, the one that asks least of φ: (5) before (4)
    before (6) before (7). Errors are judged in function space, because weights mislead: relative to
    the largest weight an initial network has full width, a rank does not see rays, and active units
    cannot be counted where many share a direction.

    `effective_width(network, task)`, or without any object of this library
    `effective_width(u, x, v=v, activation="relu", y=y)`.

    **Arguments:**

    - `network`: a layer, or the first-layer weights u, `(unit, input)`.
    - `data`: a task, or inputs x, `(sample, …)`; the layer must take them.
    - `v`: second-layer weights, `(unit, output)` or `(unit,)`: the transpose of PyTorch's.
    - `activation`: φ: a name, a scalar JAX function of your own, whose properties are measured, or
      a unit (`festina.networks.ConvolutionKernel`, …). Biases are the last column of u, with a
      unit that has them (`Neuron("relu", bias=True)`) or a 1 appended to x.
    - `y`: targets, `(sample, output)` or `(sample,)`. Without any, errors are relative to the
      network's own outputs, so that small outputs count as much as large ones.
    - `output_bias`: with plain arrays and `y`, what the network adds to its outputs, `(output,)` or
      a number: it is none of the units', and what is left of the targets without it is the scale.
      Left out there is none, with a warning where it looks as if there were; 0 if there is none.
    - `tolerance`: largest error.
    - `angle`: largest angle in radians between units that are merged; see
      `festina.theory.saddles.narrowings`.

    **Returns:** an `EffectiveWidth`.

    !!! note "When to doubt it"

        One hidden layer of a deeper network is judged by what it sends to the next, not by what
        that makes of it: there, units may count that the outputs do not depend on.

        Off a plateau there is an effective width as well, but no saddle that it stands for: the
        answer's words say so, and its `motion` has the numbers. Units
        may share a direction without being copies of each other (attention heads do at times):
        they count one by one, and `festina.diagnose.fitted_width` says how few would do.
    """
    check_tolerance(tolerance)
    one = layer_of(network, v, activation)
    task = task_of(one, data, y, output_bias)
    blind = y is None and task is not data
    if y is not None:
        warn_of_other_outputs(one, task, output_bias is not None)
    found = narrowings(one, task, angle=angle, own_scale=blind)
    return _judge(one, found, tolerance, None if blind else task)


def check_tolerance(tolerance: float) -> None:
    if not 0 < real_number("tolerance", tolerance) < math.inf:
        raise ValueError(f"`tolerance` must be positive, got {tolerance}.")


def _judge(
    network: Layer, found: tuple[Narrowing, ...], tolerance: float, task: AbstractTask | None
) -> EffectiveWidth:
    """The smallest width, and who reaches it.

    No unit at all is a network only where silent ones are: others copy one that is there, Eq. (4).
    """
    least = 0 if any(each.kind == "zero" for each in found) else 1
    widths: dict[Kind, int | None] = {}
    for each in found:
        reached = each.width(tolerance)
        widths[each.kind] = None if reached is None else max(reached, least)
    width = min((w for w in widths.values() if w is not None), default=network.width)
    ties = tuple(each for each in found if widths[each.kind] == width)
    kinds: tuple[Kind, ...] = tuple(each.kind for each in ties) if width < network.width else ()
    return EffectiveWidth(
        width=width,
        kind=kinds[0] if kinds else None,
        ties=kinds,
        widths=widths,
        reduced=(_narrow(ties[0], width, network) if ties else network) if width else None,
        error=float(ties[0].error[: width + 1][-1]) if ties else 0.0,
        scale=found[0].scale,
        tolerance=tolerance,
        network=network,
        narrowings=found,
        task=task,
    )


def _narrow(found: Narrowing, width: int, network: Layer) -> Layer:
    """So many units; where nothing contributes any of them will do."""
    if found.network.width >= width:
        return found.narrow(width)
    return network.with_parts(network.u[:width], network.v[:width])
