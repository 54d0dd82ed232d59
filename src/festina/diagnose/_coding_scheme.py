"""Codes: whether hidden units tell classes by size, in words that many share, or a few for all."""

from dataclasses import dataclass
from typing import TYPE_CHECKING, Any, Literal, NamedTuple, get_args

import numpy as np
from jaxtyping import Float, Int, Shaped

from .._axes import axes
from .._checks import finite_array, finite_matrix, whole_number
from .._result import Result
from .._types import ArrayLike, Keys
from ..networks._generator import generator
from ._given import groups

if TYPE_CHECKING:
    from matplotlib.axes import Axes

Verdict = Literal["analog", "redundant", "sparse", "none"]

_LEAST = 8  # units, of which fewer have no law
_SHARE = 0.1  # of what inputs leave within classes: less is no code, however significant
_FAR = 8.0  # deviations, by the median, beyond which a unit is an outlier
_FEW = 0.4, 0.3  # participation against Gaussian below, and share of outliers above: sparse
_LUMPY = 0.7  # logarithm of spread around centres, Gaussian units against these: redundant
_RECTIFIED = 0.8  # by which Gaussian units gather once they are rectified and scaled alike
_CENTRES = 2, 3, 4, 6, 8, 12
_SILENT = 0.3  # of the length that most units have
_KEPT = 0.8  # of the examples in a resample
_ENOUGH = 2000  # examples to shuffle
_ROUNDING = 1e-12  # of the largest activation; less is a constant
_TINY = 1e-6  # of the variance; what is exactly discrete is finitely so


class CodeEvidence(NamedTuple):
    """Measurements that the verdict of `coding_scheme` follows from.

    - `class_share`: of the variance over examples, between classes; that of chance is subtracted.
    - `chance`: what 99 % of shuffled labels stay below; `inherited`: the share in the inputs, None
      if these were not given.
    - `participation`: $(\\sum_i|r_i|^2)^2/N\\sum_i|r_i|^4$ of class means $r_i$, centred over
      classes; `gaussian_participation` that of Gaussian $r$ with the same second moments.
    - `outliers`, `outlier_share`: units whose $|r_i|$ is far from that of most, and their part of
      $\\sum_i|r_i|^2$.
    - `discreteness`, `bimodality`: logarithms of how much closer class means lie to a few centres,
      and those of a single class to two values, than Gaussian ones would.
    """

    class_share: float
    chance: float
    inherited: float | None
    participation: float
    gaussian_participation: float
    outliers: int
    outlier_share: float
    discreteness: float
    bimodality: float

    @property
    def least(self) -> float:
        """The share of variance between classes up to which the verdict is `"none"`."""
        inherited = self.inherited or 0.0
        return max(self.chance, inherited + _SHARE * (1 - inherited))

    @property
    def verdict(self) -> Verdict:
        """`"analog"`, `"redundant"`, `"sparse"`, or `"none"`."""
        few, much = _FEW
        if self.class_share <= self.least:
            return "none"
        if self.participation < few * self.gaussian_participation and self.outlier_share > much:
            return "sparse"
        return "redundant" if max(self.discreteness, self.bimodality) > _LUMPY else "analog"

    def __str__(self) -> str:
        few, much = _FEW[0] * self.gaussian_participation, _FEW[1]
        return (
            f"variance between classes {self.class_share:8.3f}   none below {self.least:.3f}\n"
            f"participation            {self.participation:8.3f}   sparse below {few:.3f},\n"
            f"share of outliers        {self.outlier_share:8.3f}   {self.outliers} units, "
            f"if above {much:.3f}\n"
            f"discreteness             {self.discreteness:8.3f}   redundant above {_LUMPY:.3f}\n"
            f"bimodality               {self.bimodality:8.3f}   or above {_LUMPY:.3f}"
        )


