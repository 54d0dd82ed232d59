"""Measure selectivity: for which objects and in which contexts hidden units are active."""

import functools
import warnings
from collections.abc import Mapping
from dataclasses import dataclass
from typing import TYPE_CHECKING, Any, Literal

import jax
import numpy as np
import xarray as xr
from jaxtyping import Float, Int

from .._axes import axes
from .._checks import (
    check_alone,
    check_type,
    finite_array,
    finite_matrix,
    real_array,
    real_number,
    whole_number,
)
from .._precision import float64
from .._result import Result
from .._types import ArrayLike, Keys
from ..networks import AbstractNetwork, DeepNetwork, Gated, Layer
from ..networks._generator import generator
from ..tasks import Task
from ._given import groups
from ._selectivity_measures import (
    alignment,
    anova,
    candidate_sets,
    entropy,
    fraction_on,
    pair_tests,
    shared_by,
    split_levels,
)

if TYPE_CHECKING:
    from matplotlib.axes import Axes

_PARTS = "object", "context", "interaction", "within"


@dataclass(frozen=True, eq=False, repr=False)
class Selectivity(Result):
    r"""Result of `selectivity`: how the units of a layer depend on objects and contexts.

    Numbers are means over units, weighted by the strength of units.

    - `contexts_on`: mean number of contexts in which a unit is active. A unit is active in a
      context if it is active for at least half of the context's examples.
    - `shares`: share of strength of units that are active in $0, 1, \dots, C$ contexts.
    - `purity`: fraction of a unit's activity that falls on its preferred context.
    - `entropy`, `object_entropy`: entropy of a unit's activity over contexts and over objects, from
      0 (one context or object) to 1 (uniform).
    - `anova`: shares of variance due to `object`, `context`, their `interaction`, and `within`
      pairs of both. Constant units are left out; NaN if `anova=None`.
    - `conjunctive`: share of strength of units whose response to objects depends on the context, by
      an F-test of the interaction at level 0.01.
    - `interaction`: mean share ω² of variance due to the interaction, corrected for noise.
      `interaction` and `conjunctive` need no threshold, and are NaN unless some pair of object and
      context has two examples.
    - `alignment`: mean Cohen's κ between a unit's set of examples and the best-matching candidate.
    - `chance`: mean of `alignment` for shuffled examples.
    - `candidates`: share of strength of units that match each candidate best.
    - `dead`: number of units that are never active or have no strength, which are left out.
    - `units`: all measures for each unit that is not dead, as a dataset over `unit`.
    - `random`: `Selectivity` of random features as a baseline; `None` for the baseline itself.

    **Example:**

    >>> import numpy as np
    >>> from festina.diagnose import selectivity
    >>> objects, contexts = np.tile(range(4), 3), np.repeat(range(3), 4)
    >>> one_per_context = np.eye(3)[contexts]
    >>> found = selectivity(one_per_context, objects=objects, contexts=contexts, random=0)
    >>> found.modular, found.contexts_on, found.anova["context"]
    (1.0, 1.0, 1.0)
    """

    contexts_on: float
    shares: Float[np.ndarray, " contexts_and_none"]
    purity: float
    entropy: float
    object_entropy: float
    anova: Mapping[str, float]
    conjunctive: float
    interaction: float
    alignment: float
    chance: float
    candidates: Mapping[str, float]
    dead: int
    units: xr.Dataset
    random: "Selectivity | None"

    @property
    def modular(self) -> float:
        """Return the share of strength of units that are active in a single context."""
        return float(self.shares[1])

    @property
    def mixed(self) -> float:
        """Return the share of strength of units active in several contexts, but not in all."""
        return float(self.shares[2:-1].sum())

    @property
    def always(self) -> float:
        """Return the share of strength of units that are active in all contexts."""
        return float(self.shares[-1])

    def __str__(self) -> str:
        rows = {"contexts on": lambda s: f"{s.contexts_on:.3f}"}
        rows |= {word: lambda s, word=word: f"{getattr(s, word):.3f}" for word in _WORDS}
        rows |= {
            f"variance of {part}": lambda s, part=part: f"{s.anova[part]:.3f}" for part in _PARTS
        }
        rows["alignment (chance)"] = lambda s: f"{s.alignment:.3f} ({s.chance:.3f})"
        both = [self] if self.random is None else [self, self.random]
        head = f"{'':24}{'units':>16}" + f"{'random features':>18}" * (len(both) - 1)
        lines = [
            f"{name:24}{show(self):>16}" + "".join(f"{show(each):>18}" for each in both[1:])
            for name, show in rows.items()
            if "nan" not in show(self)
        ]
        count = self.units.sizes["unit"]
        return "\n".join([head, *lines, f"{count} units, {self.dead} dead left out"])

    def draw(self, ax: "Axes | None" = None, **style: Any) -> "Axes":
        """Plot the share of strength of units by the number of contexts in which they are active.

        Grey bars show random features. Keyword arguments in `style` are passed to `Axes.bar` for
        the units.
        """
        ax, k = axes(ax), np.arange(len(self.shares))
        ax.bar(k - 0.2, self.shares, **{"width": 0.4, "label": "units", **style})
        if self.random is not None:
            ax.bar(k + 0.2, self.random.shares, 0.4, color="0.75", label="random features")
        ax.set(xlabel="number of contexts on", ylabel="share of strength", xticks=k)
        ax.legend(frameon=False, fontsize="small")
        return ax


