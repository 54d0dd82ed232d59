"""`shrink`: make a smaller network that computes the same outputs."""

import math
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass
from typing import TYPE_CHECKING, Any, Literal, NamedTuple, get_args

from .._axes import axes, styled
from .._checks import whole_number
from .._narrowing._layers import rms
from .._narrowing._model import model_of
from .._narrowing._narrow import Narrow, Narrowest
from .._narrowing._pytorch import in_words
from .._result import Result
from ..diagnose._width import TOLERANCE, check_tolerance, layer_model
from ..dynamics._worker import Progress
from ..networks import Layer

if TYPE_CHECKING:
    from matplotlib.axes import Axes


_CURVE = 8  # the curve goes up to this many times the units of the result
_CONSTANT = "the outputs are constant on these inputs: errors are absolute, and any width will do"
Form = Literal["narrow", "low rank"]
"""Form of the smaller network: fewer units, or all units with weights of low rank."""


class Point(NamedTuple):
    """Errors of merging and of magnitude pruning at some widths, both refitted but not tuned."""

    widths: tuple[int, ...]
    merged: float
    pruned: float


@dataclass(frozen=True, eq=False, repr=False)
class ShrinkResult(Result):
    """Result of `shrink`: a smaller network, and the difference between its outputs and yours.

    - `model`: the smaller network, of the same kind as yours, with narrower layers. In the form
      `"low rank"` some linear layers are replaced by two,
      `torch.nn.Sequential(Linear(in, rank), Linear(rank, out))`.
    - `form`: `"narrow"` or `"low rank"`.
    - `reason`: why this form was chosen.
    - `widths`: number of units of each hidden layer of the smaller network.
    - `full`: number of units of each hidden layer of your network.
    - `ranks`: rank of each layer of low rank.
    - `size`: number of weights of the smaller network.
    - `full_size`: number of weights of your network.
    - `error`: root mean square of the difference between the outputs of both networks on held-out
      inputs, as a fraction of the scale.
    - `scale`: root mean square of the targets, or of the outputs if no targets are given.
    - `pruned`: the error of magnitude pruning with the same refit, at the same widths. For a
      low-rank network, the pruned network has the largest widths with no more weights than the
      low-rank network.
    - `curve`: errors of merging and of pruning at other widths, before tuning.
    - `tolerance`: the requested tolerance; NaN if `widths` were requested.
    - `notes`: assumptions, and the layers that were not changed.

    **Example:**

    >>> import numpy as np
    >>> from festina.networks import layer_from
    >>> from festina.own import shrink
    >>> x = np.random.default_rng(0).normal(size=(100, 2))
    >>> found = shrink(layer_from("relu", [[1, 0], [2, 0], [0, 1]], [1, 1, 1]), x)
    >>> found.widths, found.full
    ({'units': 2}, {'units': 3})
    >>> found.size, found.full_size
    (6, 9)
    """

    model: Any
    form: Form
    reason: str
    widths: Mapping[str, int]
    full: Mapping[str, int]
    ranks: Mapping[str, int]
    size: int
    full_size: int
    error: float
    scale: float
    pruned: float
    curve: tuple[Point, ...]
    tolerance: float
    notes: tuple[str, ...]

    def __str__(self) -> str:
        units = {
            name: f"{in_words(name)}: {self.full[name]} → {width} units"
            for name, width in self.widths.items()
        }
        ranks = {name: f"{in_words(name)}: rank {rank}" for name, rank in self.ranks.items()}
        each = ", ".join((ranks or units).values())
        if self.size == self.full_size:
            head = f"no smaller network is within the tolerance {self.tolerance:g} ({each})"
        else:
            head = (
                f"{each}; {self.size:,} of {self.full_size:,} weights; error {self.error:.2g}, "
                f"with magnitude pruning {self.pruned:.2g}"
            )
        lines = [
            f"{head}. Errors are fractions of the scale {self.scale:.3g}, on held-out inputs",
            f"{self.form}: {self.reason}",
            *self.notes,
        ]
        lines.append(f"{'widths':>16}  merged  pruned (errors after the same refit, before tuning)")
        for point in self.curve:
            widths = "–".join(map(str, point.widths))
            lines.append(f"{widths:>16}  {point.merged:6.2g}  {point.pruned:6.2g}")
        return "\n".join(lines)

    def draw(self, ax: "Axes | None" = None, **style: Any) -> "Axes":
        """Plot errors against the number of hidden units; `style` applies to the merging line."""
        ax = axes(ax)
        units = [sum(point.widths) for point in self.curve]
        how = styled(style, marker="o", ls="-", label="merged")
        ax.plot(units, [point.merged for point in self.curve], **how)
        ax.plot(units, [point.pruned for point in self.curve], "o-", color="0.6", label="pruned")
        ax.plot(sum(self.widths.values()), self.error, "k*", ms=12, label="this one")
        if math.isfinite(self.tolerance):
            ax.axhline(self.tolerance, color="black", lw=1, ls="--")
        ax.set(xscale="log", yscale="log", xlabel="hidden units", ylabel="error of the outputs")
        ax.legend()
        return ax


