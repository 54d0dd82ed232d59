"""`shrink`: a smaller network that computes the same."""

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


_CURVE = 8  # times as many units as the answer has: where the curve goes to
_CONSTANT = "the outputs are constant on these inputs: errors are absolute, and any width will do"
Form = Literal["narrow", "low rank"]
"""Fewer units, or all units and weights of low rank."""


class Point(NamedTuple):
    """Errors at some widths before tuning: of merging, and of magnitude pruning, both refitted."""

    widths: tuple[int, ...]
    merged: float
    pruned: float


@dataclass(frozen=True, eq=False, repr=False)
class ShrinkResult(Result):
    """Result of `shrink`: a smaller network, and how far it is from the large one.

    - `model`: of the same kind, with narrower layers; in the form `"low rank"` some linear layers
      are two, `torch.nn.Sequential(Linear(in, rank), Linear(rank, out))`.
    - `form`: `"narrow"` or `"low rank"`; `reason`: why this form was chosen.
    - `widths`: units of every hidden layer now; `full`: before. `ranks`: of layers of low rank.
    - `size`: number of weights now; `full_size`: before.
    - `error`: root mean square of the difference between the outputs of both, each as it is, on
      inputs held out, as a fraction of the scale.
    - `scale`: size of the targets, or of the outputs where none are given.
    - `pruned`: the same of magnitude pruning with the same refit, at the same widths; for a low
      rank, at the widest layers that have no more weights.
    - `curve`: both at other widths, before tuning.
    - `tolerance`: that was asked for; NaN where widths were.
    - `notes`: what was assumed, and which layers were left as they are.
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
            head = f"no smaller to within {self.tolerance:g} ({each})"
        else:
            head = (
                f"{each}; {self.size:,} of {self.full_size:,} weights; error {self.error:.2g}, "
                f"by magnitude pruning {self.pruned:.2g}"
            )
        lines = [
            f"{head}. Errors are fractions of the scale {self.scale:.3g}, on held-out inputs",
            f"{self.form}: {self.reason}",
            *self.notes,
        ]
        lines.append(f"{'widths':>16}  merged  pruned, with the same refit, before tuning")
        for point in self.curve:
            widths = "–".join(map(str, point.widths))
            lines.append(f"{widths:>16}  {point.merged:6.2g}  {point.pruned:6.2g}")
        return "\n".join(lines)

    def draw(self, ax: "Axes | None" = None, **style: Any) -> "Axes":
        """Draw errors over the number of hidden units. `style` goes to the line of merged units."""
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
    r"""Return the network at its effective width, or one of low rank that has fewer weights.

    Units that respond alike on data do the work of one. They are merged by Ward's rule, each with
    the weight that it has at the outputs, $\langle (r\,\partial f/\partial r)^2\rangle$ summed over
    outputs; what stands for them is read anew by least squares, layer after layer; and the narrow
    network is tuned to the wide one's outputs. A fifth of the inputs is held out from all that, and
    by them the error is judged,

    $$\mathrm{rms}(f - f_h) \le \mathrm{tolerance} \cdot \mathrm{scale},$$

    with the scale of `festina.diagnose.effective_width`. No targets are needed. All hidden layers
    are narrowed together, in the order of what that costs at the outputs.

    In PyTorch the low-rank form is tried too: a linear layer becomes two of a smaller rank, without
    an activation between them, $W \approx G^{-1/2} U_r U_r^T G^{1/2} W$. The directions $U_r$ are
    the leading eigenvectors of $G^{1/2} C G^{1/2}$, where C is the covariance of the outputs of the
    layer and $G = \langle J^T J \rangle$ says how much they move the outputs of the network. The
    form with fewer weights is returned.

    **Arguments:**

    - `model`: a `torch.nn.Module`, a tree of JAX's arrays, or a `Layer` of festina's. Hidden layers
      are found by their symmetry: units of linear layers, whatever activations follow, and in
      PyTorch those of 1-d convolutions and heads of attention.
    - `x`: inputs, `(sample, …)`; a tuple or a dict for a model of several arguments; a Dataset or
      a DataLoader of PyTorch, whose last entries are targets. 4,096 at most are used.
    - `y`: targets, from which only the scale follows; a Dataset or a DataLoader has its own.
    - `tolerance`: largest error.
    - `tune`: whether to tune; without it the answer takes a second, and is wider.
    - `widths`: so many units instead, for each hidden layer, or for all.
    - `form`: `"narrow"` or `"low rank"`; the smaller one by default. `widths` ask for `"narrow"`;
      with `"low rank"` they ask for a network that has no more weights than so many units.
    - `apply`: of a tree of weights, its outputs `apply(tree, x)`; left out, the tree is called with
      one example at a time, as Equinox has it.
    - `steps`: most steps of tuning, each a gradient or two over the inputs.
    - `progress`: called with words and the fraction done. By default a line on standard error says
      what is going on, and for how long at most, if it takes more than two seconds.

    **Returns:** a `ShrinkResult`. The model that was given stays as it is. Magnitude pruning is
    tried with the same refit. In the narrow form it is taken where it comes closer, so that the
    answer is never worse; a model of low rank says how close pruning comes, in `pruned`.
    Weights that are frozen are merged but not tuned, and those that are tied stay so. Attention of
    PyTorch's that loses heads becomes one that need not divide its embedding by their number.

    !!! note "When to doubt it"

        It computes the same on inputs such as these. To few inputs few units can be tuned whatever
        the network does elsewhere: take as many as there are weights in the narrow network.
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
            "`form` must be 'narrow' or left out for a tree of JAX's arrays, got 'low rank': "
            "linear layers become two in models of PyTorch only."
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
    if found.network is not None:  # the widest layers that have no more weights
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
    """Return the smallest network within the tolerance, and why it has this form."""
    if form == "narrow" or not narrowest.network.takes_low_rank:
        found = narrowest.search(tolerance, tune=tune)
        reason = "asked for" if form else "the low-rank form is for PyTorch, and was not tried"
    elif form == "low rank":
        found = narrowest.low_rank(tolerance, tune=tune) or narrowest.whole
        reason = "asked for" if found.network else "no low rank is within the tolerance"
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
    """Return the network of these widths, or one of low rank that has no more weights."""
    if form == "low rank":
        size = narrowest.size(asked)
        found = narrowest.low_rank_of(size, tune=tune)
        if found is None:
            raise ValueError(
                f"No low-rank form of `model` has {size:,} weights or fewer, as many as `widths` "
                "ask for. Ask for more units, or for `form='narrow'`."
            )
        return found, f"asked for, with no more than {size:,} weights"
    narrow = tune and asked != narrowest.merging.full
    return narrowest.best(asked) if narrow else narrowest.start(asked), "`widths` ask for it"


def _curve(narrowest: Narrowest, chosen: dict[str, int]) -> tuple[Point, ...]:
    """Return errors from one unit in each layer on, doubling, and of the whole network."""
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
        raise ValueError(f"`widths` must be one for each hidden layer, {names}; got {widths!r}.")
    for name, width in given.items():
        if whole_number("widths", width) > full[name]:
            raise ValueError(
                f"`widths` of {name!r} is {width}, but it has only {full[name]} units."
            )
    return {name: int(given[name]) for name in full}