@dataclass(frozen=True, eq=False, repr=False)
class CodingScheme(Result):
    """Result of `coding_scheme`: how hidden units tell classes apart.

    - `evidence`: what the verdict follows from.
    - `votes`: the share of resamples that came to each verdict.
    - `classes`, `responses`: labels, and the mean response of every unit to each.
    """

    evidence: CodeEvidence
    votes: dict[Verdict, float]
    classes: Shaped[np.ndarray, " group"]
    responses: Float[np.ndarray, "unit group"]

    @property
    def verdict(self) -> Verdict:
        """`"analog"`, `"redundant"`, `"sparse"`, or `"none"`."""
        return self.evidence.verdict

    @property
    def confidence(self) -> float:
        """The share of resamples that came to the same verdict."""
        return self.votes[self.verdict]

    @property
    def note(self) -> str:
        """Say what the verdict does not show, or nothing."""
        if self.evidence.inherited is not None or self.verdict == "none":
            return ""
        return (
            "from labels alone: untrained units have a code, too, if inputs of a class are alike; "
            "give `x=` to compare"
        )

    def __str__(self) -> str:
        units, classes = self.responses.shape
        votes = ", ".join(f"{name} {share:.0%}" for name, share in self.votes.items() if share)
        first = f"{self.verdict}: {units} units, {classes} classes"
        note = f"\n{self.note}" if self.note else ""
        return f"{first}\n{self.evidence}\nresamples: {votes}{note}"

    def draw(self, ax: "Axes | None" = None, **style: Any) -> "Axes":
        """Draw the mean response of every unit to each class, similar units side by side.

        The title is the evidence. `style` goes to `Axes.imshow`, for example `cmap`.
        """
        ax = axes(ax)
        words = self.responses > self.responses.mean(axis=0)
        order = np.lexsort((-np.linalg.norm(self.responses, axis=1), *words.T[::-1]))
        shown, top = self.responses[order].T, np.abs(self.responses).max() or 1.0
        how = {"aspect": "auto", "interpolation": "nearest", "cmap": "RdBu_r"}
        ax.imshow(shown, **{**how, "vmin": -top, "vmax": top, **style})
        ax.set(xlabel="unit, by what it says", ylabel="class", yticks=range(len(self.classes)))
        ax.set_yticklabels([str(each) for each in self.classes])
        seen = self.evidence
        ax.set_title(
            f"{self.verdict}{' (from labels alone)' * bool(self.note)}, {self.confidence:.0%} of "
            "resamples\n"
            f"between classes {seen.class_share:.2f}, participation {seen.participation:.2f} "
            f"(Gaussian {seen.gaussian_participation:.2f}),\noutliers {seen.outlier_share:.2f}, "
            f"discreteness {seen.discreteness:.1f}, bimodality {seen.bimodality:.1f}",
            fontsize="small",
        )
        return ax


def coding_scheme(
    activations: ArrayLike,
    labels: ArrayLike,
    *,
    x: ArrayLike | None = None,
    resamples: int = 50,
    shuffles: int = 200,
    key: Keys | None = None,
) -> CodingScheme:
    r"""Return which code hidden units use for classes: analog, redundant, sparse, or none.

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
    - `x`: inputs of the network, `(example, …)`, if classes are to be told apart better than
      random features do. These inherit what inputs have: a linear one has the same share of
      variance between classes on average, others less, as they bend correlations towards zero.
      Without them a verdict other than `"none"` holds from labels alone, and `note` says so.
    - `resamples`: how often it is asked again, of units drawn with replacement and four fifths of
      the examples of each class.
    - `shuffles`: of labels.
    - `key`: randomness of all of these; `jax.random.key(0)` by default.

    !!! note "When to doubt it"

        Words of saturating units melt into an analog code where the temperature rises, and that
        into none: in between the verdict is as good as its `confidence`. Noise that is larger than
        words are apart, divided by the root of the examples in a class, hides them. And where
        inputs of a class are alike, a network that has learned nothing is analog, too: give them.
        Rectifiers that answer one class each, in every degree, are at the border of analog, sparse
        and redundant: they may be said to speak words with different gains. Where k outliers
        carry a sparse code, $e^{-k}$ of the resamples draw none of them, and doubt it.
    """
    h = finite_matrix("activations", activations, "example", "unit")
    examples, units = h.shape
    hint = f" `activations` are (example, unit), here {h.shape}."
    names, which = groups("labels", "class", labels, examples, hint=hint)
    if units < _LEAST:
        raise ValueError(f"{units} units are too few to tell a code: give at least {_LEAST}.")
    if examples <= len(names):
        raise ValueError(f"Each of {examples} examples is a class of its own: give more of each.")
    shown = None if x is None else finite_array("x", x)
    if shown is not None and shown.shape[:1] != (examples,):
        raise ValueError(f"`x` must be {examples} examples, as many as `activations`.{hint}")
    scale = np.abs(h).max()
    if np.ptp(h, axis=0).max() <= _ROUNDING * scale:
        raise ValueError(
            f"`activations` are constant: no unit tells the {examples} examples apart."
        )
    count = whole_number("resamples", resamples)
    rng = generator(key)
    h = h / scale
    few = rng.permutation(examples)[:_ENOUGH]
    part, kinds = h[few], np.unique(which[few], return_inverse=True)[1]
    chance = [
        _class_share(part, rng.permutation(kinds))
        for _ in range(whole_number("shuffles", shuffles))
    ]
    inherited = None
    if shown is not None:
        shown = shown.reshape(examples, -1) / (np.abs(shown).max() or 1.0)
        inherited = max(_class_share(shown, which), 0.0)
    none = float(np.quantile(chance, 0.99)), inherited
    normal = rng.standard_normal((units, len(names)))
    found, centres = _evidence(h, which, none, normal, rng)
    said: list[Verdict] = []
    for _ in range(count):
        some = [rng.permutation(np.flatnonzero(which == c)) for c in range(len(names))]
        some = np.concatenate([own[: int(np.ceil(_KEPT * len(own)))] for own in some])
        chosen = rng.integers(units, size=units)
        # A Gaussian unit that is drawn twice is there twice, as the others are.
        seen = h[np.ix_(some, chosen)], which[some], none, normal[chosen], rng, centres
        said.append(_evidence(*seen)[0].verdict)
    votes: dict[Verdict, float] = {name: said.count(name) / count for name in get_args(Verdict)}
    return CodingScheme(found, votes, names, _means(h, which) * scale)


