"""Find the narrowest network with the same outputs, and test whether it corresponds to a saddle."""

import functools
import math
from collections.abc import Callable, Iterator, Mapping, Sequence
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
"""Default tolerance of every effective width.

At 0.1 all of six students of a teacher with four units have effective width four; at 0.05 one
student has five."""

_LEVEL = 0.1  # largest relative difference between the losses of the narrow and the wide network
_STILL = 0.1  # largest slope of the narrow network at rest, after its descent
_STEPS = 500  # steps of one descent of the narrow network
_TRIES = 4  # largest number of descents, while the narrow network is not at rest
_POINTS = 64  # largest number of points of the curve
_WITHOUT_TARGETS = (
    "without targets, errors are relative to the root mean square of the outputs: if the outputs "
    "are small, as on early plateaus, more units count than with `y`"
)


class _Question(NamedTuple):
    """Arguments that determine an effective width, except for the tolerance."""

    network: AbstractModel
    narrowest: Narrowest
    loss: Loss | None
    judged: bool
    tune: bool


@dataclass(frozen=True, eq=False, repr=False)
class EffectiveWidth(Result, also=("width",)):
    """Result of `effective_width`: how narrow the network could be, in all hidden layers at once.

    - `layers`: name, number of units and effective width of each hidden layer.
    - `kinds`: embeddings of the narrow network in the wide one (Theorem 1 of Zhang, Saxe & Latham),
      simplest first. The surplus units are silent (`"zero"`), copies of the remaining units
      (`"equal"`), or respond as multiples (`"proportional"`) or linear combinations (`"linear"`) of
      the remaining units. `kinds` is empty if no unit is surplus, or if the remaining units had to
      be tuned, so that the network is not at such a saddle.
    - `error`: root mean square difference of the outputs, as a fraction of `scale`.
    - `scale`: root mean square of the targets or outputs; see `effective_width`.
    - `tolerance`: largest error, as given.
    - `loss`, `slope`: loss and slope of the wide network. The slope is |gradient| · |weights|
      relative to the loss. Losses below `tolerance`² (at most 0.01) times the loss of silent units
      count as this bound. NaN without a loss.
    - `narrow_loss`, `narrow_slope`: loss and slope of the narrow network after it was trained
      alone.
    - `confirmed`: whether the wide network rests at a fixed point of this width; None without a
      loss.
    - `notes`: remarks on the data.

    **Example:**

    >>> import numpy as np
    >>> from festina.diagnose import effective_width
    >>> x = np.random.default_rng(0).normal(size=(100, 2))
    >>> found = effective_width([[1, 0], [2, 0], [0, 1]], x, v=[1, 1, 1], activation="relu")
    >>> found.width, found.units, found.kind
    (2, 3, 'proportional')
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
        """Return the effective width of each hidden layer."""
        return tuple(width for *_, width in self.layers)

    @property
    def width(self) -> int:
        """Return the effective width, summed over hidden layers."""
        return sum(self.widths)

    @property
    def units(self) -> int:
        """Return the number of hidden units of the wide network."""
        return sum(units for _, units, _ in self.layers)

    @property
    def kind(self) -> Kind | None:
        """Return the simplest embedding of the narrow network, the first of `kinds`, or None."""
        return self.kinds[0] if self.kinds else None

    @property
    def equation(self) -> int | None:
        """Return the number of the embedding's equation in Theorem 1, (4) to (7)."""
        return None if self.kind is None else EQUATION[self.kind]

    @property
    def rests(self) -> bool | None:
        """Return whether the wide network is at rest; None without a loss."""
        return None if math.isnan(self.slope) else self.slope <= REST

    @property
    def narrow(self) -> Any:
        """Return the narrow network, of the same type as the wide one; None if it has no units."""
        return self._question.network.built(self._found.weights) if self.width else None

    @property
    def fixed_point(self) -> Any:
        """Return the narrow network after training; None if it was not trained."""
        return self._question.network.built(self._rested) if self._rested and self.width else None

    @functools.cached_property
    def curve(self) -> Mapping[int, float]:
        """Return the error for each total number of hidden units.

        Tuned networks count as tuned; all other networks count as merged, with readouts refitted by
        least squares. At most 64 numbers of units are evaluated.
        """
        least, most = len(self.layers), self.units
        some = np.unique(np.geomspace(least, most, _POINTS).round().astype(int)).tolist()
        units = range(least, most + 1) if most - least < _POINTS else sorted({*some, self.width})
        error_at = self._question.narrowest.error_at
        return {0: error_at(0)} | {count: error_at(count) for count in units if count}

    @property
    def short(self) -> float:
        """Return the error of the best network found with one unit less; NaN at width zero."""
        return self._question.narrowest.error_at(self.width - 1) if self.width else math.nan

    def at(self, tolerance: float) -> "EffectiveWidth":
        """Return the result for another tolerance, reusing all networks tuned so far."""
        check_tolerance(tolerance)
        return _answer(self._question, tolerance)

    def to_dataset(self) -> "xr.Dataset":
        """Return all numbers as a dataset, with the `curve` over the number of hidden `units`."""
        units, errors = map(list, zip(*self.curve.items(), strict=True))
        return super().to_dataset().assign(units=units, curve=("units", errors))

    def draw(self, ax: "Axes | None" = None, **style: Any) -> "Axes":
        """Plot the error against the number of hidden units, and mark the effective width.

        Keyword arguments in `style` are passed to `Axes.plot` for the line.
        """
        ax = axes(ax)
        ax.plot(*zip(*self.curve.items(), strict=True), **styled(style, marker="o", ls="-"))
        ax.plot(self.width, self.error, "k*", ms=12, label=f"width {self.width}")
        ax.axhline(self.tolerance, color="black", lw=1, ls="--", label="tolerance")
        ax.set_xscale("symlog", linthresh=1)
        ax.xaxis.set_major_formatter("{x:g}")
        ax.set(xlim=(-0.1, 1.1 * self.units), xlabel="hidden units", ylabel="error of the outputs")
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
            kind = "tuned, so not embedded"
        head = f"effective width, {each}; {kind}; error {self.error:.2g}"
        return "; ".join((head, self._verdict, *self.notes))

    @property
    def _verdict(self) -> str:
        if self.confirmed is None:
            return "not tested whether the network is at rest (no loss, or no trained weights)"
        if not self.rests:
            return (
                f"not confirmed: the network moves, with slope {self.slope:.2g} (at rest at most "
                f"{REST:.2g})"
            )
        there = f"at loss {self.narrow_loss:.4g}, the full network is at {self.loss:.4g}"
        if self.confirmed:
            return f"confirmed: the narrow network has a fixed point {there}"
        if not self.narrow_slope <= _STILL:
            return f"not confirmed: trained alone, the narrow network still moves {there}"
        return f"not confirmed: trained alone, the narrow network rests {there}"


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
    r"""Return the width of the narrowest network with the same outputs, to within a tolerance.

    On a plateau of saddle-to-saddle dynamics a wide network computes the same function as a narrow
    one (Theorems 1 and 3 of Zhang, Saxe & Latham). All hidden layers are narrowed at once, by the
    method of `festina.shrink`. The outputs $f_h$ of the narrow network must satisfy

    $$\mathrm{rms}(f - f_h) \le \mathrm{tolerance} \cdot \mathrm{scale}.$$

    The weights alone do not give the effective width. If units count as active when their weights
    are not much smaller than the largest weight, all units of an untrained network count as active.
    The rank of the weights does not detect units with the same direction. Active units cannot be
    counted if many of them share a direction.

    The scale is the rms (root mean square) of the targets y. If y are class labels, the scale is
    the rms of the outputs, and at least one (one logit). Without targets the scale is the rms of
    the outputs. If a bias follows the last hidden layer, the rms is taken about the mean, because
    the bias can produce the mean.

    With a loss, the function also tests whether the network rests at a fixed point of this width.
    For a fixed point, the slope of the network must be small relative to its loss. The narrow
    network, trained on the same loss function, must come to rest at the loss of the wide network to
    within 10 %. For a `Layer` with targets, the loss is half the mean squared error above its
    least-squares minimum.

    Call `effective_width(network, task)` for a `Layer`, `effective_width(model, x, y=y,
    loss=criterion)` for PyTorch and JAX, and `effective_width(u, x, v=v, activation="relu", y=y)`
    for one hidden layer in plain arrays.

    **Arguments:**

    - `network`: a layer, first-layer weights u `(unit, input)`, a `torch.nn.Module`, or a pytree of
      JAX arrays.
    - `x`: a task, or inputs `(sample, …)`; for PyTorch and JAX also the forms of `festina.shrink`.
      A fifth of the inputs is held out to measure errors; with a task, no input is held out.
    - `y`: targets, in the form that the loss takes; a Dataset or DataLoader has its own.
    - `loss`: for PyTorch and JAX, a differentiable function `loss(model(x), y)`, averaged over
      samples, with a minimum of about zero. Subtract a known minimum, such as the variance of
      noise, because slopes and losses are compared with the remaining loss.
    - `tolerance`: largest error, as a fraction of the scale.
    - `v`, `activation`: for plain arrays, second-layer weights `(unit, output)` or `(unit,)` (the
      transpose of PyTorch's), and φ: a name, a scalar JAX function, or a unit
      (`festina.networks.ConvolutionUnit`, …). Biases are the last column of u, with
      `NeuronUnit("relu", bias=True)`, or with a 1 appended to x.
    - `output_bias`: for plain arrays with `y`, the bias of the outputs, a number or `(output,)`. By
      default the outputs have no bias, and a warning is given if they seem to have one; 0 avoids
      the warning.
    - `tune`, `apply`, `steps`, `progress`: as for `festina.shrink`.

    **Returns:** an `EffectiveWidth`.

    **Example:**

    >>> from festina.diagnose import effective_width
    >>> from festina.networks import layer_from
    >>> from festina.tasks import from_arrays
    >>> network = layer_from("relu", [[1, 0], [2, 0], [0, 1]], [1, 1, 1])
    >>> task = from_arrays([[1, 0], [0, 1], [-1, 1]], [3, 1, 1])
    >>> found = effective_width(network, task)
    >>> found.width, found.kind, found.confirmed
    (2, 'proportional', True)

    !!! note "When to doubt it"

        A network off a plateau also has an effective width, but is not at a saddle of that width.
        If tuning fails, it may have ended in a local minimum. If tuning succeeds, the narrow
        network fits these data; with as few samples as weights, units fit anything.
    """
    check_tolerance(tolerance)
    steps = whole_number("steps", steps)
    arrays = v is not None or activation is not None or isinstance(network, np.ndarray | list)
    if arrays or isinstance(network, Layer) or isinstance(x, AbstractTask):
        if loss is not None or apply is not None:
            raise ValueError(
                "`loss` and `apply` are for PyTorch and JAX. Leave them out for a layer, whose "
                "loss is the squared error."
            )
        model: AbstractModel = layer_model(network, x, y, v, activation, output_bias)
        judged = model.samples.y is not None
    else:
        model = model_of(network, x, y, apply)
        if loss is not None and model.samples.y is None:
            raise ValueError("`loss` needs targets: give `y`.")
        judged = loss is not None and bool(model.trained)
    narrowest = Narrowest(model, steps=steps, progress=progress)
    return _answer(_Question(model, narrowest, loss, judged, tune), tolerance)