_WORDS = (
    *("mixed", "modular", "always", "purity", "entropy", "object_entropy"),
    *("conjunctive", "interaction"),
)
_LEVEL = 0.01
"""Level of F-tests: the fraction of units without an effect that pass by chance."""
_ROWS = " Rows of `activations` are examples, and columns are units."
_AT_REST = 0.05
"""Fraction of zero activities, over units and examples, from which on units rest at zero."""


def selectivity(
    activations: AbstractNetwork | ArrayLike,
    task: Task | None = None,
    *,
    layer: int = 1,
    objects: ArrayLike | None = None,
    contexts: ArrayLike | None = None,
    strengths: ArrayLike | None = None,
    candidates: Mapping[str, ArrayLike] | None = None,
    threshold: float | Literal["split"] | None = None,
    least: float = 1e-3,
    anova: Literal["full", "means"] | None = "full",
    random: int = 1000,
    x: ArrayLike | None = None,
    shuffles: int = 20,
    key: Keys | None = None,
) -> Selectivity:
    r"""Measure how hidden units depend on objects and contexts, compared with random features.

    A unit is active for an example if its absolute activity exceeds `threshold` times its maximum.
    Entropies and shares of variance hardly differ between trained units and random features. In
    contrast, trained units and random features differ in the number of contexts in which units are
    on, and in the agreement with a gating.

    Recorded neurons have a resting rate and noise, and are often z-scored, so that zero does not
    mean inactive. For activities that do not rest at zero the default is `threshold="split"`, with
    a warning. `conjunctive` and `interaction` need no threshold.

    **Arguments:**

    - `activations`: activity of one hidden layer, `(example, unit)`; or a network, with a `task`.
    - `task`: task with the labels `object` and `context`, used if labels are not given.
    - `layer`: number of the hidden layer of a network, from 1.
    - `objects`, `contexts`: label of every example, of any type.
    - `strengths`: weight of each unit in all means. The default is
      $|w_\mathrm{in}||w_\mathrm{out}|$ for a network, and equal weights for activities.
    - `candidates`: gatings by name to compare units with, 0 or 1 for each example. By default the
      candidates are every single context, all contexts but one, and all contexts.
    - `threshold`: fraction of the maximum, from 0 to 1; for units with a leak choose it above the
      leak. `"split"` cuts the means of each unit over pairs of object and context into two groups.
      A unit is active above the midpoint between the groups. A unit counts as always active if
      its means over pairs of object and context do not differ by an F-test (level 0.01). The
      default is 0.001 for networks and for activities with zero resting rate, else
      `"split"`.
    - `least`: fraction of the largest strength below which a unit counts as dead.
    - `anova`: `"full"` splits the variance and needs the same number of examples for every pair of
      object and context. `"means"` splits the variance of the means of pairs and needs at least one
      example per pair. `None` skips the split.
    - `random`: number of random features in the baseline, ReLU without bias; 0 for no baseline.
    - `x`: inputs of the random features, `(example, input)`. By default `x` is the inputs of the
      task, or one-hot codes of object and context.
    - `shuffles`: number of shuffles over which `chance` is averaged.
    - `key`: randomness of shuffles and random features; the default is `jax.random.key(0)`.

    **Returns:** a `Selectivity`.

    **Example:**

    >>> from festina.diagnose import selectivity
    >>> activity = [[1, 1], [1, 1], [0, 1], [0, 1]]  # one modular unit, one that is always active
    >>> found = selectivity(activity, objects=[0, 1, 0, 1], contexts=[0, 0, 1, 1], random=0)
    >>> found.modular, found.always
    (0.5, 0.5)
    """
    if task is not None:
        check_type("task", task, Task)
    if isinstance(activations, AbstractNetwork):
        h, strengths = _of_network(activations, task, layer, strengths)
    else:
        h = finite_matrix("activations", activations, "example", "unit")
    if task is not None and np.ptp(task.weight) > 1e-9 * np.max(task.weight):
        raise ValueError(
            "`task` must weigh its examples alike, because selectivity counts examples. Give a "
            "task without `weight`."
        )
    if task is not None and len(task.x) != len(h):
        raise ValueError(
            "`activations` must have a row for each example of `task`, got "
            f"{len(h)} rows and {len(task.x)} examples.{_ROWS}"
        )
    hint = "" if isinstance(activations, AbstractNetwork) else _ROWS
    labels = {
        name: _labels(name, given, task, len(h), hint)
        for name, given in (("object", objects), ("context", contexts))
    }
    names, sets = candidate_sets(candidates, labels["context"])
    if isinstance(threshold, str) and threshold != "split":
        raise ValueError(f'`threshold` must be a number or "split", got {threshold!r}.')
    if threshold is None:
        threshold = 1e-3
        if not isinstance(activations, AbstractNetwork) and (why := _never_at_rest(h)):
            threshold = "split"
            warnings.warn(
                f"`activations` {why}, so zero is not their resting level. The activities of every "
                'unit are cut into two groups (threshold="split"). Give `threshold` to '
                "choose what counts as active, for example 0.001 for units with both signs. "
                "`conjunctive` and `interaction` need no threshold.",
                stacklevel=2,
            )
    for name, value in (("threshold", threshold), ("least", least)):
        if not isinstance(value, str) and not 0 <= real_number(name, value) < 1:
            raise ValueError(f"`{name}` must be from 0 to below 1, got {value:g}.")
    if anova not in ("full", "means", None):
        raise ValueError(f'`anova` must be "full", "means" or None, got {anova!r}.')
    rng = generator(key)
    measured = functools.partial(
        _measured,
        labels=labels,
        names=names,
        sets=sets,
        threshold=threshold,
        least=float(least),
        split=anova,
        shuffles=whole_number("shuffles", shuffles),
        rng=rng,
    )
    weight = _weights(strengths, h.shape[1])
    count = whole_number("random", random, least=0)
    if not count:
        return measured(h, weight, None)
    seen = _seen(x, task, labels, len(h))
    rows = rng.standard_normal((seen.shape[1], count))
    features = np.maximum(seen @ rows, 0.0)
    return measured(h, weight, measured(features, np.linalg.norm(rows, axis=0), None))


