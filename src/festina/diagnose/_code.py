"""Codes: whether hidden units tell classes by size, in words that many share, or a few for all."""

from collections import Counter
from collections.abc import Mapping
from dataclasses import dataclass
from typing import TYPE_CHECKING, Literal, NamedTuple, get_args

import numpy as np
from jaxtyping import Float, Int
from scipy.cluster.vq import kmeans, vq

from .._axes import axes
from .._types import ArrayLike
from ..networks._given import finite_array, whole_number
from ._given import groups

if TYPE_CHECKING:
    from matplotlib.axes import Axes

Verdict = Literal["analog", "redundant", "sparse", "none"]

_LEAST = 8  # units, of which fewer have no law
_SHARE = 0.1  # of the variance: less is no code, however significant
_FAR = 8.0  # deviations, by the median, beyond which a unit is an outlier
_FEW = 0.4, 0.3  # participation against Gaussian below, and share of outliers above: sparse
_LUMPY = 0.7  # logarithm of spread around centres, Gaussian units against these: redundant
_CENTRES = 2, 3, 4, 6, 8, 12
_SILENT = 0.3  # of the length that most units have
_KEPT = 0.8  # of the examples in a resample
_ENOUGH = 2000  # examples to shuffle
_TINY = 1e-6  # of the variance; what is exactly discrete is finitely so


@dataclass(frozen=True, eq=False, repr=False)
class Code:
    """How units tell classes apart, and what speaks for it: see `code`.

    - `verdict`: `"analog"`, `"redundant"`, `"sparse"`, or `"none"`.
    - `votes`: the share of resamples that came to each verdict.
    - `class_share`: of the variance over examples, between classes; that of chance is subtracted.
    - `chance`: what 99 % of shuffled labels stay below.
    - `participation`: $(\\sum_i|r_i|^2)^2/N\\sum_i|r_i|^4$ of class means $r_i$, centred over
      classes; `gaussian_participation` that of Gaussian $r$ with the same second moments.
    - `outliers`, `outlier_share`: units whose $|r_i|$ is far from that of most, and their part of
      $\\sum_i|r_i|^2$.
    - `discreteness`, `bimodality`: logarithms of how much closer class means lie to a few centres,
      and those of a single class to two values, than Gaussian ones would.
    - `classes`, `responses`: labels, and the mean response of every unit to each.
    """

    verdict: Verdict
    votes: Mapping[Verdict, float]
    class_share: float
    chance: float
    participation: float
    gaussian_participation: float
    outliers: int
    outlier_share: float
    discreteness: float
    bimodality: float
    classes: np.ndarray
    responses: Float[np.ndarray, "unit group"]

    @property
    def confidence(self) -> float:
        """The share of resamples that came to the same verdict."""
        return self.votes[self.verdict]

    def __str__(self) -> str:
        units, classes = self.responses.shape
        few, much = _FEW
        rows = [
            ("variance between classes", self.class_share, max(self.chance, _SHARE), "none below"),
            (
                "participation",
                self.participation,
                few * self.gaussian_participation,
                "sparse below",
            ),
            ("share of outliers", self.outlier_share, much, f"{self.outliers} units; and above"),
            ("discreteness", self.discreteness, _LUMPY, "redundant above"),
            ("bimodality", self.bimodality, _LUMPY, "or above"),
        ]
        others = ", ".join(
            f"{name} {share:.0%}" for name, share in self.votes.items() if name != self.verdict
        )
        return "\n".join(
            [
                f"{self.verdict}: {units} units, {classes} classes",
                *(f"{name:26}{value:>8.3f}   {what} {at:.3f}" for name, value, at, what in rows),
                f"{self.confidence:.0%} of resamples agree ({others})",
            ]
        )

    __repr__ = __str__

    def draw(self, ax: "Axes | None" = None) -> "Axes":
        """What every unit says to each class; units that say alike stand side by side."""
        ax = axes(ax)
        words = self.responses > self.responses.mean(axis=0)
        order = np.lexsort((-np.linalg.norm(self.responses, axis=1), *words.T[::-1]))
        shown, top = self.responses[order].T, np.abs(self.responses).max() or 1.0
        ax.imshow(shown, aspect="auto", interpolation="nearest", cmap="RdBu_r", vmin=-top, vmax=top)
        ax.set(xlabel="unit, by what it says", ylabel="class", yticks=range(len(self.classes)))
        ax.set_yticklabels([str(each) for each in self.classes])
        ax.set_title(f"{self.verdict}, {self.confidence:.0%} of resamples")
        return ax


