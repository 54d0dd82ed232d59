"""Effective width: the narrowest network that computes the same, and whether it is a saddle."""

import functools
import math
from collections.abc import Callable, Mapping
from dataclasses import dataclass
from typing import TYPE_CHECKING, Any, NamedTuple

import numpy as np

from .._axes import axes, styled
from .._checks import real_number, whole_number
from .._narrowing._descent import descend
from .._narrowing._layer_model import LayerModel
from .._narrowing._layers import REST, AbstractModel, Loss, Weights, close
from .._narrowing._model import model_of
from .._narrowing._narrow import Narrow, Narrowest
from .._narrowing._pytorch import check_pairs, in_words
from .._result import Result
from .._types import ArrayLike
from ..dynamics._worker import Progress
from ..networks import Layer
from ..networks._units import UnitLike
from ..tasks import AbstractTask
from ..theory.saddles._kinds import EQUATION, Kind
from ._given import layer_of, task_of, warn_of_other_outputs

if TYPE_CHECKING:
    import xarray as xr
    from matplotlib.axes import Axes

TOLERANCE = 0.1
"""Default tolerance of every width. At a tenth six students of a teacher of four
units end with four units; at .05 one of them ends with five."""

_LEVEL = 0.1  # of the loss: to about the square of `REST` is left to a network at rest
_STILL = 0.1  # the slope of the narrow network after its descent: a hundredth is left to it
_STEPS = 500  # of that descent, and as many again up to so many times, while it finds no rest
_TRIES = 4
_POINTS = 64  # of the curve
_WITHOUT_TARGETS = (
    "without targets units count by what they change of the outputs: where those are small beside "
    "the targets, as on early plateaus, more units count than with `y`"
)


class _Question(NamedTuple):
    """What an answer follows from, and a tolerance."""

    network: AbstractModel
    narrowest: Narrowest
    loss: Loss | None
    judged: bool
    tune: bool