def widths_within(
    layer: Layer, task: AbstractTask, tolerances: Sequence[float]
) -> Iterator[tuple[int, float]]:
    """Yield for each tolerance the effective width of a layer, and the error with one unit less.

    `effective_width` also tests whether the layer is at a fixed point, which takes most of its
    time.
    """
    narrowest = Narrowest(layer_model(layer, task, None))
    for tolerance in tolerances:
        width = sum(_narrowest_within(narrowest, tolerance).widths.values())
        yield width, narrowest.error_at(width - 1) if width else math.nan


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
    """Convert a layer or plain arrays, with data, to a model that can be narrowed."""
    layer = layer_of(network, v, activation)
    task = task_of(layer, x, y, output_bias)
    if y is not None:
        warn_of_other_outputs(layer, task, output_bias is not None)
    exact = task is x
    model = LayerModel(layer, task, exact=exact, targets=exact or y is not None)
    model.hidden = tuple(model.layers())
    return model


def _narrowest_within(narrowest: Narrowest, tolerance: float, *, tune: bool = True) -> Narrow:
    """Return the narrowest network within a tolerance, without units if zero outputs suffice."""
    if narrowest.silence > tolerance:
        return narrowest.search(tolerance, tune=tune)
    return Narrow(dict.fromkeys(narrowest.merging.full, 0), {}, narrowest.silence)


