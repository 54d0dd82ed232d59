"""Find for which examples hidden units are active, and which pathways the units form."""

from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass
from typing import TYPE_CHECKING, Any

import jax
import numpy as np
from jaxtyping import Array, Bool, Float, Int

from .._checks import finite_array, real_number, whole_number
from .._lanes import over_lanes
from .._precision import float64
from .._result import Result
from .._types import ArrayLike, Keys
from ..dynamics import Trajectory
from ..networks import AbstractNetwork, DeepNetwork, Layer
from ..networks._generator import generator
from ._gating_clusters import Clusters, canonical, cluster, rand_index

if TYPE_CHECKING:
    from matplotlib.axes import Axes

STABLE = 0.8
"""Smallest agreement between repeated analyses of the same units at which pathways are stable."""

_AROUND = (0.1, 3.0, 10.0)  # factors by which the threshold is changed
_LEAST = 16  # examples from which on they are halved; with fewer, a quarter is left out
_SPLITS, _ROUNDS = 4, 16  # splits per round, and the largest number of rounds
_CERTAIN = 3.0  # standard errors between the mean agreement and `STABLE` that end the splits
_LIKELY = 0.15  # assumed standard deviation of agreement, in case few splits agree by accident
_SHUFFLES, _LOW = 16, 0.3  # shuffles of the gates, and chance agreement that needs only a quarter
_ENOUGH = 2000  # largest number of examples in a half
_LEVEL, _TESTS, _TESTED = 0.02, 99, 500  # test of correlations: level, shuffles, examples
_MOMENTS = 12  # samples of a trajectory that are compared