@dataclass(frozen=True, eq=False, repr=False)
class EffectiveWidth(Result, also=("width",)):
    """Result of `effective_width`: how narrow the network could be, all hidden layers at once.

    - `layers`: name, units and effective width of each hidden layer.
    - `kinds`: the ways in which the narrow network sits in the wide one (Theorem 1 of Zhang, Saxe &
      Latham), simplest first: `"zero"` (the other units are silent), `"equal"` (they are copies),
      `"proportional"`, `"linear"` (they respond as combinations of the few). Empty where no unit
      can be spared, or where the few units had to be tuned: then there is no such saddle.
    - `error`: root mean square of the difference of the outputs, as a fraction of `scale`.
    - `loss`, `slope`: of the network. The slope is |gradient| · |weights| as a fraction of what is
      left of the loss, where a loss below `tolerance`² of that of silent units (at most .01) counts
      as so much. NaN without a loss.
    - `narrow_loss`, `narrow_slope`: where the narrow network comes to, trained on its own.
    - `confirmed`: whether the network rests at a fixed point of that many units; None where no loss
      says so.
    """

    layers: tuple[tuple[str, int, int], ...]
    kinds: tuple[Kind, ...]
    error: float
    scale: float
    tolerance: float
    loss: float
    slope: float
    narrow_loss: float
    narrow_slope: float
    confirmed: bool | None
    notes: tuple[str, ...]
    _found: Narrow
    _rested: Any  # weights by name
    _question: _Question

    @property
    def widths(self) -> tuple[int, ...]:
        """Effective width of each hidden layer."""
        return tuple(width for *_, width in self.layers)

    @property
    def width(self) -> int:
        """Effective width; of several hidden layers their sum."""
        return sum(self.widths)

    @property
    def units(self) -> int:
        """Number of hidden units of the wide network."""
        return sum(units for _, units, _ in self.layers)

    @property
    def kind(self) -> Kind | None:
        """The simplest of `kinds`; None where there is none."""
        return self.kinds[0] if self.kinds else None

    @property
    def equation(self) -> int | None:
        """Number of the embedding's equation in Theorem 1, (4) to (7)."""
        return None if self.kind is None else EQUATION[self.kind]

    @property
    def rests(self) -> bool | None:
        """Whether the network moves no more; None where no loss says so."""
        return None if math.isnan(self.slope) else self.slope <= REST

    @property
    def narrow(self) -> Any:
        """The narrow network, of the same type as the wide one; None if it has no units."""
        return self._question.network.built(self._found.weights) if self.width else None

    @property
    def fixed_point(self) -> Any:
        """The narrow network where it came to on the loss; None if it was not trained."""
        return self._question.network.built(self._rested) if self._rested and self.width else None

    @functools.cached_property
    def curve(self) -> Mapping[int, float]:
        """Error by the number of units in all hidden layers.

        Networks that have been tuned count as tuned, others as merged and read anew by least
        squares. Of many numbers of units 64 stand for all.
        """
        least, most = len(self.layers), self.units
        some = np.unique(np.geomspace(least, most, _POINTS).round().astype(int)).tolist()
        units = range(least, most + 1) if most - least < _POINTS else sorted({*some, self.width})
        error_at = self._question.narrowest.error_at
        return {0: error_at(0)} | {count: error_at(count) for count in units if count}

    @property
    def short(self) -> float:
        """Error of the best network seen that has one unit less; NaN where no unit is needed."""
        return self._question.narrowest.error_at(self.width - 1) if self.width else math.nan

    def at(self, tolerance: float) -> "EffectiveWidth":
        """Return the answer for another tolerance; what has been tuned is not tuned again."""
        check_tolerance(tolerance)
        return _answer(self._question, tolerance)

    def to_dataset(self) -> "xr.Dataset":
        """Return numbers, and the `curve` along the number of hidden `units`."""
        units, errors = map(list, zip(*self.curve.items(), strict=True))
        return super().to_dataset().assign(units=units, curve=("units", errors))

    def draw(self, ax: "Axes | None" = None, **style: Any) -> "Axes":
        """Draw the error over the number of hidden units. `style` goes to the line."""
        ax = axes(ax)
        ax.plot(*zip(*self.curve.items(), strict=True), **styled(style, marker="o", ls="-"))
        ax.plot(self.width, self.error, "k*", ms=12, label=f"width {self.width}")
        ax.axhline(self.tolerance, color="black", lw=1, ls="--", label="tolerance")
        ax.set(xscale="symlog", xlabel="hidden units", ylabel="error of the outputs")
        ax.legend()
        return ax

    def __str__(self) -> str:
        each = ", ".join(
            f"{in_words(name)}: {width} of {units} units" for name, units, width in self.layers
        )
        kind = "no unit can be spared"
        if self.kinds:
            kind = " and ".join(f"({EQUATION[kind]}) {kind}" for kind in self.kinds)
        elif self.width < self.units:
            kind = "tuned, of no type"
        head = f"effective width, {each}; {kind}; error {self.error:.2g}"
        return "; ".join((head, self._verdict, *self.notes))

    @property
    def _verdict(self) -> str:
        if self.confirmed is None:
            return "no loss, or nothing that is trained, says whether it is at rest"
        if not self.rests:
            return (
                f"not confirmed: the network moves, its slope is {self.slope:.2g} where at rest it "
                f"is {REST:.2g} at most"
            )
        there = f"of the loss {self.narrow_loss:.4g}, the network is at {self.loss:.4g}"
        if self.confirmed:
            return f"confirmed: so many units have a fixed point {there}"
        if not self.narrow_slope <= _STILL:
            return f"not confirmed: trained alone, so few units find no rest {there}"
        return f"not confirmed: trained alone, so few units come to rest {there}"