def shrink(
    model: Any,
    x: Any,
    *,
    y: Any = None,
    tolerance: float = TOLERANCE,
    tune: bool = True,
    widths: Mapping[str, int] | Sequence[int] | int | None = None,
    form: Form | None = None,
    apply: Callable[..., Any] | None = None,
    steps: int = 300,
    progress: Progress | None = None,
) -> ShrinkResult:
    r"""Return a smaller network that computes the same outputs, to within a tolerance.

    Units that respond alike on the data are merged into one by Ward's rule. Each unit of response r
    is weighted by its effect on the outputs f, $\langle (r\,\partial f/\partial r)^2\rangle$ summed
    over outputs. The next weights are then fitted by least squares, layer after layer, and the
    narrow network is tuned to the outputs of the wide network. A fifth of the inputs is held out
    to measure the error between the outputs f and the outputs $f_h$ of the smaller network,

    $$\mathrm{rms}(f - f_h) \le \mathrm{tolerance} \cdot \mathrm{scale},$$

    where `festina.diagnose.effective_width` defines the scale. No targets are needed. All hidden
    layers are narrowed together, and the merger with the smallest effect on the outputs comes
    first.

    In PyTorch, `shrink` also tries a low-rank form: a linear layer becomes two layers of smaller
    rank without an activation between them, $W \approx G^{-1/2} U_r U_r^T G^{1/2} W$. The
    directions $U_r$ are the leading eigenvectors of $G^{1/2} C G^{1/2}$, where C is the covariance
    of the layer's outputs and $G = \langle J^T J \rangle$ their effect on the outputs of the
    network, with the Jacobian J. The form with fewer weights is returned.

    **Arguments:**

    - `model`: a `torch.nn.Module`, a tree of JAX arrays, or a `festina.networks.Layer`. Hidden
      layers are found by their permutation symmetry: units of linear layers with any activation,
      and in PyTorch also channels of 1-d convolutions and heads of attention.
    - `x`: inputs, `(sample, …)`; a tuple or a dict for a model with several arguments; or a PyTorch
      Dataset or DataLoader (its last entries are targets). At most 4,096 samples are used.
    - `y`: targets, which only set the scale; a Dataset or a DataLoader contains its own targets.
    - `tolerance`: largest error.
    - `tune`: whether to tune the smaller network. Without tuning the result takes about a second
      and is wider.
    - `widths`: requested number of units of each hidden layer, or of all layers, instead of a
      tolerance.
    - `form`: `"narrow"` or `"low rank"`; by default the form with fewer weights. Given `widths`
      select `"narrow"`; with `"low rank"`, a narrow network with these `widths` sets the largest
      number of weights.
    - `apply`: function `apply(tree, x)` that returns the outputs of a tree of weights. By default
      the tree is called with one example at a time, as in Equinox.
    - `steps`: largest number of tuning steps, each one or two gradients over the inputs.
    - `progress`: function of a message and the fraction done. By default, if the work takes more
      than two seconds, a line on standard error shows the present step and a limit for its time.

    **Returns:** a `ShrinkResult`. The given model is not changed. Magnitude pruning is tried with
    the same refit. In the narrow form the better of merging and pruning is returned. In the
    low-rank form `pruned` reports the error of pruning. Frozen weights are merged but not tuned,
    and tied weights stay tied. PyTorch attention that loses heads is replaced by an attention whose
    embedding need not be a multiple of the number of heads.

    **Example:**

    >>> import numpy as np
    >>> from festina.networks import layer_from
    >>> from festina.own import shrink
    >>> x = np.random.default_rng(0).normal(size=(100, 2))
    >>> network = layer_from("relu", [[1, 0], [2, 0], [0, 1]], [1, 1, 1])
    >>> shrink(network, x).model.u  # the units (1, 0) and (2, 0) are proportional
    array([[1.8, 0. ],
           [0. , 1. ]])

    !!! note "When to doubt it"

        The outputs of both networks agree only on inputs similar to `x`. A narrow network can be
        tuned to few inputs even if it differs from yours elsewhere: give at least as many samples
        as the narrow network has weights.
    """
    check_tolerance(tolerance)
    if form is not None and form not in get_args(Form):
        raise ValueError(f"`form` must be 'narrow' or 'low rank', or left out; got {form!r}.")
    steps = whole_number("steps", steps)
    layer = isinstance(model, Layer)
    network = layer_model(model, x, y) if layer else model_of(model, x, y, apply)
    network.attempt(lambda: network.computed(network.original, network.samples.part(slice(2))))
    if form == "low rank" and not network.takes_low_rank:
        raise ValueError(
            "`form` must be 'narrow' or left out for a tree of JAX arrays, got 'low rank': the "
            "low-rank form is for PyTorch models only."
        )
    asked = None if widths is None else _asked(widths, {h.name: h.units for h in network.hidden})
    narrowest = Narrowest(network, steps=steps, progress=progress)
    if asked is None:
        found, reason = _within(narrowest, tolerance, form, tune=tune)
    else:
        found, reason = _of_size(narrowest, asked, form, tune=tune)
    made_by = found.network or network
    built = made_by.built(found.weights)
    here, there = (network.computed(each, narrowest.held) for each in (network.original, built))
    beside = found.widths
    if found.network is not None:  # the largest widths without more weights than the low rank
        beside = narrowest.path(narrowest.merges_to(found.size))
    return ShrinkResult(
        model=built,
        form="low rank" if found.network else "narrow",
        reason=reason,
        widths=found.widths,
        full=narrowest.merging.full,
        ranks=made_by.ranks,
        size=found.size,
        full_size=narrowest.whole.size,
        error=rms(there - here) / narrowest.scale,
        scale=narrowest.size_of_targets,
        pruned=narrowest.starts(beside)[1].error,
        curve=_curve(narrowest, beside),
        tolerance=float(tolerance) if asked is None else math.nan,
        notes=network.notes + (() if narrowest.size_of_targets else (_CONSTANT,)),
    )