def _answer(question: _Question, tolerance: float) -> EffectiveWidth:
    network, narrowest = question.network, question.narrowest
    full, known = narrowest.merging.full, narrowest.merging.kinds
    kinds: tuple[Kind, ...] = ("zero",) if "zero" in known else ()
    found = _narrowest_within(narrowest, tolerance, tune=question.tune)
    if found.weights:
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
    """Return the network's weights with all readers of hidden layers set to zero."""
    readers = (layer.reader.name for layer in network.hidden)
    return {**network.weights, **{name: np.zeros_like(network.weights[name]) for name in readers}}


def _checked(
    network: AbstractModel, loss: Loss | None, tolerance: float
) -> tuple[float, float, float]:
    """Return loss, slope, and the smallest loss that counts.

    Smaller losses cannot be distinguished from outputs within the tolerance. Raises unless the loss
    takes the outputs, is finite, and is reproducible.
    """

    def paired(outputs: Any, y: Any) -> Any:
        assert loss is not None
        check_pairs(loss, outputs, y)
        return loss(outputs, y)

    try:
        empty, _ = network.slope(_silent(network), network.samples, loss and paired)
    except (RuntimeError, TypeError, IndexError, ValueError) as error:
        what = (str(error).splitlines() or [repr(error)])[0]
        raise ValueError(f"`loss` failed for these outputs and targets: {what}") from error
    least = min(tolerance, 0.1) ** 2 * empty
    here, slope = network.motion(network.weights, network.trained, loss, least)
    if not math.isfinite(here):
        raise ValueError(f"The loss must be finite, got {here}. Check `loss` and `y`.")
    again, _ = network.slope(network.weights, network.samples, loss)
    if not close(np.array([again]), np.array([here]), 1e-4):
        raise ValueError(
            "`loss` must return the same value for the same arguments, but does not. Draw its "
            "random numbers once, outside of it."
        )
    return here, slope, least


def _trained(
    network: AbstractModel, found: Narrow, loss: Loss | None, least: float
) -> tuple[Weights, float, float]:
    """Return the narrow network's weights after training on the loss, its loss and its slope."""
    weights, free = found.weights, network.trained
    if not weights:  # without units, only the bias of the readout can be trained
        weights, free = _silent(network), free & {network.hidden[-1].bias}
    slope = lambda moved: network.slope(moved, network.samples, loss)
    here, steep = math.nan, math.inf
    for _ in range(_TRIES if free else 1):
        weights = descend(slope, weights, free, steps=_STEPS)
        here, steep = network.motion(weights, free, loss, least)
        if steep <= _STILL:
            break
    return weights, here, steep
