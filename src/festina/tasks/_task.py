"""Tasks as weighted examples, and the statistics of a task on which a network's loss depends."""

import abc
import functools
import math
import weakref
from collections.abc import Callable, Iterator, Mapping
from dataclasses import dataclass, field
from typing import NamedTuple

import jax
import numpy as np
from jaxtyping import Float

from .._checks import check_size, real_array
from .._precision import float64
from .._pytree import pytree
from .._types import ArrayLike
from ..networks._view import AbstractView

# With more features than this, computing their moments costs more than using all samples.
_MOST_FEATURES = 2048
_MOST_NUMBERS = 2**28  # largest number of features times samples, 2 GiB in float64
_CHUNK = 2**17  # number of float64 values that fit into the processor's cache
_FEW = 256  # samples up to which gates are evaluated without compilation
# Samples × (features + outputs)² above which QR takes too long. QR of 65,536 samples of 390
# features, the limit, takes one to two seconds.
_MOST_WORK = 1e10


class Statistics(NamedTuple):
    r"""Samples of data for $L = \frac12\sum_k w_k\lVert y_k - f(\psi_k)\rVert^2 + $ `floor`.

    For a view with fixed features the ψ_k are pseudo-samples with the moments of the data (see
    `compress`). For any other view the ψ_k are the features of the samples.
    """

    psi: Float[np.ndarray, "sample ..."]
    y: Float[np.ndarray, "sample output"]
    weight: Float[np.ndarray, " sample"]
    floor: float
    moments: tuple[np.ndarray, np.ndarray] | None = None  # ⟨ψψᵀ⟩ and ⟨yψᵀ⟩, `MomentTask` only

    @property
    def covariance(self) -> Float[np.ndarray, "f f"]:
        """Second moments ⟨ψψᵀ⟩ of the flattened features."""
        if self.moments is not None:
            return self.moments[0]
        psi = self.psi.reshape(len(self.psi), -1)
        return (psi * self.weight[:, None]).T @ psi

    @property
    def correlation(self) -> Float[np.ndarray, "output ..."]:
        """Correlation ⟨yψᵀ⟩ of targets and features."""
        if self.moments is not None:
            return self.moments[1]
        return np.tensordot(self.weight[:, None] * self.y, self.psi, axes=(0, 0))

    @property
    def power(self) -> float:
        """Mean square ⟨‖y‖²⟩ of the targets, twice the loss of a network whose output is zero."""
        return float(self.weight @ np.sum(self.y**2, axis=1)) + 2 * self.floor


class AbstractTask(abc.ABC):
    """Abstract class of tasks: finite data sets, and populations whose averages are exact.

    **Example:**

    >>> import numpy as np
    >>> from festina.tasks import AbstractTask, from_moments, xor
    >>> tasks = xor(), from_moments(np.eye(2))
    >>> [isinstance(task, AbstractTask) for task in tasks]
    [True, True]
    >>> [task.samples for task in tasks]  # None for a population
    [4, None]
    """

    @abc.abstractmethod
    def _statistics(self, view: AbstractView) -> Statistics: ...

    @property
    @abc.abstractmethod
    def input_shape(self) -> tuple[int, ...]:
        """Shape of one input."""

    @property
    @abc.abstractmethod
    def outputs(self) -> int:
        """Number of outputs."""

    @property
    @abc.abstractmethod
    def samples(self) -> int | None:
        """Number of samples; None for a population."""

    def statistics(self, view: AbstractView) -> Statistics:
        """Return the statistics on which a network with this view depends, cached for each view."""
        known = _STATISTICS.setdefault(self, {})
        if view not in known:
            known[view] = self._statistics(view)
        return known[view]


_STATISTICS: "weakref.WeakKeyDictionary[AbstractTask, dict[AbstractView, Statistics]]" = (
    weakref.WeakKeyDictionary()
)


