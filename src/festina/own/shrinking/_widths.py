"""How many units a network uses, judged at its outputs, and whether it rests there."""

import math
from collections.abc import Callable, Collection
from dataclasses import dataclass
from typing import Any, Literal

import numpy as np

from ..._checks import whole_number
from ...diagnose._width import check_tolerance
from ...dynamics._worker import Progress
from ...theory.saddles._kinds import SIMPLEST_FIRST, Kind
from .._pytorch import check_pairs, in_words
from ._descent import descend
from ._layers import AbstractModel, Loss, Weights, close
from ._model import model_of
from ._narrow import Narrow, Narrowest, rms, spread

# Plateaus of linear, quadratic, rectified and tanh units come to .22 of what is left of the loss at
# most, their drops to .3 and more.
_REST = 0.25
_LEVEL = 0.1  # of the loss: to about the square of that slope is left to a network that rests
_STILL = 0.1  # the slope of the narrow network after its descent: a hundredth is left to it
_STEPS = 500  # of that descent, and as many again up to so many times, while it finds no rest
_TRIES = 4
_WITHOUT_TARGETS = (
    "without targets units count by what they change of the outputs: where those are small beside "
    "the targets, as on early plateaus, more units count than with `y`"
)


@dataclass(frozen=True, eq=False)
class EffectiveWidths:
    """How narrow a network is, all hidden layers at once.

    - `layers`: name, units and effective width of each hidden layer.
    - `kind`: how the narrow network sits in the wide one: `"zero"` (the other units are silent),
      `"equal"` (they are copies), `"proportional"`, `"linear"` (they respond as combinations of the
      few), or `"fitted"`, where the few units had to be tuned: no saddle of Theorem 1. None where
      no unit can be spared.
    - `error`: root mean square of the difference of the outputs, as a fraction of `scale`.
    - `loss`, `slope`: of the network; the slope is |gradient| · |weights| as a fraction of the
      loss, at rest a quarter at most. NaN without a loss.
    - `narrow_loss`, `narrow_slope`: where the narrow network comes to, trained on its own.
    - `confirmed`: whether the network rests at a fixed point of that many units; None where no loss
      says so.
    """

    layers: tuple[tuple[str, int, int], ...]
    kind: Kind | Literal["fitted"] | None
    error: float
    scale: float
    tolerance: float
    loss: float
    slope: float
    narrow_loss: float
    narrow_slope: float
    confirmed: bool | None
    notes: tuple[str, ...]

    @property
    def widths(self) -> tuple[int, ...]:
        return tuple(width for _, _, width in self.layers)

    @property
    def rests(self) -> bool | None:
        """Whether the network moves no more; None where no loss says so."""
        return None if math.isnan(self.slope) else self.slope <= _REST

    def __str__(self) -> str:
        each = ", ".join(
            f"{in_words(name)}: {width} of {units} units" for name, units, width in self.layers
        )
        kind = "no unit can be spared" if self.kind is None else f"of type {self.kind}"
        found = f"effective widths, {each}, {kind}, error {self.error:.2g}"
        return "; ".join((found, self._verdict, *self.notes))

    @property
    def _verdict(self) -> str:
        if self.confirmed is None:
            return "no loss, or nothing that is trained, says whether it is at rest"
        if not self.rests:
            return (
                f"not confirmed: the network moves, its slope is {self.slope:.2g} where at rest it "
                f"is {_REST:.2g} at most"
            )
        there = f"of the loss {self.narrow_loss:.4g}, the network is at {self.loss:.4g}"
        if self.confirmed:
            return f"confirmed: so many units have a fixed point {there}"
        if not self.narrow_slope <= _STILL:
            return f"not confirmed: trained alone, so few units find no rest {there}"
        return f"not confirmed: trained alone, so few units come to rest {there}"