@dataclass(frozen=True, eq=False, repr=False)
class Gating(Result):
    """Result of `gating`: which hidden units are active for which examples, and their pathways.

    Axes of a batch, such as seeds, come first. Units of all networks of a batch form pathways
    together.

    - `active`: True where a unit is active for an example.
    - `strength`: strength |w_in||w_out| of each unit.
    - `dead`: True for units that are never active or have almost no strength. Dead units belong to
      no pathway.
    - `pathway`: pathway of each unit, numbered from 0 for the strongest; −1 for dead units.
    - `sets`: True for the examples for which most of a pathway, by strength, is active.
    - `share`: share of the total strength in each pathway.
    - `agreement`: adjusted Rand indices between these pathways and pathways from repeated analyses:
      with other `thresholds`, for each of the `seeds` alone, at other `times`, and between halves
      of the `examples` (or with a quarter left out if examples are few). If there is one pathway,
      an entry `units` replaces these indices: the fraction of gates that equal the majority of
      units, or 0 if the majority is never active. With fewer than four examples `agreement` is
      empty.
    - `chance`: mean agreement of `examples`, or of `units`, after each unit's gates have been
      shuffled over examples.
    - `p_value`: p-value of the hypothesis that units are active independently of each other. The
      test statistic is the mean squared correlation between units, compared with 99 shuffles. The
      p-value is NaN with fewer than four examples.

    **Example:**

    >>> import numpy as np
    >>> from festina.diagnose import gating
    >>> contexts = np.repeat([0, 1], 8)
    >>> found = gating(np.tile(np.eye(2)[contexts], 3))  # units active in one context
    >>> found.pathway, found.share, found.stable
    (array([1, 0, 1, 0, 1, 0]), array([0.5, 0.5]), True)
    """

    active: Bool[np.ndarray, "*batch unit example"]
    strength: Float[np.ndarray, "*batch unit"]
    dead: Bool[np.ndarray, "*batch unit"]
    pathway: Int[np.ndarray, "*batch unit"]
    sets: Bool[np.ndarray, "pathway example"]
    share: Float[np.ndarray, " pathway"]
    agreement: Mapping[str, Float[np.ndarray, " look"]]
    chance: float
    p_value: float

    def __len__(self) -> int:
        return len(self.share)

    @property
    def stability(self) -> float:
        """Return the smallest mean agreement over the kinds of repeated analyses.

        A stability of 1 means that all analyses give the same pathways. The agreements of
        `examples` and `units` are rescaled to 0 at `chance`, and cut off at −1. The stability is
        NaN with fewer than four examples.
        """
        return min((self._beyond(name) for name in self.agreement), default=np.nan)

    def _beyond(self, look: str) -> float:
        mean = float(np.mean(self.agreement[look]))
        return beyond(mean, self.chance) if look in ("examples", "units") else mean

    @property
    def stable(self) -> bool:
        """Return True if other examples, thresholds or seeds would give the same pathways.

        Stable pathways have a `stability` of at least 0.8, beyond the uncertainty of splits of the
        examples, and a `p_value` of at most 0.02. The property is False with fewer than four
        examples, and if shuffled gates correlate as much. Networks trained on few examples often
        have the expected pathways without being stable.
        """
        splits = self.agreement.get("examples", ())
        sure = not len(splits) or certain(splits, self.chance)
        return self.stability >= STABLE and sure and self.p_value <= _LEVEL

    def by(self, labels: ArrayLike) -> Bool[np.ndarray, "*batch unit example"]:
        """Return gates by label: open where a unit is active for half of the examples of a label.

        Use `gating.by(task.labels["context"])` with `festina.networks.gated_equivalent`.
        """
        found = np.asarray(labels)
        if found.shape != self.active.shape[-1:]:
            raise ValueError(
                f"`labels` must be one for each of the {self.active.shape[-1]} examples, got shape "
                f"{found.shape}."
            )
        kinds, which = np.unique(found, return_inverse=True)
        within = np.eye(len(kinds))[which]
        on = self.active @ within / within.sum(axis=0) >= 0.5
        return on[..., which] & ~self.dead[..., None]

    def by_pathway(self) -> Bool[np.ndarray, "*batch unit example"]:
        """Return gates by pathway: open where most of the pathway, by strength, is active."""
        return self.sets[self.pathway] & ~self.dead[..., None]

    def __str__(self) -> str:
        words = "stable" if self.stable else "unstable"
        told = f"; units correlate no more than by chance (p = {self.p_value:.2f})"
        looks = ", ".join(f"{np.mean(each):.2f} {name}" for name, each in self.agreement.items())
        lines = [f"{'pathway':<9}{'units':>6}{'share':>8}{'examples on':>13}"]
        for k, (share, chosen) in enumerate(zip(self.share, self.sets, strict=True)):
            units = int(np.sum(self.pathway == k))
            lines.append(f"{k:<9}{units:>6}{share:>8.3f}{np.mean(chosen):>12.0%}")
        lines.append(f"{int(self.dead.sum())} of {self.dead.size} units are dead")
        chance = "" if np.isnan(self.chance) else f" ({self.chance:.2f} by chance)"
        chance += told * (self.p_value > _LEVEL)
        looks = f"agreement {looks}{chance}" if looks else "fewer than four examples"
        return "\n".join([*lines, f"{words}: {looks}"])

    def draw(
        self, ax: "Axes | None" = None, *, labels: ArrayLike | None = None, **style: Any
    ) -> "Axes":
        """Plot for which examples each unit is active, with units grouped by pathway.

        With `labels`, examples with the same label are drawn side by side. Keyword arguments in
        `style` are passed to `Axes.imshow`.
        """
        from ._gating_figure import draw_gating

        return draw_gating(self, ax, labels, style)


