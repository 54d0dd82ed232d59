"""Classify how hidden units code classes: an analog, redundant or sparse code, or none."""

from dataclasses import dataclass
from typing import TYPE_CHECKING, Any, Literal, NamedTuple, get_args

import numpy as np
from jaxtyping import Bool, Float, Int, Shaped

from .._axes import axes
from .._checks import finite_array, finite_matrix, whole_number
from .._result import Result
from .._types import ArrayLike, Keys
from ..networks._generator import generator
from ._given import groups

if TYPE_CHECKING:
    from matplotlib.axes import Axes

Verdict = Literal["analog", "redundant", "sparse", "none"]

_LEAST = 8  # smallest number of units
_SHARE = 0.1  # smallest class share of a code, as a fraction of the share that inputs leave over
_FAR = 8.0  # median absolute deviations beyond which a unit is an outlier
_FEW = 0.4, 0.3  # sparse: largest participation relative to Gaussian units, smallest outlier share
_LUMPY = 0.7  # redundant: smallest discreteness or bimodality
_RECTIFIED = 0.8  # discreteness that Gaussian units get from rectification and equal lengths
_CENTRES = 2, 3, 4, 6, 8, 12  # numbers of k-means centres
_SILENT = 0.3  # length, relative to the median, below which a unit's direction is noise
_KEPT = 0.8  # fraction of the examples in a resample
_ENOUGH = 2000  # largest number of examples that are shuffled
_ROUNDING = 1e-12  # variation, relative to the largest activation, that counts as rounding error
_TINY = 1e-6  # added fraction of the variance, which keeps the logarithms finite