def _within(
    narrowest: Narrowest, tolerance: float, form: Form | None, *, tune: bool
) -> tuple[Narrow, str]:
    """Return the smallest network within the tolerance, and the reason for its form."""
    if form == "narrow" or not narrowest.network.takes_low_rank:
        found = narrowest.search(tolerance, tune=tune)
        reason = "requested" if form else "the low-rank form is for PyTorch, and was not tried"
    elif form == "low rank":
        found = narrowest.low_rank(tolerance, tune=tune) or narrowest.whole
        reason = "requested" if found.network else "no low rank is within the tolerance"
    else:
        narrow = narrowest.search(tolerance, tune=tune)
        low = narrowest.low_rank(tolerance, tune=tune, size=narrow.size)
        found = low if low and low.size < narrow.size else narrow
        other = "narrow" if found.network else "low-rank"
        reason = f"no {other} form with fewer weights was found within the tolerance"
    if tune and found.size < narrowest.whole.size:
        found = narrowest.polished(found, tolerance)
    return found, reason


def _of_size(
    narrowest: Narrowest, asked: dict[str, int], form: Form | None, *, tune: bool
) -> tuple[Narrow, str]:
    """Return the network of these widths, or a low-rank network with no more weights."""
    if form == "low rank":
        size = narrowest.size(asked)
        found = narrowest.low_rank_of(size, tune=tune)
        if found is None:
            raise ValueError(
                f"No low-rank form of `model` has {size:,} weights or fewer, the number that "
                "`widths` allow. Request more units, or `form='narrow'`."
            )
        return found, f"requested, with no more than {size:,} weights"
    narrow = tune and asked != narrowest.merging.full
    return narrowest.best(asked) if narrow else narrowest.start(asked), "requested by `widths`"


def _curve(narrowest: Narrowest, chosen: dict[str, int]) -> tuple[Point, ...]:
    """Return errors for 1, 2, 4, … units in each layer, and for all units."""
    total, least = sum(narrowest.merging.full.values()), len(chosen)
    most = min(total, _CURVE * sum(chosen.values()))
    doubled = [least * 2**k for k in range(total.bit_length()) if least * 2**k < most]
    asked = [narrowest.path(total - units) for units in (*doubled, total)]
    asked += [chosen] * (chosen not in asked)
    asked.sort(key=lambda each: sum(each.values()))
    errors = lambda each: (start.error for start in narrowest.starts(each))
    return tuple(Point(tuple(each.values()), *errors(each)) for each in asked)


def _asked(widths: Any, full: Mapping[str, int]) -> dict[str, int]:
    given: dict[str, Any] = {name: widths for name in full}
    if isinstance(widths, Mapping):
        given = {**full, **widths}
    elif isinstance(widths, Sequence):
        given = dict(zip(full, widths, strict=False)) if len(widths) == len(full) else {}
    if set(given) != set(full):
        names = ", ".join(map(repr, full))
        raise ValueError(
            f"`widths` must be one number for each hidden layer, {names}; got {widths!r}."
        )
    for name, width in given.items():
        if whole_number("widths", width) > full[name]:
            raise ValueError(
                f"`widths` of {name!r} is {width}, but it has only {full[name]} units."
            )
    return {name: int(given[name]) for name in full}