@float64
def gating(
    network: AbstractNetwork | Trajectory | ArrayLike,
    x: ArrayLike | None = None,
    *,
    layer: int = 1,
    strengths: ArrayLike | None = None,
    threshold: float = 1e-3,
    least: float = 1e-3,
    pathways: int | None = None,
    most: int = 12,
    earlier: Sequence[ArrayLike] = (),
    key: Keys | None = None,
) -> Gating:
    """Return for which examples hidden units are active, and the pathways that the units form.

    A unit is active for an example if its activity exceeds a small fraction of its own maximum.
    Units that are active for nearly the same examples form one pathway. Pathways are clusters of
    units (average and Ward linkage of SciPy). The distance of two units is the fraction of examples
    for which only one of them is active. The tree is cut where the mean silhouette is largest. Each
    unit then joins the pathway with the closest majority. Units are weighted by their strength.
    `Gating.agreement` and `Gating.stable` tell whether the pathways are reproducible.

    **Arguments:**

    - `network`: a network, a batch of networks (such as seeds), or a trajectory (its final network
      is used); or activities of a hidden layer, `(*seed, example, unit)`. For activities of both
      signs decide what counts as active, for example `np.abs(…)`.
    - `x`: examples, `(example, …)`, required with a network.
    - `layer`: number of the hidden layer of a network, from 1.
    - `strengths`: strengths |w_in||w_out| of units, `(*seed, unit)`, for plain activities; by
      default all equal.
    - `threshold`: fraction of a unit's maximal activity above which the unit is active.
    - `least`: fraction of the largest strength below which a unit is dead.
    - `pathways`: number of pathways; by default the best number up to `most`.
    - `most`: largest number of pathways.
    - `earlier`: activities of the same units at other times, for plain activities.
    - `key`: randomness of the splits of examples; the default is `jax.random.key(0)`.

    **Returns:** a `Gating`.

    **Example:**

    >>> import numpy as np
    >>> from festina.diagnose import gating
    >>> contexts = np.repeat([0, 1], 8)
    >>> print(gating(np.tile(np.eye(2)[contexts], 3)))
    pathway   units   share  examples on
    0             3   0.500         50%
    1             3   0.500         50%
    0 of 6 units are dead
    stable: agreement 1.00 thresholds, 1.00 examples (-0.09 by chance)
    """
    h, weights, others = _activities(network, x, layer, strengths, earlier)
    threshold, least = _between("threshold", threshold), _between("least", least)
    count = None if pathways is None else whole_number("pathways", pathways)
    most = count or whole_number("most", most, 2)
    dead = (h.max(axis=-2) <= 0) | (weights <= least * weights.max(initial=0.0))
    if dead.all():
        raise ValueError(
            f"All {dead.size} units are dead (active for no example, or without strength), so "
            "there are no pathways. Check the activities, or lower `least`."
        )
    active, alive = _sets(h, threshold), ~dead
    places = np.argwhere(alive)
    # A canonical order makes ties independent of the order of units.
    places = places[canonical(active[alive], weights[alive])]
    pick = lambda values: values[tuple(places.T)]
    on, strength = pick(active), pick(weights)
    clusters = lambda on: cluster(on, strength, count, most)
    found, rng, examples = clusters(on), generator(key), on.shape[1]
    shuffled = lambda: rng.permuted(
        on, axis=1
    )  # every unit is active for as many examples as before
    looks: dict[str, list[float]] = {}
    chance = np.nan
    if examples > 3 and len(found.share) == 1:
        # Halves of the examples may have several pathways by chance, so they are not compared.
        one = lambda on: cluster(on, strength, 1, 1)
        looks["units"] = [found.held * found.common.any()]
        chance = float(np.mean([one(shuffled()).held for _ in range(_SHUFFLES)]))
    elif examples > 3:
        others_sets = [_sets(h, threshold * factor) for factor in _AROUND if threshold * factor < 1]
        looks["thresholds"] = [_alike(found, clusters(pick(other))) for other in others_sets]
        split = lambda on: _split(on, clusters, rng)
        shuffles = [split(shuffled()) for _ in range(_SHUFFLES // 4)]
        if max(shuffles) > _LOW:
            shuffles += [split(shuffled()) for _ in range(_SHUFFLES - len(shuffles))]
        chance = float(np.mean(shuffles))
        looks["examples"] = _splits(lambda: split(on), chance)
        lanes = places[:, :-1]
        for lane in np.unique(lanes, axis=0) if alive.ndim > 1 else ():
            mine = (lanes == lane).all(axis=1)
            own = cluster(on[mine], strength[mine], count, most)
            agreed = rand_index(found.label[mine], own.label, strength[mine])
            looks.setdefault("seeds", []).append(agreed)
        if others:
            looks["times"] = [_alike(found, clusters(pick(_sets(o, threshold)))) for o in others]
    p_value = _chance_of_ties(on, strength, rng) if examples > 3 else np.nan
    pathway = np.full(dead.shape, -1)
    pathway[tuple(places.T)] = found.label
    return Gating(
        active,
        weights,
        dead,
        pathway,
        found.common,
        found.share,
        {name: np.array(each) for name, each in looks.items()},
        chance,
        p_value,
    )


def beyond(agreement: float, chance: float) -> float:
    """Return an agreement rescaled to 0 at `chance` and 1 if perfect, cut off at −1."""
    return 1.0 if agreement >= 1 else max((agreement - chance) / max(1 - chance, 1e-12), -1.0)


def certain(splits: Sequence[float] | np.ndarray, chance: float) -> bool:
    """Return whether the mean agreement of splits is certainly on one side of `STABLE`."""
    off = abs(beyond(float(np.mean(splits)), chance) - STABLE) * (1 - chance)
    spread = np.hypot(np.std(splits), _LIKELY * (1 - chance))
    return bool(off >= _CERTAIN * spread / np.sqrt(len(splits)))


def _chance_of_ties(
    on: Bool[np.ndarray, "unit example"],
    strength: Float[np.ndarray, " unit"],
    rng: np.random.Generator,
) -> float:
    """Return the p-value of the squared correlations between units, by shuffling gates.

    Each unit is weighted by its strength.
    """
    some = on[:, rng.permutation(on.shape[1])[:_TESTED]]
    off = strength[:, None] * (some - some.mean(axis=1, keepdims=True))
    off /= np.maximum(some.std(axis=1, keepdims=True), 1e-12)
    turned = off.shape[0] > off.shape[1]
    tied = lambda z: float(np.linalg.norm(z.T @ z if turned else z @ z.T))
    seen = tied(off) * (1 - 1e-9)
    return float(np.mean([1, *(tied(rng.permuted(off, axis=1)) >= seen for _ in range(_TESTS))]))


def _splits(split: Callable[[], float], chance: float) -> list[float]:
    """Return agreements between halves of the examples, enough to decide about `STABLE`."""
    found: list[float] = []
    for _ in range(_ROUNDS):
        found += [split() for _ in range(_SPLITS)]
        if certain(found, chance):
            break
    return found


def _split(
    on: Bool[np.ndarray, "unit example"],
    clusters: Callable[[np.ndarray], Clusters],
    rng: np.random.Generator,
) -> float:
    """Return the agreement of the clusters of two parts of the examples."""
    examples = on.shape[1]
    order = rng.permutation(examples)
    halves = order[: examples // 2][:_ENOUGH], order[examples // 2 :][:_ENOUGH]
    if examples < _LEAST:
        halves = order, order[: -(examples // 4)]
    pair = [clusters(on[:, half]) for half in halves]
    return _alike(*pair) if any(len(each.share) > 1 for each in pair) else 0.0


def _sets(
    h: Float[np.ndarray, "*batch example unit"], threshold: float
) -> Bool[np.ndarray, "*batch unit example"]:
    return np.swapaxes(h > threshold * np.maximum(h.max(axis=-2, keepdims=True), 0), -1, -2)


def _alike(one: Clusters, other: Clusters) -> float:
    return rand_index(one.label, other.label, one.weight)


def _between(name: str, value: float) -> float:
    found = real_number(name, value)
    if not 0 <= found < 1:
        raise ValueError(
            f"`{name}` must be a fraction of the largest value, from 0 to below 1, got {value}."
        )
    return found


def _activities(
    network: AbstractNetwork | Trajectory | ArrayLike,
    x: ArrayLike | None,
    layer: int,
    strengths: ArrayLike | None,
    earlier: Sequence[ArrayLike],
) -> tuple[Float[np.ndarray, "*batch example unit"], np.ndarray, list[np.ndarray]]:
    """Return activities, strengths, and activities at other times."""
    if isinstance(network, AbstractNetwork | Trajectory):
        if x is None or strengths is not None or len(earlier):
            raise ValueError(
                "With a network give `x` alone; `strengths` and `earlier` go with plain activities."
            )
        x = finite_array("x", x)
        if isinstance(network, AbstractNetwork):
            return *_hidden(network, x, layer), []
        saves = network.time.shape[-1]
        moments = np.unique(np.linspace(0, saves - 1, _MOMENTS).astype(int))
        at = lambda save: jax.tree.map(
            lambda leaf: leaf[(*(slice(None),) * len(network.batch_shape), save)], network.network
        )
        return *_hidden(network.final, x, layer), [
            _hidden(at(k), x, layer)[0] for k in moments[:-1]
        ]
    if x is not None:
        raise ValueError("`x` goes with a network; plain activities do not need it. Leave `x` out.")
    h = finite_array("network", network)
    if h.ndim < 2:
        raise ValueError(f"Activities must be (*seed, example, unit), got shape {h.shape}.")
    units = (*h.shape[:-2], h.shape[-1])
    weights = np.ones(units) if strengths is None else finite_array("strengths", strengths)
    if (weights < 0).any():
        raise ValueError(
            "`strengths` must not be negative: give |w_in||w_out| of each unit, got "
            f"{weights.min():.3g}."
        )
    if weights.shape != units:
        raise ValueError(
            f"`strengths` must be one for each unit, {units}, got shape {weights.shape}."
        )
    others = [finite_array(f"earlier[{k}]", each) for k, each in enumerate(earlier)]
    if wrong := [each.shape for each in others if each.shape != h.shape]:
        raise ValueError(
            f"`earlier` must have the shape of the activities, {h.shape}, got {wrong}."
        )
    return h, weights, others


def _hidden(
    network: AbstractNetwork, x: Float[np.ndarray, "example ..."], layer: int
) -> tuple[Float[np.ndarray, "*batch example unit"], Float[np.ndarray, "*batch unit"]]:
    """Return the activities of one hidden layer, and the strengths |w_in||w_out| of its units."""
    if not isinstance(network, Layer | DeepNetwork) or (
        isinstance(network, DeepNetwork) and network.skips
    ):
        raise ValueError(
            "`network` must be a layer, or a `DeepNetwork` without skips, got "
            f"{type(network).__name__}. For other networks give the activities of one hidden "
            "layer, (example, unit), and `strengths`."
        )
    batch, depth = network.batch_shape, len(network.parts) - 1
    if not 1 <= whole_number("layer", layer) <= depth:
        raise ValueError(f"`layer` must be a hidden layer from 1 to {depth}, got {layer}.")
    for k, part in enumerate(network.parts):
        finite_array(f"weights {k + 1} of the network", part)
    flat = [np.asarray(part).reshape(-1, *part.shape[len(batch) :]) for part in network.parts]
    found = over_lanes(lambda lanes: _each_of_each(network.with_parts(*lanes), x), flat)[layer - 1]
    if found.ndim != 3:
        raise ValueError(
            "`gating` needs units whose response is one number (neurons), got responses with "
            f"{found.ndim - 2} axes. Give activities, (example, unit), instead of the network."
        )
    inward, outward = flat[layer - 1], flat[layer]
    outward = outward if isinstance(network, Layer) else outward.swapaxes(-1, -2)
    units = found.shape[-1]
    size = lambda part: np.linalg.norm(part[:, :units].reshape(len(part), units, -1), axis=-1)
    strength = size(inward) * size(outward)
    return found.reshape(*batch, *found.shape[1:]), strength.reshape(*batch, units)


@jax.jit
def _each_of_each(
    networks: AbstractNetwork, x: Float[Array, "example ..."]
) -> tuple[Float[Array, "lane example ..."], ...]:
    """Return the activities of all hidden layers, for every network and every example."""
    return jax.vmap(lambda network: jax.vmap(network.hidden)(x))(networks)