def _measured(
    h: Float[np.ndarray, "example unit"],
    weight: Float[np.ndarray, " unit"],
    base: Selectivity | None,
    *,
    labels: dict[str, Int[np.ndarray, " example"]],
    names: tuple[str, ...],
    sets: np.ndarray,
    threshold: float | str,
    least: float,
    split: str | None,
    shuffles: int,
    rng: np.random.Generator,
) -> Selectivity:
    """Return all measures for one set of units, and their means over units."""
    objects, contexts = labels["object"], labels["context"]
    largest = np.abs(h).max(axis=0)
    alive = (largest > 0) & (weight > least * weight.max(initial=0.0))
    if not alive.any():
        why = "silent for all examples" if not largest.any() else "silent or without strength"
        raise ValueError(
            f"All {h.shape[1]} units are {why}, so there is no selectivity to measure. Give "
            "activations with at least one active unit."
        )
    h, weight = h[:, alive] / largest[alive], weight[alive]
    chances, omega = pair_tests(h, objects, contexts)
    if isinstance(threshold, str):
        rest, cut = split_levels(h, objects, contexts)
        # A p-value is NaN if the unit is constant or if every pair has one example.
        same = (np.ptp(h, axis=0) == 0) | (chances[0] > _LEVEL)
        active = (h > cut) | same
        amount = np.where(same, 1.0, np.maximum(h - rest, 0.0))
    else:
        amount = np.abs(h)
        active = amount > float(threshold)
    on = np.sum(fraction_on(active, contexts) >= 0.5, axis=0)
    by_context = shared_by(amount, contexts)
    kappa, best, chance = alignment(active, sets, shuffles=shuffles, rng=rng)
    parts = np.full((len(_PARTS), len(weight)), np.nan)
    if split is not None:
        parts = anova(h, objects, contexts, means=split == "means")
    share = weight / weight.max()
    share = share / share.sum()
    units = xr.Dataset(
        {
            "strength": ("unit", weight),
            "contexts_on": ("unit", on),
            "purity": ("unit", by_context.max(axis=0)),
            "entropy": ("unit", entropy(by_context)),
            "object_entropy": ("unit", entropy(shared_by(amount, objects))),
            "anova": (("part", "unit"), parts),
            "interaction_chance": ("unit", chances[1]),
            "interaction": ("unit", omega),
            "alignment": ("unit", kappa),
            "candidate": ("unit", np.array(names)[best]),
            "chance": ("unit", chance),
        },
        {"unit": np.flatnonzero(alive), "part": list(_PARTS)},
    )
    mean = lambda values: float(np.sum(share * values))

    def known_mean(values: np.ndarray, known: np.ndarray) -> float:
        there = np.isfinite(known)
        return mean(np.where(there, values, 0.0)) / mean(there) if there.any() else np.nan

    return Selectivity(
        contexts_on=mean(on),
        shares=np.bincount(on, share, minlength=int(contexts.max()) + 2),
        purity=mean(units["purity"].values),
        entropy=mean(units["entropy"].values),
        object_entropy=mean(units["object_entropy"].values),
        anova={part: known_mean(row, row) for part, row in zip(_PARTS, parts, strict=True)},
        conjunctive=known_mean(chances[1] < _LEVEL, chances[1]),
        interaction=known_mean(omega, omega),
        alignment=mean(kappa),
        chance=mean(chance),
        candidates={name: mean(best == k) for k, name in enumerate(names)},
        dead=int(np.sum(~alive)),
        units=units,
        random=base,
    )