def _means(
    h: Float[np.ndarray, "example unit"], which: Int[np.ndarray, " example"]
) -> Float[np.ndarray, "unit group"]:
    within = np.eye(which.max() + 1)[which]
    return h.T @ within / within.sum(axis=0)


def _class_share(h: Float[np.ndarray, "example unit"], which: Int[np.ndarray, " example"]) -> float:
    """Return the share of variance between classes, less that between random groups."""
    off, sizes = h - h.mean(axis=0), np.bincount(which)
    between = (_means(off, which) ** 2 @ sizes).sum() / ((off**2).sum() or 1.0)
    return float(1 - (1 - between) * (len(h) - 1) / max(len(h) - len(sizes), 1))


def _evidence(
    h: Float[np.ndarray, "example unit"],
    which: Int[np.ndarray, " example"],
    none: tuple[float, float | None],
    normal: Float[np.ndarray, "unit group"],
    rng: np.random.Generator,
    centres: tuple[tuple[int, ...], ...] = (_CENTRES, _CENTRES),
) -> tuple[CodeEvidence, tuple[tuple[int, ...], ...]]:
    """Return the evidence, and the best numbers of `centres`: of units as they are, and scaled."""
    means = _means(h, which)
    off = means - means.mean(axis=1, keepdims=True)
    square = (off**2).sum(axis=1)
    total = square.sum() or 1.0
    participation = total**2 / (len(off) * (square**2).sum() or 1.0)
    gaussian = 1 / (1 + 2 * ((off.T @ off) ** 2).sum() / total**2)
    size = np.sqrt(square)
    middle = np.median(size)
    outlier = size > middle + _FAR * np.median(np.abs(size - middle))
    _, s, axes_of = np.linalg.svd(means - means.mean(axis=0), full_matrices=False)
    gauss = means.mean(axis=0) + normal[:, : len(s)] * s / np.sqrt(len(means)) @ axes_of
    looks = (means, gauss), (_equal_gains(means), _equal_gains(gauss))
    lumps = [_discreteness(*look, rng, k) for look, k in zip(looks, centres, strict=True)]
    found = CodeEvidence(
        _class_share(h, which),
        *none,
        float(participation),
        float(gaussian),
        int(outlier.sum()),
        float(square[outlier].sum() / total),
        max(value - less for (value, _), less in zip(lumps, (0.0, _RECTIFIED), strict=True)),
        max(
            float(np.mean(_two_values(gauss) - _two_values(rows))) - less
            for (rows, gauss), less in zip(looks, (0.0, _RECTIFIED), strict=True)
        ),
    )
    return found, tuple((k,) for _, k in lumps)


def _equal_gains(rows: Float[np.ndarray, "unit group"]) -> Float[np.ndarray, "unit group"]:
    """Scale units to length one, but for nearly silent ones, whose direction is noise."""
    square = (rows**2).sum(axis=1, keepdims=True)
    return rows / np.sqrt(square + _SILENT**2 * np.median(square) + np.finfo(float).tiny)


def _discreteness(
    rows: Float[np.ndarray, "unit group"],
    gauss: Float[np.ndarray, "unit group"],
    rng: np.random.Generator,
    centres: tuple[int, ...],
) -> tuple[float, int]:
    from scipy.cluster.vq import kmeans, vq

    most = min(2 ** rows.shape[1], len(rows) // 4)
    around = lambda x, k: vq(x, kmeans(x, k, iter=3, rng=rng)[0])[1]
    tiny = _TINY * (rows.var(axis=0).sum() or 1.0) * len(rows)
    spread = lambda x, k: np.log((around(x, k) ** 2).sum() + tiny)
    return max((float(spread(gauss, k) - spread(rows, k)), k) for k in centres if k <= most)


def _two_values(rows: Float[np.ndarray, "unit group"]) -> Float[np.ndarray, " class"]:
    """Return the logarithm of the share of variance that is left around the best two values."""
    x = np.sort(rows - rows.mean(axis=0), axis=0)
    left = np.arange(1, len(x))[:, None]
    between = np.cumsum(x, axis=0)[:-1] ** 2 * (1 / left + 1 / (len(x) - left))
    total = (x**2).sum(axis=0)
    tiny = _TINY * (total.mean() or 1.0)
    return np.log((np.maximum(total - between.max(axis=0), 0.0) + tiny) / (total + tiny))