def effective_width(
    network: Any,
    x: Any,
    *,
    y: Any = None,
    loss: Loss | None = None,
    tolerance: float = TOLERANCE,
    v: ArrayLike | None = None,
    activation: UnitLike | None = None,
    output_bias: ArrayLike | None = None,
    apply: Callable[..., Any] | None = None,
    tune: bool = True,
    steps: int = 300,
    progress: Progress | None = None,
) -> EffectiveWidth:
    r"""Return the width of the narrowest network that computes the same to within a tolerance.

    On a plateau of saddle-to-saddle dynamics a wide network computes what a narrow one does
    (Theorems 1 and 3 of Zhang, Saxe & Latham). All hidden layers are narrowed at once, as
    `festina.shrink` does it, and judged by the outputs,

    $$\mathrm{rms}(f - f_h) \le \mathrm{tolerance} \cdot \mathrm{scale}.$$

    Weights alone mislead: relative to the largest weight an initial network has full width, a rank
    does not see rays, and active units cannot be counted where many share a direction. The scale
    is the size of the targets y, that of the outputs if they are more than the unit of logits where
    y are classes, and that of the outputs where there are no targets. It is taken about the mean if
    there is a bias behind the last hidden layer, else units have to make the mean.

    With a loss it is also asked whether the network rests at a fixed point of so many units. It
    does if its slope is small against what is left of the loss, and if the narrow network, trained
    on the same loss from where it is, comes to rest at the same level, to within a tenth of it.
    Of a `Layer` with targets the loss is half the mean square, above that of least squares.

    `effective_width(network, task)` for a `Layer`; without any object of this library
    `effective_width(model, x, y=y, loss=criterion)` for PyTorch and JAX, or, of one hidden layer in
    plain arrays, `effective_width(u, x, v=v, activation="relu", y=y)`.

    **Arguments:**

    - `network`: a layer, the first-layer weights u `(unit, input)`, a `torch.nn.Module`, or a tree
      of JAX's arrays.
    - `x`: a task, or inputs `(sample, …)`; for PyTorch and JAX also as `festina.shrink` takes them.
      A fifth of the inputs is held out and judges the errors; of a task none.
    - `y`: targets, as the loss takes them; a Dataset or a DataLoader has its own.
    - `loss`: for PyTorch and JAX, `loss(model(x), y)`, its mean over samples: any that can be
      differentiated and whose floor is about zero. What nobody can learn, noise say, is to be taken
      off: slopes and levels are judged against all that is left.
    - `tolerance`: largest error, as a fraction of the scale.
    - `v`, `activation`: with plain arrays, the second-layer weights `(unit, output)` or `(unit,)`,
      the transpose of PyTorch's; and φ: a name, a scalar JAX function of your own, or a unit
      (`festina.networks.ConvolutionUnit`, …). Biases are the last column of u, with a unit that
      has them (`NeuronUnit("relu", bias=True)`) or a 1 appended to x.
    - `output_bias`: with plain arrays and `y`, what the network adds to its outputs, `(output,)` or
      a number. Left out there is none, with a warning where it looks as if there were; 0 if there
      is none.
    - `tune`, `apply`, `steps`, `progress`: as for `festina.shrink`.

    !!! note "When to doubt it"

        Off a plateau there is an effective width as well, but no saddle that it stands for: such a
        network is not confirmed. Tuning that fails proves nothing: it may have ended in a local
        minimum. Tuning that succeeds does so on these data, and to as few samples as they have
        weights units fit anything.
    """
    check_tolerance(tolerance)
    steps = whole_number("steps", steps)
    arrays = v is not None or activation is not None or isinstance(network, np.ndarray | list)
    if arrays or isinstance(network, Layer) or isinstance(x, AbstractTask):
        if loss is not None or apply is not None:
            raise ValueError("`loss` and `apply` are for PyTorch and JAX: a layer has squares.")
        model: AbstractModel = layer_model(network, x, y, v, activation, output_bias)
        judged = model.samples.y is not None
    else:
        model = model_of(network, x, y, apply)
        if loss is not None and model.samples.y is None:
            raise ValueError("`loss` needs targets as well: give `y`.")
        judged = loss is not None and bool(model.trained)
    narrowest = Narrowest(model, steps=steps, progress=progress)
    return _answer(_Question(model, narrowest, loss, judged, tune), tolerance)


def check_tolerance(tolerance: float) -> None:
    if not 0 < real_number("tolerance", tolerance) < math.inf:
        raise ValueError(f"`tolerance` must be positive, got {tolerance}.")