def widths(
    model: Any,
    x: Any,
    *,
    y: Any = None,
    loss: Loss | None = None,
    tolerance: float = 0.1,
    tune: bool = True,
    apply: Callable[..., Any] | None = None,
    steps: int = 300,
    progress: Progress | None = None,
) -> EffectiveWidths:
    r"""How few units in every hidden layer compute what the network does.

    All hidden layers are narrowed at once and judged by what comes out,

    $$\mathrm{rms}(f - f_h) \le \mathrm{tolerance} \cdot \mathrm{scale},$$

    on inputs held out. The scale is the spread of the targets y about their mean, that of the
    outputs if they are more than the unit of logits where y are classes, and that of the outputs
    where there are no targets; without a bias behind the last hidden layer no mean is taken off,
    for units have to make it.

    With a loss it is also asked whether the network rests at a fixed point of so many units. It
    does if its slope is small against what is left of the loss, and if the narrow network, trained
    on the same loss from where it is, comes to rest at the same level, to within a tenth of it. A
    network that still moves is never confirmed, whatever its width.

    **Arguments:**

    - `model`, `x`: as for `festina.shrink`.
    - `y`: targets, as the loss takes them; a Dataset or a DataLoader has its own.
    - `loss`: of outputs and targets, `loss(model(x), y)`, its mean over samples: any that can be
      differentiated and whose floor is about zero. What nobody can learn, noise say, is to be taken
      off: slopes and levels are judged against all that is left.
    - `tolerance`: largest error, as a fraction of the scale. At a tenth six students of a teacher
      of four units end with four; at .05 one ends with five, and three of their 25 plateaus are
      `"fitted"` that are saddles of a type at a tenth.
    - `tune`, `apply`, `steps`, `progress`: as for `festina.shrink`.
    """
    check_tolerance(tolerance)
    steps = whole_number("steps", steps)
    network = model_of(model, x, y, apply)
    if loss is not None and network.samples.y is None:
        raise ValueError("`loss` needs targets as well: give `y`.")
    measure = rms if network.hidden[-1].bias is None else spread
    outputs = network.outputs(network.weights, network.samples)
    scale = _scale(network.samples.y, outputs, measure)
    empty = measure(outputs) / scale if scale else 0.0
    if empty <= tolerance:
        found = Narrow({layer.name: 0 for layer in network.hidden}, {}, empty)
        kind = "zero"
    else:
        narrowest = Narrowest(network, scale=scale, steps=steps, progress=progress)
        found = narrowest.search(tolerance, tune=tune)
        kind = _kind(narrowest, found, tolerance)
    here = slope = there = narrow_slope = math.nan
    confirmed = None
    if loss is not None and network.trained:
        here, slope = _checked(network, loss)
        confirmed = False
        if slope <= _REST:
            there, narrow_slope = _trained(network, found, loss)
            confirmed = abs(there - here) <= _LEVEL * here and narrow_slope <= _STILL
    return EffectiveWidths(
        layers=tuple(
            (layer.name, layer.units, found.widths[layer.name]) for layer in network.hidden
        ),
        kind=kind,
        error=found.error,
        scale=scale,
        tolerance=float(tolerance),
        loss=here,
        slope=slope,
        narrow_loss=there,
        narrow_slope=narrow_slope,
        confirmed=confirmed,
        notes=(*network.notes, *(() if network.samples.y is not None else (_WITHOUT_TARGETS,))),
    )


def _scale(y: Any, outputs: np.ndarray, measure: Callable[[np.ndarray], float]) -> float:
    if y is None or isinstance(y, tuple | dict):
        return measure(outputs)
    targets = np.asarray(y.detach().cpu() if hasattr(y, "detach") else y)
    if targets.size == outputs.size and targets.dtype.kind == "f":
        return measure(targets.reshape(outputs.shape).astype(float)) or measure(outputs)
    return max(measure(outputs), 1.0)


def _kind(narrowest: Narrowest, found: Narrow, tolerance: float) -> Kind | Literal["fitted"] | None:
    if found.widths == narrowest.merging.full:
        return None
    for kind in SIMPLEST_FIRST:
        if narrowest.error(narrowest.merging.embedded(found.widths, kind)) <= tolerance:
            return kind
    return "fitted"


def _checked(network: AbstractModel, loss: Loss) -> tuple[float, float]:
    """Loss and slope of the network, where the loss takes its outputs and is the same twice."""

    def paired(outputs: Any, y: Any) -> Any:
        check_pairs(loss, outputs, y)
        return loss(outputs, y)

    motion = lambda loss: _motion(network, network.weights, loss, network.trained)
    try:
        here, slope = motion(paired)
    except (RuntimeError, TypeError, IndexError, ValueError) as error:
        what = (str(error).splitlines() or [repr(error)])[0]
        raise ValueError(f"`loss` does not take these outputs and targets: {what}") from error
    if not math.isfinite(here):
        raise ValueError(f"The loss is {here}: nothing rests there. See to `loss` and `y`.")
    if not close(np.array(motion(loss)), np.array((here, slope)), 1e-4):
        raise ValueError(
            "`loss` gives another value when it is asked again: draw what is random in it once."
        )
    return here, slope


def _motion(
    network: AbstractModel, weights: Weights, loss: Loss, free: Collection[str]
) -> tuple[float, float]:
    """Loss and slope: to first order no relative change of the weights changes more of it."""
    here, slopes = network.slope(weights, network.samples, loss)
    norm = lambda by_name: math.sqrt(
        sum(float(np.sum(by_name[name] ** 2)) for name in free if name in slopes)
    )
    steep = norm(slopes) * norm(weights)
    return here, steep / here if here > 0 else (0.0 if steep == 0 else math.inf)


def _trained(network: AbstractModel, found: Narrow, loss: Loss) -> tuple[float, float]:
    """Where the narrow network comes to rest on the loss, and its slope there."""
    weights, free = found.weights, network.trained
    if not weights:  # no units: silence is read, and a bias is all that moves
        readers = (layer.reader.name for layer in network.hidden)
        silent = {name: np.zeros_like(network.weights[name]) for name in readers}
        weights = {**network.weights, **silent}
        free = free & {network.hidden[-1].bias}
    slope = lambda moved: network.slope(moved, network.samples, loss)
    here, steep = math.nan, math.inf
    for _ in range(_TRIES if free else 1):
        weights = descend(slope, weights, free, steps=_STEPS)
        here, steep = _motion(network, weights, loss, free)
        if steep <= _STILL:
            break
    return here, steep