@pytree
@dataclass(frozen=True, eq=False, repr=False)
class Task(AbstractTask):
    """Inputs, targets and the weight of each example in the average.

    A task may be a data set with a finite number of examples. A population task is a cubature
    rule: a few weighted points whose averages equal those of the distribution for polynomials of
    the network's degree.

    - `x`, `y`: inputs `(sample, ...)` and targets `(sample, output)`.
    - `weight`: weight of each sample in the average; the weights sum to one.
    - `labels`: further properties of each sample, by name.
    - `degree`: highest degree in the input of networks for which a population task is exact. None
      allows any network, for a task with a finite number of examples or a cubature rule for smooth
      functions.
    - `population`: whether the samples are points of a cubature rule.

    **Example:**

    >>> from festina.tasks import xor
    >>> task = xor()
    >>> task
    Task(4 samples, inputs (2,), 1 outputs)
    >>> task.y.ravel(), task.weight
    (array([-1.,  1.,  1., -1.]), array([0.25, 0.25, 0.25, 0.25]))
    """

    x: Float[np.ndarray, "sample ..."]
    y: Float[np.ndarray, "sample output"]
    weight: Float[np.ndarray, " sample"]
    labels: Mapping[str, np.ndarray] = field(default_factory=dict)
    degree: int | None = field(default=None, metadata={"static": True})
    population: bool = field(default=False, metadata={"static": True})

    def __repr__(self) -> str:
        kind = "points of a population" if self.population else "samples"
        return f"Task({len(self.x)} {kind}, inputs {self.input_shape}, {self.outputs} outputs)"

    @property
    def input_shape(self) -> tuple[int, ...]:
        return self.x.shape[1:]

    @property
    def outputs(self) -> int:
        return self.y.shape[1]

    @property
    def samples(self) -> int | None:
        return None if self.population else len(self.x)

    @float64
    def _statistics(self, view: AbstractView) -> Statistics:
        if self.degree is not None and (view.degree is None or view.degree > self.degree):
            kind = "not a polynomial" if view.degree is None else f"of degree {view.degree}"
            raise ValueError(
                "Averages of this population task are exact for networks that are polynomials of "
                f"degree up to {self.degree} in the input, but {view} is {kind}. Make the task "
                "with `nodes=20` for a quadrature rule, or with `samples=…, key=…` for a finite "
                "data set."
            )
        view.check_input(self.input_shape)
        x = np.asarray(self.x, dtype=float)
        y = self.y
        if np.ndim(view.skip(x[0], self.outputs)):  # a scalar means no residual connection
            y = y - np.asarray(jax.vmap(lambda x: view.skip(x, self.outputs))(x))
        if view.gates:
            return self._by_patterns(view, x, y)
        shape = _feature_shape(view, self.input_shape)
        features = math.prod(shape)
        if view.fixed_features and features <= _MOST_FEATURES and len(x) > 1:
            look = lambda x: np.asarray(jax.vmap(view.features)(x))
            return _compressed(look, x, y, self.weight, shape)
        if len(x) * features > _MOST_NUMBERS:
            raise ValueError(
                f"{view} computes {features} features of each input, which for {len(x)} samples "
                f"are {len(x) * features:.2g} numbers, too many for memory. Use fewer samples, or "
                "give the activation as your own function, which uses the inputs as features."
            )
        return Statistics(np.asarray(jax.vmap(view.features)(x)), y, self.weight, 0.0)

    def _by_patterns(self, view: AbstractView, x: np.ndarray, y: np.ndarray) -> Statistics:
        """Return the statistics of a gated network, with samples of equal gates compressed.

        If compression does not reduce the number of samples, all samples are returned.
        """
        look = jax.vmap(view.features)
        # For few samples, compiling a program for these gates takes longer than running it.
        psi = np.asarray((look if len(x) <= _FEW else jax.jit(look))(x))
        psi, y, weight = _at_once(psi, view.wanted(psi, y), self.weight, view.output_gates)
        features = psi.shape[1] - view.gates
        patterns, which = np.unique(psi[:, features:], axis=0, return_inverse=True)
        groups = (
            [which.ravel() == k for k in range(len(patterns))] if len(patterns) < len(psi) else []
        )
        found = [
            _compressed(lambda psi: psi, psi[g, :features], y[g], weight[g], (features,))
            for g in groups
        ]
        if not found or sum(len(each.psi) for each in found) >= len(psi):
            return Statistics(psi, y, weight, 0.0)
        gates = np.repeat(patterns, [len(each.psi) for each in found], axis=0)
        return Statistics(
            np.concatenate((np.concatenate([each.psi for each in found]), gates), axis=1),
            np.concatenate([each.y for each in found]),
            np.concatenate([each.weight for each in found]),
            sum(each.floor for each in found),
        )