def _never_at_rest(h: Float[np.ndarray, "example unit"]) -> str:
    """Return why zero is not the resting level of units; an empty string if it may be."""
    largest = np.abs(h).max(axis=0, initial=0.0)
    used = h[:, largest > 0]
    if (used < 0).any():
        return "are negative for some examples"
    if (used > 1).any() and np.array_equal(used, np.rint(used)):
        return "are counts"
    zero = np.mean(used <= 1e-3 * largest[largest > 0]) if used.size else 1.0
    return "" if zero >= _AT_REST else f"are zero in only {zero:.1%} of all cases"


@float64
def _of_network(
    network: AbstractNetwork, task: Task | None, layer: int, strengths: ArrayLike | None
) -> tuple[Float[np.ndarray, "example unit"], ArrayLike]:
    """Return the activities of a layer on the examples of a task, and its units' strengths."""
    if task is None or task.population:
        raise ValueError(
            "A network needs a finite `task` whose examples have objects and contexts: "
            "selectivity(network, task)."
        )
    check_alone(network.batch_shape)
    strong = unit_strengths(network)
    layer = whole_number("layer", layer) - 1
    if layer >= len(strong):
        raise ValueError(
            f"`layer` must be the number of a hidden layer, from 1 to {len(strong)}, got "
            f"{layer + 1}."
        )
    network.check_fit(task.input_shape, network.outputs)
    hidden = [np.asarray(each) for each in jax.vmap(network.hidden)(np.asarray(task.x, float))]
    if isinstance(network, Gated):
        hidden = [np.concatenate(hidden, axis=1)]
    chosen = hidden[layer].reshape(len(task.x), -1)
    return chosen, strong[layer] if strengths is None else strengths