class _Evidence(NamedTuple):
    participation: float
    gaussian_participation: float
    outliers: int
    outlier_share: float
    discreteness: float
    bimodality: float


def code(
    activations: ArrayLike,
    labels: ArrayLike,
    *,
    resamples: int = 50,
    shuffles: int = 200,
    seed: int = 0,
) -> Code:
    r"""Which code hidden units use for classes: analog, redundant, sparse, or none.

    A unit is its mean response to each class. In an *analog* code these are Gaussian over units:
    all take part, each to its own degree. In a *redundant* one they gather at a few words, each
    spoken by many units. In a *sparse* one a few outliers carry what the bulk does not. There is
    *none* where classes make no more difference than shuffled labels do, or hardly any.

    Whether units gather is a question of how close they lie to the best 2 to 12 centres (k-means),
    and single classes to two values, against Gaussian units of the same moments, treated alike:
    as they are, and scaled to nearly the same length, so that units may differ in gain.
    Thresholds were set on draws from the mean-field laws of `festina.theory.coding`.

    **Arguments:**

    - `activations`: of one hidden layer, `(example, unit)`, from a posterior or a trained network.
    - `labels`: the class of every example, of any type. Without there is no verdict: codes of
      many classes and no code look alike then.
    - `resamples`: how often it is asked again, of units drawn with replacement and four fifths of
      the examples of each class.
    - `shuffles`: of labels.
    - `seed`: of all of these.

    !!! note "When to doubt it"

        Words of saturating units melt into an analog code where the temperature rises, and that
        into none: in between the verdict is as good as its `confidence`. Noise that is larger than
        words are apart, divided by the root of the examples in a class, hides them. And where
        inputs of a class are alike, random features differ between classes, too: compare with them.
    """
    h = finite_array("activations", activations)
    if h.ndim != 2:
        raise ValueError(f"`activations` must be (example, unit), got shape {h.shape}.")
    examples, units = h.shape
    hint = f" `activations` are (example, unit), here {h.shape}."
    names, which = groups("labels", "class", labels, examples, hint=hint)
    if units < _LEAST:
        raise ValueError(
            f"A code is how responses are spread over units, and {units} are too few to tell: give "
            f"at least {_LEAST}."
        )
    if examples <= len(names):
        raise ValueError(
            f"Each of the {len(names)} classes has a single example: what differs between classes "
            "cannot be told from what differs between examples. Give more of each."
        )
    if not np.ptp(h, axis=0).any():
        raise ValueError(
            f"All {units} units say the same to all {examples} examples: there is no code in "
            "constant activations."
        )
    count = whole_number("resamples", resamples)
    rng = np.random.default_rng(whole_number("seed", seed, 0))
    scale = np.abs(h).max()
    h = h / scale
    share = _class_share(h, which)
    chance = _chance(h, which, whole_number("shuffles", shuffles), rng)
    normal = rng.standard_normal((units, len(names)))
    means = _means(h, which)
    found, centres = _evidence(means, normal, rng)
    said: Counter[Verdict] = Counter()
    for _ in range(count):
        some = np.concatenate([_part(np.flatnonzero(which == c), rng) for c in range(len(names))])
        chosen = rng.integers(units, size=units)
        seen = h[np.ix_(some, chosen)]
        own = _class_share(seen, which[some])
        # A Gaussian unit that is drawn twice is there twice, as the others are.
        again, _ = _evidence(_means(seen, which[some]), normal[chosen], rng, centres)
        said[_verdict(own, chance, again)] += 1
    votes = {name: said[name] / count for name in get_args(Verdict)}
    return Code(_verdict(share, chance, found), votes, share, chance, *found, names, means * scale)


def _verdict(share: float, chance: float, found: _Evidence) -> Verdict:
    few, much = _FEW
    if share <= max(chance, _SHARE):
        return "none"
    if found.participation < few * found.gaussian_participation and found.outlier_share > much:
        return "sparse"
    return "redundant" if max(found.discreteness, found.bimodality) > _LUMPY else "analog"


def _means(
    h: Float[np.ndarray, "example unit"], which: Int[np.ndarray, " example"]
) -> Float[np.ndarray, "unit group"]:
    within = np.eye(which.max() + 1)[which]
    return h.T @ within / within.sum(axis=0)