def _at_once(
    psi: np.ndarray, y: np.ndarray, weight: np.ndarray, output_gates: tuple[int, ...]
) -> tuple[np.ndarray, np.ndarray, np.ndarray]:
    """Return samples, merging samples that are equal except for their targets and open outputs.

    An output whose gate is closed adds nothing to the loss. A merged sample, in which the open
    outputs of its samples are open, has the sum of their losses. Nothing is merged if samples share
    an open output.
    """
    if not output_gates:
        return psi, y, weight
    gates = list(output_gates)
    same = np.column_stack((np.delete(psi, gates, axis=1), weight))
    _, first, which = np.unique(same, axis=0, return_index=True, return_inverse=True)

    def together(rows: np.ndarray) -> np.ndarray:
        total = np.zeros((len(first), rows.shape[1]))
        np.add.at(total, which.ravel(), rows)
        return total

    if together(psi[:, gates] != 0).max() > 1:
        return psi, y, weight
    merged = psi[first]
    merged[:, gates] = together(psi[:, gates])
    return merged, together(y), weight[first]


def _compressed(
    look: Callable[[np.ndarray], np.ndarray],
    x: np.ndarray,
    y: np.ndarray,
    weight: np.ndarray,
    shape: tuple[int, ...],
) -> Statistics:
    r"""Return the pseudo-samples of `compress`, computed from samples instead of moments.

    Moments square the condition number, so the contribution of weak features would be lost in
    rounding. With $\sqrt{w}\,(\Psi, Y) = QR$ the triangle R contains all that is needed. Its
    columns for Ψ have the singular values of the samples, and its last rows contain the part of Y
    that Ψ cannot explain. The samples are processed in chunks, each appended to the triangle of the
    chunks before.
    """
    features = math.prod(shape)
    root = np.sqrt(weight)[:, None]
    columns = features + y.shape[1]
    rows = max(_CHUNK // columns, 2 * columns)

    def chunks() -> Iterator[tuple[np.ndarray, np.ndarray]]:
        for start in range(0, len(x), rows):
            part = slice(start, start + rows)
            psi = look(x[part]).reshape(-1, features)
            yield root[part] * psi, root[part] * y[part]

    power = (y**2).T @ weight
    if len(x) * columns**2 > _MOST_WORK:
        # Moments are five times as fast as QR, but lose features that are more than a hundred
        # thousand times weaker than the strongest feature.
        second, cross = np.zeros((features, features)), np.zeros((y.shape[1], features))
        for psi, target in chunks():
            second += psi.T @ psi
            cross += target.T @ psi
        return compress(second, cross, power, shape)

    triangle = np.zeros((0, columns))
    for chunk in chunks():
        samples = np.concatenate(chunk, axis=1)
        triangle = np.asarray(np.linalg.qr(np.concatenate((triangle, samples)), mode="r"))
    left, s, right = np.linalg.svd(triangle[:features, :features], full_matrices=False)
    explained = left.T @ triangle[:features, features:]
    # Rounding errors stay below this bound: measured, ten times eps for a million samples.
    seen = s > (features + math.sqrt(len(x))) * np.finfo(float).eps * s[0]
    rest = np.sum(explained[~seen] ** 2) + np.sum(triangle[features:, features:] ** 2)
    explained[~seen] = 0.0
    seen[0] = True  # inputs that are all zero become one sample with zero features
    return Statistics(
        (s[seen, None] * right[seen]).reshape(-1, *shape),
        explained[seen],
        np.ones(np.sum(seen)),
        # A residual below rounding is zero: the targets are linear in the features.
        0.5 * float(rest) if rest > 1e-26 * np.sum(power) else 0.0,
    )


@functools.cache
def _feature_shape(view: AbstractView, input_shape: tuple[int, ...]) -> tuple[int, ...]:
    return jax.eval_shape(view.features, jax.ShapeDtypeStruct(input_shape, "float32")).shape


def from_arrays(
    x: ArrayLike,
    y: ArrayLike,
    *,
    weight: ArrayLike | None = None,
    labels: Mapping[str, ArrayLike] | None = None,
) -> Task:
    """Return a task with your own inputs and targets as its examples.

    **Arguments:**

    - `x`: inputs, `(sample, ...)`.
    - `y`: targets, `(sample, output)`, or `(sample,)` for one output.
    - `weight`: weight ≥ 0 of each sample in the average, equal by default. The weights are divided
      by their sum.
    - `labels`: further properties of each sample by name, such as its object, context or view.

    Raises `ValueError` if shapes do not fit or an entry is not finite.

    **Example:**

    >>> from festina.tasks import from_arrays
    >>> task = from_arrays([[1.0, 0.0], [0.0, 1.0]], [2.0, 3.0], weight=[3, 1])
    >>> task
    Task(2 samples, inputs (2,), 1 outputs)
    >>> task.weight
    array([0.75, 0.25])
    """
    # Copies, because statistics are cached and must not change with the caller's arrays.
    x, y = real_array("x", x), real_array("y", y)
    if y.ndim == 1:
        y = y[:, None]
    if x.ndim < 2 or y.ndim != 2 or len(x) != len(y) or 0 in (x.size, y.size):
        raise ValueError(
            "`x` must be (sample, …) and `y` (sample, output) with equally many samples, at least "
            f"one: got shapes {x.shape} and {y.shape}."
        )
    for name, array in (("x", x), ("y", y)):
        if not np.isfinite(array).all():
            rows = np.unique(np.nonzero(~np.isfinite(array))[0])
            raise ValueError(
                f"`{name}` is not finite in {len(rows)} of {len(array)} samples, the first is "
                f"sample {rows[0]}. Remove or replace these samples before training."
            )
        check_size(name, array)
    weight = np.ones(len(x)) if weight is None else real_array("weight", weight)
    if weight.shape != (len(x),) or not (np.isfinite(weight).all() and (weight >= 0).all()):
        raise ValueError(
            f"`weight` must be one finite number ≥ 0 for each of the {len(x)} samples, got shape "
            f"{weight.shape} with {np.sum(~(weight >= 0) | np.isinf(weight))} invalid weights."
        )
    if not weight.sum() > 0:
        raise ValueError("`weight` is zero for every sample. At least one must be positive.")
    labels = {name: np.array(values) for name, values in (labels or {}).items()}
    for name, values in labels.items():
        if values.shape[:1] != (len(x),):
            raise ValueError(
                f"Label '{name}' has shape {values.shape} for {len(x)} samples. A label needs one "
                "entry for each sample."
            )
    return Task(x, y, weight / weight.sum(), labels)


def compress(
    second: Float[np.ndarray, "f f"],
    cross: Float[np.ndarray, "output f"],
    power: Float[np.ndarray, " output"],
    shape: tuple[int, ...],
) -> Statistics:
    r"""Return pseudo-samples with given moments, for networks that are linear in their features.

    With $\langle\psi\psi^\top\rangle = \sum_k \lambda_k e_k e_k^\top$ the pseudo-samples are
    $\psi_k = \sqrt{\lambda_k}\, e_k$ and $y_k = \langle y\psi^\top\rangle e_k/\sqrt{\lambda_k}$,
    each of weight one. For any map that is linear in ψ, the loss on the data is the loss on the
    pseudo-samples plus the constant `floor`, the least-squares loss $L_\mathrm{min}$. The sum over
    the pseudo-samples gives $L - L_\mathrm{min}$ without cancellation.

    **Arguments:**

    - `second`: ⟨ψψᵀ⟩ of the flattened features.
    - `cross`: ⟨yψᵀ⟩.
    - `power`: ⟨y²⟩ for each output.
    - `shape`: shape of the features before they were flattened.
    """
    variances, axes = np.linalg.eigh((second + second.T) / 2)
    seen = variances > 1e-13 * len(variances) * variances[-1]
    seen[-1] = True  # features that are all zero become one sample, which explains nothing
    roots = np.sqrt(variances[seen])
    psi = (roots * axes[:, seen]).T
    y = (cross @ axes[:, seen] / np.where(roots > 0, roots, np.inf)).T
    unexplained = float(np.sum(power) - np.sum(y**2))
    # A residual below rounding is zero: the targets are linear in the features.
    floor = 0.5 * unexplained if unexplained > 1e-13 * np.sum(power) else 0.0
    return Statistics(psi.reshape(-1, *shape), y, np.ones(len(psi)), floor)