class CodeEvidence(NamedTuple):
    r"""Measurements from which `coding_scheme` derives its verdict.

    - `class_share`: share of the variance over examples that lies between classes, minus its value
      for random groups.
    - `chance`: 99 % quantile of `class_share` for shuffled labels.
    - `inherited`: `class_share` of the inputs; None if the inputs were not given.
    - `participation`: participation ratio $(\sum_i|r_i|^2)^2/(N\sum_i|r_i|^4)$ of the units' class
      means $r_i$, centred over classes.
    - `gaussian_participation`: participation ratio of Gaussian $r_i$ with the same second moments.
    - `outliers`: number of units whose $|r_i|$ is far above the median.
    - `outlier_share`: share of $\sum_i|r_i|^2$ due to the outliers.
    - `discreteness`: logarithm of how much closer class means lie to a few k-means centres than
      Gaussian class means do.
    - `bimodality`: logarithm of how much closer the responses to a single class lie to two values
      than Gaussian responses do, averaged over classes.

    **Example:**

    >>> from festina.diagnose import CodeEvidence
    >>> evidence = CodeEvidence(0.9, 0.1, None, 0.02, 0.5, outliers=3, outlier_share=0.95,
    ...                         discreteness=0.0, bimodality=0.0)
    >>> evidence.verdict
    'sparse'
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
        """Return the share of variance between classes up to which the verdict is `"none"`."""
        inherited = self.inherited or 0.0
        return max(self.chance, inherited + _SHARE * (1 - inherited))

    @property
    def verdict(self) -> Verdict:
        """Return the verdict: `"analog"`, `"redundant"`, `"sparse"` or `"none"`."""
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
    """Result of `coding_scheme`: how hidden units code classes.

    - `evidence`: measurements from which the verdict is derived.
    - `votes`: fraction of resamples with each verdict.
    - `classes`: label of each class.
    - `responses`: mean response of each unit to each class, `(unit, group)`.

    **Example:**

    >>> import numpy as np
    >>> from festina.diagnose import coding_scheme
    >>> words = np.array([[1, 1, 0], [1, 0, 1], [0, 1, 1]])  # each codeword belongs to 8 units
    >>> labels = np.repeat([0, 1, 2], 4)
    >>> found = coding_scheme(np.tile(words[labels], 8), labels, resamples=5, shuffles=20)
    >>> found.verdict, found.confidence
    ('redundant', 1.0)
    """

    evidence: CodeEvidence
    votes: dict[Verdict, float]
    classes: Shaped[np.ndarray, " group"]
    responses: Float[np.ndarray, "unit group"]

    @property
    def verdict(self) -> Verdict:
        """Return the verdict: `"analog"`, `"redundant"`, `"sparse"` or `"none"`."""
        return self.evidence.verdict

    @property
    def codewords(self) -> dict[tuple[bool, ...], list[int]]:
        """Return the indices of the units with each codeword, largest group first.

        The codeword of a unit has one entry for each class: whether the unit's mean response to the
        class is above the mean over units. Only a redundant code has groups of similar units; in
        other codes a codeword still tells to which classes a unit responds more than most units.

        **Example:**

        >>> import numpy as np
        >>> from festina.diagnose import coding_scheme
        >>> words = np.array([[1, 0, 0], [0, 1, 1]])  # unit 0, 3, 6, … responds to class 0
        >>> labels = np.repeat([0, 1], 4)
        >>> found = coding_scheme(np.tile(words[labels], 4), labels, resamples=5, shuffles=20)
        >>> found.codewords[True, False]
        [0, 3, 6, 9]
        """
        groups: dict[tuple[bool, ...], list[int]] = {}
        for unit, word in enumerate(self._words().tolist()):
            groups.setdefault(tuple(word), []).append(unit)
        return dict(sorted(groups.items(), key=lambda group: -len(group[1])))

    def _words(self) -> Bool[np.ndarray, "unit group"]:
        return self.responses > self.responses.mean(axis=0)

    @property
    def confidence(self) -> float:
        """Return the fraction of resamples with the same verdict."""
        return self.votes[self.verdict]

    @property
    def note(self) -> str:
        """Return a caution about the verdict, or an empty string."""
        if self.evidence.inherited is not None or self.verdict == "none":
            return ""
        return (
            "based on labels alone: untrained units also have a code if the inputs of a class are "
            "alike; give `x=` to compare with the inputs"
        )

    def __str__(self) -> str:
        units, classes = self.responses.shape
        votes = ", ".join(f"{name} {share:.0%}" for name, share in self.votes.items() if share)
        first = f"{self.verdict}: {units} units, {classes} classes"
        note = f"\n{self.note}" if self.note else ""
        return f"{first}\n{self.evidence}\nresamples: {votes}{note}"

    def draw(self, ax: "Axes | None" = None, **style: Any) -> "Axes":
        """Plot the mean response of every unit to each class, with similar units side by side.

        The title shows the evidence. Keyword arguments in `style`, for example `cmap`, are passed
        to `Axes.imshow`.
        """
        ax = axes(ax)
        order = np.lexsort((-np.linalg.norm(self.responses, axis=1), *self._words().T[::-1]))
        shown, top = self.responses[order].T, np.abs(self.responses).max() or 1.0
        how = {"aspect": "auto", "interpolation": "nearest", "cmap": "RdBu_r"}
        ax.imshow(shown, **{**how, "vmin": -top, "vmax": top, **style})
        ax.set(xlabel="unit, sorted by codeword", ylabel="class", yticks=range(len(self.classes)))
        ax.set_yticklabels([str(each) for each in self.classes])
        seen = self.evidence
        ax.set_title(
            f"{self.verdict}{' (from labels alone)' * bool(self.note)} in {self.confidence:.0%} of "
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
    """Classify how hidden units code classes: `"analog"`, `"redundant"`, `"sparse"` or `"none"`.

    Each unit is described by its mean response to each class. In an *analog* code these responses
    are Gaussian over units: all units take part, to different degrees. In a *redundant* code the
    responses take a few patterns (codewords), each shared by many units. In a *sparse* code a few
    outlier units carry most of the differences between classes. The verdict is `"none"` if
    responses differ between classes hardly more than for shuffled labels.

    The test for codewords measures how close units lie to the best 2 to 12 centres (k-means), and
    their responses to single classes to two values. The distances from centres and from two values
    are compared with those of Gaussian units with the same moments. The test for codewords is
    repeated for units scaled to nearly the same length, so that units may differ in gain.
    Thresholds were set on samples from the mean-field theory of `festina.theory.coding`.

    **Arguments:**

    - `activations`: activations of one hidden layer, `(example, unit)`, from a posterior sample or
      a trained network.
    - `labels`: class of every example, of any type. Labels are required, because a code of many
      classes looks like no code without them.
    - `x`: inputs of the network, `(example, …)`. If `x` is given, a code must separate classes
      better than the inputs do. A random linear layer has on average the same share of variance
      between classes as its inputs, and other random layers have less. Without inputs the verdict
      is based on labels alone, and `note` reports this.
    - `resamples`: number of resamples, each of units drawn with replacement and four fifths of the
      examples of each class.
    - `shuffles`: number of shuffles of the labels.
    - `key`: randomness of resamples and shuffles; the default is `jax.random.key(0)`.

    **Returns:** a `CodingScheme`.

    **Example:**

    >>> import numpy as np
    >>> from festina.diagnose import coding_scheme
    >>> rng, labels = np.random.default_rng(0), np.repeat([0, 1, 2], 4)
    >>> graded = np.eye(3)[labels] @ rng.normal(size=(3, 60))
    >>> coding_scheme(graded, labels, resamples=5, shuffles=20).verdict
    'analog'

    !!! note "When to doubt it"

        With rising temperature, codewords of saturating units give way to an analog code, and the
        analog code to none. Near such a transition, rely on `confidence`. Noise hides codewords if
        its standard deviation, divided by the root of the number of examples per class, exceeds the
        distance between codewords. If the inputs of a class are alike, even an untrained network is
        analog: give the inputs as `x`. ReLU units that each respond to one class, to graded
        degrees, lie between analog, sparse and redundant; the verdict may be redundant, with
        different gains. If k outlier units carry a sparse code, a fraction $e^{-k}$ of the
        resamples contains no outlier.
    """
    h = finite_matrix("activations", activations, "example", "unit")
    examples, units = h.shape
    hint = f" `activations` must be (example, unit), got shape {h.shape}."
    names, which = groups("labels", "class", labels, examples, hint=hint)
    if units < _LEAST:
        raise ValueError(
            f"`activations` must have at least {_LEAST} units to classify a code, got {units}."
        )
    if examples <= len(names):
        raise ValueError(
            f"Each of {examples} examples is a class of its own: give several examples per class."
        )
    shown = None if x is None else finite_array("x", x)
    if shown is not None and shown.shape[:1] != (examples,):
        raise ValueError(
            f"`x` must be {examples} examples, as many as `activations`, got shape {shown.shape}."
            f"{hint}"
        )
    scale = np.abs(h).max()
    if np.ptp(h, axis=0).max() <= _ROUNDING * scale:
        raise ValueError(
            f"`activations` are constant: every unit responds alike to all {examples} examples. "
            "Give activations that vary over examples."
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
        # Gaussian units are resampled like the true units, so that both contain duplicates.
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
    """Return the share of variance between classes, minus its expected value for random groups."""
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
    """Return the evidence, and the best numbers of centres for unscaled and for scaled units.

    `none` holds the chance level and the class share of the inputs.
    """
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
    """Scale units to length one, except for nearly silent units, whose direction is noise."""
    square = (rows**2).sum(axis=1, keepdims=True)
    return rows / np.sqrt(square + _SILENT**2 * np.median(square) + np.finfo(float).tiny)


def _discreteness(
    rows: Float[np.ndarray, "unit group"],
    gauss: Float[np.ndarray, "unit group"],
    rng: np.random.Generator,
    centres: tuple[int, ...],
) -> tuple[float, int]:
    """Return the largest discreteness over numbers k of centres, and this k.

    The discreteness is the logarithm of how much closer units lie to k centres than Gaussian units.
    """
    from scipy.cluster.vq import kmeans, vq

    most = min(2 ** rows.shape[1], len(rows) // 4)
    around = lambda x, k: vq(x, kmeans(x, k, iter=3, rng=rng)[0])[1]
    tiny = _TINY * (rows.var(axis=0).sum() or 1.0) * len(rows)
    spread = lambda x, k: np.log((around(x, k) ** 2).sum() + tiny)
    return max((float(spread(gauss, k) - spread(rows, k)), k) for k in centres if k <= most)


def _two_values(rows: Float[np.ndarray, "unit group"]) -> Float[np.ndarray, " class"]:
    """Return the log share of variance that is left around the best two values, for each class."""
    x = np.sort(rows - rows.mean(axis=0), axis=0)
    left = np.arange(1, len(x))[:, None]
    between = np.cumsum(x, axis=0)[:-1] ** 2 * (1 / left + 1 / (len(x) - left))
    total = (x**2).sum(axis=0)
    tiny = _TINY * (total.mean() or 1.0)
    return np.log((np.maximum(total - between.max(axis=0), 0.0) + tiny) / (total + tiny))