def unit_strengths(network: AbstractNetwork) -> list[Float[np.ndarray, " unit"]]:
    """Return |w_in||w_out| of each unit, by hidden layer.

    All hidden nodes of a gated network count as one layer.
    """
    size = lambda weight, axis: np.linalg.norm(
        np.moveaxis(np.asarray(weight), axis, 0).reshape(np.shape(weight)[axis], -1), axis=1
    )
    if isinstance(network, Layer):
        return [size(network.u, 0) * size(network.v, 0)]
    if isinstance(network, DeepNetwork) and not network.skips:
        pairs = zip(network.weights[:-1], network.weights[1:], strict=True)
        return [size(before, 0) * size(after, -1)[: len(before)] for before, after in pairs]
    if isinstance(network, Gated):
        edges = dict(zip(network.plan.edges, network.weights, strict=True))
        nodes = [name for name, _ in network.plan.nodes[: -network.plan.ends]]
        squares = lambda name, end, axis: sum(
            size(weight, axis) ** 2 for edge, weight in edges.items() if edge[end] == name
        )
        both = [np.sqrt(squares(name, 1, 0) * squares(name, 0, 1)) for name in nodes]
        return [np.concatenate(both)]
    raise ValueError(
        "`activations` must be a layer, a `DeepNetwork` without skips, a gated network or an array "
        f"(example, unit), got {network!r}. For a hidden layer of this network, give the unit "
        "activities as an array, and `strengths` if units differ in weight."
    )


def _labels(
    name: str, given: ArrayLike | None, task: Task | None, count: int, hint: str
) -> np.ndarray:
    """Return the values of a label as whole numbers from 0."""
    if given is None:
        known = {} if task is None else task.labels
        if name not in known:
            raise ValueError(
                f"`{name}s` must give the {name} of every example"
                + ("." if task is None else f"; the task has only the labels {sorted(known)}.")
            )
        given = known[name]
    return groups(f"{name}s", name, given, count, hint=hint)[1]


def _weights(given: ArrayLike | None, count: int) -> Float[np.ndarray, " unit"]:
    found = np.ones(count) if given is None else real_array("strengths", given)
    if found.shape != (count,) or not (np.isfinite(found).all() and (found >= 0).all()):
        raise ValueError(
            f"`strengths` must be one finite number ≥ 0 for each of {count} units, got shape "
            f"{found.shape}."
        )
    return found


def _seen(
    x: ArrayLike | None, task: Task | None, labels: dict[str, np.ndarray], count: int
) -> Float[np.ndarray, "example input"]:
    """Return the inputs of the random features."""
    if x is not None:
        x = finite_array("x", x)
        if len(x) != count:
            raise ValueError(f"`x` must be the inputs of {count} examples, got shape {x.shape}.")
        return x.reshape(count, -1)
    if task is not None:
        return np.asarray(task.x, float).reshape(count, -1)
    return np.hstack([np.eye(int(label.max()) + 1)[label] for label in labels.values()])
