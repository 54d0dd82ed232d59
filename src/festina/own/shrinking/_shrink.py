"""A smaller network that computes the same."""

import math
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass
from typing import TYPE_CHECKING, Any, NamedTuple

from ..._axes import axes, styled
from ...diagnose._width import check_tolerance
from ...dynamics._worker import Progress
from ...networks._given import whole_number
from .._pytorch import in_words
from ._model import model_of
from ._narrow import Narrowest, rms

if TYPE_CHECKING:
    from matplotlib.axes import Axes


class Point(NamedTuple):
    """Errors at some widths before tuning: of merging, and of magnitude pruning, both refitted."""

    widths: tuple[int, ...]
    merged: float
    pruned: float


@dataclass(frozen=True, eq=False)
class Shrunk:
    """A smaller network, and how far it is from the large one.

    - `model`: of the same kind, with narrower layers.
    - `widths`: units of every hidden layer now; `full`: before.
    - `error`: root mean square of the difference between the outputs of both, each as it is, on
      inputs held out, as a fraction of the spread of the outputs about their mean.
    - `pruned`: the same of magnitude pruning with the same refit, at the same widths.
    - `curve`: both at other widths, before tuning.
    - `tolerance`: that was asked for; NaN where widths were.
    - `notes`: what was assumed.
    """

    model: Any
    widths: Mapping[str, int]
    full: Mapping[str, int]
    error: float
    pruned: float
    curve: tuple[Point, ...]
    tolerance: float
    notes: tuple[str, ...]

    def __str__(self) -> str:
        each = ", ".join(
            f"{in_words(name)}: {self.full[name]} → {width} units"
            for name, width in self.widths.items()
        )
        if self.widths == self.full:
            head = f"no narrower to within {self.tolerance:g} ({each})"
        else:
            head = f"{each}; error {self.error:.2g}, by magnitude pruning {self.pruned:.2g}"
        lines = [
            f"{head}. Errors are fractions of the outputs' spread, on held-out inputs",
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
    tolerance: float = 0.05,
    tune: bool = True,
    widths: Mapping[str, int] | Sequence[int] | int | None = None,
    apply: Callable[..., Any] | None = None,
    steps: int = 300,
    progress: Progress | None = None,
) -> Shrunk:
    r"""The narrowest network of the same kind that computes what a trained one does.

    Units that respond alike on data do the work of one. They are merged by Ward's rule, each with
    the weight that it has at the outputs, $\langle (r\,\partial f/\partial r)^2\rangle$ summed over
    outputs; what stands for them is read anew by least squares, layer after layer; and the narrow
    network is tuned to the wide one's outputs. A fifth of the inputs is held out from all that, and
    by them the error is judged,

    $$\mathrm{rms}(f - f_h) \le \mathrm{tolerance} \cdot \mathrm{rms}(f - \bar f).$$

    No labels are needed. All hidden layers are narrowed together, in the order of what that costs
    at the outputs.

    **Arguments:**

    - `model`: a `torch.nn.Module`, or a tree of JAX's arrays. Its hidden layers are found by their
      symmetry: units of linear layers, whatever activations follow, and in PyTorch those of 1-d
      convolutions and heads of attention.
    - `x`: inputs, `(sample, …)`; a tuple or a dict for a model of several arguments; a Dataset or
      a DataLoader of PyTorch, whose last entries are targets. 4,096 at most are used.
    - `tolerance`: largest error.
    - `tune`: whether to tune; without it the answer takes a second, and is wider.
    - `widths`: so many units instead, for each hidden layer, or for all.
    - `apply`: of a tree of weights, its outputs `apply(tree, x)`; left out, the tree is called with
      one example at a time, as Equinox has it.
    - `steps`: most steps of tuning, each a gradient or two over the inputs.
    - `progress`: called with words and the fraction done.

    **Returns:** a `Shrunk`. The model that was given stays as it is. Magnitude pruning is tried
    with the same refit and is taken where it comes closer, so that the answer is never worse.
    Weights that are frozen are merged but not tuned, and those that are tied stay so. Attention of
    PyTorch's that loses heads becomes one that need not divide its embedding by their number.

    !!! note "When to doubt it"

        It computes the same on inputs such as these. To few inputs few units can be tuned whatever
        the network does elsewhere: take as many as there are weights in the narrow network.
    """
    check_tolerance(tolerance)
    steps = whole_number("steps", steps)
    network = model_of(model, x, apply=apply)
    network.attempt(lambda: network.computed(network.original, network.samples.part(slice(2))))
    asked = None if widths is None else _asked(widths, {h.name: h.units for h in network.hidden})
    narrowest = Narrowest(network, steps=steps, progress=progress)
    chosen = asked or narrowest.search(tolerance, tune=tune).widths
    narrow = chosen != narrowest.merging.full
    found = narrowest.best(chosen) if tune and narrow else narrowest.start(chosen)
    built = network.built(found.weights)
    here, there = (network.computed(each, narrowest.held) for each in (network.original, built))
    return Shrunk(
        model=built,
        widths=found.widths,
        full=narrowest.merging.full,
        error=rms(there - here) / narrowest.scale,
        pruned=narrowest.starts(found.widths)[1].error,
        curve=_curve(narrowest, found.widths),
        tolerance=float(tolerance) if asked is None else math.nan,
        notes=network.notes,
    )


def _curve(narrowest: Narrowest, chosen: dict[str, int]) -> tuple[Point, ...]:
    """From one unit in each layer on, twice as many at a time."""
    total, least = sum(narrowest.merging.full.values()), len(chosen)
    doubled = [least * 2**k for k in range(total.bit_length()) if least * 2**k < total]
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