def _class_share(h: Float[np.ndarray, "example unit"], which: Int[np.ndarray, " example"]) -> float:
    """Of the variance, between classes, less what as many groups of equal examples would have."""
    off, sizes = h - h.mean(axis=0), np.bincount(which)
    if not (total := (off**2).sum()):
        return 0.0
    between = (_means(off, which) ** 2 @ sizes).sum() / total
    return float(1 - (1 - between) * (len(h) - 1) / (len(h) - len(sizes)))


def _chance(
    h: Float[np.ndarray, "example unit"],
    which: Int[np.ndarray, " example"],
    shuffles: int,
    rng: np.random.Generator,
) -> float:
    if len(h) > _ENOUGH:
        some = rng.permutation(len(h))[:_ENOUGH]
        h, which = h[some], np.unique(which[some], return_inverse=True)[1]
    each = [_class_share(h, rng.permutation(which)) for _ in range(shuffles)]
    return float(np.quantile(each, 0.99))


def _part(of: Int[np.ndarray, " all"], rng: np.random.Generator) -> Int[np.ndarray, " some"]:
    return rng.permutation(of)[: int(np.ceil(_KEPT * len(of)))]


def _evidence(
    means: Float[np.ndarray, "unit group"],
    normal: Float[np.ndarray, "unit group"],
    rng: np.random.Generator,
    centres: tuple[int, int] | None = None,
) -> tuple[_Evidence, tuple[int, int]]:
    """All that is said of class means, and the numbers of centres that fit best."""
    off = means - means.mean(axis=1, keepdims=True)
    square = (off**2).sum(axis=1)
    moment = off.T @ off
    total = square.sum() or 1.0
    participation = total**2 / (len(off) * (square**2).sum() or 1.0)
    gaussian = 1 / (1 + 2 * (moment**2).sum() / total**2)
    size = np.sqrt(square)
    middle = np.median(size)
    outlier = size > middle + _FAR * np.median(np.abs(size - middle))
    _, s, axes_of = np.linalg.svd(means - means.mean(axis=0), full_matrices=False)
    rank = len(s)
    gauss = means.mean(axis=0) + normal[:, :rank] * s / np.sqrt(len(means)) @ axes_of
    looks = (means, gauss), (_equal_gains(means), _equal_gains(gauss))
    lumps = [
        _discreteness(*look, rng, _CENTRES if centres is None else (centres[k],))
        for k, look in enumerate(looks)
    ]
    found = _Evidence(
        float(participation),
        float(gaussian),
        int(outlier.sum()),
        float(square[outlier].sum() / total),
        max(value for value, _ in lumps),
        max(float(np.mean(_two_values(gauss) - _two_values(rows))) for rows, gauss in looks),
    )
    return found, (lumps[0][1], lumps[1][1])


def _equal_gains(rows: Float[np.ndarray, "unit group"]) -> Float[np.ndarray, "unit group"]:
    """Scaled to length one, but for those that say next to nothing, whose direction is noise."""
    square = (rows**2).sum(axis=1, keepdims=True)
    return rows / np.sqrt(square + _SILENT**2 * np.median(square) + np.finfo(float).tiny)


def _discreteness(
    rows: Float[np.ndarray, "unit group"],
    gauss: Float[np.ndarray, "unit group"],
    rng: np.random.Generator,
    centres: tuple[int, ...],
) -> tuple[float, int]:
    most = min(2 ** rows.shape[1], len(rows) // 4)
    around = lambda x, k: vq(x, kmeans(x, k, iter=3, rng=rng)[0])[1]
    tiny = _TINY * (rows.var(axis=0).sum() or 1.0) * len(rows)
    spread = lambda x, k: np.log((around(x, k) ** 2).sum() + tiny)
    return max((float(spread(gauss, k) - spread(rows, k)), k) for k in centres if k <= most)


def _two_values(rows: Float[np.ndarray, "unit group"]) -> Float[np.ndarray, " class"]:
    """Logarithm of the share of variance that is left around the best two values."""
    x = np.sort(rows - rows.mean(axis=0), axis=0)
    left = np.arange(1, len(x))[:, None]
    between = np.cumsum(x, axis=0)[:-1] ** 2 * (1 / left + 1 / (len(x) - left))
    total = (x**2).sum(axis=0)
    tiny = _TINY * (total.mean() or 1.0)
    return np.log((np.maximum(total - between.max(axis=0), 0.0) + tiny) / (total + tiny))