def layer_model(
    network: Any,
    x: Any,
    y: ArrayLike | None,
    v: ArrayLike | None = None,
    activation: UnitLike | None = None,
    output_bias: ArrayLike | None = None,
) -> LayerModel:
    """Read a layer, or plain arrays, and its data."""
    layer = layer_of(network, v, activation)
    task = task_of(layer, x, y, output_bias)
    if y is not None:
        warn_of_other_outputs(layer, task, output_bias is not None)
    exact = task is x
    model = LayerModel(layer, task, exact=exact, targets=exact or y is not None)
    model.hidden = tuple(model.layers())
    return model


def _answer(question: _Question, tolerance: float) -> EffectiveWidth:
    network, narrowest = question.network, question.narrowest
    full, known = narrowest.merging.full, narrowest.merging.kinds
    kinds: tuple[Kind, ...] = ("zero",) if "zero" in known else ()
    found = Narrow(dict.fromkeys(full, 0), {}, narrowest.silence)
    if narrowest.silence > tolerance:
        found = narrowest.search(tolerance, tune=question.tune)
        embedded = lambda kind: narrowest.error(narrowest.merging.embedded(found.widths, kind))
        kinds = tuple(
            k for k in narrowest.merging.kinds if found.widths != full and embedded(k) <= tolerance
        )
    here = slope = there = narrow_slope = math.nan
    confirmed, rested = None, {}
    if question.judged:
        here, slope, least = _checked(network, question.loss, tolerance)
        confirmed = False
        if slope <= REST:
            rested, there, narrow_slope = _trained(network, found, question.loss, least)
            level = _LEVEL * max(here, least)
            confirmed = abs(there - here) <= level and narrow_slope <= _STILL
    blind = network.samples.y is None
    return EffectiveWidth(
        layers=tuple((name, units, found.widths[name]) for name, units in full.items()),
        kinds=kinds,
        error=found.error,
        scale=narrowest.size_of_targets,
        tolerance=float(tolerance),
        loss=here,
        slope=slope,
        narrow_loss=there,
        narrow_slope=narrow_slope,
        confirmed=confirmed,
        notes=(*network.notes, *((_WITHOUT_TARGETS,) if blind else ())),
        _found=found,
        _rested=rested,
        _question=question,
    )


def _silent(network: AbstractModel) -> Weights:
    readers = (layer.reader.name for layer in network.hidden)
    return {**network.weights, **{name: np.zeros_like(network.weights[name]) for name in readers}}


def _checked(
    network: AbstractModel, loss: Loss | None, tolerance: float
) -> tuple[float, float, float]:
    """Return loss and slope, where the loss takes the outputs and is the same twice.

    And the least loss that counts: what is less, outputs within the tolerance do not tell apart.
    """

    def paired(outputs: Any, y: Any) -> Any:
        assert loss is not None
        check_pairs(loss, outputs, y)
        return loss(outputs, y)

    try:
        empty, _ = network.slope(_silent(network), network.samples, loss and paired)
    except (RuntimeError, TypeError, IndexError, ValueError) as error:
        what = (str(error).splitlines() or [repr(error)])[0]
        raise ValueError(f"`loss` does not take these outputs and targets: {what}") from error
    least = min(tolerance, 0.1) ** 2 * empty
    here, slope = network.motion(network.weights, network.trained, loss, least)
    if not math.isfinite(here):
        raise ValueError(f"The loss is {here}: nothing rests there. Check `loss` and `y`.")
    again, _ = network.slope(network.weights, network.samples, loss)
    if not close(np.array([again]), np.array([here]), 1e-4):
        raise ValueError(
            "`loss` gives another value when it is asked again: draw what is random in it once."
        )
    return here, slope, least


def _trained(
    network: AbstractModel, found: Narrow, loss: Loss | None, least: float
) -> tuple[Weights, float, float]:
    """Where the narrow network comes to rest on the loss, its loss and its slope there."""
    weights, free = found.weights, network.trained
    if not weights:  # no units: silence is read, and a bias is all that moves
        weights, free = _silent(network), free & {network.hidden[-1].bias}
    slope = lambda moved: network.slope(moved, network.samples, loss)
    here, steep = math.nan, math.inf
    for _ in range(_TRIES if free else 1):
        weights = descend(slope, weights, free, steps=_STEPS)
        here, steep = network.motion(weights, free, loss, least)
        if steep <= _STILL:
            break
    return weights, here, steep
